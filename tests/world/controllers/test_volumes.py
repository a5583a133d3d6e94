from __future__ import annotations

from typing import Any

from fairlead.world.controllers.volumes import PROVISIONER
from fairlead.world.world import World
from support.manifests import stateful_set
from support.worlds import Obj, asking, homes, names, node, pods, ready, seconds, status, world

ZONE = "topology.kubernetes.io/zone"


def storage_class(name: str, mode: str = "Immediate", provisioner: str = PROVISIONER) -> Obj:
    meta = {"name": name}
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta}
    return {**kind, "provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Delete"}


def claim(name: str, storage: str = "1Gi", storage_class: str = "", **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": storage}},
            "storageClassName": storage_class,
            **spec,
        },
    }


def volume(name: str, storage: str = "1Gi", storage_class: str = "", *, on: str = "", **spec: Any) -> Obj:
    if on:
        term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": storage},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
            "local": {"path": "/data"},
            **spec,
        },
    }


def using(name: str, claim_name: str) -> Obj:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": asking(volumes=volumes)}


def bound(cluster: World, name: str) -> str:
    found = cluster.get("PersistentVolumeClaim", name) or {}
    return (
        found["spec"].get("volumeName", "")
        if status(cluster, "PersistentVolumeClaim", name).get("phase") == "Bound"
        else ""
    )


def test_a_claim_takes_the_smallest_volume_that_suits() -> None:
    cluster = world(1)
    for name, storage in (("small", "1Gi"), ("right", "5Gi"), ("large", "50Gi")):
        cluster.create(volume(name, storage))
    cluster.create(claim("data", "4Gi"))
    cluster.run_until(seconds(1))
    assert bound(cluster, "data") == "right"
    assert status(cluster, "PersistentVolume", "right")["phase"] == "Bound"
    assert status(cluster, "PersistentVolume", "small")["phase"] == "Available"


def test_two_claims_never_share_a_volume() -> None:
    cluster = world(1)
    cluster.create(volume("only"))
    cluster.create(claim("a"))
    cluster.create(claim("b"))
    cluster.run_until(seconds(1))
    assert sorted([bound(cluster, "a"), bound(cluster, "b")]) == ["", "only"]
    cluster.create(volume("another"))
    cluster.run_until(seconds(1))
    assert sorted([bound(cluster, "a"), bound(cluster, "b")]) == ["another", "only"]


def test_a_volume_that_is_reserved_for_a_claim_waits_for_it() -> None:
    cluster = world(1)
    cluster.create(volume("mine", "100Gi", claimRef={"namespace": "default", "name": "data"}))
    cluster.create(volume("free", "1Gi"))
    cluster.create(claim("data"))
    cluster.run_until(seconds(1))
    assert bound(cluster, "data") == "mine"


def test_a_volume_outlives_its_claim_as_released() -> None:
    cluster = world(1)
    cluster.create(volume("v"))
    cluster.create(claim("data"))
    cluster.run_until(seconds(1))
    cluster.delete("PersistentVolumeClaim", "data")
    cluster.run_until(seconds(1))
    assert status(cluster, "PersistentVolume", "v")["phase"] == "Released"


def test_a_class_of_ours_is_provided_for_and_cleaned_up_after() -> None:
    cluster = world(1)
    cluster.create(storage_class("fast"))
    cluster.create(claim("data", "7Gi", "fast"))
    cluster.run_until(seconds(1))
    [made] = cluster.all("PersistentVolume")
    assert bound(cluster, "data") == made["metadata"]["name"]
    assert made["spec"]["capacity"] == {"storage": "7Gi"}
    cluster.delete("PersistentVolumeClaim", "data")
    cluster.run_until(seconds(1))
    assert not cluster.all("PersistentVolume")


def test_a_class_of_somebody_else_is_left_to_them() -> None:
    cluster = world(1)
    cluster.create(storage_class("theirs", provisioner="example.com/disk"))
    cluster.create(claim("data", storage_class="theirs"))
    cluster.run_until(seconds(600))
    assert bound(cluster, "data") == ""
    assert not cluster.all("PersistentVolume")


def test_a_claim_that_waits_for_its_first_consumer_follows_the_pod_to_its_zone() -> None:
    cluster = World([node("n1", labels={ZONE: "a"}), node("n2", labels={ZONE: "b"}, cpu=64)])
    cluster.create(storage_class("zonal", "WaitForFirstConsumer"))
    cluster.create(claim("data", storage_class="zonal"))
    cluster.run_until(seconds(60))
    assert bound(cluster, "data") == ""
    cluster.create(using("a", "data"))
    cluster.run_until(lambda: ready(cluster))
    home = pods(cluster)[0]["spec"]["nodeName"]
    [made] = cluster.all("PersistentVolume")
    zone = (cluster.get("Node", home) or {})["metadata"]["labels"][ZONE]
    assert made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0][
        "values"
    ] == [zone]


def test_local_volumes_draw_pods_to_their_nodes() -> None:
    cluster = world(2)
    cluster.create(storage_class("local", "WaitForFirstConsumer", "kubernetes.io/no-provisioner"))
    cluster.create(volume("disk", "10Gi", "local", on="n2"))
    cluster.create(claim("data", storage_class="local"))
    cluster.create(using("a", "data"))
    cluster.run_until(lambda: ready(cluster))
    assert homes(pods(cluster)) == {"n2": 1}
    assert bound(cluster, "data") == "disk"


def test_a_stateful_sets_pods_find_their_data_again() -> None:
    cluster = world(3)
    cluster.create(storage_class("fast", "WaitForFirstConsumer"))
    template = {"metadata": {"name": "data"}, "spec": claim("", storage_class="fast")["spec"]}
    cluster.create(stateful_set("db", 2, spec={"volumeClaimTemplates": [template]}))
    cluster.run_until(lambda: len(ready(cluster)) == 2)
    before = {name: bound(cluster, name) for name in ("data-db-0", "data-db-1")}
    cluster.delete("Pod", "db-0")
    cluster.run_until(seconds(30))
    assert len(ready(cluster)) == 2
    assert {name: bound(cluster, name) for name in before} == before


def test_generic_ephemeral_volumes_come_and_go_with_their_pod() -> None:
    cluster = world(1)
    cluster.create(storage_class("fast", "WaitForFirstConsumer"))
    template = {"spec": claim("", storage_class="fast")["spec"]}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    meta = {"name": "a", "namespace": "default"}
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": asking(volumes=volumes)})
    cluster.run_until(lambda: ready(cluster))
    assert names(cluster.all("PersistentVolumeClaim")) == ["a-scratch"]
    cluster.delete("Pod", "a")
    cluster.run_until(lambda: not cluster.all("PersistentVolumeClaim"))
    cluster.run_until(seconds(1))
    assert not cluster.all("PersistentVolume")


def test_steady_means_no_writes() -> None:
    cluster = world(2)
    cluster.create(storage_class("fast", "WaitForFirstConsumer"))
    cluster.create(claim("data", storage_class="fast"))
    cluster.create(claim("idle", storage_class="fast"))
    cluster.create(using("a", "data"))
    cluster.run_until(seconds(60))
    before = cluster.store.rv
    cluster.run_until(seconds(86400))
    assert cluster.store.rv == before
