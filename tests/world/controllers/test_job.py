from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from fairlead.world.controllers.job import format_indexes, parse_indexes
from fairlead.world.kubelet import Pace
from fairlead.world.objects import parse_time
from fairlead.world.world import World
from support.manifests import job
from support.worlds import Obj, active, conditions, events, history, names, pods, seconds, status, world


def made(spec: dict[str, Any] | None = None, *, restart: str = "Never", **play: str) -> Obj:
    """A Job; `play` says how its pods behave (run_for, exit_code)."""
    item = job("sum", spec=spec, pods={"schedulerName": "default-scheduler", "restartPolicy": restart})
    annotations = {f"fairlead.dev/{key.replace('_', '-')}": value for key, value in play.items()}
    item["spec"]["template"]["metadata"] = {"annotations": annotations}
    return item


def said(cluster: World) -> Obj:
    found = status(cluster, "Job", "sum")
    return {name: found.get(name, 0) for name in ("active", "succeeded", "failed")}


def over(cluster: World) -> bool:
    return any(c in conditions(cluster, "Job", "sum") for c in ("Complete", "Failed"))


def finish(cluster: World, item: Obj) -> World:
    cluster.create(item)
    cluster.run_until(lambda: over(cluster))
    return cluster


def test_it_runs_one_pod_to_its_end_and_is_complete() -> None:
    cluster = finish(world(), made())
    assert conditions(cluster, "Job", "sum") == {
        "SuccessCriteriaMet": ("True", "CompletionsReached"),
        "Complete": ("True", "CompletionsReached"),
    }
    assert said(cluster) == {"active": 0, "succeeded": 1, "failed": 0}
    assert status(cluster, "Job", "sum")["completionTime"] >= status(cluster, "Job", "sum")["startTime"]
    assert [pod["status"]["phase"] for pod in pods(cluster)] == ["Succeeded"]


def test_no_more_pods_run_at_once_than_parallelism_says() -> None:
    cluster = world()
    most = []
    cluster.store.subscribe(lambda _: most.append(len(active(cluster))))
    finish(cluster, made({"completions": 7, "parallelism": 3}))
    assert max(most) == 3
    assert said(cluster)["succeeded"] == 7


def test_every_end_is_counted_once_even_if_the_pod_is_deleted_at_once() -> None:
    cluster = world()
    cluster.create(made({"completions": 5, "parallelism": 5}))
    cluster.run_until(lambda: len(active(cluster)) == 5)

    def cull() -> bool:
        for pod in pods(cluster):
            if pod["status"]["phase"] == "Succeeded" and not pod["metadata"].get("deletionTimestamp"):
                cluster.delete("Pod", pod["metadata"]["name"])
        return over(cluster)

    cluster.run_until(cull)
    assert said(cluster) == {"active": 0, "succeeded": 5, "failed": 0}
    cluster.run_until(lambda: not pods(cluster))


def test_finished_pods_are_let_go_of() -> None:
    cluster = finish(world(), made({"completions": 3, "parallelism": 3}))
    cluster.run_until(seconds(1))
    assert [pod["metadata"].get("finalizers") for pod in pods(cluster)] == [None] * 3
    assert status(cluster, "Job", "sum")["uncountedTerminatedPods"] == {}


def test_failures_are_retried_up_to_the_backoff_limit() -> None:
    cluster = finish(world(), made({"backoffLimit": 2}, exit_code="1"))
    assert conditions(cluster, "Job", "sum") == {
        "FailureTarget": ("True", "BackoffLimitExceeded"),
        "Failed": ("True", "BackoffLimitExceeded"),
    }
    assert said(cluster) == {"active": 0, "succeeded": 0, "failed": 3}
    assert events(cluster, "BackoffLimitExceeded") == ["Job has reached the specified backoff limit"]


def test_retries_wait_longer_each_time() -> None:
    cluster = world()
    seen = history(cluster)
    finish(cluster, made({"backoffLimit": 3}, exit_code="1", run_for="0s"))
    starts = [
        parse_time(item["metadata"]["creationTimestamp"])
        for _, kind, what, item in seen
        if kind == "ADDED" and what.startswith("Pod ")
    ]
    # A pod takes a second to start, and fails at once.
    assert [(later - at).seconds for at, later in pairwise(starts)] == [11, 21, 41]


def test_containers_that_restart_in_place_use_up_the_limit_too() -> None:
    cluster = finish(world(), made({"backoffLimit": 3}, restart="OnFailure", exit_code="1"))
    assert conditions(cluster, "Job", "sum")["Failed"] == ("True", "BackoffLimitExceeded")
    assert len(names(pods(cluster))) <= 1


def test_a_deadline_ends_it_and_its_pods() -> None:
    cluster = finish(world(), made({"activeDeadlineSeconds": 60}, run_for="1h"))
    assert conditions(cluster, "Job", "sum")["Failed"] == ("True", "DeadlineExceeded")
    cluster.run_until(lambda: not active(cluster))


def test_each_index_succeeds_once() -> None:
    cluster = finish(world(), made({"completions": 4, "parallelism": 2, "completionMode": "Indexed"}))
    assert status(cluster, "Job", "sum")["completedIndexes"] == "0-3"
    assert sorted(pod["spec"]["hostname"] for pod in pods(cluster)) == [f"sum-{i}" for i in range(4)]
    indexes = [pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for pod in pods(cluster)]
    assert sorted(indexes) == ["0", "1", "2", "3"]


