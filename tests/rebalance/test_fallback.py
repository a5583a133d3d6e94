"""When a tier that cannot take its pods passes them on: each sentence of the specification."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.policy.tiers.fallback import Decision
from support.pictured import NOW, Picture, unschedulable
from support.policies import ON_DEMAND, SPOT, policy
from support.units import EPOCH, at, workload

CORDONED = {"unschedulable": True}
DOOMED = {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}
DISRUPTED = {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}
SILENT = {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}


def waiting(since: float = 0.0, used: Any = None, **more: Any) -> Picture:
    """Pod ``late`` waits for spot since so many seconds ago; two of three pods have their place."""
    picture = Picture(used or policy(fallback={"after": "2m"})).deployment(3)
    picture.add(picture.web("safe", "d1"), picture.web("fine", "s1"))
    picture.add(unschedulable(picture.web("late", tier="spot", **more), NOW - since))
    picture.fall_back()  # so that the nodes have a past
    return picture


def names(decision: Decision) -> list[str]:
    return [one.pod for one in decision.deletions]


def test_a_pod_unschedulable_for_longer_than_after_marks_its_tier_and_moves_on() -> None:
    assert not list(waiting(119).fall_back().marks)
    picture = waiting(121)
    decision = picture.fall_back()
    assert picture.marks.get("spot") is not None
    assert names(decision) == ["default/late"]


def test_it_is_deleted_with_its_uid_as_precondition() -> None:
    (deletion,) = waiting(121).fall_back().deletions
    assert deletion.uid == "uid-default-late"


def test_the_machine_says_when_the_pod_s_patience_will_be_over() -> None:
    picture = waiting(100)
    assert picture.fall_back().wake_at == EPOCH.timestamp() + NOW + 20


def test_a_triggered_scale_up_or_nomination_event_restarts_the_clock() -> None:
    picture = waiting(119)
    picture.machine.promised("uid-default-late", EPOCH.timestamp() + NOW)
    picture.now += 119
    assert not list(picture.fall_back().marks)
    picture.now += 2
    assert names(picture.fall_back()) == ["default/late"]


def test_promises_are_believed_for_three_times_after_at_most() -> None:
    """Karpenter nominates again and again where there is no capacity."""
    picture = waiting(0)
    for seconds in range(0, 360, 60):
        picture.now = NOW + seconds
        picture.machine.promised("uid-default-late", EPOCH.timestamp() + picture.now)
        assert not list(picture.fall_back().marks)
    picture.now = NOW + 361
    assert names(picture.fall_back()) == ["default/late"]


def test_promises_to_pods_that_are_gone_are_forgotten() -> None:
    picture = waiting(119)
    picture.machine.promised("uid-default-late", EPOCH.timestamp() + NOW)
    for number in range(5000):
        picture.machine.promised(f"gone-{number}", EPOCH.timestamp() + NOW)
    assert len(picture.machine._promised) < 2000
    picture.now += 2
    assert not list(picture.fall_back().marks), "the promise to a pod that is there stands"


def test_a_nominated_node_restarts_the_clock() -> None:
    picture = waiting(119)
    late = picture.web("late", tier="spot", slot=3, nominated="s1")
    picture.add(unschedulable(late, NOW - 119))
    picture.now += 100
    assert not list(picture.fall_back().marks)


def test_a_pod_that_the_scheduler_has_not_looked_at_does_not_count() -> None:
    picture = waiting(0)
    picture.add(unschedulable(picture.web("late", tier="spot", slot=3), NOW - 500, "SchedulerError"))
    assert not list(picture.fall_back().marks)


def test_a_pod_of_our_own_scheduler_is_never_deleted() -> None:
    assert not waiting(500, scheduler="fairlead").fall_back().deletions


@pytest.mark.parametrize("kind", ["Job", "bare"])
def test_job_and_bare_pods_are_never_deleted(kind: str) -> None:
    picture = waiting(0)
    picture.remove("Pod", "late")
    owner = {"kind": "Job", "name": "batch", "uid": "uid-Job-batch", "apiVersion": "batch/v1"}
    if kind == "Job":
        picture.add(workload("Job", "batch", parallelism=3))
    mine = owner | {"controller": True} if kind == "Job" else None
    picture.add(unschedulable(picture.web("late", tier="spot", owner=mine, slot=3), NOW - 500))
    assert not picture.fall_back().deletions


def test_nobody_is_deleted_where_no_other_tier_would_take_it() -> None:
    picture = waiting(500)
    picture.marks = picture.marks.failed("on-demand", EPOCH.timestamp() + NOW)
    assert not picture.fall_back().deletions


def test_nobody_is_deleted_for_a_tier_that_is_only_preferred() -> None:
    assert not waiting(500, policy(enforce="preferred")).fall_back().deletions


def test_a_pod_that_no_admission_steered_is_left_alone() -> None:
    picture = waiting(0)
    late = picture.web("late", tier="spot", slot=3)
    late["metadata"]["annotations"] = {}
    picture.add(unschedulable(late, NOW - 500))
    assert not picture.fall_back().deletions


def test_a_pod_waiting_less_long_than_after_is_not_deleted_because_another_failed() -> None:
    picture = waiting(500)
    picture.deployment(4)
    picture.add(unschedulable(picture.web("later", tier="spot"), NOW - 10))
    assert names(picture.fall_back()) == ["default/late"]


@pytest.mark.parametrize("how", [CORDONED, DOOMED, DISRUPTED, SILENT, None])
def test_a_tier_whose_last_schedulable_node_was_cordoned_or_lost_is_interrupted(how: Any) -> None:
    picture = waiting(1)
    for name in ("s1", "s2"):
        if how is None:
            picture.remove("Node", name)
        else:
            picture.add(picture.spot(name, **how))
    decision = picture.fall_back()
    mark = picture.marks.get("spot")
    assert mark is not None
    assert mark.interrupted
    assert names(decision) == ["default/late"], "pending pods are moved on without waiting for after"


def test_an_interruption_while_the_marks_are_being_written_is_not_missed() -> None:
    picture = waiting(1)
    now = EPOCH.timestamp() + NOW
    decision = picture.machine.fall_back(picture.policy, picture.marks, now)
    for name in ("s1", "s2"):
        picture.remove("Node", name)
    picture.machine.noted(picture.policy, decision, now)
    assert names(picture.fall_back()) == ["default/late"]


def test_a_tier_with_one_schedulable_node_left_is_not_interrupted() -> None:
    picture = waiting(1)
    picture.add(picture.spot("s1", **CORDONED))
    assert not list(picture.fall_back().marks)


@pytest.mark.parametrize(
    "tiers", [(ON_DEMAND, SPOT), (SPOT, {**ON_DEMAND, "nodes": {"capacity": "reserved"}})]
)
def test_tiers_that_are_ordered_or_defined_anew_were_not_interrupted(tiers: Any) -> None:
    picture = Picture(nodes=False).add(Picture.spot("s1"))
    if tiers[0] is SPOT:
        picture.add(Picture.on_demand("d1"))
    picture.fall_back()
    picture.policy = policy("web", *tiers)
    picture.machine.use([picture.policy])
    assert not list(picture.fall_back().marks)


def test_tiers_keep_their_past_when_something_else_of_the_policy_changes() -> None:
    picture = waiting(1)
    picture.policy = policy(fallback={"after": "3m"})
    picture.machine.use([picture.policy])
    for name in ("s1", "s2"):
        picture.remove("Node", name)
    assert list(picture.fall_back().marks)


def test_a_tier_that_never_had_a_node_is_not_interrupted() -> None:
    picture = Picture(nodes=False).add(Picture.on_demand("d1"))
    picture.fall_back()
    assert not list(picture.fall_back().marks)


def test_after_a_restart_cordoned_nodes_tell_of_an_interruption() -> None:
    picture = Picture(nodes=False).add(Picture.on_demand("d1"), Picture.spot("s1", **CORDONED))
    mark = picture.fall_back().marks.get("spot")
    assert mark is not None
    assert mark.interrupted


def test_after_a_restart_pods_on_nodes_that_are_gone_tell_of_an_interruption() -> None:
    picture = Picture().pods("d1", "s1")
    restarted = Picture(nodes=False).add(Picture.on_demand("d1")).deployment(2)
    restarted.add(picture.web("web-1", "d1"), picture.web("web-2", "s1"))
    mark = restarted.fall_back().marks.get("spot")
    assert mark is not None
    assert (mark.interrupted, mark.reason) == (True, "its last schedulable node was lost")


def test_after_a_restart_pods_that_wait_for_a_tier_without_nodes_do_not() -> None:
    restarted = Picture(nodes=False).add(Picture.on_demand("d1")).deployment(1)
    restarted.add(unschedulable(restarted.web("web-1", tier="spot"), NOW))
    assert not list(restarted.fall_back().marks), "it may be yet to be filled"


STARTING = [
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.kubernetes.io/network-unavailable",
    "node.cilium.io/agent-not-ready",
    "ebs.csi.aws.com/agent-not-ready",
    "startup-taint.cluster-autoscaler.kubernetes.io/gpu",
]


@pytest.mark.parametrize("key", STARTING)
def test_a_node_that_is_only_starting_does_not_end_a_cool_down(key: str) -> None:
    picture = waiting(130)
    picture.fall_back()
    picture.add(Picture.spot("s3", taints=[{"key": key, "effect": "NoSchedule"}]))
    assert list(picture.fall_back().marks)
    picture.add(Picture.spot("s3"))
    assert not list(picture.fall_back().marks)


def test_a_node_that_is_starting_counts_where_the_tier_tolerates_that() -> None:
    toleration = {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists"}
    picture = waiting(130, policy("web", SPOT | {"tolerations": [toleration]}, ON_DEMAND))
    picture.fall_back()
    picture.add(Picture.spot("s3", taints=[{"key": toleration["key"], "effect": "NoSchedule"}]))
    assert not list(picture.fall_back().marks)


def test_a_node_with_any_other_taint_counts_since_pods_may_tolerate_it_themselves() -> None:
    picture = waiting(130)
    picture.fall_back()
    picture.add(Picture.spot("s3", taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}]))
    assert not list(picture.fall_back().marks)


def test_a_schedulable_node_appearing_ends_the_cool_down() -> None:
    picture = waiting(1)
    for name in ("s1", "s2"):
        picture.remove("Node", name)
    picture.fall_back()
    assert list(picture.marks)
    picture.add(picture.spot("s3"))
    assert not list(picture.fall_back().marks)


def test_an_uncordoned_node_appears_too_but_one_that_was_there_does_not() -> None:
    picture = waiting(500)
    picture.fall_back()
    picture.add(picture.spot("s1"))
    assert list(picture.fall_back().marks), "it was there all the time"
    picture.add(picture.spot("s1", **CORDONED))
    picture.fall_back()
    picture.add(picture.spot("s1"))
    assert not list(picture.fall_back().marks)


def test_a_node_that_ended_a_cool_down_is_tried_before_it_is_given_up() -> None:
    safe = {**ON_DEMAND, "fallback": False}
    picture = Picture(policy("web", SPOT, safe, fallback={"after": "2m"}), nodes=False).deployment(2)
    picture.add(picture.spot("s1"), unschedulable(picture.web("late", tier="on-demand"), NOW - 500))
    picture.add(picture.web("fine", "s1"))
    picture.fall_back()
    assert [tier for tier, _ in picture.marks] == ["on-demand"]
    picture.add(picture.on_demand("d1"))
    assert not list(picture.fall_back().marks)
    picture.now += 1
    assert not list(picture.fall_back().marks), "the pod that waits all the time may now find a place"
    picture.now += 121
    assert list(picture.fall_back().marks)


def test_after_a_restart_a_node_younger_than_the_mark_has_appeared() -> None:
    picture = Picture(nodes=False).failed()
    old = picture.spot("s1")
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    picture.add(old)
    assert list(picture.fall_back().marks)
    young = Picture(nodes=False).failed(ago=100)
    old["metadata"]["creationTimestamp"] = "2026-01-01T02:46:00Z"
    young.add(old)
    assert not list(young.fall_back().marks)


def test_after_a_restart_a_node_of_the_mark_s_own_second_has_appeared() -> None:
    """The API server counts in whole seconds: a node that came just after a mark seems to be older."""
    picture = Picture(nodes=False).failed(ago=0.2)
    young = picture.spot("s1")
    young["metadata"]["creationTimestamp"] = at(NOW - 1)
    assert not list(picture.add(young).fall_back().marks)


def probing(picture: Picture) -> Picture:
    """Pod ``late`` is the one that tries spot."""
    picture.failed(ago=70)
    claimed = picture.marks.claim_probe("spot", "token-late", EPOCH.timestamp() + NOW - 1)
    assert claimed is not None
    picture.marks = claimed
    return picture


def test_a_probe_that_gets_a_place_in_the_tier_ends_the_cool_down() -> None:
    picture = probing(waiting(1))
    picture.add(picture.web("late", "s2", slot=3))
    assert not list(picture.fall_back().marks)


def test_a_probe_that_fails_doubles_the_cool_down_and_is_passed_on() -> None:
    picture = waiting(119)
    probing(picture)
    picture.now += 2
    decision = picture.fall_back()
    mark = picture.marks.get("spot")
    assert mark is not None
    assert mark.cool_downs == 2
    assert names(decision) == ["default/late"]


def test_a_probe_that_waits_for_longer_than_probes_are_good_for_is_still_the_one() -> None:
    picture = probing(waiting(0, policy(fallback={"after": "25m"})))
    decision = picture.fall_back()
    while picture.now < NOW + 25 * 60:
        assert not picture.marks.may_probe("spot", EPOCH.timestamp() + picture.now)
        assert decision.wake_at is not None
        picture.now = decision.wake_at - EPOCH.timestamp()
        decision = picture.fall_back()
    mark = picture.marks.get("spot")
    assert mark is not None
    assert mark.cool_downs == 2, "its failure is heard"
    assert names(decision) == ["default/late"]


def test_a_probe_that_is_gone_lets_another_try() -> None:
    picture = probing(waiting(1))
    picture.remove("Pod", "late")
    picture.fall_back()
    assert not picture.marks.may_probe("spot", EPOCH.timestamp() + NOW), "it may not have shown up yet"
    picture.now += 61
    picture.fall_back()
    assert picture.marks.may_probe("spot", EPOCH.timestamp() + picture.now)


def test_a_min_does_not_fall_back_unless_its_tier_says_so() -> None:
    for generous in (False, True):
        safe = {**ON_DEMAND, "fallback": generous}
        picture = Picture(policy("web", SPOT, safe, fallback={"after": "2m"})).deployment(2)
        picture.add(unschedulable(picture.web("late", tier="on-demand"), NOW - 500))
        picture.add(picture.web("fine", "s1"))
        picture.fall_back()
        assert names(picture.fall_back()) == (["default/late"] if generous else [])


def test_a_hard_single_replica_does_not_fall_back_and_a_soft_one_does() -> None:
    for where, expected in (("on-demand", []), ({"tier": "on-demand", "else": "spot"}, ["default/late"])):
        free = {**ON_DEMAND, "min": 0}
        used = policy("web", SPOT, free, singleReplica=where, fallback={"after": "2m"})
        picture = Picture(used).deployment(1)
        picture.add(unschedulable(picture.web("late", tier="on-demand"), NOW - 500))
        picture.fall_back()
        assert names(picture.fall_back()) == expected


def test_nothing_changes_when_nothing_happens() -> None:
    picture = waiting(1)
    before = picture.marks
    assert picture.fall_back().marks is before
