"""Server-side tables, which is what ``kubectl get`` prints."""

from __future__ import annotations

from typing import Any

from support.cluster import Cluster
from support.custom import custom_resource, gadget
from support.manifests import config_map, deployment, pod
from support.wire import TABLE


def table(cluster: Cluster, path: str, **query: Any) -> dict[str, Any]:
    body = cluster.wire.request("GET", path, accept=TABLE, **query).ok()
    assert (body["kind"], body["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert isinstance(body, dict)
    return body


def columns(body: dict[str, Any], priority: int = 0) -> list[str]:
    return [one["name"] for one in body["columnDefinitions"] if one["priority"] <= priority]


def cells(body: dict[str, Any]) -> list[dict[str, Any]]:
    names = [one["name"] for one in body["columnDefinitions"]]
    return [dict(zip(names, row["cells"], strict=True)) for row in body["rows"]]


def test_pods(cluster: Cluster) -> None:
    cluster.create(pod("a"))

    body = table(cluster, cluster.path("Pod"))

    assert columns(body) == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert columns(body, 1)[5:] == ["IP", "Node", "Nominated Node", "Readiness Gates"]
    (row,) = cells(body)
    assert (row["Name"], row["Ready"], row["Status"], row["Node"]) == ("a", "0/1", "Pending", "<none>")


def test_a_row_carries_the_metadata_of_its_object(cluster: Cluster) -> None:
    made = cluster.create(pod("a"))

    (row,) = table(cluster, cluster.path("Pod"))["rows"]

    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["uid"] == made["metadata"]["uid"]


def test_a_row_can_carry_the_whole_object_or_nothing(cluster: Cluster) -> None:
    cluster.create(pod("a"))

    (whole,) = table(cluster, cluster.path("Pod"), includeObject="Object")["rows"]
    (bare,) = table(cluster, cluster.path("Pod"), includeObject="None")["rows"]

    assert whole["object"]["spec"]["containers"]
    assert not bare.get("object")


def test_a_single_object_is_a_table_of_one_row(cluster: Cluster) -> None:
    cluster.create(config_map("a", data={"x": "1", "y": "2"}))

    body = table(cluster, cluster.path("ConfigMap", "a"))

    assert columns(body) == ["Name", "Data", "Age"]
    assert [(row["Name"], row["Data"]) for row in cells(body)] == [("a", 2)]


def test_nodes(cluster: Cluster) -> None:
    (name,) = cluster.add_nodes()

    body = table(cluster, cluster.path("Node", name))

    assert columns(body) == ["Name", "Status", "Roles", "Age", "Version"]
    (row,) = cells(body)
    assert (row["Name"], row["Status"], row["Roles"]) == (name, "Ready", "<none>")


def test_a_cordoned_node(cluster: Cluster) -> None:
    (name,) = cluster.add_nodes()
    cluster.patch("Node", name, {"spec": {"unschedulable": True}})

    (row,) = cells(table(cluster, cluster.path("Node", name)))

    assert row["Status"] == "Ready,SchedulingDisabled"


def test_deployments(cluster: Cluster) -> None:
    cluster.create(deployment("web", 0))

    body = table(cluster, cluster.path("Deployment"))

    assert columns(body) == ["Name", "Ready", "Up-to-date", "Available", "Age"]
    assert columns(body, 1)[5:] == ["Containers", "Images", "Selector"]
    (row,) = cells(body)
    assert (row["Ready"], row["Containers"], row["Images"], row["Selector"]) == (
        "0/0",
        "main",
        "image",
        "app=web",
    )


def test_a_custom_resource_has_a_name_and_an_age(cluster: Cluster) -> None:
    gadgets = custom_resource(cluster)
    cluster.wire.request("POST", cluster.path(gadgets), gadget(gadgets, "g")).ok()

    assert columns(table(cluster, cluster.path(gadgets))) == ["Name", "Age"]


def test_a_custom_resource_has_the_columns_of_its_definition(cluster: Cluster) -> None:
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
    gadgets = custom_resource(cluster, columns=[column])
    cluster.wire.request("POST", cluster.path(gadgets), gadget(gadgets, "g", spec={"size": 3})).ok()

    body = table(cluster, cluster.path(gadgets))

    assert columns(body) == ["Name", "Size"]
    assert cells(body) == [{"Name": "g", "Size": 3}]


def test_a_watch_gives_tables_too_with_columns_only_once(cluster: Cluster) -> None:
    start = cluster.list("Pod")["metadata"]["resourceVersion"]
    cluster.create(pod("a"))
    cluster.create(pod("b"))

    with cluster.wire.watch(cluster.path("Pod"), accept=TABLE, resourceVersion=start) as watch:
        first, second = watch.expect("ADDED", "ADDED")

    assert first["columnDefinitions"][0]["name"] == "Name"
    assert second["columnDefinitions"] is None
    assert [one["rows"][0]["cells"][0] for one in (first, second)] == ["a", "b"]
