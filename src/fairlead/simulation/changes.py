"""What is done to a copy of a cluster before it goes on: each change as it is written on the command line.

Changes are made in order, a second apart; what follows from them follows in virtual time. Nodes that are
added are ready at once. A node that is removed or lost is gone as a cloud takes machines away: its Node
object goes at once, and nothing was moved before. A lost tier or zone brings no new nodes either: groups
whose nodes would be in it cannot have any.
"""

from __future__ import annotations

import fnmatch
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fairlead.engine.ask.capacity import ZONE, group_of
from fairlead.errors import ApiError, BadInput
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.selectors import matches, parse_label_selector
from fairlead.nodegroups import GROUP_LABEL, node_of, template_of
from fairlead.policy.names import POLICIES
from fairlead.policy.tiers.tier_nodes import TierNodes
from fairlead.simulation.cluster_copy import ClusterCopy, Progress, called
from fairlead.simulation.contents import Obj
from fairlead.simulation.drain import Drain
from fairlead.world.api import DeleteOptions, Options
from fairlead.world.objects import labels_of

_HOSTNAME = "kubernetes.io/hostname"
_SCALED = ("Deployment", "StatefulSet", "ReplicaSet")
_MANAGER = Options(field_manager="whatif", force=True)
_PATTERN = frozenset("*?[")
_NAMED = 3  # nodes that a change's text names one by one
# A node's own, which another node of its kind does not have.
_OWN_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeletedByClusterAutoscaler")


class Change(ABC):
    """One change. `apply` raises BadInput where it cannot be made, with what there is instead."""

    @abstractmethod
    def apply(self, copy: ClusterCopy) -> None:
        """Make it."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The change in words: ``3 nodes of large more``."""


@dataclass(frozen=True, slots=True)
class AddNodes(Change):
    """More nodes of a group: as the group's template says or, without one, like a node that is there."""

    group: str
    number: int

    @property
    def text(self) -> str:
        """See `Change`."""
        return f"add {self.number} {'node' if self.number == 1 else 'nodes'} of {self.group}"

    def apply(self, copy: ClusterCopy) -> None:
        """See `Change`."""
        known = {one.name: one for one in copy.contents.groups}
        group = known.get(self.group)
        if group is not None:
            make: Callable[[str, int], Obj] = lambda name, number: node_of(group, name, number)  # noqa: E731
        else:
            there = {group_of(convert(one, Node)): one for one in reversed(copy.nodes())}
            pattern = there.get(self.group)
            if pattern is None:
                raise no_group(self.group, {*known, *there})
            make = lambda name, _: _like(pattern, name)  # noqa: E731
        taken = {one["metadata"]["name"] for one in copy.nodes()}
        number = 0
        for _ in range(self.number):
            while (name := f"{self.group}-added-{number}") in taken:
                number += 1
            taken.add(name)
            copy.create(make(name, number))
        if group is not None:
            pools = copy.world.pools
            pools.set_target(self.group, pools.target(self.group) + self.number)


@dataclass(frozen=True, slots=True)
class RemoveNode(Change):
    """Machines are gone; `node` says which, as `named_nodes` takes it."""

    node: str

    @property
    def text(self) -> str:
        """See `Change`."""
        return f"remove {_said(self.node)}"

    def apply(self, copy: ClusterCopy) -> None:
        """See `Change`."""
        _remove(copy, named_nodes(copy, self.node))


@dataclass(frozen=True, slots=True)
class DrainNode(Change):
    """Nodes are cordoned, all of them first, and their pods are evicted as budgets allow it.

    `node` says which nodes, as `named_nodes` takes it.
    """

    node: str

    @property
    def text(self) -> str:
        """See `Change`."""
        return f"drain {_said(self.node)}"

    def apply(self, copy: ClusterCopy) -> None:
        """See `Change`."""
        chosen = named_nodes(copy, self.node)
        for name in chosen:
            copy.world.patch("Node", name, {"spec": {"unschedulable": True}})
        copy.drains += [Drain(copy.world, name) for name in chosen]


