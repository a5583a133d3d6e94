"""NodeVolumeLimits: a CSI driver attaches only N volumes to a node.

A volume counts once per node however many pods use it. Claims that are not bound yet count by their
class's provisioner, in-tree disks by the driver that took them over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from fairlead.engine.rules.reasons import TooManyVolumes
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.snapshot import volume_migration
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.engine.snapshot.storage import Storage, claim_name, class_name
from fairlead.kube.pod import Volume
from fairlead.kube.storage import PersistentVolumeClaim

# Attached volumes: unique name → driver.
Attached = dict[tuple[str, str], str]


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class."""
    return bool(cls.facts.volumes)


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why."""
    storage = snapshot.storage
    wanted = _wanted(snapshot, cls)
    if not wanted:
        return
    beyond = np.zeros(snapshot.nodes.capacity, np.bool_)
    for name in storage.csi_nodes:
        slot = snapshot.nodes.slot(name)
        if slot >= 0:
            beyond[slot] = not _enough(snapshot, wanted, slot, name)
    yield Finding(TooManyVolumes(), beyond)


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    return _enough(snapshot, _wanted(snapshot, cls), slot, snapshot.nodes.name(slot))


def _wanted(snapshot: Snapshot, cls: PodClass) -> Attached:
    wanted: Attached = {}
    _collect(snapshot.storage, cls.namespace, cls.pod_name, cls.facts.volumes, wanted)
    return wanted


def _enough(snapshot: Snapshot, wanted: Attached, slot: int, node: str) -> bool:
    storage = snapshot.storage
    csi_node = storage.csi_nodes.get(node)
    if csi_node is None or not wanted:
        return True
    limits = {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
    if not any(driver in limits for driver in wanted.values()):
        return True
    held: Attached = {}
    for placed in storage.bearers.get(slot, {}).values():
        metadata = placed.pod.metadata
        _collect(storage, metadata.namespace, metadata.name, placed.pod.spec.volumes, held)
    attached = _attachments(storage, node)
    counts = Counter(held.values())
    counts.update(driver for name, driver in attached.items() if name not in held)
    more = Counter(driver for name, driver in wanted.items() if name not in held)
    return all(counts[driver] + new <= limits.get(driver, 2**31) for driver, new in more.items())


def _collect(
    storage: Storage, namespace: str, pod_name: str, volumes: tuple[Volume, ...], into: Attached
) -> None:
    for volume in volumes:
        name = claim_name(pod_name, volume)
        if name is None:
            found = volume_migration.handle_inline(volume)
        else:
            claim = storage.claims.get(f"{namespace}/{name}")
            found = _behind(storage, claim) if claim is not None else None
        if found is not None:
            into[found] = found[0]


def _behind(storage: Storage, claim: PersistentVolumeClaim) -> tuple[str, str] | None:
    """The driver and handle of the volume behind a claim."""
    volume = storage.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is not None:
        return volume_migration.handle(volume)
    storage_class = storage.classes.get(class_name(claim))
    if storage_class is None or not storage_class.provisioner:
        return None
    return volume_migration.driver_of(storage_class.provisioner), f"claim {claim.metadata.key}"


def _attachments(storage: Storage, node: str) -> Attached:
    found: Attached = {}
    for attachment in storage.attachments.get(node, {}).values():
        name = attachment.spec.source.persistent_volume_name
        volume = storage.volumes.get(name) if name is not None else None
        if attachment.spec.attacher and volume is not None and volume.spec.csi is not None:
            found[attachment.spec.attacher, volume.spec.csi.volume_handle] = attachment.spec.attacher
    return found
