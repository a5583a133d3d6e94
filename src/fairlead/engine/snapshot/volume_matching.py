"""Claims that wait for their first consumer: which volume each would get on a node, or why none.

On each node the smallest claims choose first among the volumes that are reachable from there; what
finds none must be provided by its class. Most nodes have no volume to choose from, so that for them
only what classes can provide is looked at, for all nodes at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairlead.engine.snapshot import volume_migration
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.masks import NodePredicate
from fairlead.engine.snapshot.nodes import Bools, NodeColumns
from fairlead.engine.snapshot.registry import Classes
from fairlead.engine.snapshot.storage import Storage, claim_name, class_name
from fairlead.kube.pod import NodeSelectorTerm
from fairlead.kube.quantity import nano, value
from fairlead.kube.selectors import LabelSelector, matches
from fairlead.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

Claims = list[PersistentVolumeClaim]

Lack = Literal["volume", "space"]
"""What a claim lacks on a node: a volume, existing or to be made, or the space to make one."""

SELECTED_NODE = "volume.kubernetes.io/selected-node"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


@dataclass(frozen=True, slots=True)
class Bindings:
    """What placing a pod would bind: claims to volumes that exist, and claims to be provided for on the node.

    `lack`: why it cannot be placed there. Both by ``namespace/name`` of the claim.
    """

    static: tuple[tuple[str, str], ...] = ()
    provision: tuple[str, ...] = ()
    lack: Lack | None = None


class VolumeMatching:
    """See the module; what is found follows from the nodes and the storage objects as they are."""

    def __init__(self, nodes: NodeColumns, classes: Classes, storage: Storage) -> None:
        self._nodes = nodes
        self._classes = classes
        self._storage = storage

    def bindings(self, cls: PodClass, slot: int) -> Bindings:
        """What placing a pod of the class on a node where it fits would bind."""
        _, waiting = self.claims_of(cls)
        return self.resolve(waiting, slot) if waiting else Bindings()

    def claims_of(self, cls: PodClass) -> tuple[Claims, Claims | None]:
        """The claims that are bound, and those that wait for a consumer; None: some wait for others."""
        bound, waiting, immediate = [], [], False
        for volume in cls.facts.volumes:
            name = claim_name(cls.pod_name, volume)
            claim = self._storage.claims.get(f"{cls.namespace}/{name}") if name is not None else None
            if claim is None:
                continue
            if claim.is_bound:
                bound.append(claim)
                continue
            storage_class = self._storage.classes.get(class_name(claim))
            waits = storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer"
            if waits and not claim.spec.volume_name:
                waiting.append(claim)
            else:
                immediate = True
        return bound, None if immediate else waiting

    def outlook(self, waiting: Claims) -> tuple[Bools, Bools]:
        """Per slot: whether a claim finds no volume there nor can get one, and whether for want of space."""
        nodes = self._nodes
        no_match = np.zeros(nodes.capacity, np.bool_)
        no_space = np.zeros(nodes.capacity, np.bool_)
        choice = np.zeros(nodes.capacity, np.bool_)
        chosen, open_to = self._sorted_out(waiting)
        for _, node in chosen:
            no_match |= ~nodes.named((node,))
        for claim in open_to:
            for volume in self._storage.volumes_of_class(class_name(claim)):
                if self._meant_for(volume, claim) is not False and _suits(claim, volume):
                    choice |= self.reach(volume)
        for claim in (*(claim for claim, _ in chosen), *open_to):
            impossible, full = self._provision(claim)
            said = no_match | no_space
            no_match |= impossible & ~said
            no_space |= full & ~impossible & ~said
        for slot in np.flatnonzero(choice & nodes.alive).tolist():
            lack = self.resolve(waiting, slot).lack
            no_match[slot] = lack == "volume"
            no_space[slot] = lack == "space"
        return no_match, no_space

    def resolve(self, waiting: Claims, slot: int) -> Bindings:
        """What the waiting claims would be bound to on a node, or what they lack there."""
        name = self._nodes.name(slot)
        chosen, open_to = self._sorted_out(waiting)
        if any(node != name for _, node in chosen):
            return Bindings(lack="volume")
        provision = [claim for claim, _ in chosen]
        static: list[tuple[str, str]] = []
        taken: list[str] = []
        for claim in open_to:
            volume = self._match(claim, slot, taken)
            if volume is None:
                provision.append(claim)
            else:
                taken.append(volume.metadata.name)
                static.append((claim.metadata.key, volume.metadata.name))
        for claim in provision:
            impossible, full = self._provision(claim)
            if impossible[slot]:
                return Bindings(lack="volume")
            if full[slot]:
                return Bindings(lack="space")
        return Bindings(tuple(static), tuple(claim.metadata.key for claim in provision))

    def reach(self, volume: PersistentVolume) -> Bools:
        """The nodes from which a volume can be reached; its selector knows labels only, not names."""
        affinity = volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            return self._nodes.alive
        held = self._storage.reach.get(volume.metadata.name)
        if held is None:
            terms = tuple(
                NodeSelectorTerm(match_expressions=term.match_expressions)
                for term in affinity.required.node_selector_terms
            )
            held = self._classes.mask(NodePredicate((), terms))
            self._storage.reach[volume.metadata.name] = held
        return held.mask()

    def reach_bound(self, volume: PersistentVolume) -> Bools:
        """The same for a bound volume: where its kind was taken over by CSI, in the driver's terms."""
        plain = self.reach(volume)
        plugin = volume_migration.plugin_of(volume)
        if not plugin:
            return plain
        nodes, terms = self._nodes, volume_migration.translated_terms(volume)
        translated = self._classes.mask(NodePredicate((), terms)).mask() if terms is not None else nodes.alive
        over = np.zeros(nodes.capacity, np.bool_)
        for name, csi_node in self._storage.csi_nodes.items():
            slot = nodes.slot(name)
            if slot >= 0:
                over[slot] = volume_migration.migrated(csi_node, plugin)
        return np.where(over, translated, plain)

    def _sorted_out(self, waiting: Claims) -> tuple[list[tuple[PersistentVolumeClaim, str]], Claims]:
        """Claims whose node was selected, with it, and the others, smallest first.

        The smallest choose first, so that large volumes are left for large claims.
        """
        chosen, open_to = [], []
        for claim in waiting:
            node = self._storage.selected.get(claim.metadata.key) or claim.metadata.annotations.get(
                SELECTED_NODE
            )
            if node is None:
                open_to.append(claim)
            else:
                chosen.append((claim, node))
        return chosen, sorted(open_to, key=_size)

    def _match(self, claim: PersistentVolumeClaim, slot: int, taken: list[str]) -> PersistentVolume | None:
        """The volume on a node that a claim would be bound to: the one meant for it, else the smallest."""
        smallest: PersistentVolume | None = None
        for volume in self._storage.volumes_of_class(class_name(claim)):
            if volume.metadata.name in taken:
                continue
            meant = self._meant_for(volume, claim)
            if meant is False or not _suits(claim, volume):
                continue
            reachable = bool(self.reach(volume)[slot])
            if meant:
                return volume if reachable else None
            if (
                reachable
                and volume.status.phase == "Available"
                and (claim.spec.selector is None or matches(claim.spec.selector, volume.metadata.labels))
                and all(mode in volume.spec.access_modes for mode in claim.spec.access_modes)
                and (smallest is None or _capacity(volume) < _capacity(smallest))
            ):
                smallest = volume
        return smallest

    def _meant_for(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool | None:
        """Whether a volume is bound to, or reserved for, this claim; None when for no claim at all."""
        reserved = self._storage.reserved.get(volume.metadata.name)
        if reserved is not None:
            return reserved == claim.metadata.key
        reference = volume.spec.claim_ref
        if reference is None:
            return None
        same = reference.name == claim.metadata.name and reference.namespace == claim.metadata.namespace
        return same and (not reference.uid or reference.uid == claim.metadata.uid)

    def _provision(self, claim: PersistentVolumeClaim) -> tuple[Bools, Bools]:
        """Per slot: whether the claim's class makes no volumes there, and whether there is no space."""
        capacity = self._nodes.capacity
        storage_class = self._storage.classes.get(class_name(claim))
        if storage_class is None or storage_class.provisioner in ("", _NO_PROVISIONER):
            return np.ones(capacity, np.bool_), np.zeros(capacity, np.bool_)
        impossible = np.zeros(capacity, np.bool_)
        if storage_class.allowed_topologies:
            terms = tuple(
                NodeSelectorTerm(tuple(expression.requirement for expression in term.match_label_expressions))
                for term in storage_class.allowed_topologies
            )
            impossible = ~self._classes.mask(NodePredicate((), terms)).mask()
        return impossible, ~self._space(claim, storage_class)

    def _space(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Bools:
        """Per slot: whether storage reachable from there has room for the claim, as far as is known."""
        driver = self._storage.drivers.get(storage_class.provisioner)
        if (
            "storage" not in claim.spec.resources.requests
            or driver is None
            or not driver.spec.storage_capacity
        ):
            return np.ones(self._nodes.capacity, np.bool_)
        size = value(claim.spec.resources.requests["storage"])
        space = np.zeros(self._nodes.capacity, np.bool_)
        for free in self._storage.capacities.values():
            limit = free.capacity if free.maximum_volume_size is None else free.maximum_volume_size
            if (
                free.storage_class_name == storage_class.metadata.name
                and free.node_topology is not None
                and limit is not None
                and value(limit) >= size
            ):
                space |= self._classes.mask(_predicate(free.node_topology)).mask()
        return space


def _suits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    wanted, offered = claim.spec.volume_attributes_class_name, volume.spec.volume_attributes_class_name
    return (
        _capacity(volume) >= _size(claim)
        and claim.spec.volume_mode == volume.spec.volume_mode
        and (wanted or "") == (offered or "")
        and volume.metadata.deletion_timestamp is None
    )


def _predicate(selector: LabelSelector) -> NodePredicate:
    terms = (NodeSelectorTerm(selector.match_expressions),) if selector.match_expressions else None
    return NodePredicate(tuple(sorted(selector.match_labels.items())), terms)


def _size(claim: PersistentVolumeClaim) -> int:
    return nano(claim.spec.resources.requests.get("storage", 0))


def _capacity(volume: PersistentVolume) -> int:
    return nano(volume.spec.capacity.get("storage", 0))
