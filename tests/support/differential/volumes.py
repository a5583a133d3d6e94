"""Random volumes: claims in every state, volumes that exist, classes that make them, disks in the pod."""

from __future__ import annotations

import random
from typing import Any

Object = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
BOUND = "pv.kubernetes.io/bind-completed"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
PLUGINS = ["", "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"]
SELECTED = "volume.kubernetes.io/selected-node"


def storage_objects(rng: random.Random, nodes: list[str]) -> list[Object]:
    """Classes, drivers, what drivers say of nodes and of free space, attachments."""
    objects = [
        storage_class("make", "make.example.com"),
        storage_class(
            "make-a",
            "make.example.com",
            allowedTopologies=[
                {"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]},
            ],
        ),
        storage_class("make-some", "make.example.com", allowedTopologies=_several_topologies(rng)),
        storage_class("static", "kubernetes.io/no-provisioner"),
        storage_class("space", "space.example.com"),
        storage_class("ebs", "kubernetes.io/aws-ebs"),
        storage_class("now", "make.example.com", mode="Immediate"),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": "space.example.com"},
            "spec": {"storageCapacity": True},
        },
    ]
    for index in range(rng.randint(0, 3)):
        capacity: Object = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": f"free-{index}", "namespace": "blue"},
            "storageClassName": "space",
            "nodeTopology": {"matchLabels": {ZONE: rng.choice("abc")}},
            "capacity": rng.choice(["1Gi", "5Gi"]),
        }
        if rng.random() < 0.3:
            capacity["maximumVolumeSize"] = "2Gi"
        objects.append(capacity)
    for name in nodes:
        if rng.random() < 0.5:
            drivers = []
            for driver in ("make.example.com", "space.example.com", "ebs.csi.aws.com"):
                if rng.random() < 0.6:
                    entry: Object = {"name": driver, "nodeID": name, "topologyKeys": []}
                    if rng.random() < 0.8:
                        entry["allocatable"] = {"count": rng.choice([1, 1, 2])}
                    drivers.append(entry)
            objects.append(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "CSINode",
                    "metadata": {"name": name, "annotations": {MIGRATED: rng.choice(PLUGINS)}},
                    "spec": {"drivers": drivers},
                }
            )
    return objects


def _several_topologies(rng: random.Random) -> list[Object]:
    """Terms of which one must match, with keys that all must match with one of their values."""
    terms = [
        {ZONE: ["b"], "disk": ["ssd", "nvme"]},
        {ZONE: ["a", "c"], "disk": ["hdd"]},
        {ZONE: ["a"], "rack": ["1", "5"]},
        {"kubernetes.io/hostname": ["n0", "n2", "gone"]},
        {"nope": ["x"]},
    ]
    return [
        {"matchLabelExpressions": [{"key": key, "values": values} for key, values in term.items()]}
        for term in rng.sample(terms, rng.randint(2, 4))
    ]


def storage_class(name: str, provisioner: str, mode: str = "WaitForFirstConsumer", **more: Any) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **more,
    }


