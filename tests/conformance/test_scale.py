"""The scale subresource: one shape for everything that has replicas."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.cluster import Cluster
from support.custom import custom_resource, gadget
from support.manifests import Manifest, deployment, replica_set, stateful_set


@pytest.mark.parametrize("workload", [deployment, replica_set, stateful_set])
def test_a_workload_shows_its_scale(cluster: Cluster, workload: Callable[[str, int], Manifest]) -> None:
    manifest = workload("web", 0)
    made = cluster.create(manifest)

    scale = cluster.wire.request("GET", cluster.path(manifest["kind"], "web", "scale")).ok()

    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["metadata"]["name"] == "web"
    assert scale["metadata"]["uid"] == made["metadata"]["uid"]
    assert scale["spec"] in ({}, {"replicas": 0})
    assert scale["status"]["selector"] == "app=web"


def test_writing_the_scale_changes_the_workload(cluster: Cluster) -> None:
    cluster.create(deployment("web", 0))
    scale = {"metadata": {"name": "web", "namespace": cluster.namespace}, "spec": {"replicas": 3}}

    cluster.wire.request("PUT", cluster.path("Deployment", "web", "scale"), scale).ok()

    assert cluster.get("Deployment", "web")["spec"]["replicas"] == 3


def test_the_scale_can_be_patched(cluster: Cluster) -> None:
    cluster.create(deployment("web", 0))

    patched = cluster.patch("Deployment", "web", {"spec": {"replicas": 2}}, sub="scale")

    assert patched["kind"] == "Scale"
    assert patched["spec"]["replicas"] == 2
    assert cluster.get("Deployment", "web")["metadata"]["generation"] == 2


def test_a_stale_scale_is_a_conflict(cluster: Cluster) -> None:
    cluster.create(replica_set("web", 0))
    path = cluster.path("ReplicaSet", "web", "scale")
    stale = cluster.wire.request("GET", path).ok()
    cluster.patch("ReplicaSet", "web", {"metadata": {"labels": {"new": "1"}}})

    answer = cluster.wire.request("PUT", path, {**stale, "spec": {"replicas": 1}})

    answer.refused(409, "Conflict")


def test_fewer_than_no_replicas_are_invalid(cluster: Cluster) -> None:
    cluster.create(deployment("web", 0))

    answer = cluster.try_patch("Deployment", "web", {"spec": {"replicas": -1}}, sub="scale")

    assert answer.refused(422, "Invalid")["details"]["causes"][0]["field"] == "spec.replicas"


def test_the_scale_of_what_is_not_there_is_not_found(cluster: Cluster) -> None:
    cluster.wire.request("GET", cluster.path("Deployment", "web", "scale")).refused(404, "NotFound")


def test_a_custom_resource_has_a_scale_where_its_definition_says_so(cluster: Cluster) -> None:
    gadgets = custom_resource(
        cluster,
        subresources={
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
            "status": {},
        },
    )
    cluster.wire.request("POST", cluster.path(gadgets), gadget(gadgets, "g", spec={"replicas": 2})).ok()
    status = {"status": {"replicas": 1, "selector": "app=g"}}
    cluster.patch(gadgets, "g", status, sub="status")

    scale = cluster.wire.request("GET", cluster.path(gadgets, "g", "scale")).ok()
    assert (scale["spec"]["replicas"], scale["status"]) == (2, {"replicas": 1, "selector": "app=g"})

    cluster.wire.request("PUT", cluster.path(gadgets, "g", "scale"), {**scale, "spec": {"replicas": 5}}).ok()
    assert cluster.get(gadgets, "g")["spec"] == {"replicas": 5}
