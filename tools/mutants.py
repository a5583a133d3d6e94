"""Break the code in small ways and see whether a test notices: ``make mutants``.

A mutant is one module with one expression or statement changed. It runs against the tests of its module, in
a copy of the tree, until the first failure: then it is *killed*, as it is when they take too long. A mutant
that *survived* shows a behaviour that no test holds, or a change that makes no difference.

Results are written as they come, a line each, and a mutant that has one is not run again: stop and start at
will. The subtle thing is what is imported: the copy's package, which is checked, and never a compiled module
of the mutant before, so compiled modules are written only while nothing is changed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path("src/fairlead")

_ENGINE = [f"tests/engine/{name}" for name in ("gangs", "planning", "core", "ask", "properties")]
_ENGINE += ["tests/scheduler/test_last_looks.py"]
_SCHEDULER = ["last_looks", "fences", "bind_faults", "standby", "evictions", "preempted_gangs", "volumes"]
_SCHEDULER += ["what_users_see", "what_binds_bring", "recording"]
_WEBHOOK = [f"tests/webhook/test_{name}.py" for name in ("patience", "ledgers", "ledger_cache", "admission")]
TESTS = {
    "client/election.py": ["tests/client/test_election.py", "tests/client/test_election_on_a_cluster.py"],
    "doors/leader.py": ["tests/doors/test_leader.py", "tests/rebalance/test_fences.py"],
    **{
        f"doors/scheduler/{name}.py": [f"tests/scheduler/test_{one}.py" for one in _SCHEDULER]
        for name in ("binder", "evictor", "door")
    },
    "doors/webhook/ledgers.py": _WEBHOOK,
    **{f"engine/gangs/{name}.py": _ENGINE for name in ("gangs", "membership", "owners")},
    **{f"engine/planning/{name}.py": _ENGINE for name in ("units", "victims")},
    **{f"engine/planning/{name}.py": _ENGINE for name in ("preemption", "preemption_gangs")},
    "engine/snapshot/evicted.py": _ENGINE,
    **{f"engine/core/{name}.py": _ENGINE for name in ("assembly", "core", "evictions", "queue")},
    **{f"engine/core/{name}.py": _ENGINE for name in ("reservations", "serving", "state")},
    "policy/rule/choice.py": [
        "src/fairlead/policy/rule/choice.py",
        "tests/policy/test_choice.py",
        "tests/policy",
    ],
    "policy/slots/ledger.py": ["tests/policy/test_ledger.py", "tests/policy", *_WEBHOOK[:2]],
    "policy/rule/split.py": [
        "src/fairlead/policy/rule/split.py",
        "tests/policy/test_rule.py",
        "tests/policy",
    ],
}
"""By module, the tests that hold it, the fastest first."""

_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn},
    **{ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add},
}
_OTHER_CALL = {"min": "max", "max": "min", "any": "all", "all": "any"}
_PATIENCE = 4  # a mutant may take this many times what the tests take, and ten seconds


@dataclass(frozen=True)
class Mutant:
    """A module's whole source with one change. Its id changes when the module does."""

    module: str
    line: int
    change: str
    source: str

    @property
    def id(self) -> str:
        return hashlib.sha256(f"{self.module}\n{self.source}".encode()).hexdigest()[:12]


