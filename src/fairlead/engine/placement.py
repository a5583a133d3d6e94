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

from fairlead.engine.classes import PodClass
from fairlead.engine.room import Room, both
from fairlead.engine.snapshot.nodes import Bools, Ints
from fairlead.kube.pod import Pod

__all__ = ["Group", "Placement", "capacity", "group", "place_together"]

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
    snapshot = room.snapshot
    if len(groups) > 1:
        groups = sorted(groups, key=lambda each: _ease(room, each))
    for tries, (within, pack) in enumerate(_ways(room, groups)):
        if tries == 1 and not _may_fit(room, groups, needed, mask):
            return None
        usual = snapshot.pack
        snapshot.pack = pack
        try:
            found = _attempt(room, groups, needed, both(mask, within))
        finally:
            snapshot.pack = usual
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
    nodes = int(np.count_nonzero(room.snapshot.feasible(each.cls)))
    return nodes, -int(each.cls.amounts[:-1].max(initial=0))


def _attempt(room: Room, groups: Sequence[Group], needed: int, mask: Bools | None) -> Placement | None:
    snapshot = room.snapshot
    placed: list[tuple[Pod, int]] = []
    left = sum(len(each.pods) for each in groups)
    with snapshot.trial() as trial:
        for each in groups:
            within = both(mask, room.without_nominated(each.cls))
            pods = each.pods[: needed - len(placed)]
            slots = snapshot.place_run(each.cls, pods, mask=within)
            placed += [(pod, slot) for pod, slot in zip(pods, slots, strict=True) if slot >= 0]
            left -= len(each.pods)
            if len(placed) + left < needed:
                return None
        trial.keep()
    for _, slot in placed:
        room.touch(slot)
    return tuple(placed)


def _ways(room: Room, groups: Sequence[Group]) -> Iterator[tuple[Bools | None, bool]]:
    yield None, room.snapshot.pack
    if sum(len(each.pods) for each in groups) > 1:
        yield None, not room.snapshot.pack
    for key in _mutual_keys(groups):
        column = room.snapshot.nodes.column(key)
        for _, value in sorted((value, index) for index, value in enumerate(column.values)):
            within = column.ids == value
            yield within, room.snapshot.pack
            yield within, not room.snapshot.pack


def _mutual_keys(groups: Sequence[Group]) -> list[str]:
    """The topologies over which the pods must be near each other."""
    keys: dict[str, None] = {}
    for each in groups:
        tally = each.cls.affinity
        if tally is not None and any(other.cls.is_counted_by(tally) for other in groups):
            keys.update(dict.fromkeys(each.cls.affinity_keys))
    return list(keys)


def _may_fit(room: Room, groups: Sequence[Group], needed: int, mask: Bools | None) -> bool:
    """A cheap bound: whether resources alone, class by class, leave room for enough of the pods."""
    nodes = room.snapshot.nodes
    allowed = nodes.alive if mask is None else nodes.alive & mask
    free = nodes.alloc - nodes.used
    return sum(min(len(each.pods), capacity(free, each.cls, allowed)) for each in groups) >= needed
