"""What becomes of one unit: it fits, it fits once others leave, or it is held with a reason.

First room with nothing evicted, then room counting what lower units hold. Whatever is found is left
placed in the room (for evictions: promised), so the next unit in the order sees it. Least change: a
unit that was promised a place and still fits there takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.engine import rules
from fairlead.engine.planning.placement import Group, Placement, group, place_together
from fairlead.engine.planning.preemption import Makes, Preemption
from fairlead.engine.planning.preemption_gangs import offer_to_gang
from fairlead.engine.planning.room import Nomination, Room, both
from fairlead.engine.planning.steps import Steps
from fairlead.engine.planning.units import Stage, Unit
from fairlead.engine.planning.victims import Victim
from fairlead.engine.ranking.runs import place_run, place_turns
from fairlead.engine.rules.reasons import Ineligible, NotAsked, Unhelped
from fairlead.engine.rules.verdicts import Verdicts
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.nodes import Bools
from fairlead.kube.pod import Pod

__all__ = ["Fits", "Makes", "Outcome", "Planner", "Refused"]


KEPT = "kept for a unit that has waited longer"
"""What a pod is told that would find room, were that not reserved."""


@dataclass(frozen=True, slots=True)
class Fits:
    """There is room: the members are placed (assumed) where `placement` says."""

    placement: Placement


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no room, and none can be made. `rules` are those that stood in the way.

    `preemption`: why none can be made, which kube-scheduler says behind the message; "" for nothing.
    """

    rules: frozenset[str]
    message: str
    preemption: str = ""


Outcome = Fits | Makes | Refused


