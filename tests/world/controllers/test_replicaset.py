from __future__ import annotations

from typing import Any

import pytest

from fairlead.errors import ApiError
from fairlead.world.admission import AdmissionRequest
from support.manifests import pod, replica_set
from support.worlds import (
    Obj,
    active,
    conditions,
    events,
    history,
    names,
    pods,
    ready,
    seconds,
    status,
    world,
)


def refusing_pods(after: int = 0) -> Any:
    """Admission that lets some pods pass and refuses the rest."""
    seen: list[str] = []

    def hook(request: AdmissionRequest) -> Obj | None:
        if (request.operation, request.resource.kind, request.subresource) == ("CREATE", "Pod", ""):
            seen.append(request.namespace)
            if len(seen) > after:
                raise ApiError.of(403, "Forbidden", "no more pods today")
        return None

    hook.seen = seen  # type: ignore[attr-defined]  # what the test looks at
    return hook


def test_it_makes_as_many_pods_as_asked_for() -> None:
    cluster = world()
    cluster.create(replica_set("web", 5))
    cluster.run_until(lambda: status(cluster, "ReplicaSet", "web").get("availableReplicas") == 5)
    assert status(cluster, "ReplicaSet", "web") == {
        "replicas": 5,
        "fullyLabeledReplicas": 5,
        "readyReplicas": 5,
        "availableReplicas": 5,
        "terminatingReplicas": 0,
        "observedGeneration": 1,
    }


