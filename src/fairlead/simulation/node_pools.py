"""Karpenter's NodePools as node groups: what each may bring, told by the nodes that it has brought.

A NodePool names requirements, not machines, and no catalogue of all clouds' machines is part of this program.
So a pool brings nodes like those that are there of it: of the most frequent shape, in the zones where it has
some, with the pool's own taints, up to the pool's limits. A pool without nodes shows and brings nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.errors import BadObject
from fairlead.kube.decode import convert
from fairlead.kube.meta import Object, ObjectMeta
from fairlead.kube.node import Node
from fairlead.kube.pod import Quantities
from fairlead.kube.quantity import QuantityError, nano
from fairlead.kube.tolerations import Taint
from fairlead.nodegroups import InstanceType, NodeGroup

KIND = "NodePool"
_API_GROUP = "karpenter.sh/"
_POOL, _CAPACITY_TYPE = "karpenter.sh/nodepool", "karpenter.sh/capacity-type"
_ZONE, _TYPE, _ARCHITECTURE = (
    "topology.kubernetes.io/zone",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/arch",
)
# Labels that are the node's own, or that a new node is given.
_OWN = frozenset({"kubernetes.io/hostname", "topology.k8s.aws/zone-id", _ZONE, _TYPE, _ARCHITECTURE})
# A pool without limits: more than anyone asks for.
_MOST = 10_000
_NODES = "nodes"


class _NodeSpec(Object, frozen=True, gc=False):
    taints: tuple[Taint, ...] = ()


class _Template(Object, frozen=True, gc=False):
    spec: _NodeSpec = _NodeSpec()


class _Spec(Object, frozen=True, gc=False):
    template: _Template = _Template()
    limits: Quantities = {}


class _Pool(Object, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


@dataclass(frozen=True, slots=True)
class PoolsAsGroups:
    """The groups, and of pools that bring nothing, why."""

    groups: tuple[NodeGroup, ...] = ()
    left_out: tuple[str, ...] = ()


def groups_of_pools(objects: Iterable[Mapping[str, Any]]) -> PoolsAsGroups:
    """What the NodePools among a cluster's objects may bring."""
    pools: list[Mapping[str, Any]] = []
    there: dict[str, list[Node]] = {}
    for one in objects:
        if one.get("kind") == KIND and str(one.get("apiVersion", "")).startswith(_API_GROUP):
            pools.append(one)
        elif one.get("kind") == "Node":
            name = (one["metadata"].get("labels") or {}).get(_POOL)
            if name:
                there.setdefault(name, []).append(convert(one, Node))
    groups, left_out = [], []
    for one in sorted(pools, key=lambda one: str(one["metadata"]["name"])):
        name = one["metadata"]["name"]
        try:
            nodes = there.get(name)
            if nodes:
                groups.append(_group(convert(one, _Pool), nodes))
            else:
                left_out.append(
                    f"NodePool {name}: no node of it shows what it would bring, so it brings none"
                )
        except (BadObject, QuantityError) as error:
            left_out.append(f"NodePool {name}: it brings no nodes: {error}")
    return PoolsAsGroups(tuple(groups), tuple(left_out))


def _group(pool: _Pool, nodes: list[Node]) -> NodeGroup:
    shapes = Counter(map(_shape, nodes))
    # Of shapes that are as frequent, that of the node whose name comes first.
    pattern = max(sorted(nodes, key=lambda one: one.metadata.name), key=lambda one: shapes[_shape(one)])
    labels = pattern.metadata.labels
    capacity = pattern.status.capacity or pattern.status.allocatable
    machine = InstanceType(
        name=labels.get(_TYPE, ""),
        capacity=capacity,
        allocatable=pattern.status.allocatable,
        architecture=labels.get(_ARCHITECTURE, "amd64"),
    )
    return NodeGroup(
        name=pool.metadata.name,
        instance_types=(machine,),
        labels={key: value for key, value in labels.items() if key not in _OWN},
        taints=pool.spec.template.spec.taints,
        zones=tuple(sorted({zone for one in nodes if (zone := one.metadata.labels.get(_ZONE))})),
        desired=len(nodes),
        max=_most(pool.spec.limits, capacity, nodes),
        volatile=labels.get(_CAPACITY_TYPE) == "spot",
    )


def _shape(node: Node) -> tuple[str, tuple[tuple[str, Any], ...]]:
    return node.metadata.labels.get(_TYPE, ""), tuple(sorted(node.status.allocatable.items()))


def _most(limits: Quantities, capacity: Quantities, nodes: list[Node]) -> int:
    """How many nodes a pool may have: those that are there, and what is left below its limits in new ones."""
    more = _MOST
    for name, limit in limits.items():
        if name == _NODES:
            left = nano(limit) // nano(1) - len(nodes)
        elif each := nano(capacity.get(name, 0)):
            used = sum(nano((one.status.capacity or one.status.allocatable).get(name, 0)) for one in nodes)
            left = (nano(limit) - used) // each
        else:
            continue
        more = min(more, max(0, left))
    return len(nodes) + more
