"""Claims in every state, volumes that exist, volumes to be made, and how many a node takes."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead import Cluster
from fairlead.engine.ranking.ranking import Ranking
from support.units import node, pod, typed

ZONE = "topology.kubernetes.io/zone"
NODES = [node("a1", labels={ZONE: "a"}), node("b1", labels={ZONE: "b"})]


def storage_class(name: str, provisioner: str = "csi.example.com", **more: Any) -> dict[str, Any]:
    mode = {"volumeBindingMode": "WaitForFirstConsumer"}
    return {"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner, **mode, **more}


def claim(
    name: str = "c", *, bound: str = "", annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    marks = dict(annotations or {})
    if bound:
        marks["pv.kubernetes.io/bind-completed"] = "yes"
        spec["volumeName"] = bound
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "annotations": marks},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
    }


def volume(
    name: str = "v", *, zone: str = "", labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    if zone:
        where = [{"key": ZONE, "operator": "In", "values": [zone]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": where}]}}
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **spec},
        "status": {"phase": "Available"},
    }


def using(*claims: str, name: str = "p", **more: Any) -> dict[str, Any]:
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    return pod(name, volumes=volumes, **more)


def explained(objects: list[dict[str, Any]], asking: dict[str, Any]) -> Any:
    return Cluster.from_objects([*NODES, *objects]).explain(asking)


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        ([claim(storageClassName="now")], "pod has unbound immediate PersistentVolumeClaims"),
        (
            [storage_class("wait"), claim(storageClassName="wait", volumeName="v")],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            [{**claim(bound="v"), "status": {"phase": "Lost"}}],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        ([claim(bound="v")], 'persistentvolume "v" not found'),
    ],
    ids=["missing", "immediate", "prebound", "lost", "gone"],
)
def test_claims_that_keep_a_pod_from_everywhere(objects: list[dict[str, Any]], words: str) -> None:
    assert explained(objects, using("c")).message == f"0/2 nodes are available: {words}."


def test_a_bound_volume_is_used_where_it_can_be_reached() -> None:
    found = explained([claim(bound="v"), volume(zone="a")], using("c"))
    assert found.feasible == ["a1"]
    assert found.reasons["b1"] == ["node(s) didn't match PersistentVolume's node affinity"]


def test_a_volumes_zone_label_holds_where_nodes_have_one() -> None:
    objects = [claim(bound="v"), volume(labels={ZONE: "a__c"}), node("plain")]
    found = explained(objects, using("c"))
    assert found.feasible == ["a1", "plain"]
    assert found.reasons["b1"] == ["node(s) had no available volume zone"]


def test_a_waiting_claim_takes_a_volume_that_exists_there() -> None:
    static = storage_class("static", "kubernetes.io/no-provisioner")
    objects = [static, claim(storageClassName="static"), volume(zone="b", storageClassName="static")]
    found = explained(objects, using("c"))
    assert found.feasible == ["b1"]
    assert found.reasons["a1"] == ["node(s) didn't find available persistent volumes to bind"]


def test_a_volume_taken_by_an_assumed_pod_is_not_given_again() -> None:
    static = storage_class("static", "kubernetes.io/no-provisioner")
    objects = [
        *NODES,
        static,
        claim("c1", storageClassName="static"),
        claim("c2", storageClassName="static"),
        volume("v1", zone="b", storageClassName="static"),
    ]
    snapshot = Cluster.from_objects(objects).snapshot
    ranking = Ranking(snapshot)
    first, second = typed(using("c1", name="one")), typed(using("c2", name="two"))
    slot = ranking.choose(snapshot.class_of(first))
    placed = snapshot.assume(first, slot)
    assert placed.static == (("default/c1", "v1"),)
    assert ranking.choose(snapshot.class_of(second)) == -1
    snapshot.forget(placed.key)
    assert ranking.choose(snapshot.class_of(second)) == slot


def test_a_claim_to_be_made_binds_all_its_pods_to_one_node() -> None:
    snapshot = Cluster.from_objects([*NODES, storage_class("make"), claim(storageClassName="make")]).snapshot
    ranking = Ranking(snapshot)
    first, second = typed(using("c", name="one")), typed(using("c", name="two"))
    slot = snapshot.nodes.slot("b1")
    placed = snapshot.assume(first, slot)
    assert placed.provision == ("default/c",)
    assert ranking.feasible(snapshot.class_of(second)).nonzero()[0].tolist() == [slot]


def test_a_class_makes_volumes_only_in_its_topologies() -> None:
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]
    objects = [storage_class("make", allowedTopologies=allowed), claim(storageClassName="make")]
    assert explained(objects, using("c")).feasible == ["a1"]


def test_a_class_makes_volumes_only_where_there_is_space() -> None:
    objects = [
        storage_class("make"),
        {"kind": "CSIDriver", "metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}},
        {
            "kind": "CSIStorageCapacity",
            "metadata": {"name": "free", "namespace": "kube-system"},
            "storageClassName": "make",
            "capacity": "5Gi",
            "nodeTopology": {"matchLabels": {ZONE: "b"}},
        },
        claim(storageClassName="make"),
    ]
    found = explained(objects, using("c"))
    assert found.feasible == ["b1"]
    assert found.reasons["a1"] == ["node(s) did not have enough free storage"]


def test_a_claim_whose_node_was_selected_goes_nowhere_else() -> None:
    chosen = claim(storageClassName="make", annotations={"volume.kubernetes.io/selected-node": "b1"})
    assert explained([storage_class("make"), chosen], using("c")).feasible == ["b1"]


def test_a_claim_for_one_pod_only_is_not_shared() -> None:
    once = claim(bound="v", accessModes=["ReadWriteOncePod"])
    found = explained([once, volume(), using("c", name="first", on="a1")], using("c"))
    assert found.message == (
        "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with "
        "ReadWriteOncePod access mode already in-use by another pod."
    )


def test_a_node_takes_only_so_many_volumes_and_counts_each_once() -> None:
    limits = {
        "kind": "CSINode",
        "metadata": {"name": "a1"},
        "spec": {"drivers": [{"name": "csi.example.com", "nodeID": "a1", "allocatable": {"count": 1}}]},
    }

    def handled(name: str, handle: str) -> dict[str, Any]:
        return volume(name, csi={"driver": "csi.example.com", "volumeHandle": handle})

    objects = [
        limits,
        claim("c1", bound="v1"),
        claim("c2", bound="v2"),
        handled("v1", "h1"),
        handled("v2", "h2"),
        using("c1", name="first", on="a1"),
    ]
    assert explained(objects, using("c1")).feasible == ["a1", "b1"]
    found = explained(objects, using("c2"))
    assert found.feasible == ["b1"]
    assert found.reasons["a1"] == ["node(s) exceed max volume count"]


@pytest.mark.parametrize(
    ("source", "read_only_shared"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, True),
        ({"awsElasticBlockStore": {"volumeID": "d"}}, False),
        ({"iscsi": {"iqn": "d", "targetPortal": "t", "lun": 0}}, True),
        ({"rbd": {"monitors": ["m"], "image": "i", "pool": "p"}}, True),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_disk_is_mounted_once_per_node(source: dict[str, Any], read_only_shared: bool) -> None:
    kind = next(iter(source))
    for read_only in (False, True):
        disk = {"name": "d", kind: {**source[kind], "readOnly": read_only}}
        found = explained([pod("first", on="a1", volumes=[disk])], pod("x", volumes=[disk]))
        assert ("a1" in found.feasible) is (read_only and read_only_shared)


def test_a_claim_made_for_a_pod_must_be_its_own() -> None:
    asking = pod("p", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}], uid="mine")
    assert explained([], asking).message == (
        "0/2 nodes are available: waiting for ephemeral volume controller to create the "
        'persistentvolumeclaim "p-v".'
    )
    made = claim("p-v", storageClassName="make")
    objects = [storage_class("make"), made]
    assert explained(objects, asking).message == (
        "0/2 nodes are available: PVC default/p-v was not created for pod default/p (pod is not owner)."
    )
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "mine", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    assert explained(objects, asking).feasible == ["a1", "b1"]