def test_its_pods_name_it_as_their_controller() -> None:
    cluster = world()
    made = cluster.create(replica_set("web", 1))
    cluster.run_until(lambda: pods(cluster, app="web"))
    [pod] = pods(cluster, app="web")
    assert pod["metadata"]["generateName"] == "web-"
    assert pod["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web",
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_a_deleted_pod_is_replaced_at_once() -> None:
    cluster = world()
    cluster.create(replica_set("web", 3))
    cluster.run_until(lambda: len(ready(cluster, app="web")) == 3)
    before = names(pods(cluster, app="web"))
    cluster.delete("Pod", before[0])
    cluster.run_until(lambda: len(ready(cluster, app="web")) == 3)
    assert len(set(names(ready(cluster, app="web"))) - set(before)) == 1


def test_a_finished_pod_is_replaced() -> None:
    cluster = world()
    run = replica_set("web", 1)
    run["spec"]["template"]["metadata"]["annotations"] = {"fairlead.dev/run-for": "30s"}
    cluster.create(run)
    cluster.run_until(lambda: len(pods(cluster, app="web")) == 2)
    assert [each["status"]["phase"] for each in active(cluster, app="web")] != ["Succeeded"]


def test_scaling_in_gives_up_the_pods_that_cost_least() -> None:
    cluster = world()
    cluster.create(replica_set("web", 4))
    cluster.run_until(lambda: len(ready(cluster, app="web")) == 4)
    for cost, name in enumerate(names(pods(cluster, app="web"))):
        cost_of = {"controller.kubernetes.io/pod-deletion-cost": str(10 - cost)}
        cluster.patch("Pod", name, {"metadata": {"annotations": cost_of}})
    before = names(pods(cluster, app="web"))
    cluster.patch("ReplicaSet", "web", {"spec": {"replicas": 2}})
    cluster.run_until(seconds(60))
    assert names(pods(cluster, app="web")) == before[:2]


def test_creations_start_slowly_so_that_a_refusal_is_met_early() -> None:
    hook = refusing_pods(after=0)
    cluster = world(hooks=[hook])
    cluster.create(replica_set("web", 50))
    cluster.run_until(lambda: events(cluster, "FailedCreate"))
    assert len(hook.seen) == 1
    assert conditions(cluster, "ReplicaSet", "web")["ReplicaFailure"] == ("True", "FailedCreate")
    assert events(cluster, "FailedCreate") == ["Error creating: no more pods today"]


def test_a_batch_doubles_after_each_that_succeeded() -> None:
    hook = refusing_pods(after=4)
    cluster = world(hooks=[hook])
    cluster.create(replica_set("web", 50))
    cluster.run_until(lambda: events(cluster, "FailedCreate"))
    # 1, then 2, then 4 of which three are refused; the rest is not tried.
    assert len(hook.seen) == 7
    assert len(pods(cluster, app="web")) == 4


def test_the_failure_is_taken_back_when_pods_can_be_made_again() -> None:
    hook = refusing_pods(after=0)
    cluster = world(hooks=[hook])
    cluster.create(replica_set("web", 2))
    cluster.run_until(seconds(1))
    cluster.api.hooks.remove(hook)
    cluster.run_until(lambda: len(ready(cluster, app="web")) == 2)
    cluster.run_until(seconds(1))
    assert "ReplicaFailure" not in conditions(cluster, "ReplicaSet", "web")


def test_matching_orphans_are_adopted() -> None:
    cluster = world()
    cluster.create(pod("stray", labels={"app": "web"}, spec={"schedulerName": "default-scheduler"}))
    cluster.create(replica_set("web", 2))
    cluster.run_until(lambda: len(ready(cluster, app="web")) == 2)
    stray = cluster.get("Pod", "stray")
    assert stray is not None
    assert [owner["name"] for owner in stray["metadata"]["ownerReferences"]] == ["web"]


def test_a_pod_that_no_longer_matches_is_released_and_replaced() -> None:
    cluster = world()
    cluster.create(replica_set("web", 2))
    cluster.run_until(lambda: len(ready(cluster, app="web")) == 2)
    leaver = names(pods(cluster, app="web"))[0]
    cluster.patch("Pod", leaver, {"metadata": {"labels": {"app": "debug"}}})
    cluster.run_until(lambda: len(ready(cluster, app="web")) == 2)
    free = cluster.get("Pod", leaver)
    assert free is not None
    assert "ownerReferences" not in free["metadata"]


def test_nobody_takes_another_controllers_pods() -> None:
    cluster = world()
    cluster.create(replica_set("web", 1))
    cluster.run_until(lambda: len(ready(cluster, app="web")) == 1)
    rival = replica_set("rival", 1)
    rival["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    rival["spec"]["template"]["metadata"]["labels"] = {"app": "web"}
    cluster.create(rival)
    cluster.run_until(seconds(30))
    owners = sorted(each["metadata"]["ownerReferences"][0]["name"] for each in pods(cluster, app="web"))
    assert owners == ["rival", "web"]


def test_pods_count_as_available_only_after_min_ready_seconds() -> None:
    cluster = world()
    cluster.create(replica_set("web", 2, spec={"minReadySeconds": 30}))
    cluster.run_until(lambda: status(cluster, "ReplicaSet", "web").get("readyReplicas") == 2)
    assert "availableReplicas" not in status(cluster, "ReplicaSet", "web")
    cluster.run_until(seconds(29))
    assert "availableReplicas" not in status(cluster, "ReplicaSet", "web")
    cluster.run_until(seconds(1))
    assert status(cluster, "ReplicaSet", "web")["availableReplicas"] == 2


def test_pods_that_start_at_one_moment_are_counted_in_one_go() -> None:
    cluster = world(3, cpu=64)
    seen = history(cluster)
    cluster.create(replica_set("web", 300))
    cluster.run_until(lambda: status(cluster, "ReplicaSet", "web").get("availableReplicas") == 300)
    said = [what for _, kind, what, _ in seen if kind == "MODIFIED" and what == "ReplicaSet default/web"]
    assert len(said) < 10


@pytest.mark.parametrize("replicas", [0, 3])
def test_nothing_is_written_once_all_is_as_wanted(replicas: int) -> None:
    cluster = world()
    cluster.create(replica_set("web", replicas))
    cluster.run_until(seconds(30))
    before = cluster.store.rv
    cluster.run_until(seconds(3600))
    assert cluster.store.rv == before
