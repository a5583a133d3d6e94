"""Storage objects, and which placed pods use which volumes.

`version` counts changes to the objects, for who caches what follows from them; pods coming and going
are counted in `claim_users` and `bearers` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.engine.snapshot.masks import NodeMask
from fairlead.kube.pod import Volume
from fairlead.kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

if TYPE_CHECKING:
    from fairlead.engine.snapshot.placed import Placed

__all__ = ["STORAGE", "Storage", "StorageObject", "claim_class", "claim_name"]

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"

StorageObject = (
    PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)

STORAGE: dict[str, type[StorageObject]] = {
    "PersistentVolumeClaim": PersistentVolumeClaim,
    "PersistentVolume": PersistentVolume,
    "StorageClass": StorageClass,
    "CSINode": CSINode,
    "CSIDriver": CSIDriver,
    "CSIStorageCapacity": CSIStorageCapacity,
    "VolumeAttachment": VolumeAttachment,
}


class Storage:
    """All storage objects by name (claims and capacities by ``namespace/name``)."""

    def __init__(self) -> None:
        self.version = 0
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.capacities: dict[str, CSIStorageCapacity] = {}
        self.attachments: dict[str, dict[str, VolumeAttachment]] = {}
        self.claim_users: dict[str, int] = {}
        self.bearers: dict[int, dict[str, Placed]] = {}
        self._of_class: dict[str, list[PersistentVolume]] = {}
        self._of_class_version = 0
        # What assumed pods will have bound: volume → claim, and claim → node it is to be provided on.
        self.reserved: dict[str, str] = {}
        self.selected: dict[str, str] = {}
        # Keeps alive, for each volume asked about, the mask of nodes that reach it.
        self.reach: dict[str, NodeMask] = {}

    def put(self, thing: StorageObject) -> None:
        """An object as it now is."""
        self.version += 1
        key = thing.metadata.key
        match thing:
            case PersistentVolumeClaim():
                self.claims[key] = thing
            case PersistentVolume():
                self.volumes[key] = thing
                self.reach.pop(key, None)
            case StorageClass():
                self.classes[key] = thing
            case CSINode():
                self.csi_nodes[key] = thing
            case CSIDriver():
                self.drivers[key] = thing
            case CSIStorageCapacity():
                self.capacities[key] = thing
            case VolumeAttachment():
                self._detach(key)
                self.attachments.setdefault(thing.spec.node_name, {})[key] = thing

    def remove(self, kind: type[StorageObject], key: str) -> None:
        """An object is gone; unknown keys are no error."""
        self.version += 1
        if kind is VolumeAttachment:
            self._detach(key)
            return
        if kind is PersistentVolume:
            self.reach.pop(key, None)
        tables: dict[type[StorageObject], dict[str, object]] = {
            PersistentVolumeClaim: self.claims,  # type: ignore[dict-item]  # only removed from here
            PersistentVolume: self.volumes,  # type: ignore[dict-item]
            StorageClass: self.classes,  # type: ignore[dict-item]
            CSINode: self.csi_nodes,  # type: ignore[dict-item]
            CSIDriver: self.drivers,  # type: ignore[dict-item]
            CSIStorageCapacity: self.capacities,  # type: ignore[dict-item]
        }
        tables[kind].pop(key, None)

    def count(self, placed: Placed, sign: int) -> None:
        """Count a placed pod that has volumes in or out."""
        for claim, volume_name in placed.static:
            if sign > 0:
                self.reserved[volume_name] = claim
            else:
                del self.reserved[volume_name]
        for claim in placed.provision:
            if sign > 0:
                self.selected[claim] = placed.node
            else:
                del self.selected[claim]
        for volume in placed.pod.spec.volumes:
            # Claims made for a volume have one user by construction, and are not counted upstream either.
            if volume.persistent_volume_claim is None:
                continue
            key = f"{placed.pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
            users = self.claim_users.get(key, 0) + sign
            if users:
                self.claim_users[key] = users
            else:
                del self.claim_users[key]
        if sign > 0:
            self.bearers.setdefault(placed.slot, {})[placed.key] = placed
        else:
            here = self.bearers[placed.slot]
            del here[placed.key]
            if not here:
                del self.bearers[placed.slot]

    def volumes_of_class(self, name: str) -> list[PersistentVolume]:
        """The persistent volumes of a class, by name."""
        if self._of_class_version != self.version:
            self._of_class_version = self.version
            self._of_class = {}
            for _, volume in sorted(self.volumes.items()):
                self._of_class.setdefault(volume_class(volume), []).append(volume)
        return self._of_class.get(name, [])

    def _detach(self, key: str) -> None:
        for held in self.attachments.values():
            held.pop(key, None)


def claim_name(pod_name: str, volume: Volume) -> str | None:
    """The claim behind a pod's volume: the one it names, or the one made for it; None when there is none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod_name}-{volume.name}"
    return None


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The storage class that a claim asks for; empty: none. The old annotation wins over the field."""
    annotation = claim.metadata.annotations.get(_BETA_CLASS)
    return annotation if annotation is not None else claim.spec.storage_class_name or ""


def volume_class(volume: PersistentVolume) -> str:
    """The storage class of a persistent volume; empty: none."""
    annotation = volume.metadata.annotations.get(_BETA_CLASS)
    return annotation if annotation is not None else volume.spec.storage_class_name
