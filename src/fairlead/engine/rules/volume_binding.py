"""VolumeBinding: bound volumes must be reachable, unbound claims must find or get one on the node.

How claims that wait for their first consumer find one is in `volume_matching`. What a placement would
bind is `bindings`; once a pod is assumed, the volumes it took are kept from others (`Storage.reserved`,
`Storage.selected`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from fairlead.engine.reasons import Rejection, VolumeElsewhere, VolumeNoMatch, VolumeNoSpace
from fairlead.engine.rules import volume_matching
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.rules.volume_matching import Bindings
from fairlead.engine.snapshot.storage import Storage, claim_class, claim_name
from fairlead.kube.storage import PersistentVolumeClaim

if TYPE_CHECKING:
    from fairlead.engine.classes import PodClass
    from fairlead.engine.snapshot.snapshot import Snapshot

__all__ = ["Bindings", "bindings", "concerns", "find", "fits", "reject"]

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


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
                elsewhere |= ~volume_matching.reach_bound(snapshot, volume)
        yield Finding(VolumeElsewhere(), elsewhere, unresolvable=True)
    if not waiting:
        return
    no_match, no_space = volume_matching.outlook(snapshot, waiting)
    yield Finding(VolumeNoMatch(), no_match, unresolvable=True)
    yield Finding(VolumeNoSpace(), no_space, unresolvable=True)


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    bound, waiting = _claims(snapshot.storage, cls)
    for claim in bound:
        volume = snapshot.storage.volumes.get(claim.spec.volume_name)
        if volume is not None and not volume_matching.reach_bound(snapshot, volume)[slot]:
            return False
    if not waiting:
        return waiting is not None
    return volume_matching.resolve(snapshot, waiting, slot)[1] is None


def bindings(snapshot: Snapshot, cls: PodClass, slot: int) -> Bindings:
    """What placing a pod of the class on a node where it fits would bind."""
    _, waiting = _claims(snapshot.storage, cls)
    return volume_matching.resolve(snapshot, waiting, slot)[0] if waiting else Bindings()


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
