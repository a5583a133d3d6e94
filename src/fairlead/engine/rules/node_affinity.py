"""NodeAffinity: nodeSelector and required node affinity.

When every term names nodes outright (``matchFields`` on ``metadata.name``), the other nodes are left
out before any rule is asked and say so in words of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.engine.rules.reasons import NodeAffinityMismatch, Rejection
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.nodes import Bools
from fairlead.engine.snapshot.snapshot import Snapshot


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class."""
    return cls.node_mask is not None


def reject(snapshot: Snapshot, cls: PodClass) -> Rejection | None:
    """Terms that name nodes so that none is left match nothing anywhere."""
    names = _names(cls)
    if names is not None and not names:
        return Rejection("NodeAffinity", "pod affinity terms conflict")
    return None


def named_nodes(snapshot: Snapshot, cls: PodClass) -> Bools | None:
    """The only nodes that the other rules are asked about; None: all of them."""
    names = _names(cls)
    return snapshot.nodes.named(names) if names is not None else None


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why."""
    assert cls.node_mask is not None
    yield Finding(NodeAffinityMismatch(), ~cls.node_mask.mask(), unresolvable=True)


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    assert cls.node_mask is not None
    return bool(cls.node_mask.mask()[slot])


def _names(cls: PodClass) -> list[str] | None:
    """The nodes that the terms name, if every term names some; terms are alternatives."""
    terms = cls.node_mask.predicate.terms if cls.node_mask else None
    if not terms:
        return None
    found: dict[str, None] = {}
    for term in terms:
        here: list[str] | None = None
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In":
                here = [n for n in field.values if here is None or n in here]
        if here is None:
            return None
        found.update(dict.fromkeys(here))
    return list(found)
