"""How much room a node has left, and how evenly: least (or most) allocated, and balance.

Both look at cpu and memory as they would be with the pod on the node:

    least allocated = mean over both of FULL * (alloc - taken) / alloc      (most: FULL * taken / alloc)
    balance         = FULL - |share of cpu - share of memory| / 2           (shares in parts of FULL)
    room            = least (or most) + 1/2 FULL + (1/2 FULL + balance with the pod - balance without) / 2

kube-scheduler's formulas on a finer scale (FULL is 10000 where it has 100), because ties there are
broken at random and here by name. The first counts an assumed minimum for containers that ask for
nothing, the second what is really asked; a resource the node lacks is left out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.nodes import CPU_ROW, MEMORY_ROW, Bools, Ints, NodeColumns, Slots

Doubles = npt.NDArray[np.float64]

FULL = 10_000
_HALF = FULL // 2

# Memory is ranked in units of 1 MiB: a difference below that is none, and products stay inside int64.
_MEMORY_SHIFT = 20

# How many pods ahead a single node is looked at.
_AHEAD = 16


def left(basis: Basis, cls: PodClass, slots: Slots | slice) -> Ints:
    """Room for one more pod of the class, -1 where resources lack."""
    nodes = basis.nodes
    rooms = _rooms(basis, cls, slots, 0)
    for row, amount in cls.row_amounts:
        rooms[nodes.alloc[row][slots] - nodes.used[row][slots] < amount] = -1
    return rooms


def left_on(basis: Basis, cls: PodClass, slot: int) -> int:
    """The same for one slot, without the cost of vectors. A test holds the two to each other."""
    nodes, requests = basis.fresh().nodes, cls.requests
    alloc, used = nodes.alloc, nodes.used
    more_cpu = more_memory = 0
    for row, amount in cls.row_amounts:
        if alloc.item(row, slot) - used.item(row, slot) < amount:
            return -1
        if row == CPU_ROW:
            more_cpu = amount
        elif row == MEMORY_ROW:
            more_memory = amount
    cpu, memory = basis.cpu.item(slot), basis.memory.item(slot)
    by_cpu, by_memory = float(cpu or 1), float(memory or 1)
    taken_cpu = nodes.ranked.item(0, slot) + requests.ranked_cpu_milli
    taken_memory = (nodes.ranked.item(1, slot) + requests.ranked_memory) >> _MEMORY_SHIFT
    if basis.pack:
        total = int(FULL * taken_cpu / by_cpu) if taken_cpu <= cpu else 0
        total += int(FULL * taken_memory / by_memory) if taken_memory <= memory else 0
    else:
        total = int(FULL * max(cpu - taken_cpu, 0) / by_cpu)
        total += int(FULL * max(memory - taken_memory, 0) / by_memory)
    both = cpu > 0 and memory > 0
    total >>= both
    if more_cpu or more_memory:
        better = 0
        if both:
            used_cpu, used_memory = used.item(CPU_ROW, slot), used.item(MEMORY_ROW, slot)
            better = _gap_on(used_cpu, by_cpu, used_memory, by_memory)
            better -= _gap_on(used_cpu + more_cpu, by_cpu, used_memory + more_memory, by_memory)
        total += (better + _HALF >> 1) + _HALF
    return total


def table(basis: Basis, cls: PodClass, slots: Slots, first: int, levels: int) -> Ints:
    """Room for the next pod when some of the class were already added, -1 where it does not fit.

    Row i is for ``first + i`` pods added, column j for ``slots[j]``. Only what the pods themselves take
    is imagined; nothing is placed.
    """
    nodes = basis.nodes
    added = np.arange(first, first + levels, dtype=np.int64)[:, None]
    fits: Bools = np.ones((levels, len(slots)), np.bool_)
    for row, amount in cls.row_amounts:
        free = nodes.alloc[row][slots] - nodes.used[row][slots]
        fits &= free >= (added + 1) * amount
    return np.where(fits, _rooms(basis, cls, slots, added), -1)


class Basis:
    """What ranking reads of nodes' sizes, kept until a node changes. `pack`: full nodes are better."""

    def __init__(self, nodes: NodeColumns) -> None:
        self.nodes = nodes
        self.pack = False
        self._version = -1

    def fresh(self) -> Basis:
        """Itself, up to date."""
        nodes = self.nodes
        if self._version != nodes.version:
            self._version = nodes.version
            self.cpu: Ints = nodes.alloc[CPU_ROW].copy()
            self.memory: Ints = nodes.alloc[MEMORY_ROW] >> _MEMORY_SHIFT
            # A resource that a node lacks counts for nothing; dividing by one keeps it at that.
            self.cpu_divisor: Doubles = np.maximum(self.cpu, 1).astype(np.float64)
            self.memory_divisor: Doubles = np.maximum(self.memory, 1).astype(np.float64)
            self.both: Ints = ((self.cpu > 0) & (self.memory > 0)).astype(np.int64)
        return self


