"""The node that a group would bring: the template that autoscalers reason on, and nodes made from it."""

from __future__ import annotations

from typing import Any

from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.pod import Quantities
from fairlead.nodegroups.group import GROUP_LABEL, NodeGroup

__all__ = ["node_of", "template_of"]

# What a machine has beyond what its type declares: a kubelet's default.
_PODS: Quantities = {"pods": "110"}


def template_of(group: NodeGroup, name: str) -> Node:
    """The group's template under a name: what the node would be like, without there being one.

    >>> from fairlead.nodegroups.group import read_groups
    >>> [group] = read_groups([{"name": "big", "zones": ["a", "b"], "instanceTypes": [
    ...     {"name": "m5.large", "capacity": {"cpu": "2", "memory": "8Gi"}}]}])
    >>> node = template_of(group, "big-template")
    >>> node.metadata.labels["topology.kubernetes.io/zone"], node.status.allocatable["pods"]
    ('a', '110')
    """
    return convert(node_of(group, name), Node)


def node_of(group: NodeGroup, name: str, number: int = 0) -> dict[str, Any]:
    """The `number`-th node of a group as an object to create; zones are taken in turn."""
    kind = group.instance_type
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": kind.architecture,
        **({"node.kubernetes.io/instance-type": kind.name} if kind.name else {}),
        **({"topology.kubernetes.io/zone": group.zones[number % len(group.zones)]} if group.zones else {}),
        **group.labels,
        GROUP_LABEL: group.name,
    }
    capacity = {**_PODS, **kind.capacity}
    node: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": f"fairlead://{group.name}/{name}"},
        "status": {"capacity": capacity, "allocatable": {**capacity, **kind.allocatable}},
    }
    if group.taints:
        node["spec"]["taints"] = [
            {"key": each.key, "effect": each.effect, **({"value": each.value} if each.value else {})}
            for each in group.taints
        ]
    return node
