"""The order in which units are served.

Priority, highest first; at equal priority what (partly) runs before what waits, and every unit's minimum
before members of any gang beyond its minimum; then smaller first, then oldest, then name, which is unique, so
that the order is total and the same in every run. ``queue.order: fifo`` swaps size and age: no unit overtakes
by being small.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

__all__ = ["QueueOrder", "Rank", "Stage", "rank"]

QueueOrder = Literal["smallest", "fifo"]

# Sorts like the order above; opaque otherwise.
Rank = tuple[int, int, float, float, str]


class Stage(IntEnum):
    """What is served first at equal priority."""

    RUNS = 0
    """A gang that partly runs, or a member that replaces one that a running gang has lost."""
    WAITS = 1
    """A unit that waits for its start."""
    EXTRA = 2
    """A member beyond the minimum of its running gang."""


def rank(
    *,
    priority: int,
    stage: Stage,
    size: int,
    created: float,
    name: str,
    order: QueueOrder = "smallest",
) -> Rank:
    """Where a unit stands; lower is served first.

    >>> small, old = dict(size=1, created=9.0, name="a"), dict(size=3, created=1.0, name="b")
    >>> rank(priority=0, stage=Stage.WAITS, **small) < rank(priority=0, stage=Stage.WAITS, **old)
    True
    >>> fifo = dict(priority=0, stage=Stage.WAITS, order="fifo")
    >>> rank(**fifo, **small) < rank(**fifo, **old)
    False
    """
    if order == "fifo":
        return (-priority, int(stage), created, float(size), name)
    return (-priority, int(stage), float(size), created, name)
