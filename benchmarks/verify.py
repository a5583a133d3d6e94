"""`make verify`: the stated counts and sizes, then every benchmark; one table at the end.

Each folder of tests and each benchmark runs in a process of its own, so that one that dies does not
hide the rest, and memory measured in one is not another's. A row is kept by what ran: a folder in which every
test was skipped has shown nothing, and neither has a benchmark without a row, so both count as failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.rows import Row, print_rows

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run what was asked for; exit with 1 where anything failed or missed its target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verify", description=__doc__)
    parser.add_argument("--benchmarks-only", action="store_true", help="leave the tests out")
    parser.add_argument("only", nargs="*", help="names of test folders or benchmarks (default: all)")
    args = parser.parse_args()
    folders = sorted(path for path in (ROOT / "tests").iterdir() if any(path.rglob("test_*.py")))
    benchmarks = sorted((ROOT / "benchmarks").glob("bench_*.py"))
    if args.benchmarks_only:
        folders = []
    if unknown := set(args.only).difference(path.stem for path in (*folders, *benchmarks)):
        parser.error(f"no such test folder or benchmark: {', '.join(sorted(unknown))}")
    rows = [folder_row(folder) for folder in folders if not args.only or folder.name in args.only]
    for bench in benchmarks:
        if not args.only or bench.stem in args.only:
            rows += _benchmark(bench)
    print_rows(rows)
    sys.exit(0 if rows and all(row.ok for row in rows) else 1)


def folder_row(folder: Path) -> Row:
    """Run a folder of tests. It is kept when at least one test passed and none failed."""
    print(f"== tests/{folder.name} at the stated counts", flush=True)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(folder)],
        cwd=ROOT,
        env={**os.environ, "FAIRLEAD_COUNTS": "verify"},
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
    return Row(f"tests/{folder.name}", measured, "some pass, none fails", done.returncode == 0 and passed)


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
