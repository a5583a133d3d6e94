"""Units that wait for their victims to leave, and gangs that leave whole.

While they do, the unit picks no new victims and keeps what it was promised; past its deadline all is
released. The subtle thing: a victim may be waited for by several units, one after the other or at once,
so whether its eviction was asked for, or is to be asked for again, is a matter of the victim alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fairlead.engine.gangs.gangs import Gangs
from fairlead.engine.planning.placement import Placement
from fairlead.engine.planning.units import Unit
from fairlead.engine.planning.victims import Victim
from fairlead.engine.snapshot.index import discard
from fairlead.engine.snapshot.log import Mark
from fairlead.kube.pod import Pod


@dataclass(slots=True)
class Wait:
    """One unit's wait: where it will go, and which pods are still in the way, by UID."""

    unit: Unit
    placement: Placement
    victims: dict[str, Victim]
    deadline: float
    # Whether the placement held, and the state of all it depends on when that was found out.
    held: tuple[tuple[Mark, int], bool] | None = None

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
            discard(self._of_victim, uid, unit_id)

    def left(self, uid: str) -> list[Wait]:
        """A victim has left; the waits that may be over by that."""
        over = []
        self.version += 1
        self.asked.pop(uid, None)
        self.retry.pop(uid, None)
        for unit_id in list(self._of_victim.get(uid, ())):
            wait = self._waits[unit_id]
            del wait.victims[uid]
            discard(self._of_victim, uid, unit_id)
            if not wait.victims or wait.is_clear:
                over.append(wait)
        return over

    def waiting_for(self, uid: str) -> list[Wait]:
        """The units that wait for a pod to leave."""
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


class GangEvictions:
    """Gangs that leave whole: from the decision over the first eviction to the last.

    Until the first eviction is granted the decision stands only as long as a unit waits for the room; then it
    is finished, whatever became of that unit, because a gang of which some members are gone does no work.
    An eviction that does not end in time, or can never be granted, is taken back: what is left of the gang
    heals.

    Invariant: `_deadlines` are of gangs whose eviction has begun and is not over.
    """

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
