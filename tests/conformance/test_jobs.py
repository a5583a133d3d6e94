"""Jobs: enough successes, not too many failures."""

from __future__ import annotations

from typing import Any

from support.cluster import Cluster
from support.manifests import job
from support.workloads import condition, on_own_nodes


def pods_of(cluster: Cluster, name: str = "sum") -> list[dict[str, Any]]:
    found = cluster.list("Pod", labelSelector=f"batch.kubernetes.io/job-name={name}")["items"]
    assert isinstance(found, list)
    return found


def finish(cluster: Cluster, pod: dict[str, Any], phase: str) -> None:
    cluster.patch("Pod", pod["metadata"]["name"], {"status": {"phase": phase}}, sub="status")


def wait_condition(cluster: Cluster, kind: str, name: str = "sum") -> dict[str, Any]:
    def reached() -> dict[str, Any] | None:
        found = cluster.get("Job", name)
        return found if condition(found, kind).get("status") == "True" else None

    found = cluster.wait(reached, f"the job to be {kind}")
    assert found is not None
    return found


def test_it_runs_until_enough_pods_have_succeeded(cluster: Cluster) -> None:
    cluster.add_nodes()
    pods = on_own_nodes(cluster) | {"schedulerName": "default-scheduler"}
    cluster.create(job("sum", spec={"completions": 3, "parallelism": 2}, pods=pods))

    done = wait_condition(cluster, "Complete")

    assert done["status"]["succeeded"] == 3
    assert done["status"]["completionTime"]
    assert condition(done, "SuccessCriteriaMet")["status"] == "True"
    assert [one["status"]["phase"] for one in pods_of(cluster)] == ["Succeeded"] * 3


def test_no_more_than_its_parallelism_run_at_once(cluster: Cluster) -> None:
    cluster.create(job("sum", spec={"completions": 5, "parallelism": 2}, pods={"nodeName": cluster.nowhere}))

    cluster.wait(lambda: cluster.get("Job", "sum")["status"].get("active") == 2, "two active pods")

    assert len(pods_of(cluster)) == 2
    assert cluster.get("Job", "sum")["status"]["ready"] == 0


def test_its_pods_carry_its_name_and_a_finalizer_until_they_are_counted(cluster: Cluster) -> None:
    made = cluster.create(job("sum", pods={"nodeName": cluster.nowhere}))
    (pod,) = cluster.wait(lambda: pods_of(cluster), "its pod")

    assert pod["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert pod["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] == made["metadata"]["uid"]
    assert pod["metadata"]["generateName"] == "sum-"

    finish(cluster, pod, "Succeeded")
    wait_condition(cluster, "Complete")
    cluster.wait(lambda: "finalizers" not in pods_of(cluster)[0]["metadata"], "the finalizer to be taken off")


def test_too_many_failures_fail_it(cluster: Cluster) -> None:
    cluster.create(job("sum", spec={"backoffLimit": 0}, pods={"nodeName": cluster.nowhere}))
    (pod,) = cluster.wait(lambda: pods_of(cluster), "its pod")

    finish(cluster, pod, "Failed")

    done = wait_condition(cluster, "Failed")
    assert condition(done, "Failed")["reason"] == "BackoffLimitExceeded"
    assert done["status"]["failed"] == 1


def test_a_suspended_job_has_no_pods_until_it_is_resumed(cluster: Cluster) -> None:
    cluster.create(job("sum", spec={"suspend": True}, pods={"nodeName": cluster.nowhere}))
    wait_condition(cluster, "Suspended")
    assert pods_of(cluster) == []

    cluster.patch("Job", "sum", {"spec": {"suspend": False}})

    cluster.wait(lambda: len(pods_of(cluster)) == 1, "its pod")


def test_indexed_pods_know_their_index(cluster: Cluster) -> None:
    spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
    cluster.create(job("sum", spec=spec, pods={"nodeName": cluster.nowhere}))

    pods = cluster.wait(lambda: len(found := pods_of(cluster)) == 2 and found, "both pods")

    assert isinstance(pods, list)
    indexes = {one["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for one in pods}
    assert indexes == {"0", "1"}
    assert all(one["spec"]["hostname"].startswith("sum-") for one in pods)


def test_its_completions_may_not_change(cluster: Cluster) -> None:
    cluster.create(job("sum", spec={"suspend": True}))

    cluster.try_patch("Job", "sum", {"spec": {"completions": 2}}).refused(422, "Invalid")


def test_a_finished_job_with_a_time_to_live_goes(cluster: Cluster) -> None:
    cluster.create(job("sum", spec={"ttlSecondsAfterFinished": 0}, pods={"nodeName": cluster.nowhere}))
    (pod,) = cluster.wait(lambda: pods_of(cluster), "its pod")

    finish(cluster, pod, "Succeeded")

    cluster.gone("Job", "sum")


def test_one_that_takes_too_long_fails(cluster: Cluster) -> None:
    cluster.create(job("sum", spec={"activeDeadlineSeconds": 1}, pods={"nodeName": cluster.nowhere}))

    failed = cluster.wait(
        lambda: condition(cluster.get("Job", "sum"), "FailureTarget"), "the job to be given up"
    )

    assert failed["reason"] == "DeadlineExceeded"
