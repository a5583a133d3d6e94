"""Whose pod it is."""

from __future__ import annotations

import pytest

from fairlead.kube.decode import convert
from fairlead.kube.pod import Pod
from fairlead.policy.rule import workloads
from fairlead.policy.rule.workloads import Owners, Workload
from support.members import Known, deployment_of, made_by, owner_reference
from support.units import pod, workload

NOBODY = Known()


def workload_of(pod: Pod, owners: Owners, namespace: str = "") -> Workload:
    return workloads.workload_of(pod.metadata, owners, namespace)


def test_a_replica_sets_pod_is_its_deployments() -> None:
    found = workload_of(made_by("ReplicaSet", "web-r1", labels={"pod-template-hash": "r1"}), deployment_of(4))
    assert (found.kind, found.name, found.uid) == ("Deployment", "web", "uid-Deployment-web")
    assert (found.revision, found.replicas, found.recreated, found.guessed) == ("r1", 4, True, False)


def test_a_replica_set_not_yet_known_gives_its_deployment_away_by_its_name() -> None:
    made = made_by("ReplicaSet", "web-abc-r1", labels={"pod-template-hash": "r1"})
    found = workload_of(made, NOBODY)
    assert (found.kind, found.name, found.revision) == ("Deployment", "web-abc", "r1")
    assert found.guessed
    assert found.replicas is None


def test_a_guess_takes_the_number_but_not_the_uid_of_what_the_cache_has_by_that_name() -> None:
    made = made_by("ReplicaSet", "web-r2", labels={"pod-template-hash": "r2"})
    found = workload_of(made, deployment_of(3))
    assert (found.name, found.replicas, found.uid, found.guessed) == ("web", 3, "", True)


def test_a_replica_set_of_its_own_is_a_workload() -> None:
    made = made_by("ReplicaSet", "old", labels={"app": "old"})
    found = workload_of(made, Known(workload("ReplicaSet", "old", replicas=2)))
    assert (found.kind, found.name, found.replicas) == ("ReplicaSet", "old", 2)


def test_another_object_of_the_same_name_is_not_the_owner() -> None:
    later = workload("StatefulSet", "db", replicas=7)
    later["metadata"]["uid"] = "another"
    found = workload_of(made_by("StatefulSet", "db", "db-0"), Known(later))
    assert (found.name, found.uid, found.replicas) == ("db", "uid-StatefulSet-db", None)


def test_a_rollouts_replica_set_is_traced_to_the_rollout() -> None:
    rollout = owner_reference("Rollout", "web", "argoproj.io/v1alpha1")
    owners = Known(workload("ReplicaSet", "web-r1", owner=rollout)).scaled("Rollout", "web", 6)
    made = made_by("ReplicaSet", "web-r1", labels={"rollouts-pod-template-hash": "r1"})
    found = workload_of(made, owners)
    assert (found.kind, found.name, found.revision, found.replicas) == ("Rollout", "web", "r1", 6)
    guessed = workload_of(made, NOBODY)
    assert (guessed.kind, guessed.api_version, guessed.name) == ("Rollout", "argoproj.io/v1alpha1", "web")


@pytest.mark.parametrize(
    ("name", "labels", "start", "ordinal"),
    [
        ("db-3", {}, 0, 3),
        ("db-3", {}, 2, 1),
        ("", {"apps.kubernetes.io/pod-index": "4"}, 0, 4),
        ("db-1", {}, 2, None),
        ("odd", {}, 0, None),
    ],
)
def test_a_stateful_sets_pod_has_its_ordinal_counted_from_the_start(
    name: str, labels: dict[str, str], start: int, ordinal: int | None
) -> None:
    owners = Known(workload("StatefulSet", "db", replicas=5, ordinals={"start": start}))
    data = pod(
        name, owner=owner_reference("StatefulSet", "db"), labels=labels | {"controller-revision-hash": "v2"}
    )
    found = workload_of(convert(data, Pod), owners)
    assert (found.ordinal, found.revision, found.replicas) == (ordinal, "v2", 5)


@pytest.mark.parametrize("owners", [NOBODY, Known(workload("StatefulSet", "db", replicas=3))])
def test_a_number_that_no_set_reaches_is_no_ordinal(owners: Known) -> None:
    assert workload_of(made_by("StatefulSet", "db", "db-999999999"), owners).ordinal is None


def test_while_nobody_knows_from_where_a_set_counts_its_pods_have_no_ordinal() -> None:
    assert workload_of(made_by("StatefulSet", "db", "db-3"), NOBODY).ordinal is None


def test_a_job_wants_what_is_left_to_do_and_its_pods_are_not_moved_lightly() -> None:
    job = workload("Job", "work", parallelism=4, completions=5)
    job["status"] = {"succeeded": 3}
    found = workload_of(made_by("Job", "work", api="batch/v1"), Known(job))
    assert (found.kind, found.job, found.recreated, found.replicas) == ("Job", True, True, 2)


