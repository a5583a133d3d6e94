"""Volumes: binds claims to persistent volumes, and provides some itself.

A claim and a volume point at each other once bound. Immediate claims take the smallest volume that
suits; claims that wait for their first consumer are left to the scheduler, which either points a
volume at the claim or names a node. Classes whose provisioner is `PROVISIONER` get their volumes made
here, in no time.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from fairlead.kube.quantity import nano
from fairlead.world.controllers.writes import Create, Delete, Obj, Patch, View, Write
from fairlead.world.objects import (
    annotations_of,
    key_of,
    labels_of,
    namespace_of,
    selects,
    split_key,
    terminating,
    uid_of,
)

PROVISIONER = "fairlead.dev/world"

_COMPLETED = "pv.kubernetes.io/bind-completed"
_BY_US = "pv.kubernetes.io/bound-by-controller"
_PROVISIONED = "pv.kubernetes.io/provisioned-by"
_SELECTED = "volume.kubernetes.io/selected-node"


class VolumeController:
    """Keeps claims and volumes together. Keys are ``claim:namespace/name`` and ``volume:/name``."""

    name = "persistentvolume-binder"
    watches = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """The claim or volume and what it points at; a new volume or class may suit any waiting claim."""
        item = new or old
        assert item is not None
        if kind == "PersistentVolumeClaim":
            volume = (item["spec"] or {}).get("volumeName")
            return [f"claim:{key_of(item)}", *([f"volume:/{volume}"] if volume else [])]
        waiting = [
            f"claim:{key_of(claim)}"
            for claim in view.all("PersistentVolumeClaim")
            if not claim["spec"].get("volumeName")
        ]
        if kind == "StorageClass":
            return waiting if new is not None else []
        held = item["spec"].get("claimRef")
        asked = [f"claim:{held['namespace']}/{held['name']}"] if held else waiting if old is None else []
        return [f"volume:/{item['metadata']['name']}", *asked]

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Bind, provide or let go."""
        what, _, rest = key.partition(":")
        namespace, name = split_key(rest)
        if what == "claim":
            claim = view.get("PersistentVolumeClaim", namespace, name)
            return [] if claim is None or terminating(claim) else _claim(view, claim)
        volume = view.get("PersistentVolume", "", name)
        return [] if volume is None or terminating(volume) else _volume(view, volume)


