"""No starvation: the oldest held unit of a priority, once it has waited long, has nodes kept for it.

Kept are the nodes where it would fit soonest: pods that must end by a known time (activeDeadlineSeconds)
count as gone by then, others after all of those. One reservation per priority, so that reservations
cannot starve everybody else; a gang that is bound only in part need not wait to be given one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fairlead.engine.core.queue import Queue
from fairlead.engine.core.state import State
from fairlead.engine.placement import Group, Placement, group, place_together
from fairlead.engine.room import Reservation
from fairlead.engine.snapshot.placed import Placed
from fairlead.engine.units import Unit

__all__ = ["Reserver"]

_UNKNOWN = float("inf")


class Reserver:
    """Keeps `room.reservations` in step with who has waited too long."""

    __slots__ = ("_after_s", "_hopeless", "_made_at", "_state", "_updated")

    def __init__(self, state: State, after_s: float) -> None:
        self._state = state
        self._after_s = after_s
        self._hopeless: dict[str, int] = {}  # unit → version of the nodes on which it could never fit
        self._made_at: dict[int, int] = {}  # priority → version of the nodes when reserved
        self._updated = 0.0

    def update(self, queue: Queue, now: float) -> bool:
        """Drop and make reservations; whether nodes were opened, which may help anybody."""
        self._updated = now
        reservations = self._state.room.reservations
        version = self._state.snapshot.nodes.version
        opened = False
        for priority, known in list(reservations.items()):
            line = queue.line_of(known.unit)
            if line is None or line.head.priority != priority or self._made_at[priority] != version:
                del reservations[priority]
                opened = opened or line is None or line.head.priority != priority
        for unit in self._waiting(queue):
            if unit.priority in reservations or not self.due(unit, now):
                continue
            if self._hopeless.get(unit.id) == version:
                continue
            reservation = self._reserve(unit)
            if reservation is None:
                self._hopeless[unit.id] = version
            else:
                reservations[unit.priority] = reservation
                self._made_at[unit.priority] = version
        self._hopeless = {unit: seen for unit, seen in self._hopeless.items() if unit in queue}
        return opened

    def restore(self, reservations: Mapping[int, Reservation]) -> None:
        """Go on with reservations made before, over the nodes as they are now."""
        self._state.room.reservations.update(reservations)
        self._made_at.update(dict.fromkeys(reservations, self._state.snapshot.nodes.version))

    def wake_at(self, queue: Queue) -> float | None:
        """When the next unit will have waited long enough."""
        taken = self._state.room.reservations
        times = [unit.since + self._after_s for unit in self._waiting(queue) if unit.priority not in taken]
        return min((time for time in times if time > self._updated), default=None)

    def due(self, unit: Unit, now: float) -> bool:
        """Whether a unit has waited long enough to have nodes kept for it."""
        partly_bound = unit.whole and not unit.rank[1]
        return partly_bound or now >= unit.since + self._after_s

    @staticmethod
    def _waiting(queue: Queue) -> list[Unit]:
        """The oldest unit of every line that is held for want of room, oldest first."""
        heads = [line.head for line in queue.held() if line.verdict and line.verdict.unschedulable]
        return sorted(heads, key=lambda unit: (unit.since, unit.rank))

    def _reserve(self, unit: Unit) -> Reservation | None:
        room, snapshot = self._state.room, self._state.snapshot
        groups = group(room, unit.members[: unit.needed])
        hardest = max(groups, key=lambda each: int(each.cls.amounts[:-1].max(initial=0)))
        ready: list[tuple[float, int, int, int, list[Placed]]] = []
        for slot in np.flatnonzero(snapshot.nodes.alive).tolist():
            found = self._frees(hardest, slot)
            if found is not None:
                time, unknown, leaving = found
                ready.append((time, unknown, int(snapshot.nodes.rank[slot]), slot, leaving))
        ready.sort(key=lambda one: one[:3])
        with room.seen_by(unit.id, unit.priority):
            placement = self._fewest(groups, ready)
        if placement is None:
            return None
        times = {slot: time for time, _, _, slot, _ in ready}
        used = sorted({slot for _, slot in placement})
        last = max(times.get(slot, 0.0) for slot in used)
        return Reservation(
            unit.id,
            unit.priority,
            tuple(sorted(snapshot.nodes.name(slot) for slot in used)),
            None if last == _UNKNOWN else last,
        )

    def _frees(self, each: Group, slot: int) -> tuple[float, int, list[Placed]] | None:
        """When a node has room for the class, how many pods of unknown end that takes, and who leaves."""
        snapshot = self._state.snapshot
        with snapshot.trial():
            if snapshot.fits(each.cls, slot):
                return 0.0, 0, []
            gone: list[Placed] = []
            ending = sorted(
                (placed for placed in snapshot.pods_on(slot) if not placed.cls.shared),
                key=lambda placed: (self._ends(placed), placed.priority, placed.key),
            )
            for placed in ending:
                gone.append(snapshot.forget(placed.key))
                if snapshot.fits(each.cls, slot):
                    unknown = sum(1 for one in gone if self._ends(one) == _UNKNOWN)
                    return self._ends(placed), unknown, gone
        return None

    def _ends(self, placed: Placed) -> float:
        # What is leaving already ends before anything else does.
        if placed.leaving:
            return 0.0
        ends_at = self._state.ends_at(placed.pod)
        return _UNKNOWN if ends_at is None else ends_at

    def _fewest(
        self, groups: Sequence[Group], ready: Sequence[tuple[float, int, int, int, list[Placed]]]
    ) -> Placement | None:
        """The placement on as few of the soonest nodes as will do."""
        low, high = 1, 1
        best = self._within(groups, ready[:high])
        while best is None and high < len(ready):
            low, high = high + 1, min(high * 2, len(ready))
            best = self._within(groups, ready[:high])
        while best is not None and low < high:
            middle = (low + high) // 2
            found = self._within(groups, ready[:middle])
            if found is None:
                low = middle + 1
            else:
                best, high = found, middle
        return best

    def _within(
        self, groups: Sequence[Group], soonest: Sequence[tuple[float, int, int, int, list[Placed]]]
    ) -> Placement | None:
        snapshot = self._state.snapshot
        mask = np.zeros(snapshot.nodes.capacity, np.bool_)
        needed = sum(len(each.pods) for each in groups)
        with snapshot.trial():
            for _, _, _, slot, leaving in soonest:
                mask[slot] = True
                for placed in leaving:
                    if snapshot.placed(placed.key) is not None:
                        snapshot.forget(placed.key)
            return place_together(self._state.room, groups, needed, mask)
