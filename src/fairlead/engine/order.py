"""The order in which units are served.

Priority, highest first; at equal priority what (partly) runs before what waits; then smaller first,
then oldest, then name, which is unique, so that the order is total and the same in every run.
``queue.order: fifo`` swaps size and age: nobody overtakes by being small.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["QueueOrder", "Rank", "rank"]

QueueOrder = Literal["smallest", "fifo"]

# Sorts like the order above; opaque otherwise.
Rank = tuple[int, bool, float, float, str]


def rank(
    *,
    priority: int,
    waits: bool,
    size: int,
    created: float,
    name: str,
    order: QueueOrder = "smallest",
) -> Rank:
    """Where a unit stands; lower is served first. `waits` is False for one that partly runs.

    >>> small, old = dict(size=1, created=9.0, name="a"), dict(size=3, created=1.0, name="b")
    >>> rank(priority=0, waits=True, **small) < rank(priority=0, waits=True, **old)
    True
    >>> fifo = dict(priority=0, waits=True, order="fifo")
    >>> rank(**fifo, **small) < rank(**fifo, **old)
    False
    """
    if order == "fifo":
        return (-priority, waits, created, float(size), name)
    return (-priority, waits, float(size), created, name)
