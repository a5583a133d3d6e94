"""What is served, and how a client finds out."""

from __future__ import annotations

from support.cluster import Cluster
from support.custom import custom_resource


def test_the_version_is_told(cluster: Cluster) -> None:
    version = cluster.wire.request("GET", "/version").ok()

    assert f"{version['major']}.{version['minor']}" == cluster.host.kubernetes
    assert version["gitVersion"].startswith(f"v{cluster.host.kubernetes}.")


def test_the_core_group_lists_its_resources(cluster: Cluster) -> None:
    assert cluster.wire.request("GET", "/api").ok()["versions"] == ["v1"]

    listed = cluster.wire.request("GET", "/api/v1").ok()
    resources = {one["name"]: one for one in listed["resources"]}

    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", "v1")
    assert resources["pods"]["kind"] == "Pod"
    assert resources["pods"]["singularName"] == "pod"
    assert resources["pods"]["shortNames"] == ["po"]
    assert resources["pods"]["namespaced"] is True
    assert resources["nodes"]["namespaced"] is False
    assert set(resources["pods"]["verbs"]) == {
        *("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    }
    assert resources["pods/binding"]["kind"] == "Binding"
    assert resources["pods/eviction"]["group"] == "policy"


def test_groups_are_listed(cluster: Cluster) -> None:
    listed = cluster.wire.request("GET", "/apis").ok()
    groups = {one["name"]: one["preferredVersion"]["groupVersion"] for one in listed["groups"]}

    assert listed["kind"] == "APIGroupList"
    for group in ("apps", "batch", "policy", "coordination.k8s.io", "scheduling.k8s.io", "storage.k8s.io"):
        assert groups[group] == f"{group}/v1"


def test_a_group_and_its_resources_are_described(cluster: Cluster) -> None:
    assert cluster.wire.request("GET", "/apis/apps").ok()["preferredVersion"]["version"] == "v1"
    resources = cluster.wire.request("GET", "/apis/apps/v1").ok()["resources"]

    assert {"deployments", "deployments/scale", "deployments/status", "replicasets", "statefulsets"} <= {
        one["name"] for one in resources
    }


def test_a_group_that_is_not_served_is_not_found(cluster: Cluster) -> None:
    assert cluster.wire.request("GET", "/apis/nothing.example.com/v1").status == 404


def test_everything_can_be_had_in_one_answer(cluster: Cluster) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

    answer = cluster.wire.request("GET", "/apis", accept=accept)

    assert "as=APIGroupDiscoveryList" in answer.headers["content-type"]
    groups = {one["metadata"]["name"]: one for one in answer.ok()["items"]}
    resources = {one["resource"]: one for one in groups["apps"]["versions"][0]["resources"]}
    assert resources["deployments"]["responseKind"]["kind"] == "Deployment"
    assert resources["deployments"]["scope"] == "Namespaced"
    assert {one["subresource"] for one in resources["deployments"]["subresources"]} == {"scale", "status"}


def test_a_custom_resource_is_discovered_once_it_is_defined(cluster: Cluster) -> None:
    gadgets = custom_resource(cluster, own=True)

    def discovered() -> list[str]:
        answer = cluster.wire.request("GET", f"/apis/{gadgets.group}/v1")
        return [one["name"] for one in answer.body["resources"]] if answer.status == 200 else []

    assert cluster.wait(discovered, "the group to be served") == ["gadgets"]
    cluster.wait(
        lambda: gadgets.group in [one["name"] for one in cluster.wire.request("GET", "/apis").ok()["groups"]],
        "the group to be listed",
    )


def test_schemas_are_offered_by_group(cluster: Cluster) -> None:
    paths = cluster.wire.request("GET", "/openapi/v3").ok()["paths"]

    assert {"api/v1", "apis/apps/v1"} <= set(paths)
    assert paths["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1")
    schema = cluster.wire.request("GET", paths["apis/apps/v1"]["serverRelativeURL"]).ok()
    assert schema["openapi"].startswith("3.")
    assert "io.k8s.api.apps.v1.Deployment" in schema["components"]["schemas"]


def test_it_says_that_it_is_well(cluster: Cluster) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        answer = cluster.wire.request("GET", path)
        assert (answer.status, answer.body) == (200, "ok")


def test_a_path_that_leads_nowhere_is_not_found(cluster: Cluster) -> None:
    assert cluster.wire.request("GET", "/nowhere").status == 404
