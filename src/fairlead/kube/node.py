"""Nodes: only the fields that a rule, a door or a message reads."""

from __future__ import annotations

from fairlead.kube.meta import Condition, Object, ObjectMeta
from fairlead.kube.pod import Quantities
from fairlead.kube.tolerations import Taint


class NodeSpec(Object, frozen=True, gc=False):
    """What is asked of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Object, frozen=True, gc=False):
    """What a node has."""

    allocatable: Quantities = {}
    capacity: Quantities = {}
    conditions: tuple[Condition, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Object, frozen=True, gc=False):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """Whether its kubelet says it is ready."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)
