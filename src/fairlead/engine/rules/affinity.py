"""InterPodAffinity: pods that must be together, pods that must be apart, in both directions.

All required affinity terms must be met by the *same* pods. The first pod of a group that has affinity
to itself is let in wherever the topology keys exist, as long as no pod it could join sits on a node that
has any of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.engine.rules.reasons import AffinityUnmet, AntiAffinityUnmet, Repelled
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.snapshot import Snapshot


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class."""
    return "require" in cls.demands or "repel" in cls.demands or bool(cls.repelling())


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why; of its three demands the first unmet one speaks."""
    nodes = snapshot.nodes
    said = np.zeros(nodes.capacity, np.bool_)
    affinity = cls.own.affinity
    if affinity is not None:
        affinity.catch_up()
        lacking = np.zeros(nodes.capacity, np.bool_)
        alone = np.zeros(nodes.capacity, np.bool_)
        for key in cls.own.affinity_keys:
            column = nodes.column(key)
            lacking |= column.ids < 0
            alone |= affinity.by_domain(column)[column.ids] <= 0
        said = lacking if _is_first(snapshot, cls) else lacking | alone
        yield Finding(AffinityUnmet(), said, unresolvable=True)
    against = np.zeros(nodes.capacity, np.bool_)
    for tally, key in cls.own.anti:
        tally.catch_up()
        column = nodes.column(key)
        against |= tally.by_domain(column)[column.ids] > 0
    yield Finding(AntiAffinityUnmet(), against & ~said)
    said = said | against
    repelled = np.zeros(nodes.capacity, np.bool_)
    for carried, key in cls.repelling():
        if carried.total:
            column = nodes.column(key)
            repelled |= carried.by_domain(column)[column.ids] > 0
    yield Finding(Repelled(), repelled & ~said)


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    nodes = snapshot.nodes
    affinity = cls.own.affinity
    if affinity is not None:
        affinity.catch_up()
        alone = False
        for key in cls.own.affinity_keys:
            column = nodes.column(key)
            domain = column.ids[slot]
            if domain < 0:
                return False
            alone = alone or affinity.by_domain(column)[domain] <= 0
        if alone and not _is_first(snapshot, cls):
            return False
    for own, _ in cls.own.anti:
        own.catch_up()
    for tally, key in (*cls.own.anti, *cls.repelling()):
        if tally.total:
            column = nodes.column(key)
            if tally.by_domain(column)[column.ids[slot]] > 0:
                return False
    return True


def _is_first(snapshot: Snapshot, cls: PodClass) -> bool:
    """Whether no pod that it must be near is there; `cls.own.affinity` has caught up."""
    affinity = cls.own.affinity
    assert affinity is not None
    if not cls.own.affinity_matches_self:
        return False
    return not affinity.total or not any(
        affinity.by_domain(snapshot.nodes.column(key)).any() for key in cls.own.affinity_keys
    )
