"""Preemption for a gang: who must leave so that all of it fits.

With few candidates (pods, or whole gangs and pods, up to 12) every set is tried in order of its cost,
so the answer is the cheapest. With more, members are placed one by one, each with the cheapest victims
that one pod would take, and then victims that turn out not to be in the way are reprieved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.engine.placement import Group, Placement, capacity, place_together
from fairlead.engine.preemption import Preemption, looks_beyond_node
from fairlead.engine.room import Room, both
from fairlead.engine.snapshot.nodes import Bools
from fairlead.engine.victims import EXACT_LIMIT, Cost, Victim, cheapest, cheapest_bundles, importance
from fairlead.kube.pod import Pod

__all__ = ["GangOffer", "offer_to_gang"]


# Up to this many victims, members that look beyond their node are asked again for each reprieve.
_ASK_ALL = 50


@dataclass(frozen=True, slots=True)
class GangOffer:
    """Where the members go once the victims have left."""

    placement: Placement
    cost: Cost
    victims: tuple[Victim, ...]


def offer_to_gang(
    room: Room,
    preemption: Preemption,
    priority: int,
    groups: Sequence[Group],
    needed: int,
    *,
    mask: Bools | None,
) -> GangOffer | None:
    """The victims for `needed` members of a gang and where they then go; None when no eviction would help."""
    allowed = _helpful(room, priority, groups, needed, mask)
    if allowed is None:
        return None
    candidates = [
        victim for slot in np.flatnonzero(allowed).tolist() for victim in preemption.lower_on(slot, priority)
    ]
    if not candidates:
        return None

    def suffices(leaving: Sequence[Victim]) -> bool:
        with room.snapshot.trial():
            _remove(room, leaving)
            return place_together(room, groups, needed, mask) is not None

    def price(chosen: Sequence[Victim]) -> tuple[Cost, tuple[Victim, ...]] | None:
        return preemption.price(chosen, priority)

    bundles = _bundles(candidates)
    found: tuple[Cost, tuple[Victim, ...]] | None
    if len(candidates) <= EXACT_LIMIT:
        found = cheapest(candidates, suffices, price, preemption.breaks) if suffices(candidates) else None
    elif len(bundles) <= EXACT_LIMIT:
        found = cheapest_bundles(bundles, suffices, price) if suffices(candidates) else None
    else:
        found = _greedy(room, preemption, priority, groups, needed, mask=mask)
    if found is None:
        return None
    with room.snapshot.trial():
        _remove(room, found[1])
        placement = place_together(room, groups, needed, mask)
    return GangOffer(placement, *found) if placement is not None else None


def _helpful(
    room: Room, priority: int, groups: Sequence[Group], needed: int, mask: Bools | None
) -> Bools | None:
    """The nodes where some member would fit by resources with all lower pods gone; None: never enough."""
    snapshot, nodes = room.snapshot, room.snapshot.nodes
    free = nodes.alloc - nodes.used + snapshot.used_below(priority)
    helpful = np.zeros(nodes.capacity, np.bool_)
    fitting = 0
    for each in groups:
        verdicts = snapshot.verdicts(each.cls)
        # Near its own kind a member is refused for now, but not once its kind is there.
        fine = nodes.alive.copy() if each.cls.affinity is not None else nodes.alive & ~verdicts.unresolvable
        if mask is not None:
            fine &= mask
        fitting += min(len(each.pods), capacity(free, each.cls, fine))
        for row, amount in each.cls.row_amounts:
            fine &= free[row] >= amount
        helpful |= fine
    return helpful if fitting >= needed else None


def _bundles(candidates: Sequence[Victim]) -> list[tuple[Victim, ...]]:
    """Candidates by unit: a gang's together, pods alone."""
    found: dict[str, list[Victim]] = {}
    for victim in candidates:
        found.setdefault(f"gang:{victim.gang}" if victim.gang else f"pod:{victim.key}", []).append(victim)
    return [tuple(victims) for victims in found.values()]


def _greedy(
    room: Room,
    preemption: Preemption,
    priority: int,
    groups: Sequence[Group],
    needed: int,
    *,
    mask: Bools | None,
) -> tuple[Cost, tuple[Victim, ...]] | None:
    snapshot, budgets = room.snapshot, preemption.budgets
    leaving: list[Victim] = []
    placed: list[tuple[Group, Pod, int]] = []
    touched: dict[int, None] = {}
    found: tuple[Cost, tuple[Victim, ...]] | None = None
    with snapshot.trial():
        for each in groups:
            for pod in each.pods[: needed - len(placed)]:
                within = both(mask, room.without_nominated(each.cls))
                slot = snapshot.choose(each.cls, within)
                if slot < 0:
                    offer = preemption.best(each.cls, priority, mask)
                    if offer is None:
                        break
                    slot = offer.slot
                    for victim in offer.victims:
                        room.forget(victim.key)
                        budgets.evicting(victim.pod)
                        touched[victim.slot] = None
                    leaving += offer.victims
                room.assume(pod, slot, priority, each.cls)
                touched[slot] = None
                placed.append((each, pod, slot))
        if len(placed) == needed:
            in_the_way = _reprieved(room, leaving, placed)
            for victim in leaving:
                budgets.settled(victim.pod.metadata.uid)
            found = preemption.price(in_the_way, priority)
    for victim in leaving:
        budgets.settled(victim.pod.metadata.uid)
    for slot in touched:
        room.touch(slot)
    return found


def _reprieved(
    room: Room, leaving: Sequence[Victim], placed: Sequence[tuple[Group, Pod, int]]
) -> list[Victim]:
    """Who of those leaving is really in the way, with the members where they are."""
    on_slot: dict[int, list[tuple[Group, Pod, int]]] = {}
    for member in placed:
        on_slot.setdefault(member[2], []).append(member)
    # Members that look beyond their node must be asked again wherever they are; with many victims
    # that would cost more than the reprieve is worth, so then no victim is reprieved.
    beyond = any(looks_beyond_node(each.cls) for each, _, _ in placed)
    if beyond and len(leaving) > _ASK_ALL:
        return list(leaving)
    kept: dict[str, None] = {}
    for bundle in sorted(_bundles(leaving), key=lambda bundle: min(map(importance, bundle))):
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


def _remove(room: Room, leaving: Sequence[Victim]) -> None:
    for victim in leaving:
        room.snapshot.forget(victim.key)
