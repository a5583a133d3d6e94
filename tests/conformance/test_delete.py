"""Deleting: answers, grace, preconditions, finalizers, collections."""

from __future__ import annotations

from support.cluster import Cluster
from support.manifests import config_map, pod, scheduled_pod
from support.workloads import on_own_nodes


def test_an_object_is_gone_at_once_and_the_answer_says_which_it_was(cluster: Cluster) -> None:
    made = cluster.create(config_map("a"))

    answer = cluster.try_delete("ConfigMap", "a")

    assert answer.status == 200
    assert (answer.body["kind"], answer.body["status"]) == ("Status", "Success")
    assert answer.body["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    cluster.try_get("ConfigMap", "a").refused(404)


def test_what_is_not_there_cannot_be_deleted(cluster: Cluster) -> None:
    cluster.try_delete("ConfigMap", "a").refused(404, "NotFound")


def test_another_uid_is_a_conflict(cluster: Cluster) -> None:
    made = cluster.create(config_map("a"))

    status = cluster.try_delete("ConfigMap", "a", preconditions={"uid": "other"}).refused(409, "Conflict")
    assert "the UID in the precondition (other) does not match the UID in record" in status["message"]

    cluster.delete("ConfigMap", "a", preconditions={"uid": made["metadata"]["uid"]})


def test_another_version_is_a_conflict(cluster: Cluster) -> None:
    stale = cluster.create(config_map("a"))["metadata"]["resourceVersion"]
    cluster.patch("ConfigMap", "a", {"data": {"k": "2"}})

    answer = cluster.try_delete("ConfigMap", "a", preconditions={"resourceVersion": stale})

    answer.refused(409, "Conflict")


def test_a_finalizer_holds_the_object_back_until_it_is_taken_off(cluster: Cluster) -> None:
    cluster.create(config_map("a", finalizers=["x.io/wait"]))

    answer = cluster.try_delete("ConfigMap", "a")
    assert answer.status == 200
    assert answer.body["kind"] == "ConfigMap"
    assert answer.body["metadata"]["deletionTimestamp"]
    assert answer.body["metadata"]["deletionGracePeriodSeconds"] == 0

    cluster.patch("ConfigMap", "a", {"metadata": {"finalizers": None}})
    cluster.try_get("ConfigMap", "a").refused(404)


def test_no_finalizer_can_be_added_to_what_is_being_deleted(cluster: Cluster) -> None:
    cluster.create(config_map("a", finalizers=["x.io/a"]))
    cluster.delete("ConfigMap", "a")

    answer = cluster.try_patch("ConfigMap", "a", {"metadata": {"finalizers": ["x.io/a", "x.io/b"]}})

    status = answer.refused(422, "Invalid")
    assert "no new finalizers can be added if the object is being deleted" in status["message"]
    cluster.patch("ConfigMap", "a", {"metadata": {"finalizers": None}})


def test_the_deletion_time_stays_when_deleted_again(cluster: Cluster) -> None:
    cluster.create(config_map("a", finalizers=["x.io/a"]))
    first = cluster.delete("ConfigMap", "a")

    second = cluster.delete("ConfigMap", "a")

    assert second["metadata"]["deletionTimestamp"] == first["metadata"]["deletionTimestamp"]
    cluster.patch("ConfigMap", "a", {"metadata": {"finalizers": None}})


def test_a_dry_run_deletes_nothing(cluster: Cluster) -> None:
    cluster.create(config_map("a"))

    cluster.delete("ConfigMap", "a", dryRun=["All"])

    assert cluster.try_get("ConfigMap", "a").status == 200


def test_an_unplaced_pod_is_gone_at_once_whatever_its_grace(cluster: Cluster) -> None:
    cluster.create(pod("a"))

    cluster.delete("Pod", "a")

    cluster.try_get("Pod", "a").refused(404)


def test_a_placed_pod_is_given_its_grace(cluster: Cluster) -> None:
    # Nobody plays the kubelet of a node that does not exist, so the pod can be looked at while it ends.
    cluster.create(pod("a", spec={"nodeName": cluster.nowhere, "terminationGracePeriodSeconds": 17}))

    ending = cluster.delete("Pod", "a")
    assert ending["kind"] == "Pod"
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 17
    assert cluster.get("Pod", "a")["metadata"]["deletionTimestamp"]

    cluster.delete("Pod", "a", gracePeriodSeconds=0)
    cluster.try_get("Pod", "a").refused(404)


def test_grace_can_be_shortened_and_not_prolonged(cluster: Cluster) -> None:
    cluster.create(pod("a", spec={"nodeName": cluster.nowhere}))

    assert cluster.delete("Pod", "a", gracePeriodSeconds=20)["metadata"]["deletionGracePeriodSeconds"] == 20
    assert cluster.delete("Pod", "a", gracePeriodSeconds=50)["metadata"]["deletionGracePeriodSeconds"] == 20
    assert cluster.delete("Pod", "a", gracePeriodSeconds=10)["metadata"]["deletionGracePeriodSeconds"] == 10
    cluster.delete("Pod", "a", gracePeriodSeconds=0)


def test_the_generation_moves_when_a_pod_begins_to_end(cluster: Cluster) -> None:
    before = cluster.create(pod("a", spec={"nodeName": cluster.nowhere}))

    ending = cluster.delete("Pod", "a")

    assert ending["metadata"]["generation"] == before["metadata"]["generation"] + 1
    cluster.delete("Pod", "a", gracePeriodSeconds=0)


def test_a_kubelet_finishes_a_pods_deletion(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.create(scheduled_pod("a", spec=on_own_nodes(cluster)))
    cluster.wait(lambda: cluster.get("Pod", "a")["status"]["phase"] == "Running", "the pod to run")

    cluster.delete("Pod", "a")

    cluster.gone("Pod", "a")


def test_a_finished_pod_is_gone_at_once(cluster: Cluster) -> None:
    cluster.create(pod("a", spec={"nodeName": cluster.nowhere}))
    cluster.patch("Pod", "a", {"status": {"phase": "Succeeded"}}, sub="status")

    cluster.delete("Pod", "a")

    cluster.try_get("Pod", "a").refused(404)


def test_a_collection_is_deleted_as_far_as_it_is_selected(cluster: Cluster) -> None:
    for name, tier in (("a", "web"), ("b", "web"), ("c", "db")):
        cluster.create(pod(name, labels={"tier": tier}))

    answer = cluster.wire.request("DELETE", cluster.path("Pod"), labelSelector="tier=web")

    assert answer.status == 200
    assert answer.body["kind"] == "PodList"
    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["a", "b"]
    assert cluster.names("Pod") == ["c"]


def test_a_collection_is_deleted_by_field_too(cluster: Cluster) -> None:
    cluster.create(pod("a"))
    cluster.create(pod("b", spec={"nodeName": cluster.nowhere}))

    cluster.wire.request("DELETE", cluster.path("Pod"), fieldSelector="spec.nodeName=").ok()

    assert cluster.names("Pod") == ["b"]
    cluster.delete("Pod", "b", gracePeriodSeconds=0)


def test_a_deletion_is_seen_as_a_change_first_where_somebody_holds_it_back(cluster: Cluster) -> None:
    start = cluster.list("ConfigMap")["metadata"]["resourceVersion"]
    cluster.create(config_map("a", finalizers=["x.io/a"]))
    cluster.delete("ConfigMap", "a")
    cluster.patch("ConfigMap", "a", {"metadata": {"finalizers": None}})

    with cluster.wire.watch(cluster.path("ConfigMap"), resourceVersion=start) as watch:
        _, marked, _ = watch.expect("ADDED", "MODIFIED", "DELETED")

    assert marked["metadata"]["deletionTimestamp"]


def test_a_deletion_that_names_two_ways_to_propagate_is_invalid(cluster: Cluster) -> None:
    cluster.create(config_map("a"))

    answer = cluster.try_delete("ConfigMap", "a", propagationPolicy="Background", orphanDependents=True)

    answer.refused(422, "Invalid")
