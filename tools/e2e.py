"""Kubernetes' own ``[sig-scheduling]`` end-to-end specs, with kube-scheduler and with Fairlead in its place.

``python -m tools.e2e`` starts a fresh control plane for each scheduler, runs upstream's suite on it
and prints the outcomes side by side; it fails where Fairlead fails a spec that kube-scheduler passes. Some
specs wait minutes by design. Fairlead runs with the rights of the shipped manifests and no more.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fairlead.errors import RigError
from fairlead.rig import build
from fairlead.rig.controlplane import ControlPlane
from fairlead.rig.processes import Guard, Program, answers, free_ports
from tools.shipped_rights import shipped_kubeconfig

__all__ = ["SCHEDULERS", "Outcome", "lost", "main", "read_report", "run", "table"]

SCHEDULERS = ("kube-scheduler", "fairlead")

_FOCUS = "sig-scheduling"
# An alpha API that is off by default, and three specs that need what simulated nodes lack: several zones,
# a storage provisioner, a runtime class handler.
_SKIP = "GenericWorkload|Multi-AZ|PVC has node-affinity|verify pod overhead"
_NODES = 4
_LOOK_S = 1.0
_SAY_EVERY_S = 60.0
_PATIENCE_S = 2 * 3600.0
_READY_S = 120.0
_NOT_RUN = ("skipped", "pending")
_DONE = "•"  # what ginkgo prints for a spec that ran


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one spec: ginkgo's word for it, how long it took, and why it failed."""

    state: str
    seconds: float
    message: str = ""

    @property
    def passed(self) -> bool:
        """Whether the spec held."""
        return self.state == "passed"


def run(scheduler: str, *, focus: str = _FOCUS, folder: Path) -> dict[str, Outcome]:
    """Run the specs with one scheduler on a control plane of their own; logs and report stay in `folder`."""
    suite = build.binary("e2e.test")
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / f"{scheduler}.json"
    report.unlink(missing_ok=True)
    with ControlPlane(folder=folder / f"{scheduler}.plane") as plane, Guard() as guard:
        plane.start_controller_manager()
        plane.start_kwok()
        plane.add_nodes(_NODES)
        if scheduler == "kube-scheduler":
            plane.start_scheduler()
        else:
            _start_fairlead(plane, guard, folder / "fairlead.log")
        log = folder / f"{scheduler}.e2e.log"
        log.unlink(missing_ok=True)
        program = guard.start(
            "e2e.test",
            [
                suite,
                f"--kubeconfig={plane.kubeconfig}",
                "--provider=skeleton",
                f"--num-nodes={_NODES}",
                "--minStartupPods=0",
                f"--ginkgo.focus={focus}",
                f"--ginkgo.skip={_SKIP}",
                f"--ginkgo.json-report={report}",
                "--ginkgo.no-color",
                "--ginkgo.timeout=2h",
            ],
            log=log,
        )
        _wait(program, scheduler)
        if not report.exists():
            raise RigError(f"e2e.test ended without a report; the end of its log:\n{program.tail()}")
    return read_report(report.read_bytes(), focus=focus)


def read_report(data: bytes, *, focus: str = _FOCUS) -> dict[str, Outcome]:
    """The specs that ran, by name, out of ginkgo's JSON report; the thousands that did not are left out."""
    found = {}
    for suite in msgspec.json.decode(data, type=list[_Suite]):
        for spec in suite.SpecReports or ():
            if spec.LeafNodeType == "It" and spec.State not in _NOT_RUN:
                name = " ".join([*(spec.ContainerHierarchyTexts or ()), spec.LeafNodeText])
                found[name] = Outcome(spec.State, spec.RunTime / 1e9, spec.Failure.Message)
        if not found and suite.SpecialSuiteFailureReasons:
            raise RigError(f"upstream's suite did not run: {'; '.join(suite.SpecialSuiteFailureReasons)}")
    if not found:
        raise RigError(f"no spec of upstream's suite matches {focus}")
    return found


def lost(outcomes: Mapping[str, Mapping[str, Outcome]]) -> list[str]:
    """The specs that kube-scheduler passes and Fairlead does not, a spec that never ran included."""
    ours = outcomes.get("fairlead", {})
    return [
        name
        for name, theirs in outcomes.get("kube-scheduler", {}).items()
        if theirs.passed and not (name in ours and ours[name].passed)
    ]


