"""VolumeBinding: bound volumes must be reachable, unbound claims must find or get one on the node.

Claims that wait for their first consumer are matched here with volumes that exist, or checked against
what their class could make there. What a placement would bind is `bindings`; once a pod is assumed,
the volumes it took are kept from others (`Storage.reserved`, `Storage.selected`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairlead.engine.reasons import Reason, Rejection, VolumeElsewhere, VolumeNoMatch, VolumeNoSpace
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.snapshot.masks import NodePredicate
from fairlead.engine.snapshot.nodes import Bools
from fairlead.engine.snapshot.storage import Storage, claim_class, claim_name
from fairlead.kube.pod import NodeSelectorTerm
from fairlead.kube.quantity import nano, value
from fairlead.kube.selectors import matches
from fairlead.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

if TYPE_CHECKING:
    from fairlead.engine.classes import PodClass
    from fairlead.engine.snapshot.snapshot import Snapshot

__all__ = ["Bindings", "bindings", "concerns", "find", "fits", "reject"]

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


@dataclass(frozen=True, slots=True)
class Bindings:
    """What placing a pod would bind: claims to volumes that exist, and claims to be provided for on the node.

    Both by ``namespace/name`` of the claim.
    """

    static: tuple[tuple[str, str], ...] = ()
    provision: tuple[str, ...] = ()


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class."""
    return any(claim_name(cls.pod_name, volume) is not None for volume in cls.facts.volumes)


def reject(snapshot: Snapshot, cls: PodClass) -> Rejection | None:
    """Claims that are lost, going, not the pod's own, or still to be bound by somebody else."""
    if not cls.facts.volumes:
        return None
    storage = snapshot.storage
    for volume in cls.facts.volumes:
        name = claim_name(cls.pod_name, volume)
        if name is None:
            continue
        claim = storage.claims.get(f"{cls.namespace}/{name}")
        problem = ""
        if claim is None:
            problem = f'persistentvolumeclaim "{name}" not found'
            if volume.ephemeral is not None:
                problem = (
                    f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
                )
        elif claim.status.phase == "Lost":
            gone = claim.spec.volume_name
            problem = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{gone}"'
        elif claim.metadata.deletion_timestamp is not None:
            problem = f'persistentvolumeclaim "{name}" is being deleted'
        elif volume.ephemeral is not None and not _made_for(claim, cls):
            problem = (
                f"PVC {cls.namespace}/{name} was not created for pod {cls.namespace}/{cls.pod_name} "
                "(pod is not owner)"
            )
        if problem:
            return Rejection("VolumeBinding", problem)
    _, waiting = _claims(storage, cls)
    if waiting is None:
        return Rejection("VolumeBinding", "pod has unbound immediate PersistentVolumeClaims")
    return None


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why."""
    bound, waiting = _claims(snapshot.storage, cls)
    if bound:
        elsewhere = np.zeros(snapshot.nodes.capacity, np.bool_)
        for claim in bound:
            volume = snapshot.storage.volumes.get(claim.spec.volume_name)
            if volume is not None:
                elsewhere |= ~_reach(snapshot, volume)
        yield Finding(VolumeElsewhere(), elsewhere, unresolvable=True)
    if not waiting:
        return
    no_match = np.zeros(snapshot.nodes.capacity, np.bool_)
    no_space = np.zeros(snapshot.nodes.capacity, np.bool_)
    for slot, (_, reason) in _resolve(snapshot, waiting).items():
        if isinstance(reason, VolumeNoMatch):
            no_match[slot] = True
        elif isinstance(reason, VolumeNoSpace):
            no_space[slot] = True
    yield Finding(VolumeNoMatch(), no_match, unresolvable=True)
    yield Finding(VolumeNoSpace(), no_space, unresolvable=True)


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    bound, waiting = _claims(snapshot.storage, cls)
    for claim in bound:
        volume = snapshot.storage.volumes.get(claim.spec.volume_name)
        if volume is not None and not _reach(snapshot, volume)[slot]:
            return False
    if not waiting:
        return waiting is not None
    return _resolve_at(snapshot, waiting, slot)[1] is None


def bindings(snapshot: Snapshot, cls: PodClass, slot: int) -> Bindings:
    """What placing a pod of the class on a node where it fits would bind."""
    _, waiting = _claims(snapshot.storage, cls)
    return _resolve_at(snapshot, waiting, slot)[0] if waiting else Bindings()


def _claims(
    storage: Storage, cls: PodClass
) -> tuple[list[PersistentVolumeClaim], list[PersistentVolumeClaim] | None]:
    """The class's claims that are bound, and those that wait for a consumer; None: some wait for others."""
    bound, waiting, immediate = [], [], False
    for volume in cls.facts.volumes:
        name = claim_name(cls.pod_name, volume)
        claim = storage.claims.get(f"{cls.namespace}/{name}") if name is not None else None
        if claim is None:
            continue
        if claim.spec.volume_name and BIND_COMPLETED in claim.metadata.annotations:
            bound.append(claim)
            continue
        storage_class = storage.classes.get(claim_class(claim))
        waits = storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer"
        if waits and not claim.spec.volume_name:
            waiting.append(claim)
        else:
            immediate = True
    return bound, None if immediate else waiting


