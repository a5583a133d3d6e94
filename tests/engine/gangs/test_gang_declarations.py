"""Which pods are a gang, and how many of them must be there."""

from __future__ import annotations

import pytest

from fairlead.engine.gangs.gangs import Gangs
from fairlead.engine.gangs.membership import KUBERNETES, STARTED_WITH, shown
from fairlead.kube.decode import convert
from fairlead.kube.workloads import Job, PodGroup, Workload
from support.units import EPOCH, pod, pod_group, typed, workload

T0 = EPOCH.timestamp()
VOLCANO = "scheduling.volcano.sh/v1beta1"


def gangs(*objects: dict) -> Gangs:
    found = Gangs(settle_s=5.0)
    for one in objects:
        match one["kind"]:
            case "Pod":
                found.pod_seen(typed(one))
            case "PodGroup":
                found.group_seen(convert(one, PodGroup))
            case "Job":
                found.owner_seen("Job", convert(one, Job))
            case kind:
                found.owner_seen(kind, convert(one, Workload))
    return found


def basic(name: str) -> dict:
    """A PodGroup of Kubernetes' own whose pods are scheduled one by one."""
    group = pod_group(name, 0, f"{KUBERNETES}/v1alpha2")
    group["spec"] = {"schedulingPolicy": {"basic": {}}}
    return group


@pytest.mark.parametrize(
    "marks",
    [
        {"annotations": {"pod-group": "g"}},
        {"labels": {"pod-group": "g"}},
        {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
        {"annotations": {"scheduling.x-k8s.io/pod-group": "g"}},
        {"annotations": {"scheduling.k8s.io/group-name": "g"}},
        {"annotations": {"scheduling.volcano.sh/group-name": "g"}},
        {"schedulingGroup": {"podGroupName": "g"}},
    ],
)
def test_every_spelling_in_the_field_declares_a_gang(marks):
    assert [shown(name) for name in gangs(pod("a", **marks)).names()] == ["default/g"]


def test_pod_groups_of_two_projects_with_one_name_are_two():
    volcano = {"annotations": {"scheduling.volcano.sh/group-name": "g"}}
    plain = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
    found = gangs(
        pod_group("g", 2, VOLCANO),
        pod_group("g", 3),
        pod("a", **volcano),
        pod("b", **volcano),
        pod("c", **plain),
    )
    assert {name: found.get(name).minimum for name in found.names()} == {
        "default/g": 3,
        "default/g@scheduling.volcano.sh": 2,
    }
    found.group_gone("default", "g", "scheduling.volcano.sh")
    assert found.get("default/g").minimum == 3
    assert found.get("default/g@scheduling.volcano.sh").lacks == "scheduling.volcano.sh"


@pytest.mark.parametrize(
    ("marks", "waits"),
    [
        ({"annotations": {"scheduling.volcano.sh/group-name": "g"}}, True),
        ({"schedulingGroup": {"podGroupName": "g"}}, True),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, False),
        ({"annotations": {"pod-group": "g"}}, False),
    ],
)
def test_members_wait_for_their_pod_group_where_the_declaration_names_one(marks, waits):
    (name,) = gangs(pod("a", **marks)).names()
    assert bool(gangs(pod("a", **marks)).get(name).lacks) == waits


def test_pods_of_a_basic_group_wait_for_it_and_then_are_no_gang():
    found = gangs(pod("a", schedulingGroup={"podGroupName": "g"}))
    assert not found.get(f"default/g@{KUBERNETES}").may_start
    found.group_seen(convert(basic("g"), PodGroup))
    assert list(found.names()) == []
    assert list(found.freed) == ["uid-default-a"]
    found.group_gone("default", "g", KUBERNETES)
    assert not found.get(f"default/g@{KUBERNETES}").may_start


def test_a_gang_is_named_within_its_namespace():
    found = gangs(pod("a", gang="g"), pod("a", gang="g", namespace="other"))
    assert list(found.names()) == ["default/g", "other/g"]


@pytest.mark.parametrize(
    ("api", "marks"),
    [
        ("scheduling.x-k8s.io/v1alpha1", {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}),
        ("scheduling.volcano.sh/v1beta1", {"annotations": {"scheduling.k8s.io/group-name": "g"}}),
        ("scheduling.k8s.io/v1alpha2", {"schedulingGroup": {"podGroupName": "g"}}),
        ("scheduling.k8s.io/v1beta1", {"schedulingGroup": {"podGroupName": "g"}}),
    ],
)
def test_the_objects_minimum_is_believed_at_once(api, marks):
    found = gangs(pod_group("g", 3, api), pod("a", **marks))
    (gang,) = map(found.get, found.names())
    assert (gang.minimum, gang.settles_at, gang.missing()) == (3, 0.0, 2)


