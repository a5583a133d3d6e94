from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import TooManyRequests
from fairlead.world.controllers.disruption import desired_healthy
from fairlead.world.world import World
from support.manifests import budget, deployment, pod, stateful_set
from support.worlds import conditions, names, pods, ready, seconds, status, world


def guarded(replicas: int = 4, **spec: object) -> World:
    cluster = world()
    cluster.create(deployment("web", replicas))
    cluster.create(budget("web", {"app": "web"}, **spec))
    cluster.run_until(lambda: len(ready(cluster, app="web")) == replicas)
    cluster.run_until(seconds(5))
    return cluster


def counts(cluster: World, name: str = "web") -> tuple[int, int, int, int]:
    said = status(cluster, "PodDisruptionBudget", name)
    return said["expectedPods"], said["desiredHealthy"], said["currentHealthy"], said["disruptionsAllowed"]


def oracle(kind: str, value: int | str, expected: int) -> int:
    """How many must be healthy, said as plainly as possible."""
    share = math.ceil(int(value[:-1]) * expected / 100) if isinstance(value, str) else value
    return share if kind == "minAvailable" else max(0, expected - share)


@given(
    kind=st.sampled_from(["minAvailable", "maxUnavailable"]),
    value=st.one_of(st.integers(0, 50), st.integers(0, 100).map(lambda n: f"{n}%")),
    expected=st.integers(0, 200),
)
@settings(max_examples=300)
def test_what_must_be_healthy_is_as_a_plain_reading_of_the_budget_says(
    kind: str, value: int | str, expected: int
) -> None:
    assert desired_healthy({kind: value}, expected) == oracle(kind, value, expected)


@given(
    kind=st.sampled_from(["minAvailable", "maxUnavailable"]),
    value=st.one_of(st.integers(0, 6), st.integers(0, 100).map(lambda n: f"{n}%")),
    replicas=st.integers(0, 6),
    unready=st.integers(0, 6),
)
@settings(max_examples=40)
def test_the_status_follows_from_replicas_and_readiness(
    kind: str, value: int | str, replicas: int, unready: int
) -> None:
    cluster = world(1, cpu=64)
    cluster.create(deployment("web", replicas))
    if unready:
        sick = deployment("sick", unready)
        sick["spec"]["template"]["metadata"]["annotations"] = {"fairlead.dev/ready-after": "never"}
        sick["spec"]["template"]["metadata"]["labels"] = {"app": "sick", "guard": "yes"}
        cluster.create(sick)
    cluster.patch("Deployment", "web", {"spec": {"template": {"metadata": {"labels": {"guard": "yes"}}}}})
    cluster.create(budget("web", {"guard": "yes"}, **{kind: value}))
    cluster.run_until(seconds(30))
    expected = replicas + unready
    desired = oracle(kind, value, expected)
    allowed = max(0, replicas - desired) if expected else 0
    assert counts(cluster) == (expected, desired, replicas, allowed)


def test_percentages_are_of_the_deployments_size_not_of_the_pods_there_are() -> None:
    cluster = guarded(4, minAvailable="50%")
    assert counts(cluster) == (4, 2, 4, 2)
    cluster.patch("Deployment", "web", {"spec": {"replicas": 8}})
    cluster.run_until(seconds(0))
    assert counts(cluster)[:2] == (8, 4)


def test_a_number_is_of_the_pods_there_are() -> None:
    cluster = guarded(3, minAvailable=2)
    assert counts(cluster) == (3, 2, 3, 1)
    cluster.create(pod("bare", labels={"app": "web", "x": "y"}))
    cluster.run_until(seconds(5))
    assert counts(cluster)[0] == 4


def test_stateful_sets_count_too() -> None:
    cluster = world()
    cluster.create(stateful_set("db", 3))
    cluster.create(budget("db", {"app": "db"}, maxUnavailable=1))
    cluster.run_until(lambda: len(ready(cluster, app="db")) == 3)
    cluster.run_until(seconds(1))
    assert counts(cluster, "db") == (3, 2, 3, 1)


def test_evictions_stop_at_the_budget_and_go_on_when_replacements_are_ready() -> None:
    cluster = guarded(3, maxUnavailable=1)
    first, second, _ = names(pods(cluster, app="web"))
    cluster.api.evict(first, "default")
    with pytest.raises(TooManyRequests):
        cluster.api.evict(second, "default")
    cluster.run_until(seconds(10))
    cluster.api.evict(second, "default")


def test_a_pod_on_its_way_out_no_longer_counts_as_healthy() -> None:
    cluster = guarded(3, minAvailable=1)
    cluster.delete("Pod", names(pods(cluster, app="web"))[0])
    cluster.run_until(seconds(0))
    assert len(pods(cluster, app="web")) == 4  # the old one has not ended yet, its successor not begun
    assert counts(cluster)[2] == 2


def test_an_eviction_that_was_allowed_but_did_not_happen_is_forgotten() -> None:
    cluster = guarded(3, maxUnavailable=1)
    at = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    name = names(pods(cluster, app="web"))[0]
    said = status(cluster, "PodDisruptionBudget", "web")
    found = cluster.get("PodDisruptionBudget", "web") or {}
    cluster.api.update(
        cluster.runner.view.resource(found),
        {**found, "status": {**said, "disruptedPods": {name: at}}},
        subresource="status",
    )
    cluster.run_until(seconds(60))
    assert counts(cluster) == (3, 2, 2, 0)
    cluster.run_until(seconds(65))
    assert counts(cluster) == (3, 2, 3, 1)


def test_a_budget_over_pods_that_nobody_manages_counts_none_of_them() -> None:
    cluster = world()
    cluster.create(pod("bare", labels={"app": "web"}, spec={"schedulerName": "default-scheduler"}))
    cluster.create(budget("web", {"app": "web"}, maxUnavailable=1))
    cluster.run_until(seconds(5))
    assert counts(cluster) == (0, 0, 1, 0)


def test_a_budget_over_pods_of_an_unknown_controller_allows_nothing() -> None:
    cluster = world()
    owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "u", "controller": True}
    cluster.create(pod("odd", labels={"app": "web"}, ownerReferences=[owner], finalizers=["test/stay"]))
    cluster.create(budget("web", {"app": "web"}, maxUnavailable=1))
    cluster.run_until(seconds(5))
    assert conditions(cluster, "PodDisruptionBudget", "web")["DisruptionAllowed"] == ("False", "SyncFailed")


def test_steady_means_no_writes() -> None:
    cluster = guarded(3, maxUnavailable=1)
    cluster.run_until(seconds(60))
    before = cluster.store.rv
    cluster.run_until(seconds(24 * 3600))
    assert cluster.store.rv == before
