"""Behind why a pod fits nowhere: why nobody leaves for it, in kube-scheduler's words where it has any."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.engine.core.actions import HoldPod
from fairlead.engine.core.events import Gone, PoliciesAre
from fairlead.engine.core.holds import Holds
from fairlead.engine.core.queue import Verdict
from fairlead.engine.planning.settings import Settings
from support.cluster_of import Running, running, seen
from support.policies import policy
from support.units import budget, node, pod, typed

OWN = "no new claims to deallocate, preemption: "


def told(*things: dict[str, Any], settings: Settings | None = None, about: str = "x") -> str:
    """The last word on a pod, once all that follows from the objects has happened."""
    return running(settings, *things).holds()[f"default/{about}"].message


def test_who_is_too_big_for_every_node_is_told_that_preemption_does_not_help():
    assert told(node("n", 4), node("m", 4), pod("a", 1, on="n", priority=1), pod("x", 64, priority=9)) == (
        "0/2 nodes are available: 2 Insufficient cpu. "
        f"{OWN}0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )


def test_nodes_count_each_for_its_own_reason_and_all_are_told():
    full = pod("a", 4, on="full", priority=10)
    shared = [pod("b", 1, on="shared", priority=1), pod("c", 3, on="shared", priority=10)]
    tainted = node("tainted", 4, taints=[{"key": "k", "effect": "NoSchedule"}])
    asked = pod("x", 3, priority=5)
    assert told(node("full"), node("shared"), tainted, full, *shared, asked) == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
        f"{OWN}0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )


def test_rules_beyond_resources_are_asked_again_with_the_lower_pods_gone():
    port = [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]
    low = pod("low", 1, on="n", priority=1)
    high = pod("high", on="n", priority=10, containers=port)
    assert told(node("n"), low, high, pod("x", priority=5, containers=port)).endswith(
        "preemption: 0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    )


def test_who_may_not_preempt_is_told_so():
    asked = pod("x", 4, priority=5, preemptionPolicy="Never")
    assert told(node("n"), pod("a", 4, on="n", priority=1), asked) == (
        f"0/1 nodes are available: 1 Insufficient cpu. {OWN}not eligible due to preemptionPolicy=Never."
    )


@pytest.mark.parametrize(
    "condition",
    [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
        {"type": "fairlead.dev/Evicted", "status": "True", "reason": "Pod"},
    ],
)
def test_a_pod_with_a_nominated_node_that_preempted_pods_leave_picks_no_new_victims(condition):
    leaving = pod("a", 4, on="n", priority=1, terminating=True)
    leaving["status"]["conditions"] = [condition]
    assert told(node("n"), leaving, pod("x", 4, priority=5, nominated="n")) == (
        f"0/1 nodes are available: 1 Insufficient cpu. {OWN}"
        "not eligible due to a terminating pod on the nominated node."
    )


@pytest.mark.parametrize(
    "conditions",
    [
        [],
        [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}],
        [{"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}],
    ],
)
def test_pods_that_leave_the_nominated_node_for_another_reason_do_not_keep_a_pod_from_preempting(conditions):
    leaving = pod("a", 4, on="n", priority=1, terminating=True)
    leaving["status"]["conditions"] = conditions
    world = running(None, node("n"), node("m"), leaving, pod("b", 4, on="m", priority=0))
    world.add(pod("x", 4, priority=5, nominated="n"))
    assert world.evicted == ["default/b"]


def test_who_was_refused_before_any_node_was_looked_at_is_told_what_kube_scheduler_tells():
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    assert told(node("n"), pod("x", volumes=volumes)) == (
        '0/1 nodes are available: persistentvolumeclaim "c" not found. not found'
    )


def test_nothing_is_said_of_preemption_where_there_are_no_nodes_or_only_we_refuse():
    assert told(pod("x")) == "no nodes available to schedule pods"
    claims = [{"name": "gpu", "resourceClaimName": "c"}]
    assert told(node("n"), pod("x", resourceClaims=claims)).endswith("dynamic resource claims (gpu).")


def test_protected_victims_are_a_reason_of_their_own():
    guarded = pod("a", 4, on="n", priority=1, labels={"app": "a"})
    things = [node("n"), guarded, pod("x", 4, priority=5)]
    assert told(*things, budget("b", {"app": "a"}, 0)).endswith(
        "preemption: 0/1 nodes are available: 1 node(s) had victims that a disruption budget "
        "or their gang protects."
    )


@pytest.mark.parametrize("priority", [5, 2_000_001_000])
def test_pods_that_are_not_ours_or_the_systems_own_are_no_victims(priority):
    foreign = pod("a", 4, on="n", priority=1, scheduler="default-scheduler")
    system = pod("b", 4, on="m", priority=2_000_000_000)
    assert told(node("n"), node("m"), foreign, system, pod("x", 4, priority=priority)).endswith(
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )


def test_a_gang_is_told_that_evictions_do_not_make_room_for_all_of_it():
    things = [node("n", 4), pod("low", 2, on="n", priority=1), pod("high", 2, on="n", priority=9)]
    gang = [pod(name, 2, gang="g", minimum=2, priority=5) for name in ("x", "y")]
    assert told(*things, *gang).startswith("gang default/g: 0 of 2 members fit; 0/1 nodes are available: ")
    assert told(*things, *gang).endswith(
        f"{OWN}0/1 nodes are available: 1 node(s) could be freed, but not enough for all members."
    )


def test_nobody_leaves_a_node_that_is_kept_for_another():
    world = running(Settings(reserve_after_s=60), node("n"), pod("low", 4, on="n", priority=1))
    world.add(pod("patient", 4, priority=9, preemptionPolicy="Never")).after(61)
    world.add(pod("x", 4, priority=9, created=150))
    assert world.evicted == []
    assert world.holds()["default/x"].message.endswith(
        "preemption: 0/1 nodes are available: 1 node(s) were kept for a unit that has waited longer."
    )


def test_the_text_that_a_plan_shows_leaves_out_what_kube_scheduler_says_of_preemption():
    world = running(None, node("n"), pod("x", 64))
    assert world.core._service.holds.told("uid-default-x") == "0/1 nodes are available: 1 Insufficient cpu."


def test_nothing_is_said_again_while_only_counts_change_and_then_not_more_than_once_a_minute():
    world = running(None, node("n", 1), pod("x", 64, priority=5))
    said = len([one for one in world.log if getattr(one, "pod", "") == "default/x"])
    for number in range(20):
        world.add(node(f"m{number}", 1), pod(f"p{number}", 1, on=f"m{number}", priority=number % 9)).after(2)
    more = len([one for one in world.log if getattr(one, "pod", "") == "default/x"])
    assert more - said <= 1
    assert world.tell(*(seen(node(f"m{number}", 1)) for number in range(20))) == []
    assert world.after(600).tell() == []


def test_a_tiers_only_node_that_comes_and_goes_is_no_news_more_than_once_a_minute():
    world = Running(Settings())
    world.tell(
        PoliciesAre((policy("all", {"name": "spot", "nodes": {"capacity": "spot"}}, groupBy="policy"),))
    )
    world.add(node("other"), pod("x", nodeSelector={"no": "such"}))
    assert world.holds()["default/x"].message.endswith("(it has no nodes).")
    said = len(world.log)
    for _ in range(10):
        world.add(node("spot", labels={"capacity": "spot"})).after(1)
        world.settle(world.tell(Gone("Node", "", "spot", "uid-spot")))
        world.after(1)
    assert not [one for one in world.log[said:] if isinstance(one, HoldPod)]


def test_another_tier_is_news_at_once():
    holds, waiting = Holds(), typed(pod("x"))
    said = "Policy p: waits for tier"

    def tells(tier: str, now: float) -> bool:
        verdict = Verdict(frozenset({"NodeAffinity"}), "0/1 nodes are available", tier=f"{said} {tier}.")
        return holds.is_news(waiting, verdict, "x", now)

    assert tells("spot, by its place in the order (it has no nodes)", 0.0)
    assert not tells("spot, no other has room", 1.0)
    assert tells("on-demand, because its own is unavailable", 2.0)
    assert tells("on-demand, because its own is unavailable (it has no nodes)", 63.0)
