"""The choice among the nodes where a pod may go, and its tie-break.

Of equals the first by node name, because that does not depend on the order in which nodes came, so that
two snapshots of one cluster choose alike, and a reader can check it.
"""

from __future__ import annotations

import numpy as np

from fairlead.engine import rules
from fairlead.engine.ranking import headroom, preferences
from fairlead.engine.ranking.headroom import Basis
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.log import UNREAD
from fairlead.engine.snapshot.nodes import Bools, Ints, NodeColumns, Slots
from fairlead.engine.snapshot.snapshot import Snapshot

# A number is room above these bits, and the node's place by name, counted from the end, in them.
NAME_BITS = 24
_LAST = 2**NAME_BITS - 1

# A number of that size for each slot: a few megabytes at five thousand nodes.
_SHAPES_KEPT = 128

# Up to this many changed slots are looked at one by one; for more, vectors are faster.
_FEW = 12


class Ranking:
    """The nodes of a snapshot in the order in which a pod would have them.

    Empty nodes come first, or full ones as long as `basis.pack` is set. What is known of nodes' room is kept
    from one choice to the next, so a snapshot has one ranking for as long as it lives.

    Classes that differ only in what other pods say of them (labels, owner) are of one *shape*: they go by
    the same nodes' own word, the same resources and the same room. That is kept per shape as one number per
    slot, and a pod that comes or goes changes it at its own slot only, so that a choice costs what happened
    since the last one of its shape, whichever classes it happened to. What pods say of other nodes (spread,
    affinity, ports, volumes, exclusiveness) is not kept but asked each time.

    The number is made so that the largest is the choice: room first, then the nodes' names.

    Invariant: what is kept equals what would be found from scratch.

    >>> from fairlead.kube.decode import convert
    >>> from fairlead.kube.node import Node
    >>> from fairlead.kube.pod import Pod
    >>> snapshot = Snapshot()
    >>> slot = snapshot.put_node(convert({"metadata": {"name": "n1"}, "status": {"allocatable":
    ...     {"cpu": "2", "memory": "4Gi", "pods": "10"}}}, Node))
    >>> pod = convert({"metadata": {"name": "a", "namespace": "shop"}, "spec": {"containers": [
    ...     {"resources": {"requests": {"cpu": "1500m"}}}]}}, Pod)
    >>> cls, ranking = snapshot.class_of(pod), Ranking(snapshot)
    >>> snapshot.nodes.name(ranking.choose(cls))
    'n1'
    >>> with snapshot.trial():
    ...     placed = snapshot.assume(pod, slot)
    ...     ranking.choose(cls), rules.verdicts(snapshot, cls).message()
    (-1, '0/1 nodes are available: 1 Insufficient cpu.')
    >>> rules.fits(snapshot, cls, slot)
    True
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.basis = Basis(snapshot.nodes)
        self._shapes: dict[object, _Numbers] = {}  # the one used last comes last
        self._by_name: Ints = np.zeros(0, np.int64)
        self._named = -1

    def feasible(self, cls: PodClass) -> Bools:
        """Per slot: whether a pod of the class may be placed there now."""
        snapshot = self.snapshot
        if rules.rejection(snapshot, cls) is not None:
            return np.zeros(snapshot.nodes.capacity, np.bool_)
        allowed: Bools = self.numbers(cls) >= 0
        crowded = rules.crowded(snapshot, cls)
        return allowed if crowded is None else allowed & ~crowded

    def choose(self, cls: PodClass, mask: Bools | None = None) -> int:
        """The best feasible slot (within the mask), -1 when there is none.

        Ties go to the first by node name: reproducible, and a reader can check it by eye.
        """
        snapshot = self.snapshot
        if rules.rejection(snapshot, cls) is not None:
            return -1
        numbers = self.numbers(cls)
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

    def numbers(self, cls: PodClass) -> Ints:
        """Per slot: room, then name; -1 where the node or its resources refuse. Not to be changed."""
        snapshot = self.snapshot
        key = (cls.shape, self.basis.pack)
        kept = self._shapes.pop(key, None)
        if kept is None:
            while len(self._shapes) >= _SHAPES_KEPT:
                del self._shapes[next(iter(self._shapes))]
            kept = _Numbers()
        self._shapes[key] = kept
        missed = snapshot.changes.since(kept.seen)
        if missed is None or kept.version != snapshot.nodes.version:
            self._anew(kept, cls)
        elif missed:
            self._catch_up(kept, cls, missed)
        kept.seen = snapshot.changes.mark
        return kept.numbers

    def _anew(self, kept: _Numbers, cls: PodClass) -> None:
        nodes = self.snapshot.nodes
        if self._named != nodes.version:
            self._named = nodes.version
            slots = np.flatnonzero(nodes.alive)
            self._by_name = np.zeros(nodes.capacity, np.int64)
            self._by_name[slots[np.argsort(nodes.rank[slots])]] = _LAST - np.arange(len(slots))
        kept.version = nodes.version
        kept.suited = rules.suited(self.snapshot, cls)
        kept.numbers = self._of(kept, cls, slice(None))

    def _catch_up(self, kept: _Numbers, cls: PodClass, slots: list[int]) -> None:
        if len(slots) > len(kept.numbers):
            kept.numbers = self._of(kept, cls, slice(None))
        elif len(slots) > _FEW:
            where = np.array(slots)
            kept.numbers[where] = self._of(kept, cls, where)
        else:
            for slot in slots:
                if kept.suited[slot]:
                    left = headroom.left_on(self.basis, cls, slot)
                    number = (left << NAME_BITS) + int(self._by_name[slot]) if left >= 0 else -1
                    kept.numbers[slot] = number

    def _of(self, kept: _Numbers, cls: PodClass, slots: Slots | slice) -> Ints:
        left = headroom.left(self.basis, cls, slots)
        numbers = (left << NAME_BITS) + self._by_name[slots]
        return np.where((left >= 0) & kept.suited[slots], numbers, -1)


class _Numbers:
    """The numbers of one shape, as of one version of the nodes and one place in the log of changes."""

    def __init__(self) -> None:
        self.version = -1
        self.seen = UNREAD
        self.suited: Bools = np.zeros(0, np.bool_)
        self.numbers: Ints = np.zeros(0, np.int64)


def best(nodes: NodeColumns, scores: Ints, mask: Bools) -> int:
    """The slot with the highest score within the mask; -1: none."""
    slots = np.flatnonzero(mask)
    if not len(slots):
        return -1
    found = scores[slots]
    slots = slots[found == found.max()]
    return int(slots[np.argmin(nodes.rank[slots])])
