"""Placing several pods together: all that are needed, or none.

The search is deterministic and tries a few ways in turn: as ranking likes it, then packed (which
leaves larger holes), then, for pods that must be near each other, domain by domain, because the first
pod may otherwise pick a domain that has no room for the rest. The class that is hardest to place goes
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.engine.planning.room import Room, both
from fairlead.engine.ranking.runs import place_run
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.nodes import Bools, Ints
from fairlead.kube.pod import Pod

# Pods and the slots they go to.
Placement = tuple[tuple[Pod, int], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Pods of one class."""

    cls: PodClass
    pods: tuple[Pod, ...]


def group(room: Room, pods: Sequence[Pod]) -> list[Group]:
    """Pods by class; classes in the order of their first pod."""
    if len(pods) == 1:
        return [Group(room.snapshot.class_of(pods[0]), (pods[0],))]
    found: dict[int, tuple[PodClass, list[Pod]]] = {}
    for pod in pods:
        cls = room.snapshot.class_of(pod)
        found.setdefault(cls.serial, (cls, []))[1].append(pod)
    return [Group(cls, tuple(members)) for cls, members in found.values()]


def place_together(room: Room, groups: Sequence[Group], needed: int, mask: Bools | None) -> Placement | None:
    """Place `needed` of the pods, and leave them placed; None, and nothing placed, otherwise."""
    ranking = room.ranking
    if len(groups) > 1:
        groups = sorted(groups, key=lambda each: _ease(room, each))
    for tries, (within, pack) in enumerate(_ways(room, groups)):
        if tries == 1 and not _may_fit(room, groups, needed, mask):
            return None
        usual = ranking.basis.pack
        ranking.basis.pack = pack
        try:
            found = _attempt(room, groups, needed, both(mask, within))
        finally:
            ranking.basis.pack = usual
        if found is not None:
            return found
    return None


def capacity(free: Ints, cls: PodClass, allowed: Bools) -> int:
    """How many pods of the class the free amounts (rows by slots) have room for; nothing else is asked."""
    room_for: Ints | None = None
    for row, amount in cls.row_amounts:
        if amount > 0:
            here = free[row][allowed] // amount
            room_for = here if room_for is None else np.minimum(room_for, here)
    return int(np.maximum(room_for, 0).sum()) if room_for is not None else 0


def _ease(room: Room, each: Group) -> tuple[int, int]:
    """Sorts the hardest to place first: the fewest nodes to choose from, then the largest request."""
    nodes = int(np.count_nonzero(room.ranking.feasible(each.cls)))
    return nodes, -largest_request(each.cls)


def largest_request(cls: PodClass) -> int:
    """How much the class asks for of what it asks most for: the more, the harder it is to place."""
    return max((amount for _, amount in cls.row_amounts[:-1]), default=0)


def _attempt(room: Room, groups: Sequence[Group], needed: int, mask: Bools | None) -> Placement | None:
    snapshot = room.snapshot
    placed: list[tuple[Pod, int]] = []
    left = sum(len(each.pods) for each in groups)
    with snapshot.trial() as trial:
        for each in groups:
            within = both(mask, room.without_nominated(each.cls))
            pods = each.pods[: needed - len(placed)]
            slots = place_run(room.ranking, each.cls, pods, mask=within)
            placed += [(pod, slot) for pod, slot in zip(pods, slots, strict=True) if slot >= 0]
            left -= len(each.pods)
            if len(placed) + left < needed:
                return None
        trial.keep()
    room.touch(*(slot for _, slot in placed))
    return tuple(placed)


def _ways(room: Room, groups: Sequence[Group]) -> Iterator[tuple[Bools | None, bool]]:
    yield None, room.ranking.basis.pack
    if sum(len(each.pods) for each in groups) > 1:
        yield None, not room.ranking.basis.pack
    for key in _mutual_keys(groups):
        column = room.snapshot.nodes.column(key)
        for _, value in sorted((value, index) for index, value in enumerate(column.values)):
            within = column.ids == value
            yield within, room.ranking.basis.pack
            yield within, not room.ranking.basis.pack


def _mutual_keys(groups: Sequence[Group]) -> list[str]:
    """The topologies over which the pods must be near each other."""
    keys: dict[str, None] = {}
    for each in groups:
        tally = each.cls.own.affinity
        if tally is not None and any(other.cls.is_counted_by(tally) for other in groups):
            keys.update(dict.fromkeys(each.cls.own.affinity_keys))
    return list(keys)


def _may_fit(room: Room, groups: Sequence[Group], needed: int, mask: Bools | None) -> bool:
    """A cheap bound: whether resources alone, class by class, leave room for enough of the pods."""
    nodes = room.snapshot.nodes
    allowed = nodes.alive if mask is None else nodes.alive & mask
    free = nodes.alloc - nodes.used
    return sum(min(len(each.pods), capacity(free, each.cls, allowed)) for each in groups) >= needed
