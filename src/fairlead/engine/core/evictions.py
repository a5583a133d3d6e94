"""Units that wait for their victims to leave.

While they do, the unit picks no new victims and keeps what it was promised; past its deadline all is
released. The subtle thing: a victim may be waited for by several units, one after the other or at once,
so whether its eviction was asked for, or is to be asked for again, is a matter of the victim alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
    # Whether the placement held, and the state of all it depends on when that was found out.
    held: tuple[tuple[int, int, int], bool] | None = None

    @property
    def is_clear(self) -> bool:
        """Whether all that are yet to leave, with their gangs, are on other nodes than the unit's."""
        slots = {slot for _, slot in self.placement}
        return not any(victim.slot in slots for victim in self.victims.values())


class Evictions:
    """All waits. Invariant: `_of_victim` is the inverse of the waits' victims.

    `asked` are evictions that were asked for and have neither happened nor been refused, `retry` those
    that were refused for now and when to ask again; both by UID. `version` counts changes of the waits.
    """

    __slots__ = ("_of_victim", "_waits", "asked", "retry", "version")

    def __init__(self) -> None:
        self._waits: dict[str, Wait] = {}
        self._of_victim: dict[str, dict[str, None]] = {}
        self.asked: dict[str, None] = {}
        self.retry: dict[str, float] = {}
        self.version = 0

    def __iter__(self) -> Iterator[Wait]:
        return iter(list(self._waits.values()))

    def __contains__(self, unit_id: str) -> bool:
        return unit_id in self._waits

    def get(self, unit_id: str) -> Wait | None:
        """A unit's wait, None when it waits for no pod to leave."""
        return self._waits.get(unit_id)

    def add(self, wait: Wait) -> None:
        """A unit begins to wait."""
        self.drop(wait.unit.id)
        self._waits[wait.unit.id] = wait
        for uid in wait.victims:
            self._of_victim.setdefault(uid, {})[wait.unit.id] = None

    def drop(self, unit_id: str) -> None:
        """A unit waits no more."""
        wait = self._waits.pop(unit_id, None)
        self.version += 1
        for uid in wait.victims if wait else ():
            self._forget(uid, unit_id)

    def left(self, uid: str) -> list[Wait]:
        """A victim has left; the waits that may be over by that."""
        over = []
        self.version += 1
        self.asked.pop(uid, None)
        self.retry.pop(uid, None)
        for unit_id in list(self._of_victim.get(uid, ())):
            wait = self._waits[unit_id]
            del wait.victims[uid]
            self._forget(uid, unit_id)
            if not wait.victims or wait.is_clear:
                over.append(wait)
        return over

    def waiting_for(self, uid: str) -> list[Wait]:
        """Who waits for a pod to leave."""
        return [self._waits[unit_id] for unit_id in self._of_victim.get(uid, ())]

    def wake_at(self) -> float | None:
        """When the next deadline or retry is due."""
        return min((*(wait.deadline for wait in self._waits.values()), *self.retry.values()), default=None)

    def due(self, now: float) -> list[str]:
        """Victims whose eviction may be asked for again; from here on it is not put off any more."""
        found = [uid for uid, time in self.retry.items() if time <= now]
        for uid in found:
            del self.retry[uid]
        return found

    def _forget(self, uid: str, unit_id: str) -> None:
        units = self._of_victim[uid]
        units.pop(unit_id, None)
        if not units:
            del self._of_victim[uid]