def test_the_annotated_minimum_is_believed_at_once():
    gang = gangs(pod("a", gang="g", minimum=2)).get("default/g")
    assert (gang.minimum, gang.settles_at) == (2, 0.0)


def test_kubernetes_own_basic_policy_is_no_gang():
    assert list(gangs(basic("g"), pod("a", schedulingGroup={"podGroupName": "g"})).names()) == []


def test_the_schedule_timeout_of_the_object_is_kept():
    group = pod_group("g", 1, scheduleTimeoutSeconds=30)
    found = gangs(group, pod("a", labels={"scheduling.x-k8s.io/pod-group": "g"}))
    assert found.get("default/g").schedule_timeout_s == 30


def test_a_gang_split_over_three_deployments_waits_for_the_third():
    three = [workload("Deployment", name, gang="g", created=index) for index, name in enumerate("abc")]
    gang = gangs(*three, pod("a-1", gang="g"), pod("b-1", gang="g", created=1)).get("default/g")
    assert gang.missing() == 1
    assert gang.settles_at == T0 + 2 + 5


def test_a_size_that_is_only_counted_settles_after_the_newest_member():
    gang = gangs(pod("a", gang="g", created=1), pod("b", gang="g", created=9)).get("default/g")
    assert (gang.minimum, gang.settles_at) == (2, T0 + 14)


def test_a_deployment_and_its_replica_sets_count_once():
    owner = {"kind": "Deployment", "name": "d", "uid": "uid-Deployment-d", "controller": True}
    found = gangs(
        workload("Deployment", "d", replicas=3, gang="g"),
        workload("ReplicaSet", "d-1", replicas=3, gang="g", owner=owner),
        workload("ReplicaSet", "d-0", replicas=1, gang="g", owner=owner),
        pod("a", gang="g"),
    )
    assert found.get("default/g").minimum == 3


def test_a_replica_set_of_an_unknown_deployment_counts():
    owner = {"kind": "Deployment", "name": "d", "uid": "elsewhere", "controller": True}
    found = gangs(workload("ReplicaSet", "d-1", replicas=2, gang="g", owner=owner), pod("a", gang="g"))
    assert found.get("default/g").minimum == 2


def test_stateful_sets_and_custom_resources_with_replicas_count():
    found = gangs(
        workload("StatefulSet", "s", replicas=2, gang="g"),
        workload("Rollout", "r", replicas=4, gang="g"),
        pod("a", gang="g"),
    )
    assert found.get("default/g").minimum == 6


@pytest.mark.parametrize(
    ("spec", "status", "wanted"),
    [
        ({"parallelism": 4, "completions": 10}, {}, 4),
        ({"parallelism": 4, "completions": 10}, {"succeeded": 8}, 2),
        ({"parallelism": 4}, {}, 4),
    ],
)
def test_a_job_wants_what_it_can_still_run(spec, status, wanted):
    job = workload("Job", "j", gang="g", **spec)
    job["status"] = status
    assert gangs(job, pod("a", gang="g")).get("default/g").minimum == wanted


def test_an_owner_whose_pods_name_the_gang_counts_though_its_template_is_unknown():
    owner = {"kind": "Trainer", "name": "t", "uid": "uid-Trainer-t", "controller": True}
    found = gangs(workload("Trainer", "t", replicas=5), pod("a", gang="g", owner=owner))
    assert found.get("default/g").minimum == 5


def test_the_size_latches_at_the_first_start_and_later_members_bind_singly():
    found = gangs(pod("a", gang="g", minimum=2), pod("b", gang="g", minimum=2))
    for name in "ab":
        found.assume(f"uid-default-{name}")
    found.latch("default/g")
    found.pod_seen(typed(pod("c", gang="g", minimum=2)))
    gang = found.get("default/g")
    assert gang.latched
    assert gang.needed == 0


def test_a_gang_has_started_as_soon_as_it_is_latched():
    found = gangs(pod("a", gang="g"))
    found.assume("uid-default-a")
    found.latch("default/g")
    gang = found.get("default/g")
    assert (gang.started_with, gang.minimum) == (1, 1)


def test_a_gang_that_has_started_goes_on_without_its_pod_group():
    marks, name = {"schedulingGroup": {"podGroupName": "g"}}, f"default/g@{KUBERNETES}"
    found = gangs(pod_group("g", 2, f"{KUBERNETES}/v1alpha2"), *(pod(each, on="n", **marks) for each in "ab"))
    assert found.get(name).latched
    found.group_gone("default", "g", KUBERNETES)
    found.pod_seen(typed(pod("c", **marks)))
    assert found.get(name).may_start


def test_a_gang_found_at_its_declared_size_has_started_though_another_member_is_not_bound_yet():
    found = gangs(pod("a", gang="g", minimum=1, on="n"), pod("b", gang="g", minimum=1))
    found.assume("uid-default-b")
    assert found.get("default/g").latched


