"""Units that wait for their victims to leave.

While they do, the unit picks no new victims and keeps what it was promised; past its deadline all is
released. The subtle thing: a victim may be waited for by several units, and an eviction that was
refused for now is asked for again later, but only if the placement still holds then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fairlead.engine.placement import Placement
from fairlead.engine.units import Unit
from fairlead.engine.victims import Victim

__all__ = ["Evictions", "Wait"]


@dataclass(slots=True)
class Wait:
    """One unit's wait: where it will go, and who is still in the way, by UID."""

    unit: Unit
    placement: Placement
    victims: dict[str, Victim]
    deadline: float
    retry: dict[str, float] = field(default_factory=dict)  # refused for now, by UID: when to ask again


class Evictions:
    """All waits. Invariant: `of_victim` is the inverse of the waits' victims."""

    __slots__ = ("_of_victim", "_waits")

    def __init__(self) -> None:
        self._waits: dict[str, Wait] = {}
        self._of_victim: dict[str, dict[str, None]] = {}

    def __iter__(self) -> Iterator[Wait]:
        return iter(list(self._waits.values()))

    def __contains__(self, unit_id: str) -> bool:
        return unit_id in self._waits

    def get(self, unit_id: str) -> Wait | None:
        """A unit's wait, None when it waits for nobody."""
        return self._waits.get(unit_id)

    def add(self, wait: Wait) -> None:
        """A unit begins to wait."""
        self.drop(wait.unit.id)
        self._waits[wait.unit.id] = wait
        for uid in wait.victims:
            self._of_victim.setdefault(uid, {})[wait.unit.id] = None

    def drop(self, unit_id: str) -> Wait | None:
        """A unit waits no more."""
        wait = self._waits.pop(unit_id, None)
        for uid in wait.victims if wait else ():
            self._forget(uid, unit_id)
        return wait

    def left(self, uid: str) -> list[Wait]:
        """A victim has left; the waits that are over by that."""
        over = []
        for unit_id in list(self._of_victim.get(uid, ())):
            wait = self._waits[unit_id]
            del wait.victims[uid]
            wait.retry.pop(uid, None)
            self._forget(uid, unit_id)
            if not wait.victims:
                over.append(wait)
        return over

    def waiting_for(self, uid: str) -> list[Wait]:
        """Who waits for a pod to leave."""
        return [self._waits[unit_id] for unit_id in self._of_victim.get(uid, ())]

    def wake_at(self) -> float | None:
        """When the next deadline or retry is due."""
        times = [wait.deadline for wait in self._waits.values()]
        times += [time for wait in self._waits.values() for time in wait.retry.values()]
        return min(times, default=None)

    def _forget(self, uid: str, unit_id: str) -> None:
        units = self._of_victim[uid]
        units.pop(unit_id, None)
        if not units:
            del self._of_victim[uid]
