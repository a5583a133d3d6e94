"""Claims that wait for their first consumer: which volume each would get on a node, or why none.

On each node the smallest claims choose first among the volumes that are reachable from there; what
finds none must be provided by its class. Most nodes have no volume to choose from, so that for them
only what classes can provide is looked at, for all nodes at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairlead.engine.reasons import Reason, VolumeNoMatch, VolumeNoSpace
from fairlead.engine.rules import volume_migration
from fairlead.engine.snapshot.masks import NodePredicate
from fairlead.engine.snapshot.nodes import Bools
from fairlead.engine.snapshot.storage import Storage, claim_class
from fairlead.kube.pod import NodeSelectorTerm
from fairlead.kube.quantity import nano, value
from fairlead.kube.selectors import LabelSelector, matches
from fairlead.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

if TYPE_CHECKING:
    from fairlead.engine.snapshot.snapshot import Snapshot

__all__ = ["Bindings", "outlook", "reach", "reach_bound", "resolve"]

SELECTED_NODE = "volume.kubernetes.io/selected-node"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


@dataclass(frozen=True, slots=True)
class Bindings:
    """What placing a pod would bind: claims to volumes that exist, and claims to be provided for on the node.

    Both by ``namespace/name`` of the claim.
    """

    static: tuple[tuple[str, str], ...] = ()
    provision: tuple[str, ...] = ()


def outlook(snapshot: Snapshot, waiting: list[PersistentVolumeClaim]) -> tuple[Bools, Bools]:
    """Per slot: whether some claim finds no volume there nor can get one, and whether for want of space."""
    nodes = snapshot.nodes
    no_match = np.zeros(nodes.capacity, np.bool_)
    no_space = np.zeros(nodes.capacity, np.bool_)
    choice = np.zeros(nodes.capacity, np.bool_)
    chosen, open_to = _sorted_out(snapshot.storage, waiting)
    for _, node in chosen:
        elsewhere = np.ones(nodes.capacity, np.bool_)
        slot = nodes.slot(node)
        if slot >= 0:
            elsewhere[slot] = False
        no_match |= elsewhere
    for claim in open_to:
        for volume in snapshot.storage.volumes_of_class(claim_class(claim)):
            if _meant_for(snapshot.storage, volume, claim) is not False and _suits(claim, volume):
                choice |= reach(snapshot, volume)
    for claim in (*(claim for claim, _ in chosen), *open_to):
        impossible, full = _provision(snapshot, claim)
        said = no_match | no_space
        no_match |= impossible & ~said
        no_space |= full & ~impossible & ~said
    for slot in np.flatnonzero(choice & nodes.alive).tolist():
        reason = resolve(snapshot, waiting, slot)[1]
        no_match[slot] = isinstance(reason, VolumeNoMatch)
        no_space[slot] = isinstance(reason, VolumeNoSpace)
    return no_match, no_space


def resolve(
    snapshot: Snapshot, waiting: list[PersistentVolumeClaim], slot: int
) -> tuple[Bindings, Reason | None]:
    """What the waiting claims would be bound to on a node, or why they cannot be."""
    name = snapshot.nodes.name(slot)
    chosen, open_to = _sorted_out(snapshot.storage, waiting)
    if any(node != name for _, node in chosen):
        return Bindings(), VolumeNoMatch()
    provision = [claim for claim, _ in chosen]
    static: list[tuple[str, str]] = []
    taken: list[str] = []
    for claim in open_to:
        volume = _match(snapshot, claim, slot, taken)
        if volume is None:
            provision.append(claim)
        else:
            taken.append(volume.metadata.name)
            static.append((claim.metadata.key, volume.metadata.name))
    for claim in provision:
        impossible, full = _provision(snapshot, claim)
        if impossible[slot]:
            return Bindings(), VolumeNoMatch()
        if full[slot]:
            return Bindings(), VolumeNoSpace()
    return Bindings(tuple(static), tuple(claim.metadata.key for claim in provision)), None


def reach(snapshot: Snapshot, volume: PersistentVolume) -> Bools:
    """The nodes from which a volume can be reached; its selector knows labels only, not names."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return snapshot.nodes.alive
    held = snapshot.storage.reach.get(volume.metadata.name)
    if held is None:
        terms = tuple(
            NodeSelectorTerm(match_expressions=term.match_expressions)
            for term in affinity.required.node_selector_terms
        )
        held = snapshot.classes.mask(NodePredicate((), terms))
        snapshot.storage.reach[volume.metadata.name] = held
    return held.mask()