@dataclass(frozen=True, slots=True)
class LoseTier(Change):
    """Every node of a tier is gone, and no new one can be had. `tier` may be ``policy/tier``."""

    tier: str

    @property
    def text(self) -> str:
        """See `Change`."""
        return f"lose tier {self.tier}"

    def apply(self, copy: ClusterCopy) -> None:
        """See `Change`."""
        policy_name, _, tier = self.tier.rpartition("/")
        chosen = [
            one
            for one in copy.policies
            if policy_name in ("", one.name) and tier in [each.name for each in one.spec.tiers]
        ]
        if not chosen:
            names = sorted({f"{one.name}/{each.name}" for one in copy.policies for each in one.spec.tiers})
            there = f"there are {', '.join(names)}" if names else "there is no placement policy"
            raise BadInput(f"lose tier: no policy has a tier {self.tier!r}; {there}")
        nodes = [convert(one, Node) for one in copy.nodes()]
        templates = [template_of(group, group.name) for group in copy.contents.groups]
        lost: dict[str, None] = {}
        for policy in chosen:
            number = [one.name for one in policy.spec.tiers].index(tier)
            lost |= dict.fromkeys(TierNodes(policy, [*nodes, *templates]).names[number])
        for group in copy.contents.groups:
            if group.name in lost:
                copy.world.pools.set_supply(group.name, 0)
        _remove(copy, [one.metadata.name for one in nodes if one.metadata.name in lost])


@dataclass(frozen=True, slots=True)
class LoseZone(Change):
    """Every node of a zone is gone; groups that have nodes there alone get no new ones."""

    zone: str

    @property
    def text(self) -> str:
        """See `Change`."""
        return f"lose zone {self.zone}"

    def apply(self, copy: ClusterCopy) -> None:
        """See `Change`."""
        zones: dict[str, list[str]] = {}
        for one in copy.nodes():
            zone = (one["metadata"].get("labels") or {}).get(ZONE, "")
            zones.setdefault(zone, []).append(one["metadata"]["name"])
        for group in copy.contents.groups:
            if set(group.zones) == {self.zone}:
                copy.world.pools.set_supply(group.name, 0)
        if self.zone not in zones:
            names = ", ".join(sorted(filter(None, zones)))
            there = f"there are {names}" if names else "no node says which zone it is in"
            raise BadInput(f"lose zone: there is no zone {self.zone!r}; {there}")
        _remove(copy, zones[self.zone])


@dataclass(frozen=True, slots=True)
class Scale(Change):
    """Another number of replicas for a workload; `kind` "" is whichever there is of that name."""

    namespace: str
    kind: str
    name: str
    replicas: int

    @property
    def text(self) -> str:
        """See `Change`."""
        return f"scale {self.namespace}/{self.name} to {self.replicas}"

    def apply(self, copy: ClusterCopy) -> None:
        """See `Change`."""
        for kind in _SCALED:
            if self.kind.lower() in ("", kind.lower()) and copy.find(kind, self.namespace, self.name):
                copy.world.patch(kind, self.name, {"spec": {"replicas": self.replicas}}, self.namespace)
                return
        wanted = self.kind or "Deployment, StatefulSet or ReplicaSet"
        raise BadInput(f"scale: there is no {wanted} {self.name} in namespace {self.namespace}")


@dataclass(frozen=True, slots=True)
class Apply(Change):
    """Objects as ``kubectl apply`` takes them; `source` is the file that they are from."""

    source: str
    objects: Sequence[Obj]

    @property
    def text(self) -> str:
        """See `Change`."""
        return f"apply {self.source}"

    def apply(self, copy: ClusterCopy) -> None:
        """See `Change`."""
        for item in self.objects:
            if item.get("kind") == POLICIES.kind:
                raise BadInput(
                    f"apply: {called(item)}: a policy is tried with --policy, and holds from the start"
                )
            copy.apply(item, _MANAGER)