class StorageGenerator:
    """Gives pods volumes and remembers the objects they need."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.serial = 0
        self._claims: list[tuple[Object, bool]] = []
        # Claims that several pods use are made once.
        self._named: set[tuple[str, str]] = set()
        self._volumes: list[Object] = []

    def take_claims(self) -> list[tuple[Object, bool]]:
        """The claims made since the last call; True: owned by the pod they were made for."""
        claims, self._claims = self._claims, []
        return claims

    def take_volumes(self) -> list[Object]:
        volumes, self._volumes = self._volumes, []
        return volumes

    def inline(self, pod: Object) -> None:
        rng = self.rng
        read_only = {"readOnly": True} if rng.random() < 0.4 else {}
        source = rng.choice(
            [
                {"awsElasticBlockStore": {"volumeID": rng.choice(["vol-1", "vol-2"]), **read_only}},
                {"gcePersistentDisk": {"pdName": rng.choice(["pd-1", "pd-2"]), **read_only}},
                {
                    "iscsi": {
                        "targetPortal": "10.0.0.1:3260",
                        "iqn": "iqn.2026-01.com.example:one",
                        "lun": 0,
                        **read_only,
                    }
                },
                {
                    "rbd": {
                        "monitors": rng.sample(["m1", "m2", "m3"], 2),
                        "image": "image",
                        "pool": "pool",
                        **read_only,
                    }
                },
            ]
        )
        pod["spec"].setdefault("volumes", []).append({"name": f"inline-{self._next()}", **source})

    def claims(self, pod: Object) -> None:
        for _ in range(1 if self.rng.random() < 0.7 else 2):
            kind = self.rng.choice(
                [
                    *(
                        "bound",
                        "bound-zone",
                        "csi",
                        "disk",
                        "make",
                        "make-a",
                        "make-some",
                        "static",
                        "space",
                        "ebs",
                        "once",
                    )
                    * 3,
                    *("once", "bound-zone", "static") * 4,
                    *("missing", "lost", "going", "now", "prebound", *("made",) * 5, "chosen", "gone"),
                ]
            )
            self._claim(pod, kind)

    def _next(self) -> int:
        self.serial += 1
        return self.serial

    def _claim(self, pod: Object, kind: str) -> None:
        rng = self.rng
        number = self._next()
        namespace = pod["metadata"]["namespace"]
        volume_name = f"volume-{number}"
        name = f"claim-{number}"
        size = rng.choice(["1Gi", "2Gi", "3Gi"])
        spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        claim: Object = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace, "annotations": {}},
            "spec": spec,
        }
        if rng.random() < 0.35:
            spec["volumeMode"] = "Block"
        source: Object = {"persistentVolumeClaim": {"claimName": name}}
        volume = f"pv-{number}"
        if kind in ("bound", "bound-zone", "csi", "disk", "lost", "going", "once", "gone"):
            claim["metadata"]["annotations"][BOUND] = "yes"
            spec.update(volumeName=volume, storageClassName="")
        if kind == "bound":
            self._volume(volume, claim, affinity=True)
        elif kind == "bound-zone":
            self._volume(volume, claim, labels={ZONE: rng.choice(["a", "b", "a__b"])})
        elif kind == "disk":
            zoned = rng.random() < 0.6
            place = (
                {rng.choice([ZONE, OLD_ZONE]): rng.choice("ab")} if not zoned and rng.random() < 0.6 else {}
            )
            self._volume(volume, claim, affinity=zoned, labels=place, disk=True)
        elif kind == "csi":
            self._volume(volume, claim, csi="make.example.com")
        elif kind == "lost":
            claim["status"] = {"phase": "Lost"}
        elif kind == "going":
            claim["metadata"]["finalizers"] = ["example.com/hold"]
            claim["terminating"] = True
            self._volume(volume, claim)
        elif kind == "once":
            spec["accessModes"] = ["ReadWriteOncePod"]
            name = claim["metadata"]["name"] = "once"
            source["persistentVolumeClaim"]["claimName"] = name
            spec["volumeName"] = f"pv-once-{namespace}"
            self._volume(f"pv-once-{namespace}", claim)
        elif kind == "prebound":
            spec.update(volumeName=volume, storageClassName="make")
        elif kind in ("make", "make-a", "make-some", "static", "space", "ebs", "now"):
            spec["storageClassName"] = kind
            if kind == "static" and rng.random() < 0.8:
                self._volume(volume, claim, affinity=True, free="static")
            if kind == "static" and rng.random() < 0.2:
                spec["selector"] = {"matchLabels": {"speed": "fast"}}
        elif kind == "chosen":
            spec["storageClassName"] = "make"
            claim["metadata"]["annotations"][SELECTED] = rng.choice(["n0", "n1"])
        elif kind == "made":
            spec["storageClassName"] = "make"
            template = {"spec": spec}
            source = {"ephemeral": {"volumeClaimTemplate": template}}
            claim["metadata"]["name"] = f"{pod['metadata']['name']}-{volume_name}"
        if kind == "made":
            if rng.random() < 0.8:
                self._claims.append((claim, rng.random() < 0.7))
        elif kind != "missing" and (namespace, name) not in self._named:
            self._named.add((namespace, name))
            self._claims.append((claim, False))
        pod["spec"].setdefault("volumes", []).append({"name": volume_name, **source})

    def _volume(
        self,
        name: str,
        claim: Object,
        *,
        affinity: bool = False,
        labels: dict[str, str] | None = None,
        csi: str = "",
        disk: bool = False,
        free: str = "",
    ) -> None:
        rng = self.rng
        spec: Object = {
            "capacity": {"storage": rng.choice(["1Gi", "2Gi", "4Gi"])},
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": free,
            "persistentVolumeReclaimPolicy": "Retain",
        }
        mode = claim["spec"].get("volumeMode", "Filesystem")
        if free and rng.random() < 0.5:
            # A volume of the other mode is none for the claim.
            mode = "Filesystem" if mode == "Block" else "Block"
        spec["volumeMode"] = mode
        if not free:
            spec["claimRef"] = {
                "kind": "PersistentVolumeClaim",
                "namespace": claim["metadata"]["namespace"],
                "name": claim["metadata"]["name"],
            }
        if csi:
            spec["csi"] = {"driver": csi, "volumeHandle": rng.choice(["h1", "h2", "h3"])}
        elif disk:
            spec["awsElasticBlockStore"] = {
                "volumeID": rng.choice(["vol-1", "vol-7", "aws://a/vol-0a1b2c3d"])
            }
        else:
            spec["hostPath"] = {"path": "/data"}
        if affinity:
            key, values = rng.choice(
                [
                    (ZONE, ["a"]),
                    (ZONE, ["b", "c"]),
                    ("kubernetes.io/hostname", ["n0"]),
                    ("kubernetes.io/hostname", ["n1", "n2"]),
                ]
            )
            spec["nodeAffinity"] = {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
                    ]
                }
            }
        metadata: Object = {
            "name": name,
            "labels": {**(labels or {}), **({"speed": "fast"} if rng.random() < 0.5 else {})},
        }
        volume: Object = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
        volume["status"] = {"phase": "Available" if free else "Bound"}
        if all(other["metadata"]["name"] != name for other in self._volumes):
            self._volumes.append(volume)
            if csi and rng.random() < 0.4:
                self._volumes.append(
                    {
                        "apiVersion": "storage.k8s.io/v1",
                        "kind": "VolumeAttachment",
                        "metadata": {"name": f"attached-{name}"},
                        "spec": {
                            "attacher": csi,
                            "nodeName": rng.choice(["n0", "n1"]),
                            "source": {"persistentVolumeName": name},
                        },
                    }
                )