class Planner:
    """Plans one unit after the other in a room."""

    def __init__(self, room: Room, preemption: Preemption) -> None:
        self.room = room
        self.preemption = preemption

    def run(self, cls: PodClass, units: Sequence[Unit], now: float) -> list[int]:
        """Place single pods of one class and priority in order, evicting none; -1 from the first failure."""
        first = units[0]
        with self.room.seen_by(first.id, first.priority):
            mask = self._mask(first, cls, now)
            slots = place_run(self.room.ranking, cls, [unit.members[0] for unit in units], mask=mask)
        self.room.touch(*slots)
        return slots

    def turns(self, turns: Sequence[tuple[PodClass, Unit]]) -> list[int]:
        """Place single pods of several classes, in order, evicting none; ends before the first that fails.

        Only while nothing is promised or reserved, so that all units see the same room.
        """
        slots = place_turns(self.room.ranking, [(cls, unit.members[0]) for cls, unit in turns])
        self.room.touch(*slots)
        return slots

    def pod(
        self, unit: Unit, cls: PodClass, now: float, *, full: bool = False, preempt: bool = True
    ) -> Steps[Outcome]:
        """Plan a single pod. `full`: it is known that there is no room with nothing evicted."""
        pod = unit.members[0]
        promised = self.room.nominations.get(pod.metadata.key)
        with self.room.seen_by(unit.id, unit.priority):
            mask = self._mask(unit, cls, now)
            slot = -1 if full else self._choose(cls, promised, mask)
            if slot >= 0:
                self.room.clear(pod.metadata.key)
                self.room.assume(pod, slot, unit.priority, cls)
                return Fits(((pod, slot),))
            rejection = rules.rejection(self.room.snapshot, cls)
            offer = None
            if preempt and unit.may_preempt and (rejection is None or rejection.resolvable):
                offer = yield from self.preemption.search(cls, unit.priority, self._open(unit, now))
            yield self._every_node
            if offer is None:
                return self._refused(unit, cls, mask, now, preempt=preempt)
        placement = ((pod, offer.slot),)
        self._nominate(unit, placement)
        return Makes(placement, offer.victims)

    def gangs(self, cls: PodClass, units: Sequence[Unit], now: float) -> list[Placement]:
        """Place gangs of one class and size, in order, evicting none; ends before the first that fails.

        The same as one after the other, only faster; not for members that must be near each other.
        """
        first, size = units[0], units[0].needed
        pods = [pod for unit in units for pod in unit.members]
        with self.room.seen_by(first.id, first.priority):
            mask = self._mask(first, cls, now)
            slots = place_run(self.room.ranking, cls, pods, mask=mask)
        whole = sum(1 for slot in slots if slot >= 0) // size * size
        for pod, slot in zip(pods[whole:], slots[whole:], strict=True):
            if slot >= 0:
                self.room.forget(pod.metadata.key)
        self.room.touch(*slots[:whole])
        return [
            tuple(zip(pods[start : start + size], slots[start : start + size], strict=True))
            for start in range(0, whole, size)
        ]

    def gang(self, unit: Unit, now: float) -> Steps[Outcome]:
        """Plan a gang: as many members as it needs, or none."""
        groups = group(self.room, unit.members)
        mask = self._open(unit, now)
        with self.room.seen_by(unit.id, unit.priority):
            placement = self._as_promised(unit) or place_together(self.room, groups, unit.needed, mask)
            if placement is not None:
                for pod, _ in placement:
                    self.room.clear(pod.metadata.key)
                return Fits(placement)
            yield len(unit.members) + self._every_node
            offer = None
            if unit.may_preempt:
                for each in groups:
                    yield from self.preemption.prepare(each.cls, unit.priority)
                offer = offer_to_gang(self.preemption, unit.priority, groups, unit.needed, mask)
                yield 10 * len(unit.members) + self._every_node
            if offer is None:
                return self._gang_refused(unit, groups, mask, now)
        self._nominate(unit, offer.placement)
        return offer

    @property
    def _every_node(self) -> int:
        """The work of looking at every node for one class."""
        return 10 + self.room.snapshot.nodes.count // 20

    def holds(self, placement: Placement, victims: Sequence[Victim], unit: Unit) -> bool:
        """Whether a placement is good once the victims that remain are gone: what evictions rest on."""
        snapshot = self.room.snapshot
        for pod, slot in placement:
            promise = self.room.nominations.get(pod.metadata.key)
            # A slot outlives its node: the promise knows the node's name.
            if promise is None or snapshot.nodes.slot(promise.node) != slot:
                return False
        with self.room.seen_by(unit.id, unit.priority), snapshot.trial():
            for victim in victims:
                there = snapshot.placed(victim.key)
                if there is not None and there.pod.metadata.uid == victim.pod.metadata.uid:
                    snapshot.forget(victim.key)
            return self._place_exactly(placement) is not None

    def _choose(self, cls: PodClass, promised: Nomination | None, mask: Bools | None) -> int:
        if promised is not None:
            slot = self.room.snapshot.nodes.slot(promised.node)
            if slot >= 0 and (mask is None or mask[slot]) and self.room.fits(cls, slot):
                return slot
        return self.room.ranking.choose(cls, mask)

    def _as_promised(self, unit: Unit) -> Placement | None:
        promised = {one.pod.metadata.uid: one for one in self.room.promised_to(unit.id)}
        nodes = self.room.snapshot.nodes
        placement = tuple(
            (pod, nodes.slot(promised[pod.metadata.uid].node))
            for pod in unit.members
            if pod.metadata.uid in promised
        )
        if len(placement) < unit.needed or any(slot < 0 for _, slot in placement):
            return None
        with self.room.snapshot.trial() as trial:
            found = self._place_exactly(placement)
            if found is not None:
                trial.keep()
        if found is not None:
            self.room.touch(*(slot for _, slot in found))
        return found

    def _place_exactly(self, placement: Placement) -> Placement | None:
        """Place pods where they are meant to go, in whichever order works; inside a trial."""
        left = list(placement)
        while left:
            # Members may need each other near: one that fits only after another has its turn again.
            later = []
            for pod, slot in left:
                cls = self.room.snapshot.class_of(pod)
                if self.room.fits(cls, slot):
                    self.room.snapshot.assume(pod, slot, cls=cls)
                else:
                    later.append((pod, slot))
            if len(later) == len(left):
                return None
            left = later
        return placement

    def _mask(self, unit: Unit, cls: PodClass, now: float) -> Bools | None:
        return both(self._open(unit, now), self.room.without_nominated(cls))

    def _open(self, unit: Unit, now: float) -> Bools | None:
        return self.room.open_to(
            unit.id, unit.priority, unit.deadline_s, now, runs=unit.rank[1] == Stage.RUNS
        )

    def _nominate(self, unit: Unit, placement: Placement) -> None:
        for pod, slot in placement:
            node = self.room.snapshot.nodes.name(slot)
            self.room.nominate(Nomination(pod, node, unit.priority, unit.id))

    def _refused(
        self, unit: Unit, cls: PodClass, mask: Bools | None, now: float, *, preempt: bool = True
    ) -> Refused:
        verdicts = rules.verdicts(self.room.snapshot, cls)
        message = verdicts.message()
        preemption = ""
        if message is None:
            closed = "all nodes with room" if mask is not None else "nodes with room"
            message = f"{closed} are {KEPT}"
        elif self.room.snapshot.nodes.count:
            preemption = self._unhelped(unit, cls, verdicts, now, preempt=preempt)
        refusing = np.unique(verdicts.first[self.room.snapshot.nodes.alive & (verdicts.first >= 0)])
        names = (*verdicts.rules, "NodeAffinity")
        return Refused(frozenset(names[index] for index in refusing.tolist()), message, preemption)

    def _unhelped(self, unit: Unit, cls: PodClass, verdicts: Verdicts, now: float, *, preempt: bool) -> str:
        """What is said of preemption behind the verdicts' message."""
        nodes = self.room.snapshot.nodes.count
        if verdicts.rejection is not None and not verdicts.rejection.resolvable:
            return "" if verdicts.rejection.own else str(NotAsked())
        if not unit.may_preempt:
            return str(Unhelped(nodes, ineligible=Ineligible.NEVER))
        if not preempt:
            return str(Unhelped(nodes, ineligible=Ineligible.VICTIMS_LEAVING))
        open_to = self._open(unit, now)
        found = self.preemption.unhelped(cls, unit.priority, verdicts, open_to=open_to, whole=unit.whole)
        return str(found)

    def _gang_refused(self, unit: Unit, groups: Sequence[Group], mask: Bools | None, now: float) -> Refused:
        """Which members would fit, and what stops the next one."""
        snapshot = self.room.snapshot
        fitting: list[Pod] = []
        with snapshot.trial():
            for each in groups:
                slots = place_run(self.room.ranking, each.cls, each.pods, mask=mask)
                fitting += [pod for pod, slot in zip(each.pods, slots, strict=True) if slot >= 0]
            stuck = next((each for each in groups if each.pods[-1] not in fitting), groups[0])
            refused = self._refused(unit, stuck.cls, mask, now)
        message = f"{len(fitting)} of {unit.needed} members fit; {refused.message}"
        return Refused(refused.rules, message, refused.preemption)
