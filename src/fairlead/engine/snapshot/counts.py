"""How many pods of a kind sit on each node: what affinity, anti-affinity and spreading look at.

A `Tally` counts per slot either the pods that some selector matches (`Selected`), or the pods that
carry some affinity term themselves (`loose_terms.Carried`), which is how a pod that is already there keeps
others away or draws them near. Terms whose selector demands no label outright are counted in other ways
(`loose_terms`). Counts per topology domain follow from a tally and a label column; they are
computed when asked for and remembered until either changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.engine.snapshot.nodes import Bools, Ints, LabelColumn, NodeColumns, Slots
from fairlead.kube.selectors import LabelSelector, matches


@dataclass(frozen=True)
class Scope:
    """Which namespaces a term speaks of: those it names, and those whose labels its selector matches."""

    names: frozenset[str]
    selector: LabelSelector | None = None

    def holds(self, namespace: str, labels: dict[str, str]) -> bool:
        """Whether a namespace with these labels is in scope."""
        return namespace in self.names or (self.selector is not None and matches(self.selector, labels))

    def holds_for_incoming(self, namespace: str, labels: dict[str, str]) -> bool:
        """The same, for a term of the pod that is being placed.

        kube-scheduler unrolls such a term's selector into names but goes on matching the selector
        against *no* labels, so that a selector of only negative expressions means every namespace.
        """
        return self.holds(namespace, labels) or (self.selector is not None and matches(self.selector, {}))


@dataclass(frozen=True)
class PodSelector:
    """Pods in a scope whose labels a selector matches."""

    scope: Scope
    selector: LabelSelector | None


# How many changes are remembered for caches to catch up with; one that is further behind starts over.
_CHANGES_KEPT = 256


class Tally:
    """A count per slot. `version` counts changes; the last of them are kept for caches of sums.

    Invariant: `changes` are the ones from version ``version - len(changes)`` on.
    """

    __slots__ = ("__weakref__", "_domains", "changes", "counts", "total", "version")

    def __init__(self, nodes: NodeColumns) -> None:
        self.counts: Ints = np.zeros(nodes.capacity, np.int64)
        self.total = 0
        self.version = 0
        self.changes: list[tuple[int, int]] = []
        self._domains: dict[str, tuple[LabelColumn, int, int, Ints]] = {}
        nodes.follow(self)

    def grow(self, capacity: int) -> None:
        """Make room for more slots."""
        self.counts = np.pad(self.counts, (0, capacity - len(self.counts)))

    def add(self, slot: int, amount: int) -> None:
        """Change the count of a slot."""
        self.counts[slot] += amount
        self.total += amount
        self.version += 1
        if len(self.changes) >= 2 * _CHANGES_KEPT:
            del self.changes[:_CHANGES_KEPT]
        self.changes.append((slot, amount))

    def clear(self) -> None:
        """Set all counts to zero and invalidate what was computed from them."""
        self.counts[:] = 0
        self.total = 0
        self.version += 1
        self.changes.clear()

    def catch_up(self) -> None:
        """Bring counts up to date that are not kept so all the time; to be called before they are read."""

    def since(self, version: int) -> list[tuple[int, int]] | None:
        """The changes (slot, amount) since a version; None when they are no longer known."""
        missed = self.version - version
        if missed > len(self.changes):
            return None
        return self.changes[len(self.changes) - missed :] if missed else []

    def by_domain(self, column: LabelColumn) -> Ints:
        """The count per value of a label; the last item, for nodes without it, is always zero.

        The last item makes ``by_domain(column)[column.ids]`` right for them: their id is -1.
        """
        known = self._domains.get(column.key)
        if known is not None and known[0] is column and known[1] == column.version:
            missed = self.since(known[2])
            if missed is not None:
                sums = known[3]
                if missed:
                    for slot, amount in missed:
                        sums[column.ids[slot]] += amount
                    sums[-1] = 0
                    self._domains[column.key] = (column, column.version, self.version, sums)
                return sums
        sums = domain_sums(self.counts, column)
        self._domains[column.key] = (column, column.version, self.version, sums)
        return sums


class Selected(Tally):
    """Pods that all of the selectors match.

    `live_only` leaves out pods that are being deleted, as spreading does and affinity does not.
    """

    __slots__ = ("live_only", "selectors")

    def __init__(self, nodes: NodeColumns, selectors: tuple[PodSelector, ...], *, live_only: bool) -> None:
        super().__init__(nodes)
        self.selectors = selectors
        self.live_only = live_only

    def matches(self, namespace: str, namespace_labels: dict[str, str], labels: dict[str, str]) -> bool:
        """Whether pods with these labels in this namespace are counted."""
        return all(
            each.scope.holds_for_incoming(namespace, namespace_labels) and matches(each.selector, labels)
            for each in self.selectors
        )


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """One topology spread constraint."""

    max_skew: int
    key: str
    tally: Selected
    min_domains: int
    honor_affinity: bool
    honor_taints: bool
    matches_self: bool


@dataclass(slots=True)
class SpreadCounts:
    """What a spread constraint last counted for one class, and of which versions.

    `counted` are the nodes that count, `slots` the same as numbers; `counts` and `present` are per domain.
    """

    nodes_version: int
    tally_version: int
    counted: Bools
    slots: Slots
    present: Bools
    counts: Ints


def domain_sums(counts: Ints, column: LabelColumn) -> Ints:
    """Counts per slot summed per value of a label, with a zero after the last for nodes without it."""
    sums = np.zeros(len(column.values) + 1, np.int64)
    there = np.flatnonzero(counts)
    np.add.at(sums, column.ids[there], counts[there])
    sums[-1] = 0
    return sums
