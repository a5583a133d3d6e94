"""The fast tests and the demo on every supported version of Python that can be had here (`make pythons`).

An interpreter is looked for on PATH and among pyenv's. Where there is none of a version, it comes from the Go
module proxy, on which a project keeps builds of CPython for any Linux; the rig's Go fetches it. Each gets a
virtual environment in a temporary folder, with the versions of constraints.txt. The table at the end says
which ran and which were not found; the exit code is 1 where one failed or none ran.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fairlead.errors import RigError
from fairlead.rig.toolchain import cache_root, environment, find_go

ROOT = Path(__file__).resolve().parents[1]

_MODULE = "github.com/kluctl/go-embed-python"
# Each supported version of Python, and the module's version that carries it.
CARRIED = {
    "3.11": "v0.0.0-3.11.11-20241219-1",
    "3.12": "v0.0.0-3.12.3-20240415-1",
    "3.13": "v0.0.0-3.13.1-20241219-1",
    "3.14": "v0.0.0-3.14.6-20260610-1",
}
_FOLDER = 1 << 31  # in the permissions of Go's file modes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one version of Python did; `ok` is None where there was no interpreter."""

    python: str
    tests: str
    demo: str
    ok: bool | None


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tools.pythons", description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"some of {', '.join(CARRIED)}")
    parser.add_argument("--workers", default="3", help="how many processes run the tests (default: 3)")
    parser.add_argument("--fetched", action="store_true", help="leave out the interpreters of this machine")
    options = parser.parse_args()
    if unknown := set(options.versions).difference(CARRIED):
        parser.error(f"not supported: {', '.join(sorted(unknown))}; there are {', '.join(CARRIED)}")
    outcomes = []
    for version in options.versions or CARRIED:
        print(f"== Python {version}", flush=True)
        outcomes.append(_tried(version, options.workers, only_fetched=options.fetched))
    table = Table("python", "fast tests", "demo", "", box=None, pad_edge=False, header_style="bold")
    for one in outcomes:
        table.add_row(one.python, one.tests, one.demo, {True: "ok", False: "FAILED", None: "not run"}[one.ok])
    Console(soft_wrap=True, width=None if sys.stdout.isatty() else 160).print(table)
    ran = [one.ok for one in outcomes if one.ok is not None]
    return 0 if ran and all(ran) else 1


def _tried(version: str, workers: str, *, only_fetched: bool) -> Outcome:
    python = None if only_fetched else next(installed(version), None)
    try:
        python = python or fetched(version)
    except RigError as error:
        return Outcome(version, f"not found: {error}", "", None)
    with tempfile.TemporaryDirectory(prefix=f"fairlead-python-{version}-") as folder:
        return _run(python, Path(folder), workers)


def _run(python: Path, folder: Path, workers: str) -> Outcome:
    exact = _version_of(python) or "?"
    # Without pip: not every interpreter brings one, and ours installs into another environment as well.
    _checked(python, "-m", "venv", "--without-pip", folder)
    own = folder / "bin" / "python"
    install = ("--python", own, "install", "--quiet", "--disable-pip-version-check")
    _checked(Path(sys.executable), "-m", "pip", *install, "-c", "constraints.txt", "-e", ".[dev,docs]")
    began = time.monotonic()
    tests = subprocess.run(
        [
            *(own, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers, "--dist", "loadfile"),
            *("--no-loadscope-reorder", "-m", "not real and not slow"),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(tests.stdout, flush=True)
    counts = re.findall(r"(\d+) (passed|failed|errors?|skipped)", tests.stdout[-200:])
    said = ", ".join(f"{number} {outcome}" for number, outcome in counts) or "nothing ran"
    demo = subprocess.run(
        [folder / "bin" / "fairlead", "demo", "--fast"], capture_output=True, text=True, check=False
    )
    print(demo.stdout[-300:], demo.stderr, flush=True)
    return Outcome(
        exact,
        f"{said} in {time.monotonic() - began:.0f} s",
        "runs" if demo.returncode == 0 else f"ended with {demo.returncode}",
        tests.returncode == 0 and demo.returncode == 0,
    )


def _checked(program: Path, *arguments: str | Path) -> None:
    done = subprocess.run([program, *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{program} {' '.join(map(str, arguments))} failed: {done.stderr.strip()[-1500:]}")


def installed(version: str) -> Iterator[Path]:
    """The interpreters of that version on PATH and among pyenv's that really run."""
    on_path = shutil.which(f"python{version}")
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    of_pyenv = sorted(home.glob(f"versions/{version}.*/bin/python{version}"))
    for python in (*([Path(on_path)] if on_path else []), *of_pyenv):
        # pyenv's own `python3.12` on PATH is there for versions that are not chosen, and then fails.
        if (_version_of(python) or "").startswith(f"{version}."):
            yield python


def fetched(version: str) -> Path:
    """The interpreter of that version out of the Go module that carries it, unpacked into the cache once."""
    home = cache_root() / "pythons" / CARRIED[version]
    python = home / "bin" / f"python{version}"
    if not python.exists():
        go = find_go((1, 0, 0), lambda line: print(line, file=sys.stderr))
        done = subprocess.run(
            [go, "mod", "download", "-json", f"{_MODULE}@{CARRIED[version]}"],
            cwd="/",
            env=environment() | {"GOFLAGS": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        answer = json.loads(done.stdout or "{}")
        if done.returncode != 0:
            raise RigError(answer.get("Error") or done.stderr.strip()[-300:])
        unfinished = home.with_name(f"{home.name}.{os.getpid()}")
        try:
            unpack(Path(answer["Dir"]) / "python" / "internal" / "data" / "linux-amd64", unfinished)
            unfinished.rename(home)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return python


def unpack(carried: Path, home: Path) -> None:
    """Write out an interpreter as the module keeps it: a list of files, the larger ones compressed."""
    for file in json.loads((carried / "files.json").read_text())["files"]:
        target, source = home / file["name"], carried / file["name"]
        if file["perm"] & _FOLDER:
            target.mkdir(parents=True)
        elif "symlink" in file:
            target.symlink_to(file["symlink"])
        else:
            packed = source.with_name(f"{source.name}.gz")
            target.write_bytes(
                gzip.decompress(packed.read_bytes()) if file.get("compressed") else source.read_bytes()
            )
            target.chmod(file["perm"] & 0o777)


def _version_of(python: Path) -> str | None:
    """What it says it is; None for a program that does not run."""
    try:
        done = subprocess.run(
            [python, "-c", "import platform; print(platform.python_version())"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main())
