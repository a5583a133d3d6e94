"""The binding subresource: how a scheduler says where a pod goes."""

from __future__ import annotations

from typing import Any

from support.cluster import Cluster
from support.manifests import pod
from support.wire import Answer


def bind(cluster: Cluster, name: str, node: str, **metadata: Any) -> Answer:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return cluster.wire.request("POST", cluster.path("Pod", name, "binding"), body)


def test_a_bound_pod_has_its_node_and_a_condition_that_says_so(cluster: Cluster) -> None:
    cluster.create(pod("a"))

    answer = bind(cluster, "a", cluster.nowhere)

    assert answer.status == 201
    assert (answer.body["kind"], answer.body["status"]) == ("Status", "Success")
    bound = cluster.get("Pod", "a")
    assert bound["spec"]["nodeName"] == cluster.nowhere
    (condition,) = [one for one in bound["status"]["conditions"] if one["type"] == "PodScheduled"]
    assert condition["status"] == "True"
    assert condition["lastTransitionTime"]


def test_an_unschedulable_pod_becomes_scheduled(cluster: Cluster) -> None:
    cluster.create(pod("a"))
    refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    cluster.patch("Pod", "a", {"status": {"conditions": [refusal]}}, "strategic", "status")

    bind(cluster, "a", cluster.nowhere).ok()

    (condition,) = cluster.get("Pod", "a")["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert "reason" not in condition


def test_annotations_and_labels_of_the_binding_are_merged_into_the_pod(cluster: Cluster) -> None:
    cluster.create(pod("a", annotations={"old": "1", "kept": "1"}, labels={"old": "1"}))

    bind(cluster, "a", cluster.nowhere, annotations={"old": "2", "new": "2"}, labels={"new": "2"}).ok()

    metadata = cluster.get("Pod", "a")["metadata"]
    assert metadata["annotations"] == {"old": "2", "kept": "1", "new": "2"}
    assert metadata["labels"] == {"old": "1", "new": "2"}


def test_a_second_binding_is_a_conflict(cluster: Cluster) -> None:
    cluster.create(pod("a"))
    bind(cluster, "a", cluster.nowhere).ok()

    status = bind(cluster, "a", "elsewhere").refused(409, "Conflict")

    assert status["message"] == (
        'Operation cannot be fulfilled on pods/binding "a": '
        f'pod a is already assigned to node "{cluster.nowhere}"'
    )
    assert status["details"] == {"name": "a", "kind": "pods/binding"}
    assert cluster.get("Pod", "a")["spec"]["nodeName"] == cluster.nowhere


def test_a_second_binding_to_the_same_node_is_a_conflict_too(cluster: Cluster) -> None:
    cluster.create(pod("a"))
    bind(cluster, "a", cluster.nowhere).ok()

    bind(cluster, "a", cluster.nowhere).refused(409, "Conflict")


def test_another_uid_is_a_conflict(cluster: Cluster) -> None:
    made = cluster.create(pod("a"))

    status = bind(cluster, "a", cluster.nowhere, uid="00000000-0000-0000-0000-000000000000").refused(
        409, "Conflict"
    )
    assert "Precondition failed: UID in precondition" in status["message"]

    bind(cluster, "a", cluster.nowhere, uid=made["metadata"]["uid"]).ok()


def test_a_pod_that_is_being_deleted_is_not_bound(cluster: Cluster) -> None:
    cluster.create(pod("a", finalizers=["x.io/wait"]))
    cluster.delete("Pod", "a")

    status = bind(cluster, "a", cluster.nowhere).refused(409, "Conflict")

    assert "pod a is being deleted, cannot be assigned to a host" in status["message"]
    cluster.patch("Pod", "a", {"metadata": {"finalizers": None}})


def test_a_gated_pod_is_not_bound_until_its_gates_are_gone(cluster: Cluster) -> None:
    made = cluster.create(pod("a", spec={"schedulingGates": [{"name": "x.io/gate"}]}))
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )

    status = bind(cluster, "a", cluster.nowhere).refused(409, "Conflict")
    assert "pod a has non-empty .spec.schedulingGates" in status["message"]

    cluster.patch("Pod", "a", {"spec": {"schedulingGates": None}})
    bind(cluster, "a", cluster.nowhere).ok()


def test_a_gate_may_not_be_added_later(cluster: Cluster) -> None:
    cluster.create(pod("a"))

    answer = cluster.try_patch("Pod", "a", {"spec": {"schedulingGates": [{"name": "x.io/gate"}]}})

    answer.refused(422, "Invalid")


def test_a_pod_that_is_not_there_cannot_be_bound(cluster: Cluster) -> None:
    bind(cluster, "a", cluster.nowhere).refused(404, "NotFound")


def test_a_binding_without_a_node_is_refused(cluster: Cluster) -> None:
    cluster.create(pod("a"))

    assert bind(cluster, "a", "").refused(500)["message"] == "target.name: Required value"


def test_the_node_name_cannot_be_written_otherwise(cluster: Cluster) -> None:
    cluster.create(pod("a"))

    cluster.try_patch("Pod", "a", {"spec": {"nodeName": cluster.nowhere}}).refused(422, "Invalid")


def test_a_binding_is_one_event_that_shows_node_and_condition_together(cluster: Cluster) -> None:
    cluster.create(pod("a"))
    start = cluster.list("Pod")["metadata"]["resourceVersion"]
    bind(cluster, "a", cluster.nowhere, annotations={"slot": "3"}).ok()

    with cluster.wire.watch(cluster.path("Pod"), resourceVersion=start) as watch:
        (changed,) = watch.expect("MODIFIED")

    assert changed["spec"]["nodeName"] == cluster.nowhere
    assert changed["metadata"]["annotations"] == {"slot": "3"}
    assert changed["status"]["conditions"][0]["status"] == "True"
