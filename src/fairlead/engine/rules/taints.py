"""TaintToleration: NoSchedule and NoExecute taints keep out pods that do not tolerate them."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.engine.rules.reasons import UntoleratedTaint
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.snapshot import Snapshot


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class."""
    return True


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why."""
    yield Finding(UntoleratedTaint(), cls.tolerance.kept_out(), unresolvable=True)


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    return cls.tolerance.untolerated(snapshot.nodes.node(slot).spec.taints) is None
