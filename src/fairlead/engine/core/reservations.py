"""No starvation: the oldest held unit of a priority, once it has waited long, has nodes kept for it.

Kept are the nodes where it would fit soonest: pods that must end by a known time (activeDeadlineSeconds)
count as gone by then, others after all of those. One reservation per priority, so that reservations
cannot starve all other units; a gang that is bound only in part need not wait to be given one. The subtle
thing: a reservation stays where it was made as long as the unit could fit there, because each move to other
nodes gives up the room that was gathered so far.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.engine import rules
from fairlead.engine.core.queue import Queue
from fairlead.engine.core.state import State
from fairlead.engine.planning.placement import Group, Placement, group, largest_request, place_together
from fairlead.engine.planning.room import Reservation
from fairlead.engine.planning.units import Unit
from fairlead.engine.rules import resources
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.placed import Placed
from fairlead.kube.pod import Pod

_UNKNOWN = float("inf")


@dataclass(frozen=True, slots=True)
class _Step:
    """Room for one more member on a node: when, after how many pods of unknown end, and which pods leave."""

    time: float
    unknown: int
    slot: int
    leaving: tuple[Placed, ...]


class Reserver:
    """Keeps `room.reservations` in step with the units that have waited too long."""

    def __init__(self, state: State, after_s: float) -> None:
        self._state = state
        self._after_s = after_s
        self._hopeless: dict[str, int] = {}  # unit → version of the nodes on which it could never fit
        # By priority: the version of the nodes and the line of the unit when it was last seen to fit.
        self._checked: dict[int, tuple[int, int]] = {}
        self._updated = 0.0

    def update(self, queue: Queue, now: float) -> bool:
        """Drop and make reservations; whether nodes were opened, which may help any unit."""
        self._updated = now
        reservations = self._state.room.reservations
        version = self._state.snapshot.nodes.version
        opened = False
        for priority, known in list(reservations.items()):
            line = queue.line_of(known.unit)
            if line is not None and line.head.priority == priority:
                checked = version, line.serial
                if self._checked[priority] == checked or self._could_fit(line.unit(known.unit), known.nodes):
                    self._checked[priority] = checked
                    continue
            del reservations[priority]
            opened = True
        for unit in self._waiting(queue):
            if unit.priority in reservations or not self.due(unit, now):
                continue
            if self._hopeless.get(unit.id) == version:
                continue
            reservation = self._reserve(unit, now)
            if reservation is None:
                self._hopeless[unit.id] = version
            else:
                reservations[unit.priority] = reservation
                self._checked[unit.priority] = version, _serial(queue, unit)
        self._hopeless = {unit: seen for unit, seen in self._hopeless.items() if unit in queue}
        return opened

    def restore(self, reservations: Mapping[int, Reservation]) -> None:
        """Go on with reservations made before, over the nodes as they are now."""
        self._state.room.reservations.update(reservations)
        self._checked.update(dict.fromkeys(reservations, (-1, 0)))

    def wake_at(self, queue: Queue) -> float | None:
        """When the next unit will have waited long enough."""
        taken = self._state.room.reservations
        times = [unit.since + self._after_s for unit in self._waiting(queue) if unit.priority not in taken]
        return min((time for time in times if time > self._updated), default=None)

    def due(self, unit: Unit, now: float) -> bool:
        """Whether a unit has waited long enough to have nodes kept for it."""
        return unit.partly_runs or now >= unit.since + self._after_s

    def wants(self, unit: Unit, now: float) -> bool:
        """Whether `update` would look for nodes to keep for a unit that found no room just now."""
        reserved = unit.priority in self._state.room.reservations
        hopeless = self._hopeless.get(unit.id) == self._state.snapshot.nodes.version
        return not reserved and not hopeless and self.due(unit, now)

    @staticmethod
    def _waiting(queue: Queue) -> list[Unit]:
        """The oldest unit of every line that found no room when it was last tried, oldest first."""
        heads = [line.head for line in queue.lines() if line.lacks_room]
        return sorted(heads, key=lambda unit: (unit.since, unit.rank))

    def _could_fit(self, unit: Unit, nodes: Sequence[str]) -> bool:
        """Whether the unit would fit on these nodes with all that can leave them gone."""
        snapshot = self._state.snapshot
        slots = [slot for slot in map(snapshot.nodes.slot, nodes) if slot >= 0]
        leaving = tuple(placed for slot in slots for placed in self._ending(slot))
        groups = group(self._state.room, unit.members)
        with self._state.room.seen_by(unit.id, unit.priority):
            return self._within(groups, unit.needed, slots, leaving) is not None

    def _reserve(self, unit: Unit, now: float) -> Reservation | None:
        room, snapshot = self._state.room, self._state.snapshot
        groups = group(room, unit.members)
        with room.seen_by(unit.id, unit.priority):
            found = self._soonest(groups, unit, now)
        if found is None:
            return None
        placement, steps = found
        used = dict.fromkeys(slot for _, slot in placement)
        last = max((step.time for step in steps if step.slot in used), default=0.0)
        return Reservation(
            unit.id,
            unit.priority,
            tuple(sorted(snapshot.nodes.name(slot) for slot in used)),
            None if last == _UNKNOWN else last,
        )

    def _soonest(
        self, groups: Sequence[Group], unit: Unit, now: float
    ) -> tuple[Placement, Sequence[_Step]] | None:
        """A placement on the nodes that have room soonest, and the steps that lead to it.

        Steps are gone through in their order, twice as many each time that they did not do, and then as few
        as will do.
        """
        steps: list[_Step] = []
        coming = self._steps(groups, unit, now)

        def within(number: int) -> Placement | None:
            slots = list(dict.fromkeys(step.slot for step in steps[:number]))
            leaving = tuple(placed for step in steps[:number] for placed in step.leaving)
            return self._within(groups, unit.needed, slots, leaving)

        low, high, best = 1, unit.needed, None
        while best is None:
            steps += (step for step, _ in zip(coming, range(high - len(steps)), strict=False))
            best = within(high)
            if best is None:
                if len(steps) < high:
                    return None
                low, high = high + 1, high * 2
        high = min(high, len(steps))
        while low < high:
            middle = (low + high) // 2
            found = within(middle)
            if found is None:
                low = middle + 1
            else:
                best, high = found, middle
        return best, steps[:high]

    def _steps(self, groups: Sequence[Group], unit: Unit, now: float) -> Iterator[_Step]:
        """Room for one member after the other, soonest first: then the fewest pods of unknown end, then on a
        node that is used already, then by the node's name.
        """
        snapshot = self._state.snapshot
        hardest_first = sorted(groups, key=lambda each: largest_request(each.cls), reverse=True)
        members = [(pod, each.cls) for each in hardest_first for pod in each.pods][: unit.needed]
        allowed = self._state.room.open_to(unit.id, unit.priority, unit.deadline_s, now)
        hardest = members[0][1]
        # Where no pod that leaves can help, none needs to be thought away.
        worth_it = rules.suited(snapshot, hardest) & resources.large_enough(snapshot, hardest)
        if allowed is not None:
            worth_it &= allowed
        heap: list[tuple[float, int, bool, int, int, _Step]] = []

        def push(slot: int, taken: int, gone: tuple[Placed, ...]) -> None:
            step = self._step(members[: taken + 1], slot, gone)
            if step is not None:
                rank = int(snapshot.nodes.rank[slot])
                heapq.heappush(heap, (step.time, step.unknown, not taken, rank, taken, step))

        for slot in np.flatnonzero(worth_it).tolist():
            push(slot, 0, ())
        gone: dict[int, tuple[Placed, ...]] = {}
        while heap:
            *_, taken, step = heapq.heappop(heap)
            yield step
            gone[step.slot] = gone.get(step.slot, ()) + step.leaving
            if taken + 1 < len(members):
                push(step.slot, taken + 1, gone[step.slot])

    def _step(
        self, members: Sequence[tuple[Pod, PodClass]], slot: int, gone: Sequence[Placed]
    ) -> _Step | None:
        """What must leave a node, beyond what is gone, so that the last member fits beside the others."""
        snapshot = self._state.snapshot
        others = {pod.metadata.key for pod, _ in members}
        with snapshot.trial():
            for placed in gone:
                snapshot.forget(placed.key)
            for pod, cls in members[:-1]:
                if not rules.fits(snapshot, cls, slot):
                    return None
                snapshot.assume(pod, slot, cls=cls)
            _, last = members[-1]
            leaving: list[Placed] = []
            ending = iter([placed for placed in self._ending(slot) if placed.key not in others])
            while not rules.fits(snapshot, last, slot):
                ends_next = next(ending, None)
                if ends_next is None:
                    return None
                leaving.append(snapshot.forget(ends_next.key))
        ends = [self._ends(placed) for placed in (*gone, *leaving)]
        unknown = sum(1 for placed in leaving if self._ends(placed) == _UNKNOWN)
        return _Step(max(ends, default=0.0), unknown, slot, tuple(leaving))

    def _ending(self, slot: int) -> list[Placed]:
        """What can leave a node, soonest first."""
        return sorted(
            (placed for placed in self._state.snapshot.pods_on(slot) if not placed.cls.shared),
            key=lambda placed: (self._ends(placed), placed.priority, placed.key),
        )

    def _ends(self, placed: Placed) -> float:
        # What is leaving already ends before anything else does.
        if placed.leaving:
            return 0.0
        ends_at = self._state.ends_at(placed.pod)
        return _UNKNOWN if ends_at is None else ends_at

    def _within(
        self, groups: Sequence[Group], needed: int, slots: Sequence[int], leaving: Sequence[Placed]
    ) -> Placement | None:
        """A placement on these nodes with these pods gone, None when there is none."""
        snapshot = self._state.snapshot
        mask = np.zeros(snapshot.nodes.capacity, np.bool_)
        mask[list(slots)] = True
        with snapshot.trial():
            for placed in leaving:
                if snapshot.placed(placed.key) is not None:
                    snapshot.forget(placed.key)
            return place_together(self._state.room, groups, needed, mask)


def _serial(queue: Queue, unit: Unit) -> int:
    line = queue.line_of(unit.id)
    return line.serial if line is not None else 0