@dataclass(frozen=True, slots=True)
class Delete(Change):
    """An object is deleted, and what it owns with it."""

    kind: str
    namespace: str
    name: str

    @property
    def text(self) -> str:
        """See `Change`."""
        return f"delete {self.kind} {self.namespace}/{self.name}"

    def apply(self, copy: ClusterCopy) -> None:
        """See `Change`."""
        for served in copy.world.api.registry:
            resource = served.resource
            if self.kind.lower() not in (resource.kind.lower(), resource.plural):
                continue
            namespace = self.namespace if resource.namespaced else ""
            if copy.world.store.get(resource, namespace, self.name) is None:
                continue
            options = DeleteOptions(propagation="Background")
            try:
                copy.world.api.delete(resource, self.name, namespace, options)
            except ApiError as error:
                raise BadInput(f"{self.text}: {error}") from error
            return
        raise BadInput(f"delete: there is no {self.kind} {self.name} in namespace {self.namespace}")


APART = timedelta(seconds=1)
"""Between two changes, as between two commands of a user: what the first one starts has begun by then."""


def apply_all(
    copy: ClusterCopy, changes: Iterable[Change], say: Callable[[Progress], None] = lambda _: None
) -> None:
    """Make changes, in order, a second apart; `say` receives how far it is.

    Before the first one all components have had a look: they know what the cluster was like.
    """
    for number, change in enumerate(changes):
        copy.go_on(APART if number else timedelta(), say)
        change.apply(copy)


def no_group(name: str, there: Iterable[str]) -> BadInput:
    """That there is no node group of a name, with those that there are."""
    names = sorted(filter(None, there))
    said = f"there are {', '.join(names)}" if names else "no node says which group it is of"
    return BadInput(f"there is no node group {name!r}; {said}")


def named_nodes(copy: ClusterCopy, text: str) -> list[str]:
    """The nodes that a text means: names and patterns with ``*``, between commas, or a label selector."""
    if "=" in text:
        selector = parse_label_selector(text)
        found = [one["metadata"]["name"] for one in copy.nodes() if matches(selector, labels_of(one))]
        if not found:
            raise BadInput(f"there is no node with labels {text}; `fairlead nodes` lists them")
        return found
    names = [one["metadata"]["name"] for one in copy.nodes()]
    chosen: dict[str, None] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        some = fnmatch.filter(names, part) if _PATTERN.intersection(part) else [part]
        if not some or (part in some and copy.find("Node", "", part) is None):
            raise BadInput(f"there is no node {part!r}; `fairlead nodes` lists them")
        chosen |= dict.fromkeys(some)
    if not chosen:
        raise BadInput(f"{text!r} names no node")
    return list(chosen)


def _said(nodes: str) -> str:
    """Nodes in words.

    >>> _said("a"), _said("a,b"), _said("spot-*"), _said("pool=old"), _said("a,b,c,d,e")
    ('node a', 'nodes a, b', 'nodes spot-*', 'nodes with pool=old', 'nodes a, b, c and 2 more')
    """
    if "=" in nodes:
        return f"nodes with {nodes}"
    parts = [one.strip() for one in nodes.split(",") if one.strip()]
    shown = ", ".join(parts[:_NAMED]) + (f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else "")
    return f"{'node' if len(parts) == 1 and not _PATTERN.intersection(nodes) else 'nodes'} {shown}"


def _remove(copy: ClusterCopy, nodes: Iterable[str]) -> None:
    pools = copy.world.pools
    for name in nodes:
        node = copy.find("Node", "", name)
        assert node is not None
        group = (node["metadata"].get("labels") or {}).get(GROUP_LABEL, "")
        copy.world.remove_node(name)
        if group in pools.groups:
            # It is gone for good: whether another one is wanted is the autoscaler's question.
            pools.set_target(group, pools.target(group) - 1)


def _like(pattern: Obj, name: str) -> dict[str, Any]:
    """Another node of the pattern's kind."""
    meta, spec, status = pattern["metadata"], pattern.get("spec") or {}, pattern.get("status") or {}
    labels = {**(meta.get("labels") or {})}
    if _HOSTNAME in labels:
        labels[_HOSTNAME] = name
    taints = [one for one in spec.get("taints") or () if not one["key"].startswith(_OWN_TAINTS)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints} if taints else {},
        "status": {key: status[key] for key in ("capacity", "allocatable") if key in status},
    }
