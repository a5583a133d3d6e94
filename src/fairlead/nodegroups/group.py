"""The model of a node group: nodes of one kind that a cloud adds and removes by number, and the node that it
would bring, which autoscalers reason on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from fairlead.errors import BadInput, BadObject
from fairlead.kube.decode import convert
from fairlead.kube.meta import Object
from fairlead.kube.node import Node
from fairlead.kube.pod import Quantities
from fairlead.kube.quantity import QuantityError, nano
from fairlead.kube.tolerations import Taint

# Which group a node belongs to; every node that a group brings carries it.
GROUP_LABEL = "fairlead.dev/node-group"

# A taint's effect as nodes, pods and tags spell it → as the EKS API does.
EFFECTS = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}


class InstanceType(Object, frozen=True, gc=False):
    """A kind of machine. `allocatable` is what pods may use; absent, it is all of `capacity`."""

    name: str = ""
    capacity: Quantities = {}
    allocatable: Quantities = {}
    price_per_hour: Decimal = Decimal(0)
    architecture: str = "amd64"


class NodeGroup(Object, frozen=True, gc=False):
    """Nodes that are alike: what they are made of, what they say of themselves, how many there may be.

    With several instance types the first stands for the group, as with autoscalers' templates; new
    nodes take the zones in turn, but a template shows only the first.
    """

    name: str
    instance_types: tuple[InstanceType, ...] = (InstanceType(),)
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    zones: tuple[str, ...] = ()
    min: int = 0
    desired: int = 0
    max: int = 10
    boot_s: float = 30.0
    volatile: bool = False
    """Whether its nodes can be taken away at any time (spot)."""

    @property
    def instance_type(self) -> InstanceType:
        """The one that stands for the group."""
        return self.instance_types[0]

    @property
    def price_per_hour(self) -> Decimal:
        """What one node costs."""
        return self.instance_type.price_per_hour


def read_groups(data: Iterable[object]) -> tuple[NodeGroup, ...]:
    """Node groups from plain data, checked: the error names the group and the field.

    >>> read_groups([{"name": "spot", "max": 3, "instanceTypes": [{"capacity": {"cpu": "4"}}]}])[0].max
    3
    """
    groups = tuple(convert(each, NodeGroup) for each in data)
    seen: dict[str, None] = {}
    for group in groups:
        check(group)
        if group.name in seen:
            raise BadInput(f"node group {group.name}: there are two of that name")
        seen[group.name] = None
    return groups


def check(group: NodeGroup, called: str = "") -> None:
    """Raise what is wrong with a group, naming it (as `called`, else by its name) and the field."""
    called = called or f"NodeGroup {group.name or '(no name)'}"
    if not group.name:
        raise BadObject(called, "name", "is empty")
    if not group.instance_types:
        raise BadObject(called, "instanceTypes", "is empty")
    if not 0 <= group.min <= group.max:
        raise BadObject(called, "min", f"must be between 0 and max ({group.max})")
    if group.desired and not group.min <= group.desired <= group.max:
        raise BadObject(called, "desired", f"must be between min ({group.min}) and max ({group.max})")
    if not math.isfinite(group.boot_s) or group.boot_s < 0:
        raise BadObject(called, "bootS", f"{group.boot_s} is no time")
    for index, taint in enumerate(group.taints):
        if taint.effect not in EFFECTS:
            raise BadObject(called, f"taints[{index}].effect", _wrong_effect(taint.effect))
    for index, kind in enumerate(group.instance_types):
        price = kind.price_per_hour
        if not price.is_finite() or price < 0:
            raise BadObject(called, f"instanceTypes[{index}].pricePerHour", f"{price} is not a price")
        for field, quantities in (("capacity", kind.capacity), ("allocatable", kind.allocatable)):
            for name, quantity in quantities.items():
                try:
                    negative = nano(quantity) < 0
                except QuantityError as error:
                    raise BadObject(called, f"instanceTypes[{index}].{field}.{name}", str(error)) from error
                if negative:
                    raise BadObject(called, f"instanceTypes[{index}].{field}.{name}", "is negative")


def _wrong_effect(effect: str) -> str:
    for ours, theirs in EFFECTS.items():
        if effect == theirs:
            return f"{effect} is the EKS API's spelling; nodes, pods and tags spell it {ours}: write {ours}"
    return f"{effect!r} is none of {', '.join(EFFECTS)}"


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
