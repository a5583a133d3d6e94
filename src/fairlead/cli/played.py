"""The progress of what is played in virtual time: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SHOWN_AFTER_S = 1.0


@contextmanager
def progress() -> Iterator[Callable[[float, float, int], None]]:
    """Receives the virtual time that has passed, all there is, and how many pods wait."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f}%"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=None)

        def say(passed_s: float, of_s: float, pending: int) -> None:
            bar.update(task, completed=passed_s, total=of_s, description=f"simulating, {pending} pods wait")

        yield say