class EphemeralVolumeController:
    """Makes the claims of generic ephemeral volumes, owned by their pods."""

    name = "ephemeral-volume-controller"
    watches = ("Pod",)

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """New pods with such volumes."""
        if new is None or old is not None:
            return []
        return [key_of(new)] if any(v.get("ephemeral") for v in new["spec"].get("volumes") or ()) else []

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Create what is missing."""
        pod = view.get("Pod", *split_key(key))
        if pod is None or terminating(pod):
            return []
        writes: list[Write] = []
        for volume in pod["spec"].get("volumes") or ():
            template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
            name = f"{pod['metadata']['name']}-{volume['name']}"
            if template is None or view.get("PersistentVolumeClaim", namespace_of(pod), name) is not None:
                continue
            meta = template.get("metadata") or {}
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": uid_of(pod)}
            metadata = {
                **{field: meta[field] for field in ("labels", "annotations") if meta.get(field)},
                "name": name,
                "namespace": namespace_of(pod),
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            }
            claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
            writes.append(Create({**claim, "spec": template["spec"]}))
        return writes


def _claim(view: View, claim: Obj) -> list[Write]:
    wanted = claim["spec"].get("volumeName")
    if wanted:
        volume = view.get("PersistentVolume", "", wanted)
        if volume is None or (volume["spec"].get("claimRef") and not _meant_for(volume, claim)):
            return _phase(claim, "Lost" if _COMPLETED in annotations_of(claim) else "Pending")
        return _bind(claim, volume)
    volume = next((each for each in view.all("PersistentVolume") if _meant_for(each, claim)), None)
    storage_class = view.get("StorageClass", "", claim["spec"].get("storageClassName") or "")
    waits = storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
    if volume is None and not waits:
        volume = _smallest(view, claim)
    if volume is not None:
        return _bind(claim, volume)
    made = _provide(view, claim, storage_class, waits=waits)
    return made or _phase(claim, "Pending")


def _volume(view: View, volume: Obj) -> list[Write]:
    held = volume["spec"].get("claimRef")
    if not held:
        return _phase(volume, "Available")
    claim = view.get("PersistentVolumeClaim", held["namespace"], held["name"])
    if claim is not None and held.get("uid") in (None, "", uid_of(claim)):
        return []  # the claim's key does the rest
    if not held.get("uid"):
        return _phase(volume, "Available")  # reserved for a claim that is still to come
    ours = annotations_of(volume).get(_PROVISIONED) == PROVISIONER
    if ours and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
        return [Delete(volume)]
    return _phase(volume, "Released")


def _bind(claim: Obj, volume: Obj) -> list[Write]:
    # Each of the four halves is written only where it is missing: a start over finishes the rest.
    meta = claim["metadata"]
    writes: list[Write] = []
    held = volume["spec"].get("claimRef")
    if not held or held.get("uid") != meta["uid"]:
        marks = {} if held else {"metadata": {"annotations": {_BY_US: "yes"}}}
        writes.append(Patch(volume, {**marks, "spec": {"claimRef": _reference(claim)}}))
    writes += _phase(volume, "Bound")
    name = volume["metadata"]["name"]
    if claim["spec"].get("volumeName") != name or _COMPLETED not in annotations_of(claim):
        said = {_COMPLETED: "yes"} | ({} if claim["spec"].get("volumeName") else {_BY_US: "yes"})
        writes.append(Patch(claim, {"metadata": {"annotations": said}, "spec": {"volumeName": name}}))
    status = {
        "phase": "Bound",
        "accessModes": volume["spec"].get("accessModes") or [],
        "capacity": volume["spec"].get("capacity") or {},
    }
    if any((claim.get("status") or {}).get(field) != value for field, value in status.items()):
        writes.append(Patch(claim, {"status": status}, "status"))
    return writes


def _phase(item: Obj, phase: str) -> list[Write]:
    if (item.get("status") or {}).get("phase") == phase:
        return []
    return [Patch(item, {"status": {"phase": phase}}, "status")]


def _reference(claim: Obj) -> Obj:
    meta = claim["metadata"]
    whose = {field: meta[field] for field in ("namespace", "name", "uid")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **whose}


def _meant_for(volume: Obj, claim: Obj) -> bool:
    held, wanted = volume["spec"].get("claimRef"), _reference(claim)
    return bool(held) and all(
        held.get(field) == wanted[field] or (field == "uid" and not held.get(field))
        for field in ("namespace", "name", "uid")
    )


def _smallest(view: View, claim: Obj) -> Obj | None:
    suiting = [each for each in view.all("PersistentVolume") if _suits(claim, each)]
    return min(
        suiting,
        key=lambda each: (_size(each["spec"].get("capacity")), each["metadata"]["name"]),
        default=None,
    )


def _suits(claim: Obj, volume: Obj) -> bool:
    asked, offered = claim["spec"], volume["spec"]
    if offered.get("claimRef") or terminating(volume):
        return False
    if (offered.get("storageClassName") or "") != (asked.get("storageClassName") or ""):
        return False
    if (offered.get("volumeMode") or "Filesystem") != (asked.get("volumeMode") or "Filesystem"):
        return False
    if not set(asked.get("accessModes") or ()) <= set(offered.get("accessModes") or ()):
        return False
    if asked.get("selector") is not None and not selects(asked["selector"], labels_of(volume)):
        return False
    return _size(offered.get("capacity")) >= _size((asked.get("resources") or {}).get("requests"))


def _size(quantities: Any) -> int:
    return nano((quantities or {}).get("storage", 0))


def _provide(view: View, claim: Obj, storage_class: Obj | None, *, waits: bool) -> list[Write]:
    if storage_class is None or storage_class.get("provisioner") != PROVISIONER:
        return []
    node = annotations_of(claim).get(_SELECTED)
    if waits and not node:
        return []
    meta, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{meta['uid']}"
    volume: Obj = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {_PROVISIONED: PROVISIONER}},
        "spec": {
            "capacity": {
                "storage": ((spec.get("resources") or {}).get("requests") or {}).get("storage", "0")
            },
            "accessModes": spec.get("accessModes") or [],
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
            "storageClassName": spec.get("storageClassName"),
            "volumeMode": spec.get("volumeMode") or "Filesystem",
            "csi": {"driver": PROVISIONER, "volumeHandle": name},
            "claimRef": _reference(claim),
        },
    }
    home = view.get("Node", "", node) if node else None
    zone = labels_of(home).get("topology.kubernetes.io/zone") if home is not None else None
    if zone:
        # Like a cloud's disks: reachable in the zone they were made in.
        term = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
        volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    return [Create(volume)]
