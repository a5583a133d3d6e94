"""Storage objects, and which placed pods use which volumes.

`version` counts changes to the objects, for caches of what follows from them; pods coming and going
are counted in `claim_users` and `bearers` alone.
"""

from __future__ import annotations

from typing import Any

from fairlead.engine.snapshot.index import bump, discard
from fairlead.engine.snapshot.kinds import StorageObject
from fairlead.engine.snapshot.masks import NodeMask
from fairlead.engine.snapshot.placed import Placed
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

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


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
        self._tables: dict[type[StorageObject], dict[str, Any]] = {
            PersistentVolumeClaim: self.claims,
            PersistentVolume: self.volumes,
            StorageClass: self.classes,
            CSINode: self.csi_nodes,
            CSIDriver: self.drivers,
            CSIStorageCapacity: self.capacities,
        }
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
        if isinstance(thing, VolumeAttachment):
            self._detach(key)
            self.attachments.setdefault(thing.spec.node_name, {})[key] = thing
        else:
            self._tables[type(thing)][key] = thing
        self.reach.pop(key, None)

    def remove(self, kind: type[StorageObject], key: str) -> None:
        """An object is gone; unknown keys are no error."""
        self.version += 1
        if kind is VolumeAttachment:
            self._detach(key)
        else:
            self._tables[kind].pop(key, None)
        self.reach.pop(key, None)

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
            bump(self.claim_users, key, sign)
        if sign > 0:
            self.bearers.setdefault(placed.slot, {})[placed.key] = placed
        else:
            discard(self.bearers, placed.slot, placed.key)

    def volumes_of_class(self, name: str) -> list[PersistentVolume]:
        """The persistent volumes of a class, by name."""
        if self._of_class_version != self.version:
            self._of_class_version = self.version
            self._of_class = {}
            for _, volume in sorted(self.volumes.items()):
                self._of_class.setdefault(class_name(volume), []).append(volume)
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


def class_name(thing: PersistentVolumeClaim | PersistentVolume) -> str:
    """The storage class of a claim, or of a volume; empty: none. The old annotation wins over the field."""
    return thing.metadata.annotations.get(_BETA_CLASS, thing.spec.storage_class_name or "")