@pytest.mark.parametrize("api", ["scheduling.x-k8s.io/v1alpha1", f"{KUBERNETES}/v1alpha2"])
def test_a_pod_group_without_a_minimum_leaves_it_to_the_number_of_members(api):
    marks = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}, "schedulingGroup": {"podGroupName": "g"}}
    del marks["labels" if KUBERNETES in api else "schedulingGroup"]
    found = gangs(pod_group("g", 0, api), *(pod(name, **marks) for name in "abc"))
    (name,) = found.names()
    assert found.get(name).minimum == 3


def test_what_is_kept_of_changes_for_caches_is_bounded():
    found = gangs(pod("a", gang="g"))
    for _ in range(70_000):
        found.assume("uid-default-a")
    epoch, length = found.log.mark
    assert (epoch, length < 70_000) == (1, True)


def test_a_running_gang_that_loses_a_member_heals_without_waiting_for_all():
    found = gangs(*(pod(name, gang="g", minimum=3, on="n") for name in "abc"))
    assert found.get("default/g").latched
    found.pod_gone("uid-default-a")
    found.pod_seen(typed(pod("d", gang="g", minimum=3)))
    assert found.get("default/g").needed == 0


def test_an_evicted_gang_starts_again_as_a_whole():
    found = gangs(*(pod(name, gang="g", minimum=2, on="n") for name in "ab"))
    assert found.get("default/g").latched
    found.evict("default/g", [f"uid-default-{name}" for name in "ab"])
    for name in "ab":
        found.pod_gone(f"uid-default-{name}")
        found.pod_seen(typed(pod(name + "2", gang="g", minimum=2)))
        assert found.get("default/g").needed == 2
        assert found.get("default/g").may_start == (name == "b")


def test_an_eviction_that_is_taken_back_is_over_at_once():
    found = gangs(*(pod(name, gang="g", minimum=2, on="n") for name in "ab"))
    assert found.get("default/g").latched
    found.evict("default/g", ["uid-default-a", "uid-default-b"])
    found.begin("default/g")
    assert found.has_begun("default/g")
    found.spare("default/g")
    assert not found.has_begun("default/g")
    assert found.get("default/g").latched


def test_the_minimum_follows_its_object_after_the_start():
    marks = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
    found = gangs(pod_group("g", 4), *(pod(name, on="n", **marks) for name in "abcd"))
    assert found.get("default/g").falls(1)
    found.group_seen(convert(pod_group("g", 2), PodGroup))
    assert not found.get("default/g").falls(2)
    found.group_seen(convert(pod_group("g", 6), PodGroup))
    found.pod_seen(typed(pod("e", **marks)))
    gang = found.get("default/g")
    assert (gang.latched, gang.needed, gang.healing) == (True, 0, 0)


def test_a_gang_is_known_to_have_started_with_what_its_binds_wrote():
    marks = {"gang": "g", "minimum": 5, "annotations": {STARTED_WITH: "2"}}
    found = gangs(*(pod(name, on="n", **marks) for name in "ab"), pod("c", gang="g", minimum=5))
    gang = found.get("default/g")
    assert (gang.started_with, gang.needed) == (2, 0)


def test_succeeded_members_count_as_present():
    found = gangs(pod("a", gang="g", minimum=2, on="n", phase="Succeeded"), pod("b", gang="g", minimum=2))
    gang = found.get("default/g")
    assert (gang.needed, gang.missing()) == (1, 0)


def test_failed_and_terminating_members_do_not_count():
    found = gangs(
        pod("a", gang="g", minimum=2, on="n", phase="Failed"),
        pod("b", gang="g", minimum=2, on="n", terminating=True),
        pod("c", gang="g", minimum=2),
    )
    assert found.get("default/g").missing() == 1


def test_members_above_the_minimum_may_go_before_the_gang_falls():
    found = gangs(*(pod(name, gang="g", minimum=2, on="n") for name in "abc"))
    gang = found.get("default/g")
    assert not gang.falls(1)
    assert gang.falls(2)


def test_a_pod_that_is_gone_need_not_be_queued_though_its_group_was_none_any_more():
    marks = {"schedulingGroup": {"podGroupName": "g"}}
    found = gangs(
        pod_group("g", 2, f"{KUBERNETES}/v1alpha2"), *(pod(name, **marks) for name in "ab"), basic("g")
    )
    assert set(found.freed) == {"uid-default-a", "uid-default-b"}
    found.pod_gone("uid-default-a")
    assert set(found.freed) == {"uid-default-b"}


def test_a_pod_that_changes_gangs_leaves_the_old_one():
    found = gangs(pod("a", gang="g"))
    found.pod_seen(typed(pod("a", gang="h")))
    assert list(found.names()) == ["default/h"]
