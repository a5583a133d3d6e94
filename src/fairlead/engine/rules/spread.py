"""PodTopologySpread: no domain may hold too many more of the pods than the emptiest one.

Which nodes are counted is the subtle thing: those that have all the keys of all the pod's constraints,
and, per constraint, those that the pod could be on by its node affinity (unless told to ignore it) and
by its tolerations (only when told to honour taints). Cordoned nodes count.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.engine.rules.reasons import SpreadKeyMissing, SpreadTooUneven
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.counts import Spread, SpreadCounts
from fairlead.engine.snapshot.nodes import Bools, Ints
from fairlead.engine.snapshot.snapshot import Snapshot


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class."""
    return "spread" in cls.demands


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why.

    Constraints are asked in order and the first that refuses a node speaks for it.
    """
    nodes = snapshot.nodes
    missing = np.zeros(nodes.capacity, np.bool_)
    uneven = np.zeros(nodes.capacity, np.bool_)
    for constraint in cls.own.spread:
        ids = nodes.column(constraint.key).ids
        missing |= (ids < 0) & ~uneven
        uneven |= skewed(snapshot, cls, constraint)[ids] & (ids >= 0) & ~missing
    yield Finding(SpreadKeyMissing(), missing, unresolvable=True)
    yield Finding(SpreadTooUneven(), uneven)


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    for constraint in cls.own.spread:
        domain = snapshot.nodes.column(constraint.key).ids[slot]
        if domain < 0 or skewed(snapshot, cls, constraint)[domain]:
            return False
    return True


def skewed(snapshot: Snapshot, cls: PodClass, constraint: Spread) -> Bools:
    """Per domain of the constraint's key (and a last item for none): whether one more pod is too many."""
    counts, present = domain_counts(snapshot, cls, constraint)
    # With fewer domains than demanded the emptiest is one that is not there yet.
    enough = np.count_nonzero(present) >= constraint.min_domains
    fewest = int(counts[present].min()) if enough else 0
    return counts + int(constraint.matches_self) - fewest > constraint.max_skew


def domain_counts(snapshot: Snapshot, cls: PodClass, constraint: Spread) -> tuple[Ints, Bools]:
    """Per domain: the matching pods on counted nodes, and whether any counted node is in it."""
    nodes, tally = snapshot.nodes, constraint.tally
    tally.catch_up()
    column = nodes.column(constraint.key)
    known = cls.spread_cache.get(constraint)
    if known is None or known.nodes_version != nodes.version:
        counted = counted_nodes(snapshot, cls, constraint)
        slots = np.flatnonzero(counted)
        present = np.zeros(len(column.values) + 1, np.bool_)
        present[column.ids[slots]] = True
        known = SpreadCounts(nodes.version, -1, counted, slots, present, np.zeros(len(present), np.int64))
        cls.spread_cache[constraint] = known
    if known.tally_version != tally.version:
        missed = tally.since(known.tally_version) if known.tally_version >= 0 else None
        if missed is None:
            known.counts[:] = 0
            np.add.at(known.counts, column.ids[known.slots], tally.counts[known.slots])
        else:
            for slot, amount in missed:
                if known.counted[slot]:
                    known.counts[column.ids[slot]] += amount
        known.tally_version = tally.version
    return known.counts, known.present


def counted_nodes(snapshot: Snapshot, cls: PodClass, constraint: Spread) -> Bools:
    """The nodes whose pods count for a constraint, and whose domains exist for it."""
    nodes = snapshot.nodes
    counted = nodes.alive.copy()
    for each in cls.own.spread:
        counted &= nodes.column(each.key).ids >= 0
    if constraint.honor_affinity and cls.node_mask is not None:
        counted &= cls.node_mask.mask()
    if constraint.honor_taints:
        counted &= ~cls.tolerance.kept_out()
    return counted
