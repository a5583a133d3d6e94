"""The eviction subresource and the budgets it asks."""

from __future__ import annotations

from typing import Any

from support.cluster import Cluster
from support.manifests import budget, pod
from support.wire import Answer

WEB = {"app": "web"}


def evict(cluster: Cluster, name: str, **options: Any) -> Answer:
    body: dict[str, Any] = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    if options:
        body["deleteOptions"] = options
    return cluster.wire.request("POST", cluster.path("Pod", name, "eviction"), body)


def ready_pod(cluster: Cluster, name: str) -> dict[str, Any]:
    """A pod that counts as healthy, on a node without a kubelet: it ends only when told so."""
    cluster.create(
        pod(name, labels=WEB, spec={"nodeName": cluster.nowhere, "terminationGracePeriodSeconds": 5})
    )
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return cluster.patch("Pod", name, {"status": status}, "strategic", "status")


def budgeted(cluster: Cluster, name: str, allowed: int, **spec: Any) -> None:
    cluster.create(budget(name, WEB, **spec))

    def counted() -> bool:
        status = cluster.get("PodDisruptionBudget", name).get("status", {})
        return status.get("observedGeneration") == 1 and status["disruptionsAllowed"] == allowed

    cluster.wait(counted, f"budget {name} to allow {allowed}")


def test_without_a_budget_an_eviction_is_a_deletion_with_a_reason(cluster: Cluster) -> None:
    ready_pod(cluster, "a")

    answer = evict(cluster, "a")

    assert answer.status == 201
    assert answer.body["status"] == "Success"
    ending = cluster.get("Pod", "a")
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 5
    (condition,) = [one for one in ending["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")
    cluster.delete("Pod", "a", gracePeriodSeconds=0)


def test_an_unplaced_pod_is_evicted_at_once(cluster: Cluster) -> None:
    cluster.create(pod("a"))

    evict(cluster, "a").ok()

    cluster.try_get("Pod", "a").refused(404)


def test_a_pod_that_is_not_there_cannot_be_evicted(cluster: Cluster) -> None:
    evict(cluster, "a").refused(404, "NotFound")


def test_a_budget_that_allows_none_says_too_many_requests(cluster: Cluster) -> None:
    ready_pod(cluster, "a")
    budgeted(cluster, "one", 0, minAvailable=1)

    status = evict(cluster, "a").refused(429, "TooManyRequests")

    assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    (cause,) = status["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == "The disruption budget one needs 1 healthy pods and has 1 currently"
    assert "deletionTimestamp" not in cluster.get("Pod", "a")["metadata"]


def test_a_budget_is_spent_as_evictions_go_through(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        ready_pod(cluster, name)
    budgeted(cluster, "one", 1, minAvailable=2)

    evict(cluster, "a").ok()

    evict(cluster, "b").refused(429, "TooManyRequests")
    for name in ("a", "b", "c"):
        cluster.delete("Pod", name, gracePeriodSeconds=0)


def test_two_budgets_over_one_pod_are_an_internal_error(cluster: Cluster) -> None:
    ready_pod(cluster, "a")
    budgeted(cluster, "one", 1, minAvailable=0)
    budgeted(cluster, "two", 1, minAvailable=0)

    status = evict(cluster, "a").refused(500)

    assert "more than one PodDisruptionBudget" in status["message"]


def test_a_dry_run_asks_and_evicts_nobody(cluster: Cluster) -> None:
    ready_pod(cluster, "a")

    evict(cluster, "a", dryRun=["All"]).ok()

    assert "deletionTimestamp" not in cluster.get("Pod", "a")["metadata"]


def test_a_dry_run_against_a_budget_is_refused_like_the_real_thing(cluster: Cluster) -> None:
    ready_pod(cluster, "a")
    budgeted(cluster, "one", 0, minAvailable=1)

    evict(cluster, "a", dryRun=["All"]).refused(429, "TooManyRequests")


def test_another_uid_is_a_conflict(cluster: Cluster) -> None:
    ready_pod(cluster, "a")

    evict(cluster, "a", preconditions={"uid": "other"}).refused(409, "Conflict")


def test_an_eviction_may_shorten_the_grace(cluster: Cluster) -> None:
    ready_pod(cluster, "a")

    evict(cluster, "a", gracePeriodSeconds=2).ok()

    assert cluster.get("Pod", "a")["metadata"]["deletionGracePeriodSeconds"] == 2
    cluster.delete("Pod", "a", gracePeriodSeconds=0)


def test_a_finished_pod_costs_no_budget(cluster: Cluster) -> None:
    ready_pod(cluster, "a")
    cluster.create(pod("done", labels=WEB, spec={"nodeName": cluster.nowhere}))
    cluster.patch("Pod", "done", {"status": {"phase": "Succeeded"}}, sub="status")
    budgeted(cluster, "one", 0, minAvailable=1)

    evict(cluster, "done").ok()


def test_an_unhealthy_pod_is_guarded_unless_the_budget_says_otherwise(cluster: Cluster) -> None:
    ready_pod(cluster, "a")
    cluster.create(pod("sick", labels=WEB, spec={"nodeName": cluster.nowhere}))
    cluster.patch("Pod", "sick", {"status": {"phase": "Running"}}, sub="status")
    budgeted(cluster, "one", 0, minAvailable=2)
    evict(cluster, "sick").refused(429)

    cluster.patch("PodDisruptionBudget", "one", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})

    evict(cluster, "sick").ok()
    cluster.delete("Pod", "sick", gracePeriodSeconds=0)
