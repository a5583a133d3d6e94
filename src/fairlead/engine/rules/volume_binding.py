"""VolumeBinding: bound volumes must be reachable, unbound claims must find or get one on the node.

How claims that wait for their first consumer find one, and what a placement would bind, is in
`snapshot.volume_matching`; once a pod is assumed, the volumes it took are kept from others
(`Storage.reserved`, `Storage.selected`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.engine.rules.reasons import Rejection, VolumeElsewhere, VolumeNoMatch, VolumeNoSpace
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.engine.snapshot.storage import claim_name
from fairlead.kube.storage import PersistentVolumeClaim


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class."""
    return any(claim_name(cls.pod_name, volume) is not None for volume in cls.facts.volumes)


def reject(snapshot: Snapshot, cls: PodClass) -> Rejection | None:
    """Claims that are lost, being deleted, not the pod's own, or still to be bound by another controller."""
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
    _, waiting = snapshot.volumes.claims_of(cls)
    if waiting is None:
        return Rejection("VolumeBinding", "pod has unbound immediate PersistentVolumeClaims")
    return None


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why."""
    bound, waiting = snapshot.volumes.claims_of(cls)
    if bound:
        elsewhere = np.zeros(snapshot.nodes.capacity, np.bool_)
        for claim in bound:
            volume = snapshot.storage.volumes.get(claim.spec.volume_name)
            if volume is not None:
                elsewhere |= ~snapshot.volumes.reach_bound(volume)
        yield Finding(VolumeElsewhere(), elsewhere, unresolvable=True)
    if not waiting:
        return
    no_match, no_space = snapshot.volumes.outlook(waiting)
    yield Finding(VolumeNoMatch(), no_match, unresolvable=True)
    yield Finding(VolumeNoSpace(), no_space, unresolvable=True)


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    bound, waiting = snapshot.volumes.claims_of(cls)
    for claim in bound:
        volume = snapshot.storage.volumes.get(claim.spec.volume_name)
        if volume is not None and not snapshot.volumes.reach_bound(volume)[slot]:
            return False
    if not waiting:
        return waiting is not None
    return snapshot.volumes.resolve(waiting, slot).lack is None


def _made_for(claim: PersistentVolumeClaim, cls: PodClass) -> bool:
    controller = claim.metadata.controller
    return controller is not None and controller.uid == cls.pod_uid