def reach_bound(snapshot: Snapshot, volume: PersistentVolume) -> Bools:
    """The same for a volume that is bound: where its kind was taken over by CSI, in the driver's terms."""
    plain = reach(snapshot, volume)
    plugin = volume_migration.plugin_of(volume)
    if not plugin:
        return plain
    nodes, terms = snapshot.nodes, volume_migration.translated_terms(volume)
    translated = snapshot.classes.mask(NodePredicate((), terms)).mask() if terms is not None else nodes.alive
    over = np.zeros(nodes.capacity, np.bool_)
    for name, csi_node in snapshot.storage.csi_nodes.items():
        slot = nodes.slot(name)
        if slot >= 0:
            over[slot] = volume_migration.migrated(csi_node, plugin)
    return np.where(over, translated, plain)


def _sorted_out(
    storage: Storage, waiting: list[PersistentVolumeClaim]
) -> tuple[list[tuple[PersistentVolumeClaim, str]], list[PersistentVolumeClaim]]:
    """Claims whose node was selected, with it, and the others, smallest first.

    The smallest choose first, so that large volumes are left for large claims.
    """
    chosen, open_to = [], []
    for claim in waiting:
        node = storage.selected.get(claim.metadata.key) or claim.metadata.annotations.get(SELECTED_NODE)
        if node is None:
            open_to.append(claim)
        else:
            chosen.append((claim, node))
    return chosen, sorted(open_to, key=_size)


def _match(
    snapshot: Snapshot, claim: PersistentVolumeClaim, slot: int, taken: list[str]
) -> PersistentVolume | None:
    """The volume on a node that a claim would be bound to: the one meant for it, else the smallest."""
    storage = snapshot.storage
    smallest: PersistentVolume | None = None
    for volume in storage.volumes_of_class(claim_class(claim)):
        if volume.metadata.name in taken:
            continue
        meant = _meant_for(storage, volume, claim)
        if meant is False or not _suits(claim, volume):
            continue
        reachable = bool(reach(snapshot, volume)[slot])
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


def _meant_for(storage: Storage, volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool | None:
    """Whether a volume is bound to, or reserved for, this claim; None when for nobody."""
    reserved = storage.reserved.get(volume.metadata.name)
    if reserved is not None:
        return reserved == claim.metadata.key
    reference = volume.spec.claim_ref
    if reference is None:
        return None
    same = reference.name == claim.metadata.name and reference.namespace == claim.metadata.namespace
    return same and (not reference.uid or reference.uid == claim.metadata.uid)


def _suits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    wanted, offered = claim.spec.volume_attributes_class_name, volume.spec.volume_attributes_class_name
    return (
        _capacity(volume) >= _size(claim)
        and claim.spec.volume_mode == volume.spec.volume_mode
        and (wanted or "") == (offered or "")
        and volume.metadata.deletion_timestamp is None
    )


def _provision(snapshot: Snapshot, claim: PersistentVolumeClaim) -> tuple[Bools, Bools]:
    """Per slot: whether the claim's class makes no volumes there, and whether there is no space for one."""
    capacity = snapshot.nodes.capacity
    storage_class = snapshot.storage.classes.get(claim_class(claim))
    if storage_class is None or storage_class.provisioner in ("", _NO_PROVISIONER):
        return np.ones(capacity, np.bool_), np.zeros(capacity, np.bool_)
    impossible = np.zeros(capacity, np.bool_)
    if storage_class.allowed_topologies:
        terms = tuple(
            NodeSelectorTerm(tuple(expression.requirement for expression in term.match_label_expressions))
            for term in storage_class.allowed_topologies
        )
        impossible = ~snapshot.classes.mask(NodePredicate((), terms)).mask()
    return impossible, ~_space(snapshot, claim, storage_class)


def _space(snapshot: Snapshot, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Bools:
    """Per slot: whether storage that is reachable from there has room for the claim, as far as is known."""
    driver = snapshot.storage.drivers.get(storage_class.provisioner)
    if "storage" not in claim.spec.resources.requests or driver is None or not driver.spec.storage_capacity:
        return np.ones(snapshot.nodes.capacity, np.bool_)
    size = value(claim.spec.resources.requests["storage"])
    space = np.zeros(snapshot.nodes.capacity, np.bool_)
    for free in snapshot.storage.capacities.values():
        limit = free.capacity if free.maximum_volume_size is None else free.maximum_volume_size
        if (
            free.storage_class_name == storage_class.metadata.name
            and free.node_topology is not None
            and limit is not None
            and value(limit) >= size
        ):
            space |= snapshot.classes.mask(_predicate(free.node_topology)).mask()
    return space


def _predicate(selector: LabelSelector) -> NodePredicate:
    terms = (NodeSelectorTerm(selector.match_expressions),) if selector.match_expressions else None
    return NodePredicate(tuple(sorted(selector.match_labels.items())), terms)


def _size(claim: PersistentVolumeClaim) -> int:
    return nano(claim.spec.resources.requests.get("storage", 0))


def _capacity(volume: PersistentVolume) -> int:
    return nano(volume.spec.capacity.get("storage", 0))
