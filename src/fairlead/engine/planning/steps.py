"""Long work in steps, so that a process can serve others between two of them.

Steps are a generator: it yields how much work each step was, counted in events of the core or in what takes
about as long, and returns what was found. Where the work is cut changes nothing of what is found.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[int, None, T]


def finish(steps: Steps[T]) -> T:
    """Take all steps at once.

    >>> def counting():
    ...     yield 1
    ...     return "done"
    >>> finish(counting())
    'done'
    """
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
