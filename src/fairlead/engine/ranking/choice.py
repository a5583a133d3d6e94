"""The choice among the nodes where a pod may go, and its tie-break.

Of equals the first by node name, because that does not depend on the order in which nodes came, so that
two snapshots of one cluster choose alike, and a reader can check it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairlead.engine import rules
from fairlead.engine.ranking import preferences
from fairlead.engine.ranking.kept import NAME_BITS
from fairlead.engine.snapshot.nodes import Bools, Ints, NodeColumns

if TYPE_CHECKING:
    from fairlead.engine.classes import PodClass
    from fairlead.engine.snapshot.snapshot import Snapshot

__all__ = ["best", "choose", "feasible"]


def feasible(snapshot: Snapshot, cls: PodClass) -> Bools:
    """See `Snapshot.feasible`."""
    if rules.rejection(snapshot, cls) is not None:
        return np.zeros(snapshot.nodes.capacity, np.bool_)
    allowed: Bools = snapshot.kept.numbers(cls) >= 0
    crowded = rules.crowded(snapshot, cls)
    return allowed if crowded is None else allowed & ~crowded


def choose(snapshot: Snapshot, cls: PodClass, mask: Bools | None) -> int:
    """See `Snapshot.choose`."""
    if rules.rejection(snapshot, cls) is not None:
        return -1
    numbers = snapshot.kept.numbers(cls)
    crowded = rules.crowded(snapshot, cls)
    liked = preferences.concerning(snapshot, cls)
    if crowded is not None or mask is not None or liked:
        allowed = numbers >= 0
        if crowded is not None:
            allowed &= ~crowded
        if mask is not None:
            allowed &= mask
        if liked:
            scores = (numbers >> NAME_BITS) + preferences.total(liked, snapshot, cls, allowed)
            return best(snapshot.nodes, scores, allowed)
        numbers = np.where(allowed, numbers, -1)
    slot = int(numbers.argmax())
    return slot if numbers[slot] >= 0 else -1


def best(nodes: NodeColumns, scores: Ints, mask: Bools) -> int:
    """The slot with the highest score within the mask; -1: none."""
    slots = np.flatnonzero(mask)
    if not len(slots):
        return -1
    found = scores[slots]
    slots = slots[found == found.max()]
    return int(slots[np.argmin(nodes.rank[slots])])
