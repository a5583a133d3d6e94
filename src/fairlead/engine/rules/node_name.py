"""NodeName: a pod that names its node goes nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from fairlead.engine.reasons import NodeNameMismatch
from fairlead.engine.rules.verdicts import Finding

if TYPE_CHECKING:
    from fairlead.engine.classes import PodClass
    from fairlead.engine.snapshot.snapshot import Snapshot

__all__ = ["concerns", "find", "fits"]


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class."""
    return bool(cls.node_name)


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why."""
    others = np.ones(snapshot.nodes.capacity, np.bool_)
    slot = snapshot.nodes.slot(cls.node_name)
    if slot >= 0:
        others[slot] = False
    yield Finding(NodeNameMismatch(), others, unresolvable=True)


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    return snapshot.nodes.name(slot) == cls.node_name
