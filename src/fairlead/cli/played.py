"""The progress of what takes seconds: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from fairlead.simulation.sweep.run import Played


@contextmanager
def progress(what: str = "simulating") -> Iterator[Callable[[float, float, int], None]]:
    """Receives how much is done (virtual time that has passed), of how much, and how many pods wait."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import TextColumn, TimeElapsedColumn

    with _bar(TextColumn("{task.percentage:.0f}%"), TimeElapsedColumn()) as bar:
        task = bar.add_task(what, total=None)

        def say(passed_s: float, of_s: float, pending: int) -> None:
            said = f"{what}, {pending} pods wait" if pending else what
            bar.update(task, completed=passed_s, total=of_s, description=said)

        yield say


@contextmanager
def progress_of_runs() -> Iterator[Callable[[Played | None, int], None]]:
    """Receives each run's outcome and how many are left; None before the first."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import TextColumn, TimeElapsedColumn, TimeRemainingColumn

    with _bar(TimeElapsedColumn(), TextColumn("ETA"), TimeRemainingColumn()) as bar:
        task = bar.add_task("sweeping", total=None)
        done = failed = 0

        def say(played: Played | None, left: int) -> None:
            nonlocal done, failed
            if played is not None:
                done, failed = done + (not played.error), failed + bool(played.error)
            text = f"runs: {done} done, {failed} failed, {left} left"
            bar.update(task, completed=done + failed, total=done + failed + left, description=text)

        yield say


def _bar(*columns: ProgressColumn) -> Progress:
    """A bar on standard error with these columns behind it, gone when it is done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    begin = TextColumn("{task.description}"), BarColumn()
    return Progress(*begin, *columns, console=Console(stderr=True), transient=True)