def test_a_pod_of_its_own_is_a_workload_of_one_that_nobody_recreates() -> None:
    found = workload_of(convert(pod("solo"), Pod), NOBODY)
    assert (found.kind, found.name, found.bare, found.recreated) == ("Pod", "solo", True, False)
    assert found.is_single()


def test_a_nameless_bare_pod_goes_by_its_generate_name_and_the_requests_namespace() -> None:
    found = workload_of(convert({"metadata": {"generateName": "run-"}, "spec": {}}, Pod), NOBODY, "shop")
    assert (found.name, found.namespace) == ("run-", "shop")


def test_anything_with_a_scale_has_its_number() -> None:
    owners = Known().scaled("Fleet", "game", 9)
    found = workload_of(made_by("Fleet", "game", api="agones.dev/v1"), owners)
    assert (found.kind, found.api_version, found.replicas, found.recreated) == (
        "Fleet",
        "agones.dev/v1",
        9,
        True,
    )


@pytest.mark.parametrize(
    ("kind", "api"),
    [
        ("TaskRun", "tekton.dev/v1"),
        ("Workflow", "argoproj.io/v1alpha1"),
        ("Job", "batch.volcano.sh/v1alpha1"),
        ("Pod", "v1"),
    ],
)
def test_who_is_not_known_to_make_pods_anew_does_not(kind: str, api: str) -> None:
    found = workload_of(made_by(kind, "build", api=api), NOBODY)
    assert (found.kind, found.recreated, found.bare, found.job) == (kind, False, False, False)


@pytest.mark.parametrize(
    ("kind", "api"), [("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1"), ("ReplicationController", "v1")]
)
def test_who_makes_pods_anew_does_even_before_it_is_known(kind: str, api: str) -> None:
    assert workload_of(made_by(kind, "web", api=api), NOBODY).recreated


def test_a_replica_set_makes_its_pods_anew_whoever_is_above_it() -> None:
    above = owner_reference("Release", "web", "example.com/v1")
    owners = Known(workload("ReplicaSet", "web-r1", owner=above))
    found = workload_of(made_by("ReplicaSet", "web-r1"), owners)
    assert (found.kind, found.recreated) == ("Release", True)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (made_by("DaemonSet", "logs"), "DaemonSet pod"),
        (made_by("Node", "n1", api="v1"), "mirror pod"),
        (convert(pod("etcd", annotations={"kubernetes.io/config.mirror": "x"}), Pod), "mirror pod"),
    ],
)
def test_pods_bound_to_their_node_are_not_governed(made: Pod, why: str) -> None:
    assert workload_of(made, NOBODY).skip == why


@pytest.mark.parametrize(("label", "replicas", "single"), [("single", 5, True), ("multiple", 1, False)])
def test_the_label_on_the_workload_overrides_its_number(label: str, replicas: int, single: bool) -> None:
    owner = workload("StatefulSet", "db", replicas=replicas)
    owner["metadata"]["labels"] = {"fairlead.dev/replicas": label}
    found = workload_of(made_by("StatefulSet", "db", "db-0"), Known(owner))
    assert found.is_single(slot=1) is single
    assert found.is_single(slot=2) is single


@pytest.mark.parametrize(("label", "replicas", "single"), [("single", 5, True), ("multiple", 1, False)])
def test_of_a_custom_workload_the_label_on_its_pods_counts(label: str, replicas: int, single: bool) -> None:
    said = {"fairlead.dev/replicas": label, "rollouts-pod-template-hash": "r1"}
    made = made_by("ReplicaSet", "web-r1", labels=said)
    rollout = owner_reference("Rollout", "web", "argoproj.io/v1alpha1")
    owners = Known(workload("ReplicaSet", "web-r1", owner=rollout)).scaled("Rollout", "web", replicas)
    assert workload_of(made, owners).is_single() is single
    # Nor does it depend on whether the scale could be read.
    assert workload_of(made, NOBODY).is_single() is single


def test_of_a_deployment_the_label_on_its_pods_does_not_count() -> None:
    said = {"fairlead.dev/replicas": "single", "pod-template-hash": "r1"}
    made = made_by("ReplicaSet", "web-r1", labels=said)
    assert not workload_of(made, deployment_of(4)).is_single()
    assert workload_of(made, NOBODY).single is None


def test_who_holds_a_second_slot_is_not_single_whatever_a_stale_number_says() -> None:
    found = workload_of(made_by("ReplicaSet", "web-r1", labels={"pod-template-hash": "r1"}), deployment_of(1))
    assert found.is_single(slot=1)
    assert not found.is_single(slot=2)
