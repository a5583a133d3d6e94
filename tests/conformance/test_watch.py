"""Watching: from where, in what order, what selectors make of changes, and when it is too late."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster import Cluster
from support.manifests import config_map, event, pod


def version_of(cluster: Cluster, kind: str = "ConfigMap") -> str:
    version = cluster.list(kind)["metadata"]["resourceVersion"]
    assert isinstance(version, str)
    return version


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [one["metadata"]["name"] for one in objects]


def test_from_a_version_every_later_change_is_seen_once_and_in_order(cluster: Cluster) -> None:
    start = version_of(cluster)
    made = cluster.create(config_map("a"))
    changed = cluster.update({**made, "data": {"k": "2"}})
    cluster.delete("ConfigMap", "a")

    with cluster.wire.watch(cluster.path("ConfigMap"), resourceVersion=start) as watch:
        added, modified, deleted = watch.expect("ADDED", "MODIFIED", "DELETED")

    assert added == made
    assert modified == changed
    assert deleted["metadata"]["name"] == "a"
    versions = [int(one["metadata"]["resourceVersion"]) for one in (added, modified, deleted)]
    assert versions == sorted(set(versions))


def test_a_deletion_carries_the_last_state_and_a_version_of_its_own(cluster: Cluster) -> None:
    start = version_of(cluster)
    made = cluster.create(config_map("a", data={"last": "words"}))
    cluster.delete("ConfigMap", "a")

    with cluster.wire.watch(cluster.path("ConfigMap"), resourceVersion=start) as watch:
        _, deleted = watch.expect("ADDED", "DELETED")

    assert deleted["data"] == {"last": "words"}
    assert deleted["metadata"]["uid"] == made["metadata"]["uid"]
    assert int(deleted["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


@pytest.mark.parametrize("version", ["0", ""])
def test_without_a_version_what_is_there_comes_first(cluster: Cluster, version: str) -> None:
    cluster.create(pod("a"))
    cluster.create(pod("b"))

    with cluster.wire.watch(cluster.path("Pod"), resourceVersion=version) as watch:
        assert names(watch.expect("ADDED", "ADDED")) == ["a", "b"]
        cluster.create(pod("c"))
        assert names(watch.expect("ADDED")) == ["c"]


def test_a_watch_is_live(cluster: Cluster) -> None:
    with cluster.wire.watch(cluster.path("ConfigMap"), resourceVersion=version_of(cluster)) as watch:
        cluster.create(config_map("a"))
        assert names(watch.expect("ADDED")) == ["a"]
        cluster.patch("ConfigMap", "a", {"data": {"k": "2"}})
        assert names(watch.expect("MODIFIED")) == ["a"]
        cluster.delete("ConfigMap", "a")
        assert names(watch.expect("DELETED")) == ["a"]


def test_a_write_that_changes_nothing_is_no_event(cluster: Cluster) -> None:
    with cluster.wire.watch(cluster.path("ConfigMap"), resourceVersion=version_of(cluster)) as watch:
        cluster.create(config_map("a", data={"k": "1"}))
        cluster.patch("ConfigMap", "a", {"data": {"k": "1"}})
        cluster.create(config_map("b"))

        assert names(watch.expect("ADDED", "ADDED")) == ["a", "b"]


def test_only_the_namespace_is_watched(cluster: Cluster) -> None:
    here, there = cluster.namespace, cluster.add_namespace()
    start = version_of(cluster)
    cluster.create(config_map("there", namespace=there))
    cluster.create(config_map("here", namespace=here))

    with cluster.wire.watch(cluster.path("ConfigMap", namespace=here), resourceVersion=start) as watch:
        assert names(watch.expect("ADDED")) == ["here"]


def test_an_object_that_comes_to_match_is_added_and_one_that_ceases_to_is_deleted(cluster: Cluster) -> None:
    cluster.create(config_map("a"))
    start = version_of(cluster)
    cluster.patch("ConfigMap", "a", {"metadata": {"labels": {"pick": "me"}}})
    cluster.patch("ConfigMap", "a", {"data": {"k": "2"}})
    changed = cluster.patch("ConfigMap", "a", {"metadata": {"labels": {"pick": "not"}}})

    with cluster.wire.watch(
        cluster.path("ConfigMap"), resourceVersion=start, labelSelector="pick=me"
    ) as watch:
        _, _, deleted = watch.expect("ADDED", "MODIFIED", "DELETED")

    assert deleted["metadata"]["labels"] == {"pick": "me"}
    assert deleted["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]


def test_a_pod_leaves_a_watch_of_the_unplaced_when_it_is_bound(cluster: Cluster) -> None:
    (node,) = cluster.add_nodes()
    cluster.create(pod("a"))

    with cluster.wire.watch(
        cluster.path("Pod"), resourceVersion=version_of(cluster, "Pod"), fieldSelector="spec.nodeName="
    ) as watch:
        binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}}
        cluster.wire.request("POST", cluster.path("Pod", "a", "binding"), binding).ok()

        assert names(watch.expect("DELETED")) == ["a"]


def test_one_object_can_be_watched_by_its_name(cluster: Cluster) -> None:
    start = version_of(cluster)
    cluster.create(config_map("other"))
    cluster.create(config_map("mine"))

    with cluster.wire.watch(
        cluster.path("ConfigMap"), resourceVersion=start, fieldSelector="metadata.name=mine"
    ) as watch:
        assert names(watch.expect("ADDED")) == ["mine"]


def test_initial_events_end_with_a_marked_bookmark(cluster: Cluster) -> None:
    cluster.create(pod("a"))
    cluster.create(pod("b"))

    with cluster.wire.watch(
        cluster.path("Pod"),
        sendInitialEvents=True,
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks=True,
    ) as watch:
        events = watch.until(lambda event: event["type"] == "BOOKMARK")
        bookmark = events[-1]["object"]
        cluster.create(pod("c"))
        (later,) = watch.expect("ADDED")

    assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK"]
    assert bookmark["kind"] == "Pod"
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(bookmark["metadata"]["resourceVersion"]) > 0
    assert names([later]) == ["c"]


def test_initial_events_of_nothing_are_the_bookmark_alone(cluster: Cluster) -> None:
    with cluster.wire.watch(
        cluster.path("Pod"),
        sendInitialEvents=True,
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks=True,
    ) as watch:
        watch.expect("BOOKMARK")


def test_initial_events_need_a_version_match(cluster: Cluster) -> None:
    answer = cluster.wire.request(
        "GET", cluster.path("Pod"), watch=True, sendInitialEvents=True, allowWatchBookmarks=True
    )

    assert "resourceVersionMatch" in answer.refused(422, "Invalid")["message"]


def test_a_watch_ends_when_its_time_is_up_with_a_bookmark_if_those_were_allowed(cluster: Cluster) -> None:
    start = version_of(cluster)

    # The bookmark is due two seconds before the end; a slow machine must not have missed that by then.
    with cluster.wire.watch(
        cluster.path("ConfigMap"), resourceVersion=start, timeoutSeconds=7, allowWatchBookmarks=True
    ) as watch:
        cluster.add_namespace()  # its ConfigMap is news, though not here: without any there is no bookmark
        events = watch.ends()

    assert {event["type"] for event in events} == {"BOOKMARK"}
    assert int(events[-1]["object"]["metadata"]["resourceVersion"]) >= int(start)


def test_a_version_from_before_what_is_remembered_is_gone(cluster: Cluster) -> None:
    # Of events the real server keeps no past in memory, so compaction is felt at once.
    cluster.create(event(cluster, "a"))
    cluster.host.compact()

    with cluster.wire.watch(cluster.path("Event"), resourceVersion="2") as watch:
        (status,) = watch.expect("ERROR")

    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")


def test_a_watch_of_all_namespaces_sees_them_in_the_order_of_versions(cluster: Cluster) -> None:
    here, there = cluster.namespace, cluster.add_namespace()
    start = version_of(cluster, "Pod")
    for index in range(6):
        cluster.create(pod(f"p{index}", namespace=(here, there)[index % 2], labels={"order": here}))

    with cluster.wire.watch(
        cluster.path("Pod", namespace=None), resourceVersion=start, labelSelector=f"order={here}"
    ) as watch:
        seen = watch.expect(*["ADDED"] * 6)

    assert names(seen) == [f"p{index}" for index in range(6)]
    versions = [int(one["metadata"]["resourceVersion"]) for one in seen]
    assert versions == sorted(versions)


def test_versions_are_comparable_between_kinds(cluster: Cluster) -> None:
    first = cluster.create(config_map("a"))
    second = cluster.create(pod("a"))

    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
