"""Gangs that leave whole: from the decision over the first eviction to the last.

Until the first eviction is granted the decision stands only as long as a unit waits for the room; then it
is finished, whatever became of that unit, because a gang of which some members are gone does no work. An
eviction that does not end in time, or can never be granted, is taken back: what is left of the gang heals.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.engine.core.evictions import Evictions
from fairlead.engine.gangs import Gangs
from fairlead.engine.victims import Victim
from fairlead.kube.pod import Pod

__all__ = ["GangEvictions"]


class GangEvictions:
    """See the module. Invariant: `_deadlines` are of gangs whose eviction has begun and is not over."""

    __slots__ = ("_deadlines", "_evictions", "_gangs", "_timeout_s")

    def __init__(self, gangs: Gangs, evictions: Evictions, timeout_s: float) -> None:
        self._gangs = gangs
        self._evictions = evictions
        self._timeout_s = timeout_s
        self._deadlines: dict[str, float] = {}

    def decide(self, victims: Iterable[Victim]) -> None:
        """Evict every gang that these victims would take below its minimum."""
        by_gang: dict[str, list[str]] = {}
        for victim in victims:
            uid = victim.pod.metadata.uid
            if victim.gang and not self._gangs.is_leaving(uid):
                by_gang.setdefault(victim.gang, []).append(uid)
        for name, uids in by_gang.items():
            gang = self._gangs.get(name)
            if gang is not None and gang.falls(len(uids)):
                self._gangs.evict(name, [pod.metadata.uid for pod in gang.running])

    def unfinished(self, now: float) -> list[tuple[str, Pod]]:
        """Members, with their gang, that are to be evicted because the eviction of their gang has begun."""
        begun = [name for name in self._gangs.evicted if self._gangs.has_begun(name)]
        self._deadlines = {name: self._deadlines.get(name, now + self._timeout_s) for name in begun}
        found: list[tuple[str, Pod]] = []
        for name in begun:
            gang = self._gangs.get(name)
            found += [(name, pod) for pod in gang.evicted] if gang is not None else []
        return [
            (name, pod)
            for name, pod in found
            if pod.metadata.uid not in self._evictions.asked and pod.metadata.uid not in self._evictions.retry
        ]

    def overdue(self, now: float) -> list[str]:
        """Gangs whose eviction has not ended in time."""
        return [name for name, deadline in self._deadlines.items() if deadline <= now]

    def unwanted(self) -> list[str]:
        """Gangs whose eviction has not begun and that no unit wants to leave whole any more.

        A unit that waits for some of the members has not weighed what the others are worth.
        """
        return [name for name in list(self._gangs.evicted) if self._is_unwanted(name)]

    def wake_at(self) -> float | None:
        """When the next eviction must have ended."""
        return min(self._deadlines.values(), default=None)

    def _is_unwanted(self, name: str) -> bool:
        gang = self._gangs.get(name)
        if gang is None or not gang.evicted or self._gangs.has_begun(name):
            return False
        uids = [pod.metadata.uid for pod in gang.evicted]
        return not any(
            all(uid in wait.victims for uid in uids) for wait in self._evictions.waiting_for(uids[0])
        )
