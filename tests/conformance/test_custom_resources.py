"""Custom resources: kinds that come and go while the server runs."""

from __future__ import annotations

from support.cluster import Cluster
from support.custom import custom_resource, gadget


def test_objects_of_a_new_kind_are_kept_as_they_are(cluster: Cluster) -> None:
    gadgets = custom_resource(cluster)
    body = gadget(gadgets, "g", spec={"anything": [1, {"goes": None}], "deep": {"x": True}})

    made = cluster.wire.request("POST", cluster.path(gadgets), body)

    assert made.status == 201
    assert cluster.get(gadgets, "g")["spec"]["deep"] == {"x": True}
    assert cluster.get(gadgets, "g")["kind"] == "Gadget"


def test_a_list_names_the_kind_in_every_item(cluster: Cluster) -> None:
    gadgets = custom_resource(cluster)
    cluster.wire.request("POST", cluster.path(gadgets), gadget(gadgets, "g")).ok()

    listed = cluster.list(gadgets)

    assert listed["kind"] == "GadgetList"
    assert [(one["kind"], one["apiVersion"]) for one in listed["items"]] == [("Gadget", gadgets.api_version)]


def test_the_generation_moves_with_everything_but_metadata_and_status(cluster: Cluster) -> None:
    gadgets = custom_resource(cluster, subresources={"status": {}})
    cluster.wire.request("POST", cluster.path(gadgets), gadget(gadgets, "g", spec={"x": 1})).ok()

    assert cluster.get(gadgets, "g")["metadata"]["generation"] == 1
    labelled = cluster.patch(gadgets, "g", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 1
    assert cluster.patch(gadgets, "g", {"status": {"y": 1}}, sub="status")["metadata"]["generation"] == 1
    assert cluster.patch(gadgets, "g", {"spec": {"x": 2}})["metadata"]["generation"] == 2


def test_with_a_status_subresource_the_two_halves_are_written_apart(cluster: Cluster) -> None:
    gadgets = custom_resource(cluster, subresources={"status": {}})
    body = gadget(gadgets, "g", spec={"x": 1}, status={"y": 1})

    made = cluster.wire.request("POST", cluster.path(gadgets), body).ok()
    assert "status" not in made

    patched = cluster.patch(gadgets, "g", {"spec": {"x": 2}, "status": {"y": 2}}, sub="status")
    assert (patched["spec"], patched["status"]) == ({"x": 1}, {"y": 2})


def test_without_a_status_subresource_there_is_none(cluster: Cluster) -> None:
    gadgets = custom_resource(cluster)
    cluster.wire.request("POST", cluster.path(gadgets), gadget(gadgets, "g", status={"y": 1})).ok()

    assert cluster.get(gadgets, "g")["status"] == {"y": 1}
    assert cluster.wire.request("GET", cluster.path(gadgets, "g", "status")).status == 404


def test_an_update_needs_a_version(cluster: Cluster) -> None:
    gadgets = custom_resource(cluster)
    cluster.wire.request("POST", cluster.path(gadgets), gadget(gadgets, "g")).ok()

    answer = cluster.wire.request("PUT", cluster.path(gadgets, "g"), gadget(gadgets, "g", spec={}))

    status = answer.refused(422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.resourceVersion"


def test_a_strategic_patch_is_not_supported(cluster: Cluster) -> None:
    gadgets = custom_resource(cluster)
    cluster.wire.request("POST", cluster.path(gadgets), gadget(gadgets, "g")).ok()

    cluster.try_patch(gadgets, "g", {"spec": {}}, "strategic").refused(415, "UnsupportedMediaType")


def test_they_are_watched_like_everything_else(cluster: Cluster) -> None:
    gadgets = custom_resource(cluster)
    start = cluster.list(gadgets)["metadata"]["resourceVersion"]
    cluster.wire.request("POST", cluster.path(gadgets), gadget(gadgets, "g")).ok()
    cluster.delete(gadgets, "g")

    with cluster.wire.watch(cluster.path(gadgets), resourceVersion=start) as watch:
        added, deleted = watch.expect("ADDED", "DELETED")

    assert added["kind"] == deleted["kind"] == "Gadget"


def test_a_cluster_scoped_kind_has_no_namespace(cluster: Cluster) -> None:
    gadgets = custom_resource(cluster, namespaced=False)

    body = gadget(gadgets, cluster.unique("g"))

    made = cluster.wire.request("POST", cluster.path(gadgets), body).ok()

    assert "namespace" not in made["metadata"]


def test_its_objects_go_with_the_definition(cluster: Cluster) -> None:
    gadgets = custom_resource(cluster, own=True)
    cluster.wire.request("POST", cluster.path(gadgets), gadget(gadgets, "g")).ok()
    start = cluster.list(gadgets)["metadata"]["resourceVersion"]

    with cluster.wire.watch(cluster.path(gadgets), resourceVersion=start) as watch:
        cluster.delete("CustomResourceDefinition", f"gadgets.{gadgets.group}")
        (deleted,) = watch.expect("DELETED")

    assert deleted["metadata"]["name"] == "g"
    cluster.gone("CustomResourceDefinition", f"gadgets.{gadgets.group}")
    cluster.wait(
        lambda: cluster.wire.request("GET", cluster.path(gadgets)).status == 404, "the resource to be gone"
    )


def test_a_definition_waits_for_an_object_that_somebody_holds(cluster: Cluster) -> None:
    gadgets = custom_resource(cluster, own=True)
    name = f"gadgets.{gadgets.group}"
    held = gadget(gadgets, "g")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.wire.request("POST", cluster.path(gadgets), held).ok()

    cluster.delete("CustomResourceDefinition", name)

    cluster.wait(
        lambda: "deletionTimestamp" in cluster.get(gadgets, "g")["metadata"], "the object to be told to go"
    )
    metadata = cluster.get("CustomResourceDefinition", name)["metadata"]
    assert metadata["deletionTimestamp"]
    assert metadata["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    refused = cluster.wire.request("POST", cluster.path(gadgets), gadget(gadgets, "late"))
    assert refused.refused(403, "Forbidden")["message"] == (
        f'{name} "late" is forbidden: create not allowed while custom resource definition is terminating'
    )
    cluster.patch(gadgets, "g", {"metadata": {"finalizers": None}})
    cluster.gone("CustomResourceDefinition", name)
