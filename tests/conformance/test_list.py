"""Reading one object and many: selectors, pages, versions."""

from __future__ import annotations

from support.cluster import Cluster
from support.manifests import config_map, event, pod


def labelled(cluster: Cluster) -> None:
    cluster.create(config_map("a", labels={"tier": "web", "env": "prod"}))
    cluster.create(config_map("b", labels={"tier": "db", "env": "prod"}))
    cluster.create(config_map("c", labels={"tier": "web"}))
    cluster.create(config_map("d"))


def found(cluster: Cluster, selector: str) -> list[str]:
    return [name for name in cluster.names("ConfigMap", labelSelector=selector) if len(name) == 1]


def test_an_object_that_is_not_there_is_not_found(cluster: Cluster) -> None:
    status = cluster.try_get("ConfigMap", "a").refused(404, "NotFound")

    assert status["message"] == 'configmaps "a" not found'
    assert status["details"] == {"name": "a", "kind": "configmaps"}


def test_a_resource_that_is_not_served_is_not_found(cluster: Cluster) -> None:
    path = f"/apis/apps/v1/namespaces/{cluster.namespace}/gadgets"

    assert cluster.wire.request("GET", path).status == 404


def test_a_list_says_its_kind_and_version_and_items_do_not(cluster: Cluster) -> None:
    cluster.create(config_map("a"))

    listed = cluster.list("ConfigMap")

    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(listed["metadata"]["resourceVersion"]) > 0
    assert all("kind" not in item and "apiVersion" not in item for item in listed["items"])


def test_a_list_is_in_order_of_name(cluster: Cluster) -> None:
    for name in ("b", "c", "a"):
        cluster.create(config_map(name))

    assert [name for name in cluster.names("ConfigMap") if len(name) == 1] == ["a", "b", "c"]


