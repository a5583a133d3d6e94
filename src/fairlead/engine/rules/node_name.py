"""NodeName: a pod that names its node goes nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.engine.rules.reasons import NodeNameMismatch
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.snapshot import Snapshot


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class."""
    return bool(cls.node_name)


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why."""
    yield Finding(NodeNameMismatch(), ~snapshot.nodes.named((cls.node_name,)), unresolvable=True)


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    return snapshot.nodes.name(slot) == cls.node_name