def _made_for(claim: PersistentVolumeClaim, cls: PodClass) -> bool:
    controller = claim.metadata.controller
    return controller is not None and controller.uid == cls.pod_uid


def _resolve(
    snapshot: Snapshot, waiting: list[PersistentVolumeClaim]
) -> dict[int, tuple[Bindings, Reason | None]]:
    slots = np.flatnonzero(snapshot.nodes.alive).tolist()
    return {slot: _resolve_at(snapshot, waiting, slot) for slot in slots}


def _resolve_at(
    snapshot: Snapshot, waiting: list[PersistentVolumeClaim], slot: int
) -> tuple[Bindings, Reason | None]:
    """What the waiting claims would be bound to on a node, or why they cannot be."""
    storage = snapshot.storage
    provision: list[PersistentVolumeClaim] = []
    to_match: list[PersistentVolumeClaim] = []
    for claim in waiting:
        selected = storage.selected.get(claim.metadata.key) or claim.metadata.annotations.get(SELECTED_NODE)
        if selected is None:
            to_match.append(claim)
        elif selected != snapshot.nodes.name(slot):
            return Bindings(), VolumeNoMatch()
        else:
            provision.append(claim)
    static: list[tuple[str, str]] = []
    taken: list[str] = []
    # The smallest claims choose first, so that large volumes are left for large claims.
    for claim in sorted(to_match, key=_size):
        volume = _match(snapshot, claim, slot, taken)
        if volume is None:
            provision.append(claim)
        else:
            taken.append(volume.metadata.name)
            static.append((claim.metadata.key, volume.metadata.name))
    for claim in provision:
        reason = _cannot_provision(snapshot, claim, slot)
        if reason is not None:
            return Bindings(), reason
    return Bindings(tuple(static), tuple(claim.metadata.key for claim in provision)), None


def _match(
    snapshot: Snapshot, claim: PersistentVolumeClaim, slot: int, taken: list[str]
) -> PersistentVolume | None:
    """The volume on a node that a claim would be bound to: the one meant for it, else the smallest."""
    storage = snapshot.storage
    smallest: PersistentVolume | None = None
    for volume in storage.volumes_of_class(claim_class(claim)):
        name = volume.metadata.name
        if name in taken:
            continue
        meant = _meant_for(storage, volume, claim)
        if meant is False or not _suits(claim, volume):
            continue
        reachable = bool(_reach(snapshot, volume)[slot])
        if meant:
            return volume if reachable else None
        if (
            volume.status.phase == "Available"
            and (claim.spec.selector is None or matches(claim.spec.selector, volume.metadata.labels))
            and reachable
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
    return (
        _capacity(volume) >= _size(claim)
        and claim.spec.volume_mode == volume.spec.volume_mode
        and (claim.spec.volume_attributes_class_name or "")
        == (volume.spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _cannot_provision(snapshot: Snapshot, claim: PersistentVolumeClaim, slot: int) -> Reason | None:
    storage_class = snapshot.storage.classes.get(claim_class(claim))
    if storage_class is None or storage_class.provisioner in ("", _NO_PROVISIONER):
        return VolumeNoMatch()
    if not _topology_allows(storage_class, snapshot.nodes.node(slot).metadata.labels):
        return VolumeNoMatch()
    return None if _has_space(snapshot, claim, storage_class, slot) else VolumeNoSpace()


def _topology_allows(storage_class: StorageClass, labels: dict[str, str]) -> bool:
    terms = storage_class.allowed_topologies
    return not terms or any(
        term.match_label_expressions
        and all(expression.requirement.admits(labels) for expression in term.match_label_expressions)
        for term in terms
    )


def _has_space(
    snapshot: Snapshot, claim: PersistentVolumeClaim, storage_class: StorageClass, slot: int
) -> bool:
    driver = snapshot.storage.drivers.get(storage_class.provisioner)
    if "storage" not in claim.spec.resources.requests or driver is None or not driver.spec.storage_capacity:
        return True
    size = value(claim.spec.resources.requests["storage"])
    labels = snapshot.nodes.node(slot).metadata.labels
    for capacity in snapshot.storage.capacities.values():
        limit = (
            capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
        )
        if (
            capacity.storage_class_name == storage_class.metadata.name
            and limit is not None
            and value(limit) >= size
            and matches(capacity.node_topology, labels)
        ):
            return True
    return False


def _reach(snapshot: Snapshot, volume: PersistentVolume) -> Bools:
    """The nodes from which a volume can be reached; its selector knows labels only, not names."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return snapshot.nodes.alive
    terms = tuple(
        NodeSelectorTerm(match_expressions=term.match_expressions)
        for term in affinity.required.node_selector_terms
    )
    mask = snapshot.classes.mask(NodePredicate((), terms))
    snapshot.storage.reach[volume.metadata.name] = mask
    return mask.mask()


def _size(claim: PersistentVolumeClaim) -> int:
    return nano(claim.spec.resources.requests.get("storage", 0))


def _capacity(volume: PersistentVolume) -> int:
    return nano(volume.spec.capacity.get("storage", 0))