def mutants(module: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    source = (ROOT / PACKAGE / module).read_bytes()
    lines = source.splitlines(keepends=True)
    found = []
    for node, changed in _changes(ast.parse(source)):
        begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
        end = sum(map(len, lines[: (node.end_lineno or 0) - 1])) + (node.end_col_offset or 0)
        before = " ".join(source[begin:end].decode().split())
        change = f"{before[:80]}  →  {' '.join(changed.split())[:80]}"
        after = (source[:begin] + changed.encode() + source[end:]).decode()
        found.append(Mutant(module, node.lineno, change, after))
    return sorted(found, key=lambda one: one.line)


def _changes(node: ast.AST) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """Statements and expressions below this node, each with a text to put in its place."""
    for child in _children(node):
        if isinstance(child, ast.stmt):
            yield from ((child, changed) for changed in _statement(child))
        elif isinstance(child, ast.expr):
            # In brackets: what is changed may bind less tightly than what was there.
            yield from ((child, f"({ast.unparse(changed)})") for changed in _expression(child))
        yield from _changes(child)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Those that are neither types, names of a module, documentation, log lines nor messages."""
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Assert() | ast.Raise():
            return
        case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__" | "_log")]):
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.Call() if ast.unparse(node.func).startswith("_log."):
            return
    types = [getattr(node, name, None) for name in ("annotation", "returns")]
    if isinstance(node, ast.ClassDef):
        types += [*node.bases, *node.keywords]
    types += getattr(node, "decorator_list", [])
    yield from (child for child in ast.iter_child_nodes(node) if child not in types)


def _statement(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Expr(value=ast.Constant()):
            return  # documentation
        case ast.Expr() if ast.unparse(node).startswith("_log."):
            return
        case ast.Expr() | ast.Delete() | ast.AugAssign() | ast.Raise():
            yield "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "pass"
        # False instead of None makes no difference to callers; its own mutant is True.
        case ast.Return(value=ast.expr()) if ast.unparse(node) not in ("return None", "return False"):
            yield "return None"
        case ast.Continue() | ast.Break():
            yield "break" if isinstance(node, ast.Continue) else "continue"


def _expression(node: ast.expr) -> Iterator[ast.expr]:
    def copy(**fields: object) -> ast.expr:
        changed = deepcopy(node)
        for name, value in fields.items():
            setattr(changed, name, value)
        return changed

    match node:
        case ast.Compare(ops=[one]):
            yield copy(ops=[_OTHER[type(one)]()])
            if isinstance(one, ast.Lt | ast.LtE | ast.Gt | ast.GtE):  # of others that is the same
                yield ast.UnaryOp(ast.Not(), node)
        case ast.BoolOp():
            yield copy(op=_OTHER[type(node.op)]())
            yield from (
                copy(values=node.values[:at] + node.values[at + 1 :]) for at in range(len(node.values))
            )
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            if not any(isinstance(one, ast.JoinedStr | ast.Constant) for one in (node.left, node.right)):
                yield copy(op=_OTHER[type(node.op)]())
        case ast.Constant(value=bool() as value):
            yield copy(value=not value)
        case ast.Constant(value=int() as value):
            yield copy(value=value + 1)
        case ast.Constant(value=float() as value):
            yield copy(value=0.0 if value else 1.0)
            yield copy(value=value * 1000 + 1000)
        case ast.IfExp():
            yield copy(body=node.orelse, orelse=node.body)
        case ast.Call():
            if isinstance(node.func, ast.Name) and node.func.id in _OTHER_CALL:
                yield copy(func=ast.Name(_OTHER_CALL[node.func.id]))
            if not ast.unparse(node.func).startswith("_log."):
                every = range(len(node.keywords))
                yield from (copy(keywords=node.keywords[:at] + node.keywords[at + 1 :]) for at in every)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            for at in (at for at, loop in enumerate(node.generators) if loop.ifs):
                loops = deepcopy(node.generators)
                loops[at].ifs = []
                yield copy(generators=loops)


class Tree:
    """A copy of the files of the working tree, in which one module at a time is changed."""

    def __init__(self, folder: Path) -> None:
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.check_output(listed, cwd=ROOT, text=True).splitlines():
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        self._folder = folder
        self._env = os.environ | {"PYTHONPATH": str(folder / "src")}
        self._took_s: dict[str, float] = {}
        command = [sys.executable, "-c", "import fairlead; print(fairlead.__file__)"]
        imported = subprocess.check_output(command, env=self._env, cwd=folder, text=True)
        if not Path(imported.strip()).is_relative_to(folder):
            raise SystemExit(f"the tests would import {imported.strip()}, not the copy")

    def run(self, mutant: Mutant) -> tuple[str, float, str]:
        """``killed``, ``timeout`` or ``survived``, after how many seconds, and by which test."""
        tests, file = TESTS[mutant.module], self._folder / PACKAGE / mutant.module
        if str(tests) not in self._took_s:
            code, self._took_s[str(tests)], said = self._test(tests, None, self._env)
            if code != 0:
                raise SystemExit(f"with nothing changed, the tests of {mutant.module} fail:\n{said[-3000:]}")
        original = file.read_text()
        Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
        file.write_text(mutant.source)
        limit_s = _PATIENCE * self._took_s[str(tests)] + 10
        code, took_s, said = self._test(tests, limit_s, self._env | {"PYTHONDONTWRITEBYTECODE": "1"})
        file.write_text(original)
        if code not in (None, 0, 1, 2, 4):  # 2 and 4: it could not even be imported
            raise SystemExit(f"pytest ended with exit code {code}:\n{said[-3000:]}")
        by = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
        return {None: "timeout", 0: "survived"}.get(code, "killed"), took_s, by[1] if by else ""

    def _test(
        self, tests: list[str], limit_s: float | None, env: dict[str, str]
    ) -> tuple[int | None, float, str]:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not real and not slow", *tests]
        began = time.monotonic()
        with subprocess.Popen(
            command,
            cwd=self._folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as running:
            try:
                said, _ = running.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                return None, time.monotonic() - began, ""
            finally:
                if running.poll() is None:
                    os.killpg(running.pid, signal.SIGKILL)  # with the processes that the tests started
        return running.returncode, time.monotonic() - began, said


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Break the code in small ways and see whether a test notices."
    )
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="such as policy/slots/ledger.py (default: all)"
    )
    parser.add_argument("--number", type=int, default=200, help="how many mutants (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="which ones are drawn (default: 1)")
    parser.add_argument("--workers", type=int, default=2, help="how many run at a time (default: 2)")
    parser.add_argument("--least", type=int, default=90, help="fail below this percentage (default: 90)")
    parser.add_argument("--results", type=Path, default=ROOT / ".mutants.tsv", help="the file of results")
    parser.add_argument("--again", action="store_true", help="run those again that survived")
    options = parser.parse_args()
    every = [mutant for module in options.modules or TESTS for mutant in mutants(module)]
    chosen = random.Random(options.seed).sample(every, min(options.number, len(every)))
    options.results.touch()
    rows = [row.split("\t") for row in options.results.read_text().splitlines()]
    done = {row[0]: row[1] for row in rows if not (options.again and row[1] == "survived")}
    # By module, so that each copy has its compiled modules and the time that the tests take.
    left = deque(
        sorted((one for one in chosen if one.id not in done), key=lambda one: (one.module, one.line))
    )

    def work(folder: Path) -> None:
        tree = Tree(folder)
        while left:
            mutant = left.popleft()
            done[mutant.id], took_s, by = tree.run(mutant)
            where = f"{mutant.module}:{mutant.line}"
            row = "\t".join((mutant.id, done[mutant.id], f"{took_s:.0f} s", where, mutant.change, by))
            with options.results.open("a") as table:
                table.write(f"{row}\n")
            print(row, flush=True)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    temporary = tempfile.TemporaryDirectory(prefix="mutants-")
    with temporary as folder, ThreadPoolExecutor(options.workers) as pool:
        try:
            list(pool.map(work, (Path(folder) / str(number) for number in range(options.workers))))
        except BaseException:
            left.clear()  # those under way are finished
            raise
    survived = [mutant for mutant in chosen if done[mutant.id] == "survived"]
    print(f"\n{len(chosen) - len(survived)} of {len(chosen)} mutants killed")
    for mutant in survived:
        print(f"survived: {mutant.module}:{mutant.line}  {mutant.change}")
    return int(100 * (len(chosen) - len(survived)) < options.least * len(chosen))


if __name__ == "__main__":
    sys.exit(main())
