"""Changes to a pod or to nodes that would make the pod fit, as values that can be tried out.

A change is tried on the snapshot itself and taken back, so what is proved is proved by the rules that decide.
Nodes may not change inside a trial: no trial may be open while a change is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from fairlead.engine import rules
from fairlead.engine.snapshot.requests import CPU
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.quantity import milli, value
from fairlead.kube.tolerations import Taint, Toleration

What = Literal["tolerate", "label", "unselect", "skew", "uncordon", "grow", "evict", "ungate"]
NODES_NAMED = 3
"""How many nodes are named, and tried, where any of many would do."""

_CORDONED = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True, slots=True)
class Change:
    """One change. `nodes` are those on any one of which it makes the pod fit; the first few are tried.

    ``tolerate``: the pod gets `taints` tolerated. ``label``: the node gets `labels`. ``unselect``: the pod
    loses its node selector and required node affinity. ``skew``: the pod's one
    spread constraint gets `skew`. ``uncordon``: the node takes pods. ``grow``: the node has `amounts` more
    (cpu in thousandths). ``evict``: `pods` leave the node. ``ungate``: the pod loses its gates.
    """

    what: What
    nodes: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    skew: int = 0
    amounts: tuple[tuple[str, int], ...] = ()
    pods: tuple[str, ...] = ()

    def of_pod(self, pod: Pod) -> Pod:
        """The pod as it would be."""
        spec = pod.spec
        match self.what:
            case "tolerate":
                added = tuple(Toleration(one.key, "Exists", effect=one.effect) for one in self.taints)
                spec = msgspec.structs.replace(spec, tolerations=(*spec.tolerations, *added))
            case "skew":
                hard = tuple(
                    msgspec.structs.replace(one, max_skew=self.skew)
                    if one.when_unsatisfiable == "DoNotSchedule"
                    else one
                    for one in spec.topology_spread_constraints
                )
                spec = msgspec.structs.replace(spec, topology_spread_constraints=hard)
            case "unselect":
                affinity = spec.affinity
                if affinity is not None:
                    affinity = msgspec.structs.replace(affinity, node_affinity=None)
                spec = msgspec.structs.replace(spec, node_selector={}, affinity=affinity)
            case "ungate":
                spec = msgspec.structs.replace(spec, scheduling_gates=())
            case _:
                return pod
        return msgspec.structs.replace(pod, spec=spec)

    def of_node(self, node: Node) -> Node:
        """A node as it would be."""
        match self.what:
            case "label":
                labels = node.metadata.labels | dict(self.labels)
                return msgspec.structs.replace(
                    node, metadata=msgspec.structs.replace(node.metadata, labels=labels)
                )
            case "uncordon":
                taints = tuple(one for one in node.spec.taints if one.key != _CORDONED)
                spec = msgspec.structs.replace(node.spec, unschedulable=False, taints=taints)
                return msgspec.structs.replace(node, spec=spec)
            case "grow":
                has = dict(node.status.allocatable)
                for name, amount in self.amounts:
                    old = has.get(name, "0")
                    more = milli(old) + amount if name == CPU else value(old) + amount
                    has[name] = f"{more}m" if name == CPU else str(more)
                status = msgspec.structs.replace(node.status, allocatable=has)
                return msgspec.structs.replace(node, status=status)
        return node

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for programs that would apply it."""
        found: dict[str, Any] = {"what": self.what}
        if self.nodes:
            found["nodes"] = list(self.nodes)
        if self.taints:
            found["taints"] = [msgspec.to_builtins(one) for one in self.taints]
        if self.labels:
            found["labels"] = dict(self.labels)
        if self.skew:
            found["maxSkew"] = self.skew
        if self.amounts:
            found["amounts"] = {
                name: f"{amount}m" if name == CPU else str(amount) for name, amount in self.amounts
            }
        if self.pods:
            found["pods"] = list(self.pods)
        return found


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change in words."""

    text: str
    change: Change


def suffices(snapshot: Snapshot, pod: Pod, change: Change, *, pinned: bool = False) -> bool:
    """Whether the pod, which is not placed, fits once the change is made: on each of its nodes that are named
    to users, or anywhere where it names none. The snapshot is left as it was.
    """
    if not change.nodes:
        cls = snapshot.class_of(change.of_pod(pod), pinned=pinned)
        return bool(rules.verdicts(snapshot, cls).feasible.any())
    return all(
        _suffices_on(snapshot, pod, change, node, pinned=pinned) for node in change.nodes[:NODES_NAMED]
    )


def _suffices_on(snapshot: Snapshot, pod: Pod, change: Change, name: str, *, pinned: bool) -> bool:
    slot = snapshot.nodes.slot(name)
    before = snapshot.nodes.node(slot)
    after = change.of_node(before)
    if after is not before:
        snapshot.put_node(after)
    try:
        cls = snapshot.class_of(change.of_pod(pod), pinned=pinned)
        with snapshot.trial():
            for key in change.pods:
                snapshot.forget(key)
            return rules.fits(snapshot, cls, slot)
    finally:
        if after is not before:
            snapshot.put_node(before)
