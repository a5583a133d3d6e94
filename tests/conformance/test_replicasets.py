"""ReplicaSets: keeping a number, adopting, and whom to delete first."""

from __future__ import annotations

from typing import Any

from support.cluster import Cluster
from support.manifests import pod, replica_set
from support.workloads import on_own_nodes, pod_names, pods_of, wait_ready

UNPLACED = {"schedulerName": "nobody"}


def placed(cluster: Cluster) -> dict[str, Any]:
    """On a node that does not exist, so that no kubelet has a say."""
    return {"nodeName": cluster.nowhere, "schedulerName": "nobody"}


def settled(cluster: Cluster, name: str, number: int) -> list[dict[str, Any]]:
    cluster.wait(lambda: len(pods_of(cluster, name)) == number, f"{number} pods of {name}")
    return pods_of(cluster, name)


def scale(cluster: Cluster, name: str, replicas: int) -> None:
    cluster.patch("ReplicaSet", name, {"spec": {"replicas": replicas}})


def test_it_makes_pods_from_its_template(cluster: Cluster) -> None:
    made = cluster.create(replica_set("rs", 3, pods=UNPLACED))

    pods = settled(cluster, "rs", 3)

    for one in pods:
        (owner,) = one["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("ReplicaSet", "rs", made["metadata"]["uid"])
        assert (owner["controller"], owner["blockOwnerDeletion"]) == (True, True)
        assert one["metadata"]["labels"] == {"app": "rs"}


def test_a_pod_that_is_deleted_is_replaced(cluster: Cluster) -> None:
    cluster.create(replica_set("rs", 2, pods=UNPLACED))
    first, second = (one["metadata"]["name"] for one in settled(cluster, "rs", 2))

    cluster.delete("Pod", first)

    cluster.wait(lambda: len(names := pod_names(cluster, "rs")) == 2 and first not in names, "a replacement")
    assert second in pod_names(cluster, "rs")


def test_a_pod_that_failed_is_replaced(cluster: Cluster) -> None:
    cluster.create(replica_set("rs", 1, pods=UNPLACED))
    (failed,) = (one["metadata"]["name"] for one in settled(cluster, "rs", 1))

    cluster.patch("Pod", failed, {"status": {"phase": "Failed"}}, sub="status")

    cluster.wait(lambda: any(name != failed for name in pod_names(cluster, "rs")), "a replacement")


def test_its_status_counts(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.create(replica_set("rs", 2, pods=on_own_nodes(cluster)))
    wait_ready(cluster, "rs", 2)

    def counted() -> bool:
        status = cluster.get("ReplicaSet", "rs")["status"]
        keys = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        return [status.get(key) for key in keys] == [2, 2, 2, 2] and status["observedGeneration"] == 1

    cluster.wait(counted, "its status")


def test_a_pod_without_an_owner_that_matches_is_adopted(cluster: Cluster) -> None:
    cluster.create(pod("orphan", labels={"app": "rs"}))

    made = cluster.create(replica_set("rs", 1, pods=UNPLACED))

    cluster.wait(lambda: cluster.get("Pod", "orphan")["metadata"].get("ownerReferences"), "the adoption")
    (owner,) = cluster.get("Pod", "orphan")["metadata"]["ownerReferences"]
    assert owner["uid"] == made["metadata"]["uid"]
    assert pod_names(cluster, "rs") == ["orphan"]


def test_a_pod_that_no_longer_matches_is_let_go_and_replaced(cluster: Cluster) -> None:
    cluster.create(replica_set("rs", 1, pods=UNPLACED))
    (name,) = (one["metadata"]["name"] for one in settled(cluster, "rs", 1))

    cluster.patch("Pod", name, {"metadata": {"labels": {"app": "other"}}})

    cluster.wait(lambda: "ownerReferences" not in cluster.get("Pod", name)["metadata"], "the release")
    settled(cluster, "rs", 1)


def test_a_minimum_of_ready_seconds_delays_availability(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.create(replica_set("rs", 1, spec={"minReadySeconds": 3600}, pods=on_own_nodes(cluster)))
    wait_ready(cluster, "rs", 1)

    cluster.wait(lambda: cluster.get("ReplicaSet", "rs")["status"].get("readyReplicas") == 1, "readiness")

    assert cluster.get("ReplicaSet", "rs")["status"].get("availableReplicas", 0) == 0


class TestWhomToDelete:
    """The order in which a ReplicaSet gives up pods."""

    def test_the_unplaced_go_before_the_placed_even_if_those_are_not_ready(self, cluster: Cluster) -> None:
        cluster.create(replica_set("rs", 3, pods=UNPLACED))
        names = sorted(one["metadata"]["name"] for one in settled(cluster, "rs", 3))
        binding = {"metadata": {"name": names[1]}, "target": {"kind": "Node", "name": cluster.nowhere}}
        cluster.wire.request("POST", cluster.path("Pod", names[1], "binding"), binding).ok()
        make_ready(cluster, names[0], names[2])

        scale(cluster, "rs", 1)

        settled(cluster, "rs", 1)
        assert pod_names(cluster, "rs") == [names[1]]

    def test_the_pending_go_before_the_running_even_at_a_higher_cost(self, cluster: Cluster) -> None:
        cluster.create(replica_set("rs", 2, pods=placed(cluster)))
        runs, waits = (one["metadata"]["name"] for one in settled(cluster, "rs", 2))
        set_cost(cluster, waits, 1000)
        make_ready(cluster, runs)

        scale(cluster, "rs", 1)

        settled(cluster, "rs", 1)
        assert pod_names(cluster, "rs") == [runs]

    def test_the_unready_go_before_the_ready(self, cluster: Cluster) -> None:
        cluster.create(replica_set("rs", 2, pods=placed(cluster)))
        ready, unready = (one["metadata"]["name"] for one in settled(cluster, "rs", 2))
        cluster.patch("Pod", unready, {"status": {"phase": "Running"}}, "strategic", "status")
        make_ready(cluster, ready)

        scale(cluster, "rs", 1)

        settled(cluster, "rs", 1)
        assert pod_names(cluster, "rs") == [ready]

    def test_among_the_ready_the_cheapest_go_first(self, cluster: Cluster) -> None:
        cluster.create(replica_set("rs", 4, pods=placed(cluster)))
        names = sorted(one["metadata"]["name"] for one in settled(cluster, "rs", 4))
        for name, cost in zip(names, (-1, 5, 0, -3), strict=True):
            if cost:
                set_cost(cluster, name, cost)
        make_ready(cluster, *names)

        scale(cluster, "rs", 2)

        settled(cluster, "rs", 2)
        assert pod_names(cluster, "rs") == sorted([names[1], names[2]])

    def test_a_cost_that_is_no_number_is_refused(self, cluster: Cluster) -> None:
        cluster.create(pod("a"))
        annotations = {"controller.kubernetes.io/pod-deletion-cost": "cheap"}

        answer = cluster.try_patch("Pod", "a", {"metadata": {"annotations": annotations}})

        answer.refused(422, "Invalid")


def set_cost(cluster: Cluster, name: str, cost: int) -> None:
    annotations = {"controller.kubernetes.io/pod-deletion-cost": str(cost)}
    cluster.patch("Pod", name, {"metadata": {"annotations": annotations}})


def make_ready(cluster: Cluster, *names: str) -> None:
    """Make pods Ready, and wait until the controller has seen that, and so all that was written before."""
    since = "2026-01-01T00:00:00Z"
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    status = {"phase": "Running", "startTime": since, "conditions": [condition]}
    for name in names:
        cluster.patch("Pod", name, {"status": status}, "strategic", "status")
    cluster.wait(
        lambda: cluster.get("ReplicaSet", "rs")["status"].get("readyReplicas") == len(names),
        "the controller to count them",
    )
