"""NodeUnschedulable: a cordoned node takes only pods that tolerate the taint a cordon stands for."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.engine.rules.reasons import Unschedulable
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.snapshot import Snapshot


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class."""
    return not cls.tolerance.tolerates_cordon


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why."""
    yield Finding(Unschedulable(), snapshot.nodes.unschedulable, unresolvable=True)


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    return not snapshot.nodes.unschedulable[slot]
