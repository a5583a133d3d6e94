"""`make verify`: the stated counts and sizes, then every benchmark; one table at the end.

Each folder of tests and each benchmark runs in a process of its own, so that one that dies does not
hide the rest, and memory measured in one is not another's. A row is kept by what ran: a folder in which every
test was skipped has shown nothing, and neither has a benchmark without a row, so both count as failed.

Conformance and scenarios run on the oldest and the newest version of Kubernetes, too: those of their tests
that need a real control plane, as often as in `make test`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.rows import Row, print_rows
from fairlead.rig import build

ROOT = Path(__file__).resolve().parent.parent

# What is promised of a cluster, by what a user would call it: folders of tests.
PROMISED = {
    "conformance": ("conformance",),
    "scenarios": ("scheduler", "extender", "webhook", "stories", "rebalance", "examples"),
}


def main() -> None:
    """Run what was asked for; exit with 1 where anything failed or missed its target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verify", description=__doc__)
    parser.add_argument("--benchmarks-only", action="store_true", help="leave the tests out")
    parser.add_argument("only", nargs="*", help="names of test folders or benchmarks (default: all)")
    args = parser.parse_args()
    folders = sorted(path for path in (ROOT / "tests").iterdir() if any(path.rglob("test_*.py")))
    benchmarks = sorted((ROOT / "benchmarks").glob("bench_*.py"))
    oldest, *_, newest = build.RELEASES
    versions = {f"kubernetes-{version}": version for version in (oldest, newest)}
    if args.benchmarks_only:
        folders, versions = [], {}
    if unknown := set(args.only).difference(versions, (path.stem for path in (*folders, *benchmarks))):
        parser.error(f"no such test folder or benchmark: {', '.join(sorted(unknown))}")
    rows = [folder_row(folder) for folder in folders if not args.only or folder.name in args.only]
    for name, version in versions.items():
        if not args.only or name in args.only:
            rows += version_rows(version)
    for bench in benchmarks:
        if not args.only or bench.stem in args.only:
            rows += _benchmark(bench)
    print_rows(rows)
    sys.exit(0 if rows and all(row.ok for row in rows) else 1)


def folder_row(folder: Path) -> Row:
    """Run a folder of tests. It is kept when at least one test passed and none failed."""
    print(f"== tests/{folder.name} at the stated counts", flush=True)
    return _tests_row(f"tests/{folder.name}", [str(folder)], {"FAIRLEAD_COUNTS": "verify"})


def version_rows(version: str) -> list[Row]:
    """Run what is promised of a cluster on another version of Kubernetes, whose programs are built first."""
    # Programs that the user brings are of one version: they would be run in place of these.
    chosen = {"FAIRLEAD_KUBERNETES": version, "KUBEBUILDER_ASSETS": ""}
    release = build.RELEASES[version]
    build_it = [sys.executable, "-m", "fairlead.rig.build"]
    if subprocess.run(build_it, cwd=ROOT, env=os.environ | chosen, check=False).returncode != 0:
        return [Row(f"Kubernetes {release}", "could not be built", "is built", False)]
    rows = []
    for name, folders in PROMISED.items():
        print(f"== {name} on Kubernetes {release}", flush=True)
        paths = [str(ROOT / "tests" / folder) for folder in folders]
        rows.append(_tests_row(f"{name} on Kubernetes {release}", ["-m", "real", *paths], chosen))
    return rows


def _tests_row(name: str, arguments: list[str], env: Mapping[str, str]) -> Row:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=ROOT,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(done.stdout, flush=True)
    last = done.stdout.splitlines()[-1] if done.stdout else ""
    counts = re.findall(r"(\d+) (passed|failed|errors?|skipped)", last)
    passed = any(outcome == "passed" for _, outcome in counts)
    said = ", ".join(f"{number} {outcome}" for number, outcome in counts) or "nothing ran"
    measured = f"{said} in {time.monotonic() - began:.0f} s"
    return Row(name, measured, "some pass, none fails", done.returncode == 0 and passed)


def _benchmark(path: Path) -> list[Row]:
    print(f"== benchmarks/{path.name}", flush=True)
    done = subprocess.run(
        [sys.executable, "-c", _REPORT.format(module=path.stem)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return [Row(path.stem, f"died with exit code {done.returncode}", "runs", False)]
    rows = [Row(*row) for row in json.loads(done.stdout.splitlines()[-1])]
    return rows or [Row(path.stem, "nothing measured", "a row", False)]


_REPORT = """
import json
from dataclasses import astuple
from benchmarks.{module} import run
print(json.dumps([astuple(row) for row in run()]))
"""

if __name__ == "__main__":
    main()
