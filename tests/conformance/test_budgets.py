"""PodDisruptionBudgets: what their status says."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster import Cluster
from support.manifests import budget, pod, replica_set
from support.workloads import condition, on_own_nodes, wait_ready

COUNTS = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")


def counts(cluster: Cluster) -> tuple[int, ...] | None:
    status = cluster.get("PodDisruptionBudget", "b").get("status", {})
    return tuple(status[name] for name in COUNTS) if status.get("observedGeneration") else None


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 2}, (3, 3, 2, 1)),
        ({"minAvailable": "50%"}, (3, 3, 2, 1)),
        ({"maxUnavailable": 1}, (3, 3, 2, 1)),
        ({"maxUnavailable": "34%"}, (3, 3, 1, 2)),
        ({"minAvailable": 5}, (3, 3, 5, 0)),
    ],
)
def test_it_counts_a_workloads_pods(
    cluster: Cluster, spec: dict[str, Any], expected: tuple[int, ...]
) -> None:
    cluster.add_nodes()
    cluster.create(replica_set("rs", 3, pods=on_own_nodes(cluster)))
    wait_ready(cluster, "rs", 3)

    cluster.create(budget("b", {"app": "rs"}, **spec))

    cluster.wait(lambda: counts(cluster) == expected, f"the counts {expected}")


def test_it_follows_the_pods(cluster: Cluster) -> None:
    cluster.add_nodes()
    cluster.create(replica_set("rs", 2, pods=on_own_nodes(cluster)))
    wait_ready(cluster, "rs", 2)
    cluster.create(budget("b", {"app": "rs"}, minAvailable=1))
    cluster.wait(lambda: counts(cluster) == (2, 2, 1, 1), "two healthy pods")

    cluster.patch("ReplicaSet", "rs", {"spec": {"replicas": 1}})

    cluster.wait(lambda: counts(cluster) == (1, 1, 1, 0), "one healthy pod")
    found = cluster.get("PodDisruptionBudget", "b")
    assert condition(found, "DisruptionAllowed")["status"] == "False"
    assert condition(found, "DisruptionAllowed")["reason"] == "InsufficientPods"


def test_pods_that_are_not_ready_are_not_healthy(cluster: Cluster) -> None:
    cluster.create(pod("a", labels={"app": "rs"}))

    cluster.create(budget("b", {"app": "rs"}, minAvailable=1))

    cluster.wait(lambda: counts(cluster) == (1, 0, 1, 0), "one unhealthy pod")


def test_an_empty_selector_means_every_pod_of_the_namespace(cluster: Cluster) -> None:
    cluster.create(pod("a"))
    cluster.create(pod("b", labels={"x": "y"}))

    cluster.create(budget("b", {}, minAvailable=1))

    cluster.wait(lambda: counts(cluster) == (2, 0, 1, 0), "both pods")
