"""The snapshot together with what is promised in it: nominations and reservations.

A nominated pod is placed in the snapshot while its victims are still there, so that no unit of its
priority or lower takes the room that is being made. The subtle thing: for a unit of higher priority
such a promise does not exist, so it is lifted while that unit is planned; and a pod that needs others
near it must fit without the nominated ones too, because they may yet end up elsewhere.

Every change to a placement goes through here, so that `log` tells what each cached answer missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

from fairlead.engine import rules
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.index import discard
from fairlead.engine.snapshot.log import Log
from fairlead.engine.snapshot.nodes import Bools
from fairlead.engine.snapshot.placed import Placed
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod

_LOG_LIMIT = 65536
_AS_IT_IS = nullcontext()


@dataclass(frozen=True, slots=True)
class Nomination:
    """A pod that was promised a node. `unit` is the unit's id; foreign pods are their own unit."""

    pod: Pod
    node: str
    priority: int
    unit: str


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes kept for a unit that has waited long; `ready_at` is when it should fit, if that is known."""

    unit: str
    priority: int
    nodes: tuple[str, ...]
    ready_at: float | None


class Room:
    """See the module. Invariant: each nominated pod is placed in the snapshot, outside of `seen_by`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.ranking = Ranking(snapshot)
        self.nominations: dict[str, Nomination] = {}  # by pod key
        self.reservations: dict[int, Reservation] = {}  # by priority
        # Slots whose pods or node changed.
        self.log: Log[int] = Log(_LOG_LIMIT)
        self._lifted: dict[str, Placed] = {}
        self._by_priority: dict[int, dict[str, None]] = {}
        self._by_unit: dict[str, dict[str, None]] = {}

    # Changes

    def put_node(self, node: Node) -> int:
        """A node as it now is; its slot."""
        slot = self.snapshot.put_node(node)
        self.touch(slot)
        return slot

    def remove_node(self, name: str) -> None:
        """A node is gone."""
        slot = self.snapshot.nodes.slot(name)
        self.snapshot.remove_node(name)
        self.touch(slot)

    def put_pod(self, pod: Pod, priority: int) -> Placed | None:
        """A pod as the API shows it."""
        before = self.snapshot.placed(pod.metadata.key)
        placed = self.snapshot.put_pod(pod, priority=priority)
        self.touch(*(one.slot for one in (before, placed) if one is not None))
        return placed

    def assume(self, pod: Pod, slot: int, priority: int, cls: PodClass | None = None) -> Placed:
        """Place a pod that the API does not yet show as placed."""
        placed = self.snapshot.assume(pod, slot, cls=cls, priority=priority)
        self.touch(slot)
        return placed

    def forget(self, key: str) -> Placed | None:
        """Take a pod away; None when it is not placed."""
        if self.snapshot.placed(key) is None:
            return None
        placed = self.snapshot.forget(key)
        self.touch(placed.slot)
        return placed

    def touch(self, *slots: int) -> None:
        """Something about these slots changed; -1 is none."""
        for slot in slots:
            if slot >= 0:
                self.log.note(slot)

    # Promises

    def nominate(self, nomination: Nomination) -> None:
        """Promise a pod a node. A pod that is promised another loses that one."""
        key = nomination.pod.metadata.key
        self.clear(key)
        self.nominations[key] = nomination
        self._by_priority.setdefault(nomination.priority, {})[key] = None
        self._by_unit.setdefault(nomination.unit, {})[key] = None
        slot = self.snapshot.nodes.slot(nomination.node)
        if slot >= 0 and self.snapshot.placed(key) is None:
            self.assume(nomination.pod, slot, nomination.priority)

    def clear(self, key: str) -> Nomination | None:
        """Take a promise back."""
        nomination = self.nominations.pop(key, None)
        if nomination is None:
            return None
        discard(self._by_priority, nomination.priority, key)
        discard(self._by_unit, nomination.unit, key)
        if self._lifted.pop(key, None) is None:
            self.forget(key)
        return nomination

    def hand_over(self, key: str, unit: str) -> None:
        """A pod is of this unit now, its gang having started without it: its promise goes along."""
        nomination = self.nominations.get(key)
        if nomination is not None and nomination.unit != unit:
            discard(self._by_unit, nomination.unit, key)
            self._by_unit.setdefault(unit, {})[key] = None
            self.nominations[key] = replace(nomination, unit=unit)

    def promised_to(self, unit: str) -> list[Nomination]:
        """What a unit was promised."""
        return [self.nominations[key] for key in self._by_unit.get(unit, ())]

    def seen_by(self, unit: str, priority: int) -> AbstractContextManager[None]:
        """The room as a unit sees it: its own promises and those of lower priority do not count.

        What is cleared or bound meanwhile is not put back.
        """
        return self._lifting(unit, priority) if self.nominations else _AS_IT_IS

    @contextmanager
    def _lifting(self, unit: str, priority: int) -> Iterator[None]:
        own = self._by_unit.get(unit, {})
        lower = [keys for value, keys in sorted(self._by_priority.items()) if value < priority]
        for keys in (own, *lower):
            for key in keys:
                placed = self.forget(key)
                if placed is not None:
                    self._lifted[key] = placed
        try:
            yield
        finally:
            lifted, self._lifted = self._lifted, {}
            for key, placed in lifted.items():
                if self.snapshot.placed(key) is None:
                    self.snapshot.restore(placed)
                    self.touch(placed.slot)

    def open_to(
        self, unit: str, priority: int, deadline_s: float | None, now: float, *, runs: bool = False
    ) -> Bools | None:
        """The nodes that are not reserved against a unit; None when all are open.

        A reservation binds its own priority and lower ones, and lets in units that end before it is needed
        and, of its own priority, what replaces a part of a gang that runs.
        """
        mask: Bools | None = None
        for reservation in self.reservations.values():
            if reservation.unit == unit or reservation.priority < priority:
                continue
            if runs and reservation.priority == priority:
                continue
            ends_before = (
                deadline_s is not None
                and reservation.ready_at is not None
                and now + deadline_s <= reservation.ready_at
            )
            if ends_before:
                continue
            mask = both(mask, ~self.snapshot.nodes.named(reservation.nodes))
        return mask

    # Questions

    def fits(self, cls: PodClass, slot: int) -> bool:
        """Whether a pod of the class fits on a node, with the nominated pods there and without them."""
        if not rules.fits(self.snapshot, cls, slot):
            return False
        if "require" not in cls.demands or not self.nominations:
            return True
        with self._without_nominated():
            return rules.fits(self.snapshot, cls, slot)

    def without_nominated(self, cls: PodClass) -> Bools | None:
        """Where a class fits with no nominated pod there; None when that makes no difference."""
        if "require" not in cls.demands or not self.nominations:
            return None
        with self._without_nominated():
            return self.ranking.feasible(cls).copy()

    @contextmanager
    def _without_nominated(self) -> Iterator[None]:
        with self.snapshot.trial():
            for key in self.nominations:
                if key not in self._lifted and self.snapshot.placed(key) is not None:
                    self.snapshot.forget(key)
            yield


def both(one: Bools | None, other: Bools | None) -> Bools | None:
    """Where both masks allow; None allows everything."""
    if one is None or other is None:
        return other if one is None else one
    return one & other
