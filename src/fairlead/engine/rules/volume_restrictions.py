"""VolumeRestrictions: disks that one node can mount once, and claims that one pod may use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.engine.rules.reasons import ClaimInUse, DiskConflict, Rejection
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.kube.pod import Disk, Volume


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class."""
    return bool(cls.facts.volumes)


def reject(snapshot: Snapshot, cls: PodClass) -> Rejection | None:
    """A claim that does not exist keeps its pod from going anywhere."""
    for volume in cls.facts.volumes:
        source = volume.persistent_volume_claim
        if source is not None and f"{cls.namespace}/{source.claim_name}" not in snapshot.storage.claims:
            return Rejection("VolumeRestrictions", f'persistentvolumeclaim "{source.claim_name}" not found')
    return None


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why; a disk in the way speaks before a claim in use."""
    clash = np.zeros(snapshot.nodes.capacity, np.bool_)
    disks = [volume for volume in cls.facts.volumes if _is_disk(volume)]
    if disks:
        for slot in snapshot.storage.bearers:
            clash[slot] = _clashes(snapshot, disks, slot)
        yield Finding(DiskConflict(), clash)
    if _claim_in_use(snapshot, cls):
        yield Finding(ClaimInUse(), ~clash)


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    disks = [volume for volume in cls.facts.volumes if _is_disk(volume)]
    return not (disks and _clashes(snapshot, disks, slot)) and not _claim_in_use(snapshot, cls)


def _claim_in_use(snapshot: Snapshot, cls: PodClass) -> bool:
    storage = snapshot.storage
    for volume in cls.facts.volumes:
        if volume.persistent_volume_claim is None:
            continue
        key = f"{cls.namespace}/{volume.persistent_volume_claim.claim_name}"
        claim = storage.claims.get(key)
        if claim is not None and "ReadWriteOncePod" in claim.spec.access_modes and key in storage.claim_users:
            return True
    return False


def _clashes(snapshot: Snapshot, disks: list[Volume], slot: int) -> bool:
    return any(
        _clash(disk, held)
        for placed in snapshot.storage.bearers.get(slot, {}).values()
        for held in placed.pod.spec.volumes
        for disk in disks
    )


def _is_disk(volume: Volume) -> bool:
    return any(
        disk is not None
        for disk in (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.rbd, volume.iscsi)
    )


def _clash(one: Volume, other: Volume) -> bool:
    def shared(a: Disk, b: Disk) -> bool:
        return a.read_only and b.read_only

    # A volume has one source, so at most one of these applies.
    if (a := one.gce_persistent_disk) and (b := other.gce_persistent_disk):
        return a.pd_name == b.pd_name and not shared(a, b)
    if (a := one.aws_elastic_block_store) and (b := other.aws_elastic_block_store):
        # Never shared, not even for reading.
        return a.volume_id == b.volume_id
    if (a := one.iscsi) and (b := other.iscsi):
        return a.iqn == b.iqn and not shared(a, b)
    if (a := one.rbd) and (b := other.rbd):
        same = a.pool == b.pool and a.image == b.image and any(m in b.monitors for m in a.monitors)
        return same and not shared(a, b)
    return False
