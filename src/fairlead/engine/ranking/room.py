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

from typing import TYPE_CHECKING

import numpy as np

from fairlead.engine.snapshot.nodes import CPU_ROW, MEMORY_ROW, Ints

if TYPE_CHECKING:
    from fairlead.engine.classes import PodClass
    from fairlead.engine.snapshot.snapshot import Snapshot

__all__ = ["FULL", "score", "score_at"]

FULL = 10_000
_HALF = FULL // 2

# Memory is ranked in units of 1 MiB: a difference below that is none, and products stay inside int64.
_MEMORY_SHIFT = 20


def score(snapshot: Snapshot, cls: PodClass) -> Ints:
    """Room, per slot."""
    nodes = snapshot.nodes
    asked = dict(cls.row_amounts)
    allocs = (nodes.alloc[CPU_ROW], nodes.alloc[MEMORY_ROW] >> _MEMORY_SHIFT)
    ranked = (
        nodes.ranked[0] + cls.requests.ranked_cpu_milli,
        (nodes.ranked[1] + cls.requests.ranked_memory) >> _MEMORY_SHIFT,
    )
    before = (nodes.used[CPU_ROW], nodes.used[MEMORY_ROW] >> _MEMORY_SHIFT)
    after = (
        nodes.used[CPU_ROW] + asked.get(CPU_ROW, 0),
        (nodes.used[MEMORY_ROW] + asked.get(MEMORY_ROW, 0)) >> _MEMORY_SHIFT,
    )
    total = _allocated(ranked, allocs, pack=snapshot.pack)
    if CPU_ROW in asked or MEMORY_ROW in asked:
        total += _HALF + (_HALF + _balance(after, allocs) - _balance(before, allocs)) // 2
    return total


def score_at(snapshot: Snapshot, cls: PodClass, slot: int) -> int:
    """Room of one slot: the same formula on plain integers."""
    nodes = snapshot.nodes
    asked = dict(cls.row_amounts)
    cpu, memory = int(nodes.alloc[CPU_ROW, slot]), int(nodes.alloc[MEMORY_ROW, slot]) >> _MEMORY_SHIFT
    ranked_cpu = int(nodes.ranked[0, slot]) + cls.requests.ranked_cpu_milli
    ranked_memory = (int(nodes.ranked[1, slot]) + cls.requests.ranked_memory) >> _MEMORY_SHIFT
    parts, count = 0, 0
    for taken, alloc in ((ranked_cpu, cpu), (ranked_memory, memory)):
        if alloc > 0:
            count += 1
            if taken <= alloc:
                parts += (FULL * taken if snapshot.pack else FULL * (alloc - taken)) // alloc
    total = parts // count if count else 0
    if CPU_ROW in asked or MEMORY_ROW in asked:
        used_cpu, used_memory = int(nodes.used[CPU_ROW, slot]), int(nodes.used[MEMORY_ROW, slot])
        before = _balance_at(used_cpu, cpu, used_memory >> _MEMORY_SHIFT, memory)
        after = _balance_at(
            used_cpu + asked.get(CPU_ROW, 0),
            cpu,
            (used_memory + asked.get(MEMORY_ROW, 0)) >> _MEMORY_SHIFT,
            memory,
        )
        total += _HALF + (_HALF + after - before) // 2
    return total


def _allocated(taken: tuple[Ints, Ints], allocs: tuple[Ints, Ints], *, pack: bool) -> Ints:
    parts: Ints = np.zeros(len(allocs[0]), np.int64)
    count: Ints = np.zeros(len(allocs[0]), np.int64)
    for amount, alloc in zip(taken, allocs, strict=True):
        there = alloc > 0
        count += there
        free = amount if pack else alloc - amount
        parts += np.where(there & (amount <= alloc), FULL * free // np.maximum(alloc, 1), 0)
    return parts // np.maximum(count, 1)


def _balance(taken: tuple[Ints, Ints], allocs: tuple[Ints, Ints]) -> Ints:
    shares = [
        np.minimum(FULL * amount // np.maximum(alloc, 1), FULL)
        for amount, alloc in zip(taken, allocs, strict=True)
    ]
    both = (allocs[0] > 0) & (allocs[1] > 0)
    return np.where(both, FULL - np.abs(shares[0] - shares[1]) // 2, FULL)


def _balance_at(used_cpu: int, cpu: int, used_memory: int, memory: int) -> int:
    if cpu <= 0 or memory <= 0:
        return FULL
    share_cpu = min(FULL * used_cpu // cpu, FULL)
    share_memory = min(FULL * used_memory // memory, FULL)
    return FULL - abs(share_cpu - share_memory) // 2
