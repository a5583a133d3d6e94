"""Which nodes a selector, or a pod's tolerations, admit: kept, and mended only where nodes changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fairlead.engine.snapshot.log import UNREAD
from fairlead.engine.snapshot.nodes import Bools, Ints, NodeColumns
from fairlead.kube.node import Node
from fairlead.kube.pod import NodeSelectorTerm
from fairlead.kube.selectors import Requirement
from fairlead.kube.tolerations import Taint, Toleration, tolerated

# Up to this number, nodes are sooner checked one by one than all at once.
_FEW = 16

# What a cordoned node would be tainted with; tolerating it means tolerating a cordon.
_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


@dataclass(frozen=True, slots=True, eq=False)
class NodePredicate:
    """A conjunction of labels and, when given, a disjunction of terms. None for `terms`: no such demand.

    An empty term matches nothing. A term with an operator that does not exist, or a field expression
    that is not one value In or NotIn, matches nothing either: the scheduler skips what it cannot parse.
    """

    labels: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeSelectorTerm, ...] | None = None

    def admits(self, node: Node) -> bool:
        """Whether the node satisfies the predicate."""
        labels = node.metadata.labels
        for key, value in self.labels:
            if labels.get(key) != value:
                return False
        return self.terms is None or any(
            usable(term)
            and all(requirement.admits(labels) for requirement in term.match_expressions)
            and all(_admits_name(requirement, node.metadata.name) for requirement in term.match_fields)
            for term in self.terms
        )

    def over(self, nodes: NodeColumns) -> Bools:
        """The predicate over all slots at once."""
        mask = nodes.alive.copy()
        for key, value in self.labels:
            mask &= _over(nodes, Requirement(key, "In", (value,)))
            left = np.flatnonzero(mask)
            if len(left) <= _FEW:
                # A selector may have thousands of keys: the few nodes left are asked one by one.
                mask[left] = [self.admits(nodes.node(slot)) for slot in left.tolist()]
                return mask
        if self.terms is None:
            return mask
        either = np.zeros(nodes.capacity, np.bool_)
        for term in self.terms:
            if not usable(term):
                continue
            every = mask.copy()
            for requirement in term.match_expressions:
                every &= _over(nodes, requirement)
                if not every.any():
                    break
            for requirement in term.match_fields:
                named = nodes.named(requirement.values if requirement.key == "metadata.name" else ())
                every &= named if requirement.operator == "In" else ~named
            either |= every
        return either


class NodeMask:
    """`mask()` is a predicate over all slots, brought up to date at the slots whose node changed."""

    __slots__ = ("__weakref__", "_mask", "_nodes", "_seen", "predicate")

    def __init__(self, nodes: NodeColumns, predicate: NodePredicate) -> None:
        self.predicate = predicate
        self._nodes = nodes
        self._mask: Bools = np.zeros(0, np.bool_)
        self._seen = UNREAD

    def mask(self) -> Bools:
        """The mask; not to be changed by the caller. Slots without a node may say anything."""
        nodes = self._nodes
        missed = nodes.log.since(self._seen)
        if missed is None or len(self._mask) != nodes.capacity:
            self._mask = self.predicate.over(nodes)
        else:
            for slot in missed:
                node = nodes.nodes[slot]
                self._mask[slot] = node is not None and self.predicate.admits(node)
        self._seen = nodes.log.mark
        return self._mask


class Tolerance:
    """What tolerations mean for each distinct set of taints that nodes have.

    A table over the sets, extended as sets appear; nodes with equal taints are one row.
    """

    def __init__(self, nodes: NodeColumns, tolerations: tuple[Toleration, ...]) -> None:
        self.tolerations = tolerations
        self.tolerates_cordon = tolerated(_UNSCHEDULABLE, tolerations)
        self._nodes = nodes
        self._epoch = nodes.taint_epoch
        self._kept_out: Bools = np.zeros(0, np.bool_)
        self._disliked: Ints = np.zeros(0, np.int64)

    def kept_out(self) -> Bools:
        """Per slot: whether a NoSchedule or NoExecute taint there is not tolerated."""
        self._extend()
        kept_out: Bools = self._kept_out[self._nodes.taint_set]
        return kept_out

    def disliked(self) -> Ints:
        """Per slot: how many PreferNoSchedule taints there are not tolerated."""
        self._extend()
        disliked: Ints = self._disliked[self._nodes.taint_set]
        return disliked

    def untolerated(self, taints: Iterable[Taint]) -> Taint | None:
        """The first taint that keeps the pod out, if any."""
        hard = (taint for taint in taints if taint.effect in ("NoSchedule", "NoExecute"))
        return next((taint for taint in hard if not tolerated(taint, self.tolerations)), None)

    def _extend(self) -> None:
        if self._epoch != self._nodes.taint_epoch:
            self._epoch = self._nodes.taint_epoch
            self._kept_out, self._disliked = self._kept_out[:0], self._disliked[:0]
        sets = self._nodes.taint_sets
        for taints in sets[len(self._kept_out) :]:
            out = self.untolerated(taints) is not None
            soft = sum(t.effect == "PreferNoSchedule" and not tolerated(t, self.tolerations) for t in taints)
            self._kept_out = np.append(self._kept_out, out)
            self._disliked = np.append(self._disliked, np.int64(soft))


def usable(term: NodeSelectorTerm) -> bool:
    """Whether the scheduler could parse the term; an empty one counts as none."""
    if not term.match_expressions and not term.match_fields:
        return False
    for requirement in term.match_expressions:
        match requirement.operator:
            case "In" | "NotIn":
                parsed = bool(requirement.values)
            case "Exists" | "DoesNotExist":
                parsed = not requirement.values
            case "Gt" | "Lt":
                parsed = len(requirement.values) == 1
            case _:
                parsed = False
        if not parsed:
            return False
    return all(r.operator in ("In", "NotIn") and len(r.values) == 1 for r in term.match_fields)


def _admits_name(requirement: Requirement, name: str) -> bool:
    held = name if requirement.key == "metadata.name" else ""
    return (held == requirement.values[0]) is (requirement.operator == "In")


def _over(nodes: NodeColumns, requirement: Requirement) -> Bools | bool:
    if not nodes.keys_among((requirement.key,)):
        return requirement.admits({})
    # One evaluation per distinct value, and one for nodes without the key (id -1: the table's last).
    column = nodes.column(requirement.key)
    if requirement.operator in ("In", "NotIn"):
        # Keys such as the hostname have a value per node: look up the few that are named instead.
        chosen = np.zeros(len(column.values) + 1, np.bool_)
        for value in requirement.values:
            if value in column.index:
                chosen[column.index[value]] = True
        return chosen[column.ids] if requirement.operator == "In" else ~chosen[column.ids]
    table = np.fromiter(
        (requirement.admits({requirement.key: value}) for value in column.values),
        np.bool_,
        len(column.values),
    )
    table = np.append(table, requirement.admits({}))
    return table[column.ids]
