"""What every benchmark reports: one row per question, with its target beside the measurement.

A benchmark is a module ``bench_*.py`` with one question, a function ``run() -> list[Row]``, and
``main(run)`` at its end, so that it can be run alone and by ``benchmarks/verify.py`` alike.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

__all__ = ["Row", "main", "print_rows"]


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: what, how much, what was promised, and whether it was kept."""

    name: str
    measured: str
    target: str
    ok: bool


def print_rows(rows: Iterable[Row]) -> None:
    """The table; plain and never cut where standard output is not a terminal."""
    table = Table("what", "measured", "target", "", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(row.name, row.measured, row.target, "ok" if row.ok else "MISSED")
    console = Console(soft_wrap=True) if sys.stdout.isatty() else Console(width=160, soft_wrap=True)
    console.print(table)


def main(run: Callable[[], list[Row]]) -> None:
    """Run, print, and exit with 1 where a target was missed."""
    rows = run()
    print_rows(rows)
    sys.exit(0 if all(row.ok for row in rows) else 1)
