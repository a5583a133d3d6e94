"""NodePools for Karpenter: the same labels, taints and bounds as the groups they are made from.

A maximum is said twice, as a number of nodes and as the cpus and memory of that many: in one pass over the
pending pods Karpenter may exceed ``limits.nodes``, but not the limits on cpu and memory. Karpenter counts a
machine's full capacity, not the allocatable amounts of our file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from fairlead.errors import BadObject
from fairlead.kube.quantity import format_bytes, format_milli, milli, value
from fairlead.nodegroups import InstanceType, NodeGroup
from fairlead.nodegroups.catalog import FAMILIES, GPU, architecture, instance_type

Provider = Literal["aws", "kwok"]
Note = Callable[[str], None]

_CLASSES = {
    "aws": ("karpenter.k8s.aws", "EC2NodeClass"),
    "kwok": ("karpenter.kwok.sh", "KWOKNodeClass"),
}
# The sizes that the KWOK provider has: cpus, and GiB for each of them.
KWOK_CPUS = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
KWOK_GIB = (2, 4, 8)
KWOK_ZONES = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")
_GIB = 2**30
_LABELS = 100
# Under the first, older versions take nothing but what is under the second, and the third.
_KUBERNETES = ("kubernetes.io", "k8s.io")
_FREE = ("node.kubernetes.io", "node-restriction.kubernetes.io", "kops.k8s.io")
_WELL_KNOWN = (
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)

Size = tuple[int, int]
"""Thousandths of a cpu, and bytes."""


def node_pools(
    groups: Sequence[NodeGroup], *, provider: Provider, node_class: str, note: Note
) -> tuple[dict[str, Any], ...]:
    """A NodePool for each group; what cannot be said to Karpenter is refused, or noted where it may be lost.

    >>> from fairlead.nodegroups import read_groups
    >>> groups = read_groups([{"name": "a", "max": 3, "instanceTypes": [
    ...     {"name": "t3a.medium", "capacity": {"cpu": "2", "memory": "4Gi"}}]}])
    >>> [pool] = node_pools(groups, provider="aws", node_class="default", note=print)
    >>> pool["spec"]["limits"]
    {'nodes': '3', 'cpu': '6', 'memory': '12Gi'}
    """
    return tuple(_node_pool(group, provider, node_class, note) for group in groups)


def _node_pool(group: NodeGroup, provider: Provider, node_class: str, note: Note) -> dict[str, Any]:
    called = f"node group {group.name}"

    def say(text: str) -> None:
        note(f"{called}: {text}")

    _check(group, called, provider, say)
    if group.desired:
        say(f"desired: {group.desired} is left out: Karpenter brings nodes only for pods that wait")
    if provider == "aws":
        requirements, largest = _on_aws(group, say)
    else:
        requirements, largest = _on_kwok(group, called, say)
    api_group, kind = _CLASSES[provider]
    spec: dict[str, Any] = {
        "nodeClassRef": {"group": api_group, "kind": kind, "name": node_class},
        "requirements": [
            {"key": key, "operator": "In", "values": values} for key, values in requirements.items() if values
        ],
    }
    if group.taints:
        spec["taints"] = [
            {"key": each.key, **({"value": each.value} if each.value else {}), "effect": each.effect}
            for each in group.taints
        ]
    cpu, memory = largest
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": group.name},
        "spec": {
            "template": {**({"metadata": {"labels": group.labels}} if group.labels else {}), "spec": spec},
            "limits": {
                "nodes": str(group.max),
                "cpu": format_milli(cpu * group.max),
                "memory": format_bytes(memory * group.max),
            },
            # As an Auto Scaling group's: a node goes when nothing is on it, not because others had room.
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
        },
    }


def _check(group: NodeGroup, called: str, provider: Provider, say: Note) -> None:
    if group.min:
        raise BadObject(
            called,
            "min",
            f"{group.min}: Karpenter brings nodes only for pods that wait, a NodePool has no minimum; "
            "write min: 0, or keep this group with Cluster Autoscaler (fairlead nodegroups terraform)",
        )
    if len(group.labels) > _LABELS:
        raise BadObject(called, "labels", f"there are {len(group.labels)}: a NodePool takes {_LABELS}")
    for key in group.labels:
        # As the NodePool's own rules look at it: by how it ends, so my-karpenter.sh is Karpenter's, too.
        domain = key.partition("/")[0]
        if key == "kubernetes.io/hostname" or domain.endswith(("karpenter.sh", _CLASSES[provider][0])):
            raise BadObject(called, f"labels.{key}", "is a label that Karpenter keeps for itself")
        if domain.endswith(_KUBERNETES) and not domain.endswith(_FREE) and key not in _WELL_KNOWN:
            say(f"labels.{key}: older versions of Karpenter refuse labels of {domain}")


def _on_aws(group: NodeGroup, say: Note) -> tuple[dict[str, list[str]], Size]:
    names = [kind.name for kind in group.instance_types if kind.name]
    found = {"node.kubernetes.io/instance-type": names}
    if names:
        sizes = [_machine(kind) for kind in group.instance_types]
        largest = max(cpu for cpu, _ in sizes), max(memory for _, memory in sizes)
    else:
        largest = _picked_on_aws(group.instance_type, say)
        found = {
            "karpenter.k8s.aws/instance-cpu": [str(largest[0] // 1000)],
            "karpenter.k8s.aws/instance-memory": [str(largest[1] // 2**20)],  # in MiB
            "karpenter.k8s.aws/instance-gpu-count": [
                str(amount) for name, amount in group.instance_type.capacity.items() if name == GPU
            ],
        }
    return {**found, **_common(group), "topology.kubernetes.io/zone": list(group.zones)}, largest


def _machine(kind: InstanceType) -> Size:
    """What a machine of a type has; EC2 has only whole cpus."""
    known = instance_type(kind.name)
    cpu, memory = _size(known or kind)
    return -(-cpu // 1000) * 1000, memory


def _picked_on_aws(kind: InstanceType, say: Note) -> Size:
    """The next size that EC2 has, as far as it is known here: a requirement must be met to the byte."""
    cpu, memory = _size(kind)
    gpus = value(kind.capacity.get(GPU, 0))
    every = {
        (cpus * 1000, round(gib * _GIB))
        for family, sizes in FAMILIES.items()
        for cpus, gib, _, has in sizes.values()
        if has == gpus and architecture(family) == kind.architecture
    }
    picked = min((one for one in every if one[0] >= cpu and one[1] >= memory), default=None)
    if picked is None:
        size = _machine(kind)
        say(f"no EC2 type of {_said(size)} is known here: whether nodes come is not known")
        return size
    if picked != (cpu, memory):
        wanted = _said((cpu, memory))
        say(f"no EC2 type of {wanted} is known here: its nodes will have {_said(picked)}")
    return picked


def _on_kwok(group: NodeGroup, called: str, say: Note) -> tuple[dict[str, list[str]], Size]:
    cpu, memory = wanted = _size(group.instance_type)
    if extended := [name for name in group.instance_type.capacity if "/" in name]:
        raise BadObject(called, f"resources.{extended[0]}", "no type of Karpenter's KWOK provider has any")
    picked = next(
        (
            (cpus, gib)
            for cpus in KWOK_CPUS
            for gib in (cpus * of_each for of_each in KWOK_GIB)
            if cpus * 1000 >= cpu and gib * _GIB >= memory
        ),
        None,
    )
    if picked is None:
        raise BadObject(called, "resources", f"no type of Karpenter's KWOK provider has {_said(wanted)}")
    size = picked[0] * 1000, picked[1] * _GIB
    if size != wanted:
        has = f"Karpenter's KWOK provider has no type of {_said(wanted)}"
        say(f"{has}: its nodes will have {_said(size)}")
    zones = [zone for zone in group.zones if zone in KWOK_ZONES]
    if len(zones) < len(group.zones):
        there = ", ".join(KWOK_ZONES)
        say(f"zones that Karpenter's KWOK provider does not have are left out; it has {there}")
    return {
        "karpenter.kwok.sh/instance-cpu": [str(picked[0])],
        "karpenter.kwok.sh/instance-memory": [format_bytes(size[1])],
        **_common(group),
        "topology.kubernetes.io/zone": zones,
    }, size


def _common(group: NodeGroup) -> dict[str, list[str]]:
    return {
        "kubernetes.io/arch": [group.instance_type.architecture],
        "kubernetes.io/os": ["linux"],
        "karpenter.sh/capacity-type": ["spot" if group.volatile else "on-demand"],
    }


def _size(kind: InstanceType) -> Size:
    return milli(kind.capacity.get("cpu", 0)), value(kind.capacity.get("memory", 0))


def _said(size: Size) -> str:
    return f"{format_milli(size[0])} cpus and {format_bytes(size[1])} of memory"