def test_a_failed_index_is_tried_again_under_its_number() -> None:
    cluster = world()
    cluster.create(made({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}, run_for="60s"))
    cluster.run_until(lambda: len(active(cluster)) == 3)
    victim = next(p for p in pods(cluster) if p["spec"]["hostname"] == "sum-1")
    cluster.delete("Pod", victim["metadata"]["name"])
    cluster.run_until(lambda: over(cluster))
    assert status(cluster, "Job", "sum")["completedIndexes"] == "0-2"
    assert said(cluster) == {"active": 0, "succeeded": 3, "failed": 1}


def test_a_suspended_job_has_no_pods_until_it_is_resumed() -> None:
    cluster = world()
    cluster.create(made({"suspend": True}))
    cluster.run_until(seconds(60))
    assert not pods(cluster)
    assert conditions(cluster, "Job", "sum") == {"Suspended": ("True", "JobSuspended")}
    assert "startTime" not in status(cluster, "Job", "sum")
    cluster.patch("Job", "sum", {"spec": {"suspend": False}})
    cluster.run_until(lambda: over(cluster))
    assert conditions(cluster, "Job", "sum")["Suspended"] == ("False", "JobResumed")


def test_suspending_ends_the_pods_without_counting_them_as_failures() -> None:
    cluster = world()
    cluster.create(made({"completions": 2, "parallelism": 2}, run_for="1h"))
    cluster.run_until(lambda: len(active(cluster)) == 2)
    cluster.patch("Job", "sum", {"spec": {"suspend": True}})
    cluster.run_until(lambda: not pods(cluster))
    cluster.run_until(seconds(5))
    assert said(cluster) == {"active": 0, "succeeded": 0, "failed": 0}


@pytest.mark.parametrize(("policy", "together"), [("TerminatingOrFailed", True), ("Failed", False)])
def test_a_terminating_pod_is_replaced_when_the_policy_says(policy: str, together: bool) -> None:
    cluster = world(pace=Pace(stop=seconds(25)))  # longer than the wait after a failure
    cluster.create(made({"podReplacementPolicy": policy}, run_for="1h"))
    cluster.run_until(lambda: [p["status"]["phase"] for p in active(cluster)] == ["Running"])
    [first] = names(pods(cluster))
    cluster.delete("Pod", first)
    cluster.run_until(lambda: [name for name in names(active(cluster)) if name != first])
    phases = {p["metadata"]["name"]: p["status"]["phase"] for p in pods(cluster)}
    assert (phases.get(first) == "Running") is together


def test_a_failure_policy_can_ignore_disruptions() -> None:
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    cluster = world(nodes=2)
    cluster.create(made({"backoffLimit": 0, "podFailurePolicy": {"rules": rules}}, run_for="10m"))
    cluster.run_until(lambda: len([p for p in active(cluster) if p["status"]["phase"] == "Running"]) == 1)
    [pod] = active(cluster)
    cluster.patch(
        "Node", pod["spec"]["nodeName"], {"spec": {"taints": [{"key": "go", "effect": "NoExecute"}]}}
    )
    cluster.run_until(lambda: over(cluster))
    assert said(cluster) == {"active": 0, "succeeded": 1, "failed": 0}


def test_a_failure_policy_can_end_the_job() -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]
    cluster = finish(world(), made({"backoffLimit": 6, "podFailurePolicy": {"rules": rules}}, exit_code="42"))
    assert conditions(cluster, "Job", "sum")["Failed"] == ("True", "PodFailurePolicy")
    assert said(cluster)["failed"] == 1


def test_a_finished_job_goes_after_its_time_to_live() -> None:
    cluster = finish(world(), made({"ttlSecondsAfterFinished": 100}))
    cluster.run_until(seconds(99))
    assert cluster.get("Job", "sum") is not None
    cluster.run_until(seconds(10))
    assert cluster.get("Job", "sum") is None
    assert not pods(cluster)


def test_a_deleted_job_lets_its_pods_go() -> None:
    cluster = world()
    cluster.create(made({"completions": 3, "parallelism": 3}, run_for="1h"))
    cluster.run_until(lambda: len(active(cluster)) == 3)
    cluster.delete("Job", "sum", propagation="Background")
    cluster.run_until(lambda: not pods(cluster))


def test_a_work_queue_is_complete_when_one_succeeded_and_all_ended() -> None:
    item = made({"parallelism": 3})
    item["spec"]["completions"] = None
    cluster = world()
    cluster.create(item)
    cluster.run_until(lambda: over(cluster))
    assert said(cluster)["succeeded"] in (1, 3)


def test_indexes_are_written_as_ranges() -> None:
    assert format_indexes([]) == ""
    assert format_indexes(parse_indexes("0-2,4,6,7", 100)) == "0-2,4,6,7"


def test_steady_means_no_writes() -> None:
    cluster = finish(world(), made())
    cluster.run_until(seconds(10))
    before = cluster.store.rv
    cluster.run_until(seconds(24 * 3600))
    assert cluster.store.rv == before
