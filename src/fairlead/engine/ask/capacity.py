"""How full nodes are: what pods have asked for of what each node has, and the largest pod that still fits.

Requests are counted as the scheduler counts them, so a node without room here is one without room for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.engine.ask.inventory import Inventory
from fairlead.engine.snapshot.requests import CPU, MEMORY, PODS
from fairlead.kube.node import Node
from fairlead.kube.quantity import format_bytes, format_milli
from fairlead.nodegroups import GROUP_LABEL
from fairlead.policy.tiers.fallback import is_schedulable

_GROUPS = (
    GROUP_LABEL,
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
)
_SPOT = (
    ("karpenter.sh/capacity-type", "spot"),
    ("eks.amazonaws.com/capacityType", "spot"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
    ("node.kubernetes.io/capacity", "spot"),
    ("node.kubernetes.io/lifecycle", "spot"),
)
ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class NodeFill:
    """One node. Amounts by resource, cpu in thousandths; `pods` are those that take room on it."""

    name: str
    group: str
    zone: str
    schedulable: bool
    state: str
    """Ready, NotReady or Cordoned."""
    pods: int
    has: Mapping[str, int]
    used: Mapping[str, int]

    def free(self, resource: str) -> int:
        """What is left; 0 where more is asked for than there is."""
        return max(0, self.has.get(resource, 0) - self.used.get(resource, 0))

    def fill(self, resource: str) -> float | None:
        """How much of it is asked for, 1.0 being all; None where the node has none."""
        has = self.has.get(resource, 0)
        return self.used.get(resource, 0) / has if has else None

    def to_dict(self) -> dict[str, Any]:
        """As plain data, in quantities."""
        names = sorted(self.has)
        return {
            "name": self.name,
            "group": self.group,
            "zone": self.zone,
            "state": self.state,
            "schedulable": self.schedulable,
            "pods": self.pods,
            "allocatable": {name: quantity(name, self.has[name]) for name in names},
            "requested": {name: quantity(name, self.used.get(name, 0)) for name in names},
            "free": {name: quantity(name, self.free(name)) for name in names},
        }


@dataclass(frozen=True, slots=True)
class Fill:
    """Several nodes together: a tier's, a group's, all."""

    name: str
    nodes: int
    ready: int
    has: Mapping[str, int]
    used: Mapping[str, int]

    def fill(self, resource: str) -> float | None:
        """See `NodeFill.fill`."""
        has = self.has.get(resource, 0)
        return self.used.get(resource, 0) / has if has else None

    def to_dict(self) -> dict[str, Any]:
        """As plain data, in quantities."""
        return {
            "name": self.name,
            "nodes": self.nodes,
            "ready": self.ready,
            "allocatable": {name: quantity(name, self.has[name]) for name in sorted(self.has)},
            "requested": {name: quantity(name, self.used.get(name, 0)) for name in sorted(self.has)},
        }


def quantity(resource: str, amount: int) -> str:
    """An amount as Kubernetes spells it, exact; cpu comes in thousandths.

    >>> quantity("cpu", 1500), quantity("memory", 1073741824), quantity("pods", 110)
    ('1500m', '1Gi', '110')
    """
    if resource == CPU:
        return format_milli(amount)
    return format_bytes(amount) if resource == MEMORY or "storage" in resource else str(amount)


def nodes_of(cluster: Inventory) -> list[NodeFill]:
    """Every node, by name."""
    snapshot = cluster.snapshot
    columns = snapshot.nodes
    found = []
    for slot in columns.slots():
        node = columns.node(slot)
        rows = [
            (name, row)
            for name, row in columns.resources.items()
            if columns.alloc[row, slot] or columns.used[row, slot]
        ]
        pods = int(columns.used[columns.row(PODS), slot])
        found.append(
            NodeFill(
                node.metadata.name,
                group_of(node),
                node.metadata.labels.get(ZONE, ""),
                is_schedulable(node),
                state_of(node),
                pods,
                {name: int(columns.alloc[row, slot]) for name, row in rows},
                {name: int(columns.used[row, slot]) for name, row in rows},
            )
        )
    return sorted(found, key=lambda one: one.name)


def together(name: str, nodes: Iterable[NodeFill]) -> Fill:
    """The sum of some nodes."""
    has: dict[str, int] = {}
    used: dict[str, int] = {}
    number = ready = 0
    for node in nodes:
        number += 1
        ready += node.schedulable
        for total, part in ((has, node.has), (used, node.used)):
            for resource, amount in part.items():
                total[resource] = total.get(resource, 0) + amount
    return Fill(name, number, ready, has, used)


def largest(nodes: Iterable[NodeFill], resource: str) -> NodeFill | None:
    """The node that takes pods and has most of a resource left, room for a pod included."""
    roomy = [node for node in nodes if node.schedulable and node.free(PODS) and node.free(resource)]
    return max(roomy, key=lambda node: (node.free(resource), node.free(MEMORY), node.name), default=None)


def group_of(node: Node) -> str:
    """The node group or NodePool that a node says it is of, "" for none."""
    return next((node.metadata.labels[label] for label in _GROUPS if node.metadata.labels.get(label)), "")


def is_spot(node: Node) -> bool:
    """Whether a node can be taken back at any time, by the labels of clouds and autoscalers."""
    labels = node.metadata.labels
    return any(labels.get(label, "").lower() == value for label, value in _SPOT)


def state_of(node: Node) -> str:
    """Ready, NotReady or Cordoned."""
    if node.spec.unschedulable:
        return "Cordoned"
    return (
        "NotReady"
        if any(one.type == "Ready" for one in node.status.conditions) and not node.ready
        else "Ready"
    )