def test_the_version_of_a_list_covers_what_was_written_before(cluster: Cluster) -> None:
    made = cluster.create(config_map("a"))

    listed = cluster.list("ConfigMap")

    assert int(listed["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])


def test_equality_selects(cluster: Cluster) -> None:
    labelled(cluster)

    assert found(cluster, "tier=web") == ["a", "c"]
    assert found(cluster, "tier==web,env=prod") == ["a"]


def test_inequality_selects_what_lacks_the_label_too(cluster: Cluster) -> None:
    labelled(cluster)

    assert found(cluster, "tier!=web") == ["b", "d"]


def test_sets_and_existence_select(cluster: Cluster) -> None:
    labelled(cluster)

    assert found(cluster, "tier in (web, db)") == ["a", "b", "c"]
    assert found(cluster, "tier notin (web)") == ["b", "d"]
    assert found(cluster, "env") == ["a", "b"]
    assert found(cluster, "!env,tier") == ["c"]


def test_a_selector_that_cannot_be_read_is_a_bad_request(cluster: Cluster) -> None:
    cluster.wire.request("GET", cluster.path("ConfigMap"), labelSelector="a in b").refused(400, "BadRequest")


def test_fields_select_by_name(cluster: Cluster) -> None:
    labelled(cluster)

    assert cluster.names("ConfigMap", fieldSelector="metadata.name=b") == ["b"]


def test_pods_are_selected_by_node_and_phase(cluster: Cluster) -> None:
    cluster.create(pod("free"))
    cluster.create(pod("placed", spec={"nodeName": cluster.nowhere}))

    assert cluster.names("Pod", fieldSelector=f"spec.nodeName={cluster.nowhere}") == ["placed"]
    assert cluster.names("Pod", fieldSelector="spec.nodeName=") == ["free"]
    assert cluster.names("Pod", fieldSelector="spec.nodeName!=,status.phase=Pending") == ["placed"]
    assert cluster.names("Pod", fieldSelector="status.phase!=Pending") == []


def test_pods_are_selected_by_scheduler(cluster: Cluster) -> None:
    cluster.create(pod("a"))
    cluster.create(pod("b", spec={"schedulerName": "other"}))

    assert cluster.names("Pod", fieldSelector="spec.schedulerName=other") == ["b"]


def test_a_field_that_cannot_be_selected_by_is_a_bad_request(cluster: Cluster) -> None:
    answer = cluster.wire.request("GET", cluster.path("Pod"), fieldSelector="spec.image=v")

    assert "field label not supported: spec.image" in answer.refused(400, "BadRequest")["message"]


class TestPages:
    """``limit`` and ``continue``."""

    def test_pages_together_are_the_list(self, cluster: Cluster) -> None:
        for index in range(7):
            cluster.create(config_map(f"page-{index}", labels={"page": "1"}))

        seen: list[list[str]] = []
        token = ""
        while True:
            page = cluster.list("ConfigMap", limit=3, continue_=token, labelSelector="page=1")
            seen.append([item["metadata"]["name"] for item in page["items"]])
            if not (token := page["metadata"].get("continue", "")):
                break

        assert [len(names) for names in seen] == [3, 3, 1]
        assert [name for names in seen for name in names] == [f"page-{index}" for index in range(7)]

    def test_a_page_says_how_many_remain_unless_there_is_a_selector(self, cluster: Cluster) -> None:
        for index in range(4):
            cluster.create(pod(f"p{index}", labels={"page": "1"}))

        assert cluster.list("Pod", limit=3)["metadata"]["remainingItemCount"] == 1
        assert "remainingItemCount" not in cluster.list("Pod", limit=3, labelSelector="page=1")["metadata"]

    def test_later_pages_show_the_past(self, cluster: Cluster) -> None:
        for name in ("a", "b", "c"):
            cluster.create(pod(name))
        first = cluster.list("Pod", limit=2)

        cluster.create(pod("d"))
        cluster.delete("Pod", "c", gracePeriodSeconds=0)
        second = cluster.list("Pod", limit=2, continue_=first["metadata"]["continue"])

        assert [item["metadata"]["name"] for item in second["items"]] == ["c"]
        assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    def test_a_token_that_was_never_given_is_a_bad_request(self, cluster: Cluster) -> None:
        answer = cluster.wire.request("GET", cluster.path("Pod"), limit=2, continue_="nonsense")

        answer.refused(400)

    def test_a_token_whose_past_is_forgotten_is_gone_and_offers_to_go_on(self, cluster: Cluster) -> None:
        # Of events the real server keeps no past in memory, so compaction is felt at once.
        for name in ("a", "b", "c"):
            cluster.create(event(cluster, name))
        first = cluster.list("Event", limit=2)
        cluster.create(event(cluster, "d"))
        cluster.host.compact()

        status = cluster.wire.request(
            "GET", cluster.path("Event"), limit=2, continue_=first["metadata"]["continue"]
        ).refused(410, "Expired")
        rest = cluster.list("Event", limit=5, continue_=status["metadata"]["continue"])

        assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "d"]


class TestVersions:
    """What ``resourceVersion`` means for a read."""

    def test_zero_is_any_version(self, cluster: Cluster) -> None:
        made = cluster.create(config_map("a"))

        cluster.wait(
            lambda: "a" in cluster.names("ConfigMap", resourceVersion="0"), "the object in a cached list"
        )
        assert (
            cluster.get("ConfigMap", "a", resourceVersion="0")["metadata"]["uid"] == made["metadata"]["uid"]
        )

    def test_not_older_than_waits_for_it(self, cluster: Cluster) -> None:
        version = cluster.create(config_map("a"))["metadata"]["resourceVersion"]

        listed = cluster.list("ConfigMap", resourceVersion=version, resourceVersionMatch="NotOlderThan")

        assert "a" in [item["metadata"]["name"] for item in listed["items"]]
        assert int(listed["metadata"]["resourceVersion"]) >= int(version)

    def test_exact_shows_the_past(self, cluster: Cluster) -> None:
        version = cluster.create(config_map("a"))["metadata"]["resourceVersion"]
        cluster.create(config_map("b"))

        listed = cluster.list("ConfigMap", resourceVersion=version, resourceVersionMatch="Exact")

        names = [item["metadata"]["name"] for item in listed["items"]]
        assert "a" in names
        assert "b" not in names
        assert listed["metadata"]["resourceVersion"] == version

    def test_a_version_from_the_future_is_too_large(self, cluster: Cluster) -> None:
        version = str(int(cluster.list("ConfigMap")["metadata"]["resourceVersion"]) + 1_000_000)

        answer = cluster.wire.request(
            "GET", cluster.path("ConfigMap"), resourceVersion=version, resourceVersionMatch="NotOlderThan"
        )

        status = answer.refused(504, "Timeout")
        assert "Too large resource version" in status["message"]
        assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"

    def test_exactly_a_forgotten_past_is_gone(self, cluster: Cluster) -> None:
        version = cluster.create(event(cluster, "a"))["metadata"]["resourceVersion"]
        cluster.create(event(cluster, "b"))
        cluster.host.compact()

        answer = cluster.wire.request(
            "GET", cluster.path("Event"), resourceVersion=version, resourceVersionMatch="Exact"
        )

        answer.refused(410, "Expired")

    def test_a_version_that_is_no_number_is_invalid(self, cluster: Cluster) -> None:
        answer = cluster.wire.request("GET", cluster.path("ConfigMap"), resourceVersion="soon")

        assert answer.status == 400


def test_all_namespaces_are_listed_together(cluster: Cluster) -> None:
    here = cluster.namespace
    there = cluster.add_namespace()
    for namespace in (here, there):
        cluster.create(config_map("a", namespace=namespace, labels={"everywhere": here}))

    listed = cluster.list("ConfigMap", namespace=None, labelSelector=f"everywhere={here}")

    assert {item["metadata"]["namespace"] for item in listed["items"]} == {here, there}


def test_metadata_alone_can_be_asked_for(cluster: Cluster) -> None:
    cluster.create(config_map("a", labels={"x": "1"}))

    answer = cluster.wire.request(
        "GET",
        cluster.path("ConfigMap", "a"),
        accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
    )

    body = answer.ok()
    assert (body["kind"], body["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert body["metadata"]["labels"] == {"x": "1"}
    assert "data" not in body