def table(outcomes: Mapping[str, Mapping[str, Outcome]]) -> list[str]:
    """One line per spec, one column per scheduler."""
    names = sorted({name for found in outcomes.values() for name in found})
    width = max(len(_short(name)) for name in names)
    columns = [(scheduler, outcomes[scheduler]) for scheduler in SCHEDULERS if scheduler in outcomes]
    lines = ["  ".join(["spec".ljust(width), *(scheduler.ljust(16) for scheduler, _ in columns)]).rstrip()]
    for name in names:
        cells = [_cell(found.get(name)).ljust(16) for _, found in columns]
        lines.append("  ".join([_short(name).ljust(width), *cells]).rstrip())
    totals = [
        f"{sum(one.passed for one in found.values())} of {len(found)}".ljust(16) for _, found in columns
    ]
    lines.append("  ".join(["passed".ljust(width), *totals]).rstrip())
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 1 where Fairlead fails what kube-scheduler passes."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.e2e",
        description="Kubernetes' own scheduling specs with kube-scheduler, and with Fairlead in its place.",
        epilog="example: python -m tools.e2e --scheduler fairlead --focus 'NodeSelector is respected'",
    )
    parser.add_argument(
        "--scheduler",
        action="append",
        choices=SCHEDULERS,
        help="run this one; repeatable (default: both; a single one fails with any spec it fails)",
    )
    parser.add_argument("--focus", default=_FOCUS, metavar="REGEX", help=f"specs to run (default: {_FOCUS})")
    parser.add_argument(
        "--reports",
        type=Path,
        metavar="FOLDER",
        help="keep reports and logs here (default: a temporary folder)",
    )
    parser.add_argument(
        "--compare-with",
        type=Path,
        metavar="FILE",
        help="an earlier report of kube-scheduler's (kube-scheduler.json), instead of running it now",
    )
    options = parser.parse_args(arguments)
    wanted = options.scheduler or list(SCHEDULERS)
    outcomes: dict[str, dict[str, Outcome]] = {}
    try:
        if options.compare_with:
            outcomes["kube-scheduler"] = _read_earlier(options.compare_with, options.focus)
        with _folder(options.reports) as folder:
            for scheduler in wanted:
                if scheduler not in outcomes:
                    outcomes[scheduler] = run(scheduler, focus=options.focus, folder=folder)
    except RigError as error:
        _say(f"error: {error}")
        return error.exit_code
    return _report(outcomes)


class _Failure(msgspec.Struct, frozen=True):
    Message: str = ""


class _Spec(msgspec.Struct, frozen=True):
    LeafNodeType: str
    LeafNodeText: str
    State: str
    RunTime: int = 0
    ContainerHierarchyTexts: list[str] | None = None
    Failure: _Failure = _Failure()


class _Suite(msgspec.Struct, frozen=True):
    SpecReports: list[_Spec] | None = None
    SpecialSuiteFailureReasons: list[str] | None = None


def _read_earlier(file: Path, focus: str) -> dict[str, Outcome]:
    try:
        return read_report(file.read_bytes(), focus=focus)
    except (OSError, msgspec.MsgspecError) as error:
        raise RigError(f"{file}: is not a report of upstream's suite: {error}") from error


def _start_fairlead(plane: ControlPlane, guard: Guard, log: Path) -> None:
    kubeconfig = shipped_kubeconfig(plane)
    (port,) = free_ports(1)
    program = guard.start(
        "fairlead",
        [
            sys.executable,
            "-m",
            "fairlead",
            "scheduler",
            f"--kubeconfig={kubeconfig}",
            "--scheduler-name=default-scheduler",
            "--leader-elect=false",
            f"--listen=127.0.0.1:{port}",
        ],
        log=log,
    )
    program.wait_ready(lambda: answers(port, "/readyz"), timeout_s=_READY_S)


def _wait(program: Program, scheduler: str) -> None:
    """Until the suite ends, saying now and then how far it is; its exit code says no more than its report."""
    began = said = time.monotonic()
    while program.exit_code() is None:
        now = time.monotonic()
        if now - began > _PATIENCE_S:
            raise RigError(f"e2e.test did not end; the end of its log:\n{program.tail()}")
        if now - said >= _SAY_EVERY_S:
            said = now
            done = program.log.read_text(errors="replace").count(_DONE)
            _say(f"{scheduler}: {done} specs done after {(now - began) / 60:.0f} min")
        time.sleep(_LOOK_S)


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="fairlead-e2e-") as name:
        yield Path(name)


def _report(outcomes: Mapping[str, Mapping[str, Outcome]]) -> int:
    _print(table(outcomes))
    if len(outcomes) < len(SCHEDULERS):
        failed = [name for found in outcomes.values() for name, one in found.items() if not one.passed]
    else:
        failed = lost(outcomes)
        _print(["", f"{len(failed)} specs that kube-scheduler passes fail with Fairlead"])
    for name in failed:
        for scheduler, found in outcomes.items():
            if name in found and not found[name].passed:
                _print(["", f"{scheduler}: {_short(name)}", found[name].message])
    return 1 if failed else 0


def _short(name: str) -> str:
    return name.removeprefix("[sig-scheduling] ")


def _cell(outcome: Outcome | None) -> str:
    return "not run" if outcome is None else f"{outcome.state} {outcome.seconds:.0f} s"


def _print(lines: Sequence[str]) -> None:
    print("\n".join(lines), flush=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