def _rooms(basis: Basis, cls: PodClass, slots: Slots | slice, added: Ints | int) -> Ints:
    nodes, requests, asked = basis.fresh().nodes, cls.requests, dict(cls.row_amounts)
    cpu, memory, both = basis.cpu[slots], basis.memory[slots], basis.both[slots]
    by_cpu, by_memory = basis.cpu_divisor[slots], basis.memory_divisor[slots]
    taken_cpu = nodes.ranked[0][slots] + (added + 1) * requests.ranked_cpu_milli
    taken_memory = (nodes.ranked[1][slots] + (added + 1) * requests.ranked_memory) >> _MEMORY_SHIFT
    # Beyond what the node has, neither much nor little is worth anything.
    if basis.pack:
        total = _part(taken_cpu * (taken_cpu <= cpu), by_cpu)
        total += _part(taken_memory * (taken_memory <= memory), by_memory)
    else:
        total = _part(np.maximum(cpu - taken_cpu, 0), by_cpu)
        total += _part(np.maximum(memory - taken_memory, 0), by_memory)
    # The mean over the resources that the node has.
    total >>= both
    more_cpu, more_memory = asked.get(CPU_ROW, 0), asked.get(MEMORY_ROW, 0)
    if more_cpu or more_memory:
        used_cpu = nodes.used[CPU_ROW][slots] + added * more_cpu
        used_memory = nodes.used[MEMORY_ROW][slots] + added * more_memory
        better = _gap(used_cpu, by_cpu, used_memory, by_memory)
        better -= _gap(used_cpu + more_cpu, by_cpu, used_memory + more_memory, by_memory)
        better *= both
        better += _HALF
        better >>= 1
        total += better
        total += _HALF
    return total


def _gap(used_cpu: Ints, by_cpu: Doubles, used_memory: Ints, by_memory: Doubles) -> Ints:
    """How far the balance is from perfect."""
    gap: Ints = np.minimum(_part(used_cpu, by_cpu), FULL)
    gap -= np.minimum(_part(used_memory >> _MEMORY_SHIFT, by_memory), FULL)
    np.abs(gap, out=gap)
    gap >>= 1
    return gap


def _gap_on(used_cpu: int, by_cpu: float, used_memory: int, by_memory: float) -> int:
    share_of_cpu = min(int(FULL * used_cpu / by_cpu), FULL)
    share_of_memory = min(int(FULL * (used_memory >> _MEMORY_SHIFT) / by_memory), FULL)
    return abs(share_of_cpu - share_of_memory) >> 1


def _part(amount: Ints, whole: Doubles) -> Ints:
    """FULL * amount // whole.

    A division of doubles, which is several times as fast and exact here: numerator and denominator are
    integers below 2**53, and then the quotient cannot be rounded up to the next integer.
    """
    part: Ints = (FULL * amount / whole).astype(np.int64)
    return part


class Refill:
    """The room of single nodes as pods of one class are put there one by one, a few pods ahead at a time."""

    def __init__(self, basis: Basis, cls: PodClass) -> None:
        self._basis = basis
        self._cls = cls
        # Per slot: the number of pods added that the list starts from, and the rooms from there on.
        self._rooms: dict[int, tuple[int, list[int]]] = {}

    def after(self, slot: int, added: int, placed: int = 0) -> int:
        """Room for the next pod after some were added, -1 when none fits.

        `placed`: how many of those added are in the snapshot already.
        """
        first, rooms = self._rooms.get(slot, (0, []))
        if not first <= added < first + len(rooms):
            found = table(self._basis, self._cls, np.array([slot]), added - placed, _AHEAD)
            first, rooms = self._rooms[slot] = (added, found[:, 0].tolist())
        return rooms[added - first]
