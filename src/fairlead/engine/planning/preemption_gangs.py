"""Preemption for a gang: which pods must leave so that all of it fits.

With few candidates (pods, or whole gangs and pods, up to 12) every set is tried in order of its cost,
so the answer is the cheapest. With more, members are placed one by one, each with the cheapest victims
that one pod would take, and then victims that turn out not to be in the way are reprieved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from fairlead.engine import rules
from fairlead.engine.planning.placement import Group, Placement, capacity, place_together
from fairlead.engine.planning.preemption import Makes, Preemption, looks_beyond_node
from fairlead.engine.planning.room import Room, both
from fairlead.engine.planning.victims import (
    EXACT_LIMIT,
    Priced,
    Victim,
    bundles,
    cheapest,
    cheapest_bundles,
    importance,
)
from fairlead.engine.snapshot.nodes import Bools
from fairlead.kube.pod import Pod

# Up to this many victims, members that look beyond their node are asked again for each reprieve.
_ASK_ALL = 50


def offer_to_gang(
    preemption: Preemption, priority: int, groups: Sequence[Group], needed: int, mask: Bools | None
) -> Makes | None:
    """The victims for `needed` members of a gang and where they then go; None when no eviction would help."""
    return _Search(preemption, priority, groups, needed, mask).offer()


@dataclass(frozen=True, slots=True)
class _Search:
    """Looks for what makes room for `needed` of the members within a mask, at their priority."""

    preemption: Preemption
    priority: int
    groups: Sequence[Group]
    needed: int
    mask: Bools | None

    def offer(self) -> Makes | None:
        preemption = self.preemption
        allowed = self._helpful()
        slots = np.flatnonzero(allowed).tolist() if allowed is not None else ()
        candidates = [victim for slot in slots for victim in preemption.lower_on(slot, self.priority)]
        if not candidates:
            return None
        price = partial(preemption.price, priority=self.priority)
        units = bundles(candidates, _whole)
        found: Priced | None = None
        if len(candidates) > EXACT_LIMIT and len(units) > EXACT_LIMIT:
            found = self._greedy()
        elif self._placed_without(candidates) is None:
            return None
        elif len(candidates) <= EXACT_LIMIT:
            found = cheapest(candidates, self._suffices, price, preemption.breaks)
        else:
            found = cheapest_bundles(units, self._suffices, price)
        if found is None:
            return None
        placement = self._placed_without(found[1])
        return Makes(placement, found[1]) if placement is not None else None

    def _suffices(self, leaving: Sequence[Victim]) -> bool:
        return self._placed_without(leaving) is not None

    def _placed_without(self, leaving: Sequence[Victim]) -> Placement | None:
        """Where the members would go with these pods gone."""
        room = self.preemption.room
        with room.snapshot.trial():
            for victim in leaving:
                room.snapshot.forget(victim.key)
            return place_together(room, self.groups, self.needed, self.mask)

    def _helpful(self) -> Bools | None:
        """The nodes where some member would fit by resources with all lower pods gone; None: never enough."""
        snapshot = self.preemption.room.snapshot
        nodes = snapshot.nodes
        free = nodes.alloc - nodes.used + snapshot.used_below(self.priority)
        helpful = np.zeros(nodes.capacity, np.bool_)
        fitting = 0
        for each in self.groups:
            verdicts = rules.verdicts(snapshot, each.cls)
            # Near its own kind a member is refused for now, but not once its kind is there.
            near = "require" in each.cls.demands
            fine = nodes.alive.copy() if near else nodes.alive & ~verdicts.unresolvable
            if self.mask is not None:
                fine &= self.mask
            fitting += min(len(each.pods), capacity(free, each.cls, fine))
            for row, amount in each.cls.row_amounts:
                fine &= free[row] >= amount
            helpful |= fine
        return helpful if fitting >= self.needed else None

    def _greedy(self) -> Priced | None:
        preemption, room = self.preemption, self.preemption.room
        budgets = preemption.budgets
        leaving: list[Victim] = []
        placed: list[tuple[Group, Pod, int]] = []
        touched: dict[int, None] = {}
        found: Priced | None = None
        with room.snapshot.trial():
            for each in self.groups:
                for pod in each.pods[: self.needed - len(placed)]:
                    slot = room.ranking.choose(each.cls, both(self.mask, room.without_nominated(each.cls)))
                    if slot < 0:
                        offer = preemption.best(each.cls, self.priority, self.mask)
                        if offer is None:
                            break
                        slot = offer.slot
                        for victim in offer.victims:
                            room.forget(victim.key)
                            budgets.evicting(victim.pod)
                            touched[victim.slot] = None
                        leaving += offer.victims
                    room.assume(pod, slot, self.priority, each.cls)
                    touched[slot] = None
                    placed.append((each, pod, slot))
            in_the_way = _reprieved(room, leaving, placed) if len(placed) == self.needed else None
            for victim in leaving:
                budgets.settled(victim.pod.metadata.uid)
            if in_the_way is not None:
                found = preemption.price(in_the_way, self.priority)
        room.touch(*touched)
        return found


def _reprieved(
    room: Room, leaving: Sequence[Victim], placed: Sequence[tuple[Group, Pod, int]]
) -> list[Victim]:
    """Which of the leaving pods are really in the way, with the members where they are."""
    on_slot: dict[int, list[tuple[Group, Pod, int]]] = {}
    for member in placed:
        on_slot.setdefault(member[2], []).append(member)
    # Members that look beyond their node must be asked again wherever they are; with many victims
    # that would cost more than the reprieve is worth, so then no victim is reprieved.
    beyond = any(looks_beyond_node(each.cls) for each, _, _ in placed)
    if beyond and len(leaving) > _ASK_ALL:
        return list(leaving)
    kept: dict[str, None] = {}
    for bundle in sorted(bundles(leaving, _whole), key=lambda bundle: min(map(importance, bundle))):
        gone = [room.snapshot.placed(victim.key) is None for victim in bundle]
        if not all(gone):
            continue
        with room.snapshot.trial() as trial:
            for victim in bundle:
                room.snapshot.assume(victim.pod, victim.slot, priority=victim.priority)
            slots = dict.fromkeys(victim.slot for victim in bundle)
            asked = placed if beyond else [member for slot in slots for member in on_slot.get(slot, ())]
            if all(_still_fits(room, *member) for member in asked):
                trial.keep()
                kept.update(dict.fromkeys(victim.key for victim in bundle))
    return [victim for victim in leaving if victim.key not in kept]


def _still_fits(room: Room, each: Group, pod: Pod, slot: int) -> bool:
    placed = room.snapshot.forget(pod.metadata.key)
    fits = room.fits(each.cls, slot)
    room.snapshot.restore(placed)
    return fits


def _whole(gang: str) -> bool:
    """Of a gang, all that are candidates leave together."""
    return True
