"""Nodes as columns: one slot per node, one row per resource, one column per label that a rule reads.

A slot is stable while its node lives and is reused after it. What depends on slot numbers therefore
never decides anything: ties go by `rank`, which follows the nodes' names, so that two snapshots of one
cluster decide alike whatever the order in which its nodes came.
"""

from __future__ import annotations

import bisect
import weakref
from collections.abc import Collection, Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fairlead.engine.snapshot.index import bump
from fairlead.engine.snapshot.log import Log
from fairlead.engine.snapshot.requests import CPU, EPHEMERAL, MEMORY, PODS, allocatable, is_tracked
from fairlead.kube.node import Node
from fairlead.kube.tolerations import Taint

__all__ = [
    "ABSENT_ROW",
    "CPU_ROW",
    "EPHEMERAL_ROW",
    "MEMORY_ROW",
    "PODS_ROW",
    "Bools",
    "Ints",
    "LabelColumn",
    "NodeColumns",
]

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Slots = npt.NDArray[np.intp]

# The last stands for every resource that no node has: nothing is there, so nothing is ever enough.
CPU_ROW, MEMORY_ROW, EPHEMERAL_ROW, PODS_ROW, ABSENT_ROW = range(5)

_FIRST_CAPACITY = 64
_RANK_GAP = 2**20
# How many node changes a mask may catch up with one by one; beyond it a mask is rebuilt.
_LOG_LIMIT = 4096


