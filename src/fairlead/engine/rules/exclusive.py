"""Exclusive capacity: a Fairlead pod that has its node to itself keeps all other Fairlead pods off it.

DaemonSet pods, mirror pods and pods of other schedulers count for resources only. No other scheduler
and no autoscaler knows this rule, which is why its words are Fairlead's own.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.engine.rules.reasons import NodeReserved, NodeShared
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.snapshot import Snapshot


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class; whose scheduler it names is not asked."""
    return not cls.shared


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why."""
    if snapshot.exclusive.total:
        yield Finding(NodeReserved(), snapshot.exclusive.counts > 0)
    if cls.exclusive:
        yield Finding(NodeShared(), (snapshot.ours.counts > 0) & (snapshot.exclusive.counts == 0))


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    if snapshot.exclusive.counts[slot] > 0:
        return False
    return not (cls.exclusive and snapshot.ours.counts[slot] > 0)
