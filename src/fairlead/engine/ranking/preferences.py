"""What pods and nodes would rather have: preferred terms, soft taints, soft spreading.

Each part counts something per node and brings it to 0..FULL relative to the nodes under consideration:

    node affinity   FULL * sum of matching weights / largest such sum
    soft taints     FULL - FULL * untolerated PreferNoSchedule taints / most of them
    pod affinity    FULL * (sum of weights - smallest) / (largest - smallest)
    soft spreading  FULL * (largest + smallest - crowding) / largest

Crowding sums, over the constraints, the matching pods in the node's domain times a weight that grows
with the number of domains (log2, in 256ths), and maxSkew - 1. Pods that say nothing about spreading are
spread over hostnames and zones by their owner's and services' selectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.engine.ranking.headroom import FULL
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.counts import Spread
from fairlead.engine.snapshot.nodes import Bools, Ints
from fairlead.engine.snapshot.snapshot import Snapshot

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Part:
    """One preference. `moves`: whether placing a pod of the class changes it."""

    weight: int
    concerns: Callable[[Snapshot, PodClass], bool]
    score: Callable[[Snapshot, PodClass, Bools], Ints]
    moves: Callable[[Snapshot, PodClass], bool]


def concerning(snapshot: Snapshot, cls: PodClass) -> list[Part]:
    """The parts that have anything to say of the class now."""
    return [part for part in _PARTS if part.concerns(snapshot, cls)]


def moving(snapshot: Snapshot, cls: PodClass) -> bool:
    """Whether placing pods of the class changes what they would rather have."""
    return any(part.moves(snapshot, cls) for part in _PARTS)


def total(parts: Sequence[Part], snapshot: Snapshot, cls: PodClass, mask: Bools) -> Ints:
    """The weighted sum of parts, per slot; meaningless outside the mask."""
    scores: Ints = np.zeros(snapshot.nodes.capacity, np.int64)
    for part in parts:
        scores += part.weight * part.score(snapshot, cls, mask)
    return scores


def _likes_nodes(snapshot: Snapshot, cls: PodClass) -> bool:
    return bool(cls.preferred_nodes)


def _node_affinity(snapshot: Snapshot, cls: PodClass, mask: Bools) -> Ints:
    weights: Ints = np.zeros(snapshot.nodes.capacity, np.int64)
    for nodes, weight in cls.preferred_nodes:
        weights += weight * nodes.mask()
    largest = _largest(weights, mask)
    return FULL * weights // largest if largest > 0 else weights * 0


def _meets_soft_taints(snapshot: Snapshot, cls: PodClass) -> bool:
    return any(t.effect == "PreferNoSchedule" for taints in snapshot.nodes.taint_sets for t in taints)


def _soft_taints(snapshot: Snapshot, cls: PodClass, mask: Bools) -> Ints:
    disliked = cls.tolerance.disliked()
    most = _largest(disliked, mask)
    return FULL - (FULL * disliked // most if most > 0 else disliked * 0)


def _likes_pods(snapshot: Snapshot, cls: PodClass) -> bool:
    return bool(cls.own.preferred) or any(tally.total for tally, _, _ in cls.drawing())


def _pod_affinity(snapshot: Snapshot, cls: PodClass, mask: Bools) -> Ints:
    weights: Ints = np.zeros(snapshot.nodes.capacity, np.int64)
    for own, _, _ in cls.own.preferred:
        own.catch_up()
    for tally, key, weight in (*cls.own.preferred, *cls.drawing()):
        if tally.total:
            column = snapshot.nodes.column(key)
            weights += weight * tally.by_domain(column)[column.ids]
    held = weights[mask]
    smallest, largest = (int(held.min()), int(held.max())) if len(held) else (0, 0)
    if smallest == largest:
        return weights * 0
    return FULL * (weights - smallest) // (largest - smallest)


def _spreads_softly(snapshot: Snapshot, cls: PodClass) -> bool:
    return bool(soft_constraints(snapshot, cls))


def soft_constraints(snapshot: Snapshot, cls: PodClass) -> tuple[Spread, ...]:
    """The class's own soft constraints or, when it has no constraint at all, its owner's defaults."""
    if cls.facts.spec.topology_spread_constraints:
        return cls.own.soft
    if cls.soft_version != snapshot.spread_selectors.version:
        cls.soft_version = snapshot.spread_selectors.version
        selector = snapshot.spread_selectors.selector(cls.namespace, cls.labels, cls.owner)
        cls.soft = () if selector.empty else snapshot.classes.default_spread(cls, selector)
    return cls.soft


def _soft_spread(snapshot: Snapshot, cls: PodClass, mask: Bools) -> Ints:
    nodes = snapshot.nodes
    constraints = soft_constraints(snapshot, cls)
    ignored = np.zeros(nodes.capacity, np.bool_)
    if cls.facts.spec.topology_spread_constraints:
        # Owners' defaults still spread over hostnames where nodes have no zone.
        for constraint in constraints:
            ignored |= nodes.column(constraint.key).ids < 0
    ranked = mask & ~ignored
    crowding: Ints = np.zeros(nodes.capacity, np.int64)
    for constraint in constraints:
        constraint.tally.catch_up()
        column = nodes.column(constraint.key)
        there = column.ids >= 0
        if constraint.key == HOSTNAME:
            domains = int(np.count_nonzero(ranked))
            held = constraint.tally.counts
        else:
            domains = int(np.count_nonzero(np.bincount(column.ids[ranked & there])))
            held = _domain_counts(snapshot, cls, constraint)
        crowded = (held * _weight(domains) >> 8) + (constraint.max_skew - 1)
        if constraint.key != HOSTNAME:
            crowded = crowded[column.ids]
        crowding += np.where(there, crowded, 0)
    held = crowding[ranked]
    if not len(held):
        return crowding * 0
    smallest, largest = int(held.min()), int(held.max())
    if not largest:
        return np.where(ignored, 0, FULL)
    return np.where(ignored, 0, FULL * (largest + smallest - crowding) // largest)


def _domain_counts(snapshot: Snapshot, cls: PodClass, constraint: Spread) -> Ints:
    counted = np.ones(snapshot.nodes.capacity, np.bool_)
    if constraint.honor_affinity and cls.node_mask is not None:
        counted &= cls.node_mask.mask()
    if constraint.honor_taints:
        counted &= ~cls.tolerance.kept_out()
    column = snapshot.nodes.column(constraint.key)
    if counted.all():
        return constraint.tally.by_domain(column)
    sums = np.zeros(len(column.values) + 1, np.int64)
    np.add.at(sums, column.ids[counted], constraint.tally.counts[counted])
    sums[-1] = 0
    return sums


def _weight(domains: int) -> int:
    """log2(domains + 2) in 256ths: linear between powers of two, so integers suffice.

    >>> [_weight(n) for n in (0, 1, 2, 6, 5000)]
    [256, 384, 512, 768, 3128]
    """
    number = domains + 2
    whole = number.bit_length() - 1
    return 256 * whole + (256 * (number - (1 << whole)) >> whole)


def _largest(values: Ints, mask: Bools) -> int:
    held = values[mask]
    return int(held.max()) if len(held) else 0


def _never(snapshot: Snapshot, cls: PodClass) -> bool:
    return False


def _likes_its_own(snapshot: Snapshot, cls: PodClass) -> bool:
    return (
        any(cls.is_counted_by(tally) for tally, _, _ in cls.own.preferred)
        or any(carried in cls.carries for carried in cls.drawn_by)
        or cls.own.draws_itself
    )


def _spreads_its_own(snapshot: Snapshot, cls: PodClass) -> bool:
    return any(cls.is_counted_by(constraint.tally) for constraint in soft_constraints(snapshot, cls))


_PARTS = (
    Part(3, _meets_soft_taints, _soft_taints, _never),
    Part(2, _likes_nodes, _node_affinity, _never),
    Part(2, _spreads_softly, _soft_spread, _spreads_its_own),
    Part(2, _likes_pods, _pod_affinity, _likes_its_own),
)
