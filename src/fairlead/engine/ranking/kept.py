"""What is known of nodes' room for pods of one shape, kept from one choice to the next.

Classes that differ only in what other pods say of them (labels, owner) are of one *shape*: they go by
the same nodes' own word, the same resources and the same room. That is kept per shape as one number per
slot, and a pod that comes or goes changes it at its own slot only, so that a choice costs what happened
since the last one of its shape, whichever classes it happened to. What pods say of other nodes (spread,
affinity, ports, volumes, exclusiveness) is not kept but asked each time.

The number is made so that the largest is the choice: room first, then the nodes' names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairlead.engine import rules
from fairlead.engine.ranking import room
from fairlead.engine.snapshot.nodes import Bools, Ints, Slots

if TYPE_CHECKING:
    from fairlead.engine.classes import PodClass
    from fairlead.engine.snapshot.snapshot import Snapshot

__all__ = ["NAME_BITS", "Kept"]

# A number is room above these bits, and the node's place by name, counted from the end, in them.
NAME_BITS = 24
_LAST = 2**NAME_BITS - 1

# A number of that size for each slot: a few megabytes at five thousand nodes.
_SHAPES_KEPT = 128

# Up to this many changed slots are looked at one by one; for more, vectors are faster.
_FEW = 12


class _Numbers:
    """The numbers of one shape, as of one version of the nodes and one place in the log of changes."""

    __slots__ = ("epoch", "numbers", "read", "suited", "version")

    def __init__(self) -> None:
        self.version = -1
        self.epoch = -1
        self.read = 0
        self.suited: Bools = np.zeros(0, np.bool_)
        self.numbers: Ints = np.zeros(0, np.int64)


class Kept:
    """See the module. Invariant: what is handed out equals what would be found from scratch."""

    __slots__ = ("_by_name", "_named", "_shapes", "_snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._shapes: dict[object, _Numbers] = {}  # the one used last comes last
        self._by_name: Ints = np.zeros(0, np.int64)
        self._named = -1

    def numbers(self, cls: PodClass) -> Ints:
        """Per slot: room, then name; -1 where the node or its resources refuse. Not to be changed."""
        snapshot = self._snapshot
        key = (cls.shape, snapshot.pack)
        kept = self._shapes.pop(key, None)
        if kept is None:
            while len(self._shapes) >= _SHAPES_KEPT:
                del self._shapes[next(iter(self._shapes))]
            kept = _Numbers()
        self._shapes[key] = kept
        changes = snapshot.changes
        if kept.version != snapshot.nodes.version or kept.epoch != changes.epoch:
            self._anew(kept, cls)
        elif kept.read < len(changes.slots):
            self._catch_up(kept, cls, changes.slots[kept.read :])
        else:
            return kept.numbers
        kept.epoch, kept.read = changes.epoch, len(changes.slots)
        return kept.numbers

    def forget(self) -> None:
        """Start from scratch."""
        self._shapes.clear()

    def _anew(self, kept: _Numbers, cls: PodClass) -> None:
        nodes = self._snapshot.nodes
        if self._named != nodes.version:
            self._named = nodes.version
            slots = np.flatnonzero(nodes.alive)
            self._by_name = np.zeros(nodes.capacity, np.int64)
            self._by_name[slots[np.argsort(nodes.rank[slots])]] = _LAST - np.arange(len(slots))
        kept.version = nodes.version
        kept.suited = rules.suited(self._snapshot, cls)
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
                    left = room.left_on(self._snapshot, cls, slot)
                    number = (left << NAME_BITS) + int(self._by_name[slot]) if left >= 0 else -1
                    kept.numbers[slot] = number

    def _of(self, kept: _Numbers, cls: PodClass, slots: Slots | slice) -> Ints:
        left = room.left(self._snapshot, cls, slots)
        numbers = (left << NAME_BITS) + self._by_name[slots]
        return np.where((left >= 0) & kept.suited[slots], numbers, -1)
