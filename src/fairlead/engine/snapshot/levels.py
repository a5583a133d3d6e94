"""Between which priorities pods are placed: thresholds that no placed pod's priority separates are one.

Priorities of pods that are gone do no harm, they only tell thresholds apart that could be one. So they are
swept out when there are many, not when a pod goes.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from fairlead.engine.snapshot.placed import Placed

__all__ = ["LOWEST", "Levels"]

LOWEST = -(2**31)
"""No priority is below it."""

_FEW = 1024


class Levels:
    """Priorities. Invariant: that of every pod that counts on a node is `known`; at most twice as many are
    as placed pods have, or a few.
    """

    __slots__ = ("_limit", "_ordered", "known")

    def __init__(self) -> None:
        self.known: set[int] = set()
        self._ordered: list[int] = []
        self._limit = _FEW

    def add(self, priority: int, placed: Iterable[Placed]) -> None:
        """A pod of a priority that is not known counts from now on; `placed` are all that do, or might."""
        if len(self.known) >= self._limit:
            self.known = {one.priority for one in placed}
            self._ordered = sorted(self.known)
            self._limit = max(_FEW, 2 * len(self.known))
            if priority in self.known:
                return
        self.known.add(priority)
        bisect.insort(self._ordered, priority)

    def threshold(self, priority: int) -> int:
        """The lowest priority that is above the same known ones as this."""
        level = bisect.bisect_left(self._ordered, priority)
        return self._ordered[level - 1] + 1 if level else LOWEST