class Follower(Protocol):
    """Something that keeps an array with one item per slot."""

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` slots."""


class LabelColumn:
    """The values of one label key: `ids[slot]` is -1 where the node lacks the key.

    `version` counts changes to ids, for caches of what follows from them.
    """

    __slots__ = ("ids", "index", "key", "values", "version")

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self.ids: Ids = np.full(capacity, -1, np.int32)
        self.values: list[str] = []
        self.index: dict[str, int] = {}
        self.version = 0

    def set(self, slot: int, value: str | None) -> None:
        """Give a slot its value."""
        self.version += 1
        if value is None:
            self.ids[slot] = -1
            return
        found = self.index.get(value)
        if found is None:
            found = self.index[value] = len(self.values)
            self.values.append(value)
        self.ids[slot] = found

    def compact(self) -> None:
        """Forget values that no node has any more."""
        old = self.values
        self.values, self.index = [], {}
        for slot in np.flatnonzero(self.ids >= 0).tolist():
            self.set(slot, old[self.ids[slot]])


class NodeColumns:
    """All nodes. `alive[slot]` tells which slots hold a node; all columns have `capacity` items.

    Invariant: `log` notes every slot whose node changed.
    """

    def __init__(self) -> None:
        self.capacity = _FIRST_CAPACITY
        self.count = 0
        # Rows by resource, for resources that some node has, or had not long ago: a pod may ask for
        # anything.
        self.resources: dict[str, int] = {
            CPU: CPU_ROW,
            MEMORY: MEMORY_ROW,
            EPHEMERAL: EPHEMERAL_ROW,
            PODS: PODS_ROW,
        }
        self.alloc: Ints = np.zeros((ABSENT_ROW + 1, self.capacity), np.int64)
        self.used: Ints = np.zeros((ABSENT_ROW + 1, self.capacity), np.int64)
        self.ranked: Ints = np.zeros((2, self.capacity), np.int64)
        self.alive: Bools = np.zeros(self.capacity, np.bool_)
        self.unschedulable: Bools = np.zeros(self.capacity, np.bool_)
        self.taint_set: Ids = np.zeros(self.capacity, np.int32)
        self.rank: Ints = np.zeros(self.capacity, np.int64)
        self.nodes: list[Node | None] = [None] * self.capacity
        # Distinct sets of taints, by `taint_set`; renumbered when `taint_epoch` changes.
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.taint_epoch = 0
        self.log: Log[int] = Log(_LOG_LIMIT)
        self.version = 0
        self._rows = ABSENT_ROW + 1  # that have ever been given to a resource, and the absent one
        self._free_rows: list[int] = []
        self._slot_of: dict[str, int] = {}
        self._free = list(range(self.capacity - 1, -1, -1))
        self._taint_index: dict[tuple[Taint, ...], int] = {(): 0}
        self._columns: dict[str, LabelColumn] = {}
        # How many nodes have a label key.
        self._keys: dict[str, int] = {}
        self._by_name: list[str] = []
        self._names: list[str] = [""] * self.capacity
        self._followers: weakref.WeakSet[Follower] = weakref.WeakSet()

    # Reading

    def slot(self, name: str) -> int:
        """The slot of a node, -1 when there is no such node."""
        return self._slot_of.get(name, -1)

    def name(self, slot: int) -> str:
        """The name of the node in a slot that holds one."""
        return self._names[slot]

    def node(self, slot: int) -> Node:
        """The node in a slot that holds one."""
        node = self.nodes[slot]
        if node is None:
            raise KeyError(f"no node in slot {slot}")
        return node

    def slots(self) -> list[int]:
        """All nodes' slots, in the order of their names."""
        return [self._slot_of[name] for name in self._by_name]

    def named(self, names: Iterable[str]) -> Bools:
        """Per slot: whether its node is one of these."""
        found = np.zeros(self.capacity, np.bool_)
        found[[slot for slot in map(self.slot, names) if slot >= 0]] = True
        return found

    def column(self, key: str) -> LabelColumn:
        """The column of a label key, built when first asked for and kept up to date from then on.

        That of a key that no node has is empty and not kept: pods may ask for any number of them.
        """
        column = self._columns.get(key)
        if column is None:
            column = LabelColumn(key, self.capacity)
            if key not in self._keys:
                return column
            self._columns[key] = column
            for slot in np.flatnonzero(self.alive).tolist():
                value = self.node(slot).metadata.labels.get(key)
                if value is not None:
                    column.set(slot, value)
        return column

    def keys_among(self, keys: Collection[str]) -> list[str]:
        """Those of the label keys that some node has, whichever are fewer being gone through."""
        if len(keys) <= len(self._keys):
            return [key for key in keys if key in self._keys]
        return [key for key in self._keys if key in keys]

    def row(self, resource: str) -> int:
        """The row of a resource; `ABSENT_ROW` when no node has it."""
        return self.resources.get(resource, ABSENT_ROW)

    def lacks_rows(self, node: Node) -> bool:
        """Whether a node has more new resources than there are rows to spare."""
        known = self.resources
        new = sum(1 for name in node.status.allocatable if name not in known and is_tracked(name))
        return new > len(self.alloc) - self._rows + len(self._free_rows)

    def follow(self, follower: Follower) -> None:
        """Keep a per-slot array as long as the columns; only a weak reference is kept."""
        self._followers.add(follower)

    # Changing

    def put(self, node: Node) -> int:
        """Add or replace a node; only its slot changes. Raises BadObject and changes nothing on bad input."""
        name = node.metadata.name
        amounts = allocatable(name, node.status.allocatable)
        self._add_rows([resource for resource in amounts if resource not in self.resources])
        slot = self._slot_of.get(name, -1)
        if slot < 0:
            slot = self._occupy(name)
        self._count_keys(self.nodes[slot], -1)
        self._count_keys(node, 1)
        self.nodes[slot] = node
        self.alloc[:, slot] = 0
        for resource, amount in amounts.items():
            self.alloc[self.resources[resource], slot] = amount
        self.unschedulable[slot] = node.spec.unschedulable
        self.taint_set[slot] = self._taint_set(node.spec.taints)
        for key, column in self._columns.items():
            value = node.metadata.labels.get(key)
            if (column.values[column.ids[slot]] if column.ids[slot] >= 0 else None) != value:
                column.set(slot, value)
        self._changed(slot)
        return slot

    def remove(self, name: str) -> int:
        """Free a node's slot; the slot's use is the caller's to clear. Returns the slot, -1 if unknown."""
        slot = self._slot_of.pop(name, -1)
        if slot < 0:
            return -1
        self._by_name.pop(bisect.bisect_left(self._by_name, name))
        self.alive[slot] = False
        self._count_keys(self.nodes[slot], -1)
        self.nodes[slot] = None
        self.count -= 1
        self.alloc[:, slot] = 0
        self.unschedulable[slot] = False
        self.taint_set[slot] = 0
        for column in self._columns.values():
            column.set(slot, None)
        self._free.append(slot)
        self._forget_old_values()
        self._changed(slot)
        return slot

    def forget_resources(self) -> dict[str, int]:
        """Give up the rows of extended resources that no node has any more; which those were.

        What is in use of them is the caller's to move before a node comes: their rows are used again.
        """
        gone = {
            name: row
            for name, row in self.resources.items()
            if row > ABSENT_ROW and not self.alloc[row].any()
        }
        for name, row in gone.items():
            del self.resources[name]
            self._free_rows.append(row)
        return gone

    def _add_rows(self, resources: list[str]) -> None:
        if not resources:
            return
        for resource in resources:
            if self._free_rows:
                self.resources[resource] = self._free_rows.pop()
            else:
                self.resources[resource] = self._rows
                self._rows += 1
        missing = self._rows - len(self.alloc)
        if missing > 0:
            # Some to spare, so that nodes with a resource of their own each do not copy all each time.
            more = ((0, max(missing, len(self.alloc) // 4)), (0, 0))
            self.alloc = np.pad(self.alloc, more)
            self.used = np.pad(self.used, more)

    def _count_keys(self, node: Node | None, sign: int) -> None:
        for key in node.metadata.labels if node is not None else ():
            bump(self._keys, key, sign)

    def _changed(self, slot: int) -> None:
        self.version += 1
        self.log.note(slot)

    def _forget_old_values(self) -> None:
        # Nodes come and go with names, and taints with timestamps, that never come back.
        limit = 2 * self.count + _FIRST_CAPACITY
        for column in self._columns.values():
            if len(column.values) > limit:
                column.compact()
        if len(self.taint_sets) > limit:
            self.taint_sets, self._taint_index = [()], {(): 0}
            self.taint_epoch += 1
            for slot in np.flatnonzero(self.alive).tolist():
                self.taint_set[slot] = self._taint_set(self.node(slot).spec.taints)

    def _taint_set(self, taints: tuple[Taint, ...]) -> int:
        found = self._taint_index.get(taints)
        if found is None:
            found = self._taint_index[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return found

    def _occupy(self, name: str) -> int:
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self._slot_of[name] = slot
        self._names[slot] = name
        self.alive[slot] = True
        self.count += 1
        place = bisect.bisect_left(self._by_name, name)
        self._by_name.insert(place, name)
        self._rank(place)
        return slot

    def _rank(self, place: int) -> None:
        """Give the name at `place` a number between its neighbours'; renumber all when none is left."""
        names = self._by_name
        low = int(self.rank[self._slot_of[names[place - 1]]]) if place else None
        high = int(self.rank[self._slot_of[names[place + 1]]]) if place + 1 < len(names) else None
        if low is None:
            low = high - 2 * _RANK_GAP if high is not None else -_RANK_GAP
        if high is None:
            high = low + 2 * _RANK_GAP
        if high - low < 2:
            for index, name in enumerate(names):
                self.rank[self._slot_of[name]] = index * _RANK_GAP
        else:
            self.rank[self._slot_of[names[place]]] = (low + high) // 2

    def _grow(self) -> None:
        # Every question looks at all slots, so room to spare is not free; an eighth more at a time is.
        old = self.capacity
        more = max(_FIRST_CAPACITY, old // 8)
        self.capacity = old + more
        self.alloc = np.pad(self.alloc, ((0, 0), (0, more)))
        self.used = np.pad(self.used, ((0, 0), (0, more)))
        self.ranked = np.pad(self.ranked, ((0, 0), (0, more)))
        self.alive = np.pad(self.alive, (0, more))
        self.unschedulable = np.pad(self.unschedulable, (0, more))
        self.taint_set = np.pad(self.taint_set, (0, more))
        self.rank = np.pad(self.rank, (0, more))
        self.nodes += [None] * more
        self._names += [""] * more
        self._free = list(range(self.capacity - 1, old - 1, -1))
        for column in self._columns.values():
            column.ids = np.pad(column.ids, (0, more), constant_values=-1)
        for follower in list(self._followers):
            follower.grow(self.capacity)
