"""How many pods of a kind sit on each node: what affinity, anti-affinity and spreading look at.

A `Tally` counts per slot either the pods that some selector matches (`Selected`), or the pods that
carry some affinity term themselves (`Carried`), which is how a pod that is already there keeps others
away or draws them near. Counts per topology domain follow from a tally and a label column; they are
computed when asked for and remembered until either changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.engine.snapshot.nodes import Ints, LabelColumn, NodeColumns
from fairlead.kube.selectors import LabelSelector, matches

__all__ = ["Carried", "PodSelector", "Scope", "Selected", "Tally"]


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


class Tally:
    """A count per slot. `version` counts changes."""

    __slots__ = ("__weakref__", "_domains", "_domains_of", "counts", "total", "version")

    def __init__(self, nodes: NodeColumns) -> None:
        self.counts: Ints = np.zeros(nodes.capacity, np.int64)
        self.total = 0
        self.version = 0
        self._domains: Ints | None = None
        self._domains_of: tuple[LabelColumn, int, int] | None = None
        nodes.follow(self)

    def grow(self, capacity: int) -> None:
        """Make room for more slots."""
        self.counts = np.pad(self.counts, (0, capacity - len(self.counts)))

    def add(self, slot: int, amount: int) -> None:
        """Change the count of a slot."""
        self.counts[slot] += amount
        self.total += amount
        self.version += 1

    def by_domain(self, column: LabelColumn) -> Ints:
        """The count per value of a label; the last item, for nodes without it, is always zero.

        The last item makes ``by_domain(column)[column.ids]`` right for them: their id is -1.
        """
        asked = (column, column.version, self.version)
        if self._domains is None or self._domains_of != asked:
            self._domains = domain_sums(self.counts, column)
            self._domains_of = asked
        return self._domains


class Selected(Tally):
    """Pods that any of `selectors`' conjunction matches, all of which must hold.

    `live_only` leaves out pods that are being deleted, as spreading does and affinity does not.
    """

    __slots__ = ("incoming", "live_only", "selectors")

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


class Carried(Tally):
    """Pods that carry one affinity or anti-affinity term, over one topology.

    `kind` is ``repel`` (required anti-affinity), ``require`` (required affinity) or ``prefer``
    (preferred either way: the sign is the weight's).
    """

    __slots__ = ("key", "kind", "target", "weight")

    def __init__(self, nodes: NodeColumns, kind: str, target: PodSelector, key: str, weight: int) -> None:
        super().__init__(nodes)
        self.kind = kind
        self.target = target
        self.key = key
        self.weight = weight

    def matches(self, namespace: str, namespace_labels: dict[str, str], labels: dict[str, str]) -> bool:
        """Whether the term speaks of pods with these labels in this namespace."""
        return self.target.scope.holds(namespace, namespace_labels) and matches(self.target.selector, labels)


def domain_sums(counts: Ints, column: LabelColumn) -> Ints:
    """Counts per slot summed per value of a label, with a zero after the last for nodes without it."""
    sums = np.zeros(len(column.values) + 1, np.int64)
    there = np.flatnonzero(counts)
    np.add.at(sums, column.ids[there], counts[there])
    sums[-1] = 0
    return sums
