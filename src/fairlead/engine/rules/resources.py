"""NodeResourcesFit: what the pod asks for must be free.

A resource that is not asked for is not looked at, so a pod that asks for nothing fits an overcommitted
node. A request beyond what the node has when empty is beyond the help of evictions.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.engine.rules.reasons import Insufficient, Reason, TooManyPods
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.nodes import ABSENT_ROW, PODS_ROW, Bools, Ints
from fairlead.engine.snapshot.requests import PODS
from fairlead.engine.snapshot.snapshot import Snapshot


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class."""
    return True


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why."""
    nodes = snapshot.nodes
    for name, row, amount in _asked(cls):
        alloc = nodes.alloc[row]
        reason: Reason = TooManyPods() if row == PODS_ROW else Insufficient(name)
        # A node that may run no pods at all is not called unresolvable upstream either.
        beyond: Bools | bool = alloc < amount if row != PODS_ROW else False
        yield Finding(reason, alloc - nodes.used[row] < amount, beyond)


def find_without(snapshot: Snapshot, cls: PodClass, leaving: Ints) -> Iterator[Finding]:
    """The same with so much (rows by slots) less in use."""
    nodes = snapshot.nodes
    for name, row, amount in _asked(cls):
        reason: Reason = TooManyPods() if row == PODS_ROW else Insufficient(name)
        yield Finding(reason, nodes.alloc[row] - nodes.used[row] + leaving[row] < amount)


def large_enough(snapshot: Snapshot, cls: PodClass) -> Bools:
    """Per slot: whether the node would have enough of everything with no pod on it."""
    enough_of_all = snapshot.nodes.alive.copy()
    for row, amount in cls.row_amounts:
        enough_of_all &= snapshot.nodes.alloc[row] >= amount
    return enough_of_all


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    alloc, used = snapshot.nodes.alloc, snapshot.nodes.used
    return all(alloc[row, slot] - used[row, slot] >= amount for row, amount in cls.row_amounts)


def short(snapshot: Snapshot, cls: PodClass, slot: int) -> dict[str, int]:
    """By how much each resource that is asked for falls short on a node."""
    nodes = snapshot.nodes
    missing = {}
    for name, row, amount in _asked(cls):
        taken = int(nodes.used[row, slot]) if row != ABSENT_ROW else 0
        lacking = amount - int(nodes.alloc[row, slot]) + taken
        if lacking > 0:
            missing[name] = lacking
    return missing


def _asked(cls: PodClass) -> Iterator[tuple[str, int, int]]:
    """(name, row, amount) of each resource that is asked for; rows alone do not tell absent ones apart."""
    for (name, amount), (row, _) in zip((*cls.requests.amounts, (PODS, 1)), cls.row_amounts, strict=True):
        yield name, row, amount
