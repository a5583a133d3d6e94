"""NodeDeclaredFeatures: a node must declare the features without which it could not run the pod."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.engine.rules.reasons import FeatureMissing
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.snapshot import Snapshot


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class."""
    return bool(cls.facts.features)


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why."""
    lacking = np.zeros(snapshot.nodes.capacity, np.bool_)
    for slot in np.flatnonzero(snapshot.nodes.alive).tolist():
        lacking[slot] = not fits(snapshot, cls, slot)
    yield Finding(FeatureMissing(), lacking, unresolvable=True)


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    declared = snapshot.nodes.node(slot).status.declared_features
    return all(feature in declared for feature in cls.facts.features)
