"""The scheduler sends each pod that waits to the tier of its slot, and falls back without deleting."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fairlead.engine.core.actions import BindPod, MarkTiers
from fairlead.engine.core.events import Gone, MarksAre, PoliciesAre, Promised
from fairlead.engine.planning.settings import Settings
from fairlead.policy.names import (
    DELETION_COST,
    POLICY_ANNOTATION,
    REPLICAS_LABEL,
    SLOT_ANNOTATION,
    TIER_ANNOTATION,
    TOKEN_ANNOTATION,
)
from fairlead.policy.tiers.marks import Marks
from support.cluster_of import Running, seen
from support.policies import ON_DEMAND, SPOT, policy
from support.units import EPOCH, budget, node, pod, workload

BASE = {"name": "base", "max": 10}
BURST = {
    "name": "burst",
    "names": ["virtual"],
    "tolerations": [{"key": "virtual-kubelet.io/provider", "operator": "Exists"}],
}
VIRTUAL = node("virtual", cpu=1000, taints=[{"key": "virtual-kubelet.io/provider", "effect": "NoSchedule"}])


def under(*policies: Any, things: list[dict[str, Any]], settings: Settings | None = None) -> Running:
    """A core with these policies that has seen these objects, with all that follows done."""
    world = Running(settings or Settings())
    world.tell(PoliciesAre(tuple(policies), ("kube-system",)))
    return world.add(*things)


def web(number: int, *, on: str = "", created: float = 0.0, **more: Any) -> dict[str, Any]:
    """Pod `number` of Deployment web."""
    owner = {"kind": "ReplicaSet", "name": "web-1", "uid": "rs", "apiVersion": "apps/v1", "controller": True}
    labels = {"app": "web", "pod-template-hash": "1"}
    return pod(f"web-{number:02}", on=on, created=created, owner=owner, labels=labels, **more)


def deployment(replicas: int) -> list[dict[str, Any]]:
    """Deployment web and its ReplicaSet."""
    above = {"kind": "Deployment", "name": "web", "uid": "uid-Deployment-web", "apiVersion": "apps/v1"}
    replica_set = workload("ReplicaSet", "web-1", replicas=replicas, owner=above | {"controller": True})
    replica_set["metadata"]["uid"] = "rs"
    return [workload("Deployment", "web", replicas=replicas), replica_set]


def spots(number: int) -> list[dict[str, Any]]:
    """That many spot nodes, and one on demand."""
    nodes = [node(f"spot-{index}", cpu=32, labels={"capacity": "spot"}) for index in range(number)]
    return [*nodes, node("demand-0", cpu=64, labels={"capacity": "on-demand"})]


def split(world: Running) -> Counter[str]:
    """Pods per kind of node."""
    return Counter(name.partition("-")[0] for name in world.bound.values())


# The split


def test_three_of_ten_replicas_are_kept_on_demand():
    world = under(policy(), things=[*spots(3), *deployment(10), *(web(n) for n in range(10))])
    assert split(world) == {"spot": 7, "demand": 3}


def test_where_the_highest_slots_are_left_the_last_pod_goes_where_one_is_missing():
    marked = {POLICY_ANNOTATION: "web"}
    left = [
        web(slot, on=on, annotations=marked | {SLOT_ANNOTATION: str(slot)})
        for slot, on in ((11, "demand-0"), (12, "spot-0"), (14, "demand-0"))
    ]
    world = under(policy(), things=[*spots(1), *deployment(4), *left])
    world.add(web(1, created=5.0))
    assert world.bound["default/web-01"] == "spot-0"
    # The others of ten are to come: the slots that are free are theirs.
    world = under(policy(), things=[*spots(1), *deployment(20), *left])
    world.add(web(1, created=5.0))
    assert world.bound["default/web-01"] == "demand-0"


def admitted(number: int, tier: str, *, governing: str = "burst", **more: Any) -> dict[str, Any]:
    """A pod with the slot of that number, and the tier that the webhook has said."""
    marks = {POLICY_ANNOTATION: governing, SLOT_ANNOTATION: str(number), TIER_ANNOTATION: tier}
    return pod(f"p{number:02}", annotations=marks | {TOKEN_ANNOTATION: f"token-{number}"}, **more)


@pytest.mark.parametrize("first", [[], [11], [15, 3], list(range(15, 0, -1))])
def test_pods_that_were_admitted_keep_to_the_max_in_whichever_order_they_are_seen(first: list[int]):
    burst = policy("burst", BASE, BURST, groupBy="policy")
    world = under(burst, things=[node("n1", cpu=32), VIRTUAL])
    for number in [*first, *(one for one in range(1, 16) if one not in first)]:
        world.add(admitted(number, "base" if number <= 10 else "burst"))
    assert split(world) == {"n1": 10, "virtual": 5}


TOGETHER = policy("web", SPOT, ON_DEMAND | {"min": "30%"}, groupBy="policy")


def left_over(*slots: tuple[int, str]) -> list[dict[str, Any]]:
    marked = {POLICY_ANNOTATION: "web"}
    return [
        pod(f"old-{slot}", on=on, annotations=marked | {SLOT_ANNOTATION: str(slot)}) for slot, on in slots
    ]


def test_where_slots_are_scattered_an_admitted_pod_goes_where_admission_said():
    left = left_over((11, "demand-0"), (12, "spot-0"), (14, "demand-0"))
    world = under(TOGETHER, things=[*spots(1), *left])
    world.add(admitted(1, "spot", governing="web"))
    assert world.bound["default/p01"] == "spot-0"


def test_a_pod_that_was_admitted_elsewhere_meanwhile_belongs_where_its_slot_says():
    world = under(TOGETHER, things=spots(1))
    world.add(*(admitted(number, "on-demand", governing="web") for number in (1, 2, 3)))
    assert split(world) == {"demand": 1, "spot": 2}


def test_a_pod_that_was_admitted_before_a_max_heeds_it():
    less = policy("burst", BASE | {"max": 2}, BURST, groupBy="policy")
    world = under(less, things=[node("n1", cpu=32), VIRTUAL])
    world.add(*(admitted(number, "base") for number in (1, 2, 3, 4)))
    assert split(world) == {"n1": 2, "virtual": 2}


def test_a_pod_on_a_node_of_no_tier_counts_for_the_number_of_pods():
    marked = {POLICY_ANNOTATION: "web"}
    left = [
        web(slot, on=on, annotations=marked | {SLOT_ANNOTATION: str(slot)})
        for slot, on in ((11, "demand-0"), (12, "spot-0"), (14, "demand-0"), (15, "other"))
    ]
    world = under(policy(), things=[*spots(1), node("other", cpu=32), *deployment(5), *left])
    world.add(web(1, created=5.0))
    assert world.bound["default/web-01"] == "spot-0"


def test_at_most_ten_pods_are_on_base_and_the_rest_bursts():
    burst = policy("burst", BASE, BURST, groupBy="policy")
    nodes = [node("n1", cpu=8), node("n2", cpu=8), VIRTUAL]
    world = under(burst, things=[*nodes, *(pod(f"p{n:02}") for n in range(5))])
    assert split(world) == {"n1": 3, "n2": 2}
    world.add(*(pod(f"p{n:02}", created=n) for n in range(5, 20)))
    assert split(world)["virtual"] == 10
    world.remove(*(f"p{n:02}" for n in range(3))).add(*(pod(f"q{n}", created=50) for n in range(4)))
    assert split(world)["virtual"] == 11


def test_finished_and_terminating_pods_hold_no_slot():
    burst = policy("burst", BASE | {"max": 2}, BURST, groupBy="policy")
    world = under(burst, things=[node("n1"), VIRTUAL, pod("a"), pod("b")])
    world.add(pod("a", on="n1", phase="Succeeded"), pod("b", on="n1", terminating=True))
    world.add(pod("c", created=5), pod("d", created=6), pod("e", created=7))
    assert {name: world.bound[f"default/{name}"] for name in "cde"} == {"c": "n1", "d": "n1", "e": "virtual"}


def test_namespaces_and_label_values_are_groups_of_their_own():
    burst = policy("burst", BASE | {"max": 1}, BURST, groupBy={"label": "app"})
    pods = [
        pod(f"{app}{n}", namespace=space, labels={"app": app} if app else {})
        for space in ("one", "two")
        for app in ("a", "b", "")
        for n in range(2)
    ]
    world = under(burst, things=[node("n1", cpu=32), VIRTUAL, *pods])
    assert Counter(world.bound.values()) == {"n1": 6, "virtual": 6}


def test_pods_that_were_there_before_the_policy_hold_slots_of_their_nodes_tiers():
    burst = policy("burst", BASE | {"max": 2}, BURST, groupBy="policy")
    things = [node("n1", cpu=8), VIRTUAL, pod("a", on="virtual"), pod("b", on="n1")]
    world = Running(Settings()).add(*things)
    world.tell(PoliciesAre((burst,)))
    world.add(pod("c", created=5), pod("d", created=6))
    assert world.bound["default/c"] == "n1"
    assert world.bound["default/d"] == "virtual"


def test_an_ordinal_decides_the_slot():
    things = [*spots(1), workload("StatefulSet", "db", replicas=3)]
    owner = {"kind": "StatefulSet", "name": "db", "uid": "uid-StatefulSet-db", "apiVersion": "apps/v1"}
    pods = [pod(f"db-{n}", owner=owner | {"controller": True}, created=9 - n) for n in range(3)]
    world = under(policy(), things=[*things, *pods])
    assert world.bound["default/db-0"] == "demand-0"
    assert split(world) == {"spot": 2, "demand": 1}


def test_a_single_replica_goes_where_single_replicas_go():
    single = policy("web", singleReplica="on-demand")
    world = under(single, things=[*spots(1), *deployment(1), web(0)])
    assert split(world) == {"demand": 1}


def test_what_the_pods_of_a_custom_workload_say_holds_for_each():
    owner = {"kind": "Rollout", "name": "web", "uid": "r", "apiVersion": "argoproj.io/v1", "controller": True}
    said = ("multiple", "single", "multiple")
    pods = [
        pod(f"web-{number}", owner=owner, labels={"app": "web", REPLICAS_LABEL: word})
        for number, word in enumerate(said)
    ]
    spot_first = policy("web", SPOT, ON_DEMAND | {"min": 0}, singleReplica="on-demand")
    world = under(spot_first, things=[*spots(1), *pods])
    assert [world.bound[f"default/web-{n}"] for n in range(3)] == ["spot-0", "demand-0", "spot-0"]


def test_as_many_as_the_budget_demands_are_off_spot():
    tiers = ({"name": "spot", "nodes": {"capacity": "spot"}, "volatile": True},)
    demand = {"name": "on-demand", "nodes": {"capacity": "on-demand"}, "min": "pdb"}
    protecting = budget("web", {"app": "web"}, allowed=4)
    protecting["spec"]["minAvailable"] = 6
    things = [*spots(2), protecting, *deployment(10), *(web(n) for n in range(10))]
    assert split(under(policy("web", *tiers, demand), things=things)) == {"spot": 4, "demand": 6}


def test_what_a_budget_over_two_workloads_lets_go_is_there_once_and_passes_on():
    tiers = ({"name": "spot", "nodes": {"capacity": "spot"}, "volatile": True},)
    demand = {"name": "on-demand", "nodes": {"capacity": "on-demand"}, "min": "pdb"}
    protecting = budget("web", {"app": "web"}, allowed=2)
    protecting["spec"]["maxUnavailable"] = 2
    older = workload("Deployment", "older", replicas=1, created=-100.0)
    for made in (older, *(younger := deployment(4))):
        made["spec"]["template"]["metadata"]["labels"] = {"app": "web"}
    world = under(
        policy("web", *tiers, demand),
        things=[*spots(2), protecting, older, *younger, *(web(n) for n in range(2))],
    )
    assert split(world) == {"demand": 2}
    world.tell(Gone("Deployment", "default", "older", ""))
    assert split(world.add(*(web(n) for n in range(2, 4)))) == {"demand": 2, "spot": 2}


def test_pods_that_no_policy_governs_are_planned_as_ever():
    only_shop = policy("burst", BASE | {"max": 0}, BURST, groupBy="policy", match={"namespaces": ["shop"]})
    world = under(only_shop, things=[node("n1"), VIRTUAL, pod("a"), pod("b", namespace="shop")])
    assert world.bound == {"default/a": "n1", "shop/b": "virtual"}


def test_members_of_a_gang_take_slots_too():
    burst = policy("burst", BASE | {"max": 2}, BURST, groupBy="policy")
    gang = [pod(f"g{n}", gang="g", minimum=4) for n in range(4)]
    world = under(burst, things=[node("n1"), VIRTUAL, *gang])
    assert Counter(world.bound.values()) == {"n1": 2, "virtual": 2}


# What a bind brings along


def test_a_bind_carries_slot_tier_and_deletion_cost_and_the_tolerations_that_are_missing():
    burst = policy("burst", BASE | {"max": 1}, BURST, groupBy="policy")
    world = under(burst, things=[node("n1"), VIRTUAL, pod("a"), pod("b")])
    first, second = (action for action in world.log if isinstance(action, BindPod))
    assert first.annotations == {
        POLICY_ANNOTATION: "burst", SLOT_ANNOTATION: "1", TIER_ANNOTATION: "base", DELETION_COST: "-1"
    }  # fmt: skip
    assert first.tolerations == ()
    assert second.annotations[SLOT_ANNOTATION] == "2"
    assert [one.key for one in second.tolerations] == ["virtual-kubelet.io/provider"]


def test_a_deletion_cost_of_the_users_own_stays():
    world = under(policy("p", BASE), things=[node("n1"), pod("a", annotations={DELETION_COST: "7"})])
    assert world.pods["default/a"].metadata.annotations[DELETION_COST] == "7"


def test_an_exclusive_tier_gives_each_pod_a_node():
    alone = policy("alone", {"name": "all", "exclusive": True})
    world = under(alone, things=[node("n1"), node("n2"), pod("a"), pod("b"), pod("c")])
    assert sorted(world.bound.values()) == ["n1", "n2"]
    assert {one.reason for one in world.said()} == {"ExclusiveUnseen"}
    assert world.remove("a").after(20).bound.keys() == {"default/b", "default/c"}


def test_a_preferred_tier_never_keeps_a_pod_waiting():
    soft = policy("web", enforce="preferred")
    world = under(soft, things=[node("demand-0", cpu=64, labels={"capacity": "on-demand"}),
                                *deployment(10), *(web(n) for n in range(10))])  # fmt: skip
    assert split(world) == {"demand": 10}
    world = under(soft, things=[*spots(2), *deployment(10), *(web(n) for n in range(10))])
    assert split(world) == {"spot": 7, "demand": 3}


# Marks of admission


def test_the_slot_of_an_admission_is_kept():
    burst = policy("burst", BASE | {"max": 1}, BURST, groupBy="policy")
    marks = {POLICY_ANNOTATION: "burst", SLOT_ANNOTATION: "1", "fairlead.dev/slot-token": "t"}
    world = under(burst, things=[node("n1"), VIRTUAL, pod("a"), pod("b", annotations=marks)])
    assert world.bound == {"default/a": "virtual", "default/b": "n1"}


def test_a_slot_that_was_copied_from_another_pod_is_nobodys():
    burst = policy("burst", BASE | {"max": 1}, BURST, groupBy="policy")
    marks = {POLICY_ANNOTATION: "burst", SLOT_ANNOTATION: "1"}
    pods = [pod(f"p{n}", annotations=marks) for n in range(3)]
    world = under(burst, things=[node("n1"), VIRTUAL, *pods])
    assert Counter(world.bound.values()) == {"n1": 1, "virtual": 2}


# Fallback


def test_a_full_tier_passes_its_pods_on_after_a_while_and_says_so_until_then():
    burst = policy("burst", BASE, BURST, groupBy="policy")
    world = under(burst, things=[node("n1", cpu=2), VIRTUAL, *(pod(f"p{n}") for n in range(4))])
    assert Counter(world.bound.values()) == {"n1": 2}
    assert "waits for tier base" in world.holds()["default/p3"].message
    assert world.after(119).bound.keys() == {"default/p0", "default/p1"}
    assert Counter(world.after(2).bound.values()) == {"n1": 2, "virtual": 2}
    # Others do not wait: the tier is left alone for a minute, then one pod tries it.
    assert world.add(pod("q", created=130)).bound["default/q"] == "virtual"
    assert world.evicted == world.released == []


def test_a_pod_for_which_a_node_is_on_its_way_is_patient_again():
    burst = policy("burst", BASE, BURST, groupBy="policy")
    world = under(burst, things=[node("n1", cpu=1), VIRTUAL, pod("a"), pod("b", created=1)])
    world.after(100).tell(Promised("uid-default-b", EPOCH.timestamp() + world.now))
    assert "default/b" not in world.after(110).bound
    assert world.after(15).bound["default/b"] == "virtual"


def test_promises_that_are_never_kept_end_a_pods_patience_at_three_times_its_length():
    burst = policy("burst", BASE, BURST, groupBy="policy")
    world = under(burst, things=[node("n1", cpu=1), VIRTUAL, pod("a"), pod("b", created=1)])
    for _ in range(6):
        world.after(59).tell(Promised("uid-default-b", EPOCH.timestamp() + world.now))
    assert "default/b" not in world.bound
    world.after(7).tell(Promised("uid-default-b", EPOCH.timestamp() + world.now))
    assert world.after(1).bound["default/b"] == "virtual"


def test_a_pod_that_is_sent_on_is_as_patient_with_promises_of_the_next_tier():
    tiers = tuple({"name": tier, "nodes": {"tier": tier}} for tier in "abc")
    full = [
        thing
        for tier in "abc"
        for thing in (
            node(f"node-{tier}", cpu=2, labels={"tier": tier}),
            pod(f"first-{tier}", cpu=1, on=f"node-{tier}", namespace="kube-system"),
        )
    ]
    world = under(policy("abc", *tiers, fallback={"coolDown": "30m"}), things=[*full, pod("p", cpu=2)])
    for _ in range(10):
        world.after(60).tell(Promised("uid-default-p", EPOCH.timestamp() + world.now))
    (marked,) = [action.after.keys() for action in world.log if isinstance(action, MarkTiers)]
    assert marked == {"a"}


@pytest.mark.parametrize(
    "own", [{"nodeSelector": {"capacity": "on-demand"}}, {"cpu": 33}], ids=["selector", "size"]
)
def test_a_pod_that_its_tier_could_never_take_moves_on_alone(own: dict[str, Any]):
    world = under(policy(), things=[*spots(1), *deployment(2)])
    world.add(web(0), web(1, **own)).after(130)
    assert world.bound["default/web-01"] == "demand-0"
    assert not any(isinstance(action, MarkTiers) for action in world.log)


def test_a_pod_that_moved_on_alone_tries_its_tier_again_when_a_node_comes():
    world = under(policy(), things=[*spots(1)[:1], *deployment(2)])
    world.add(web(0), web(1, cpu=33)).after(130)
    assert "default/web-01" not in world.bound
    world.add(node("spot-big", cpu=64, labels={"capacity": "spot"}))
    assert world.bound["default/web-01"] == "spot-big"


def test_a_marked_tier_still_takes_pods_that_fit_there_now():
    world = under(policy(fallback={"coolDown": "30m"}), things=[*spots(1), *deployment(10)])
    world.add(*(web(n, cpu=12) for n in range(5))).after(130)
    assert split(world) == {"spot": 2, "demand": 3}
    world.add(*(web(n, cpu=1) for n in range(5, 10)))
    # Slot 7 is one of the min's, and stays it: to bring the pod back that was passed on is the rebalancer's.
    assert split(world) == {"spot": 6, "demand": 4}


def test_a_pod_that_fits_in_a_marked_tier_ends_the_mark_once_its_cool_down_is_over():
    world = under(policy(), things=[*spots(1), *deployment(10)])
    world.add(*(web(n, cpu=12) for n in range(5))).after(130)
    marked = [action.after for action in world.log if isinstance(action, MarkTiers)]
    assert list(marked[-1]) == ["spot"]
    world.add(web(5, cpu=1))
    assert world.bound["default/web-05"] == "spot-0"
    assert [action.after for action in world.log if isinstance(action, MarkTiers)] == marked
    # Slot 7 is one of the min's: that pod tells nothing of the tier.
    world.after(61).add(web(6, cpu=1), web(7, cpu=1))
    assert world.bound["default/web-07"] == "spot-0"
    assert [action.after for action in world.log if isinstance(action, MarkTiers)][-1] == {}


def test_a_min_does_not_fall_back_unless_its_tier_says_so():
    spot_only = [node("spot-0", cpu=64, labels={"capacity": "spot"})]
    things = [*spot_only, *deployment(10), *(web(n) for n in range(10))]
    assert split(under(policy(), things=things).after(600)) == {"spot": 7}
    yielding = policy(
        "web",
        {"name": "spot", "nodes": {"capacity": "spot"}},
        {"name": "on-demand", "nodes": {"capacity": "on-demand"}, "min": "30%", "fallback": True},
    )
    assert split(under(yielding, things=things).after(600)) == {"spot": 10}


def test_a_tier_that_loses_its_last_node_is_left_at_once():
    world = under(policy(), things=[*spots(2), *deployment(10), *(web(n) for n in range(10))])
    lost = [key.partition("/")[2] for key, name in world.bound.items() if name.startswith("spot")]
    cordoned = [node(f"spot-{n}", cpu=32, labels={"capacity": "spot"}, unschedulable=True) for n in (0, 1)]
    world.add(*cordoned)
    assert [action.policy for action in world.log if isinstance(action, MarkTiers)] == ["web"]
    world.remove(*lost).add(*(web(n, created=50) for n in range(20, 27)))
    assert split(world) == {"demand": 10}


def test_a_node_that_appears_ends_the_cool_down():
    world = under(policy(), things=[*spots(1), *deployment(10), *(web(n) for n in range(3))])
    world.add(node("spot-0", cpu=32, labels={"capacity": "spot"}, unschedulable=True))
    world.add(web(3, created=9))
    assert world.bound["default/web-03"] == "demand-0"
    world.add(node("spot-1", cpu=32, labels={"capacity": "spot"}), web(4, created=10))
    assert world.bound["default/web-04"] == "spot-1"


def test_marks_of_others_count():
    world = under(policy(), things=[*spots(2), *deployment(10)])
    now = EPOCH.timestamp() + world.now
    world.tell(MarksAre("web", dict(Marks(60).interrupted("spot", now))))
    assert split(world.add(*(web(n) for n in range(10)))) == {"demand": 10}


def test_after_the_cool_down_one_pod_tries_and_its_success_opens_the_tier():
    world = under(policy(), things=[*spots(2), *deployment(10)])
    now = EPOCH.timestamp() + world.now
    world.tell(MarksAre("web", dict(Marks(60).interrupted("spot", now))))
    world.after(61).add(*(web(n) for n in range(10)))
    assert split(world) == {"demand": 9, "spot": 1}
    assert split(world.add(*(web(n, created=200) for n in (11, 12, 13)))) == {"demand": 10, "spot": 3}


def test_a_pod_that_waits_moves_up_when_another_leaves():
    burst = policy("burst", BASE | {"max": 1}, {"name": "burst", "names": ["virtual"]}, groupBy="policy")
    world = under(burst, things=[node("n1"), pod("a"), pod("b", created=1)])
    assert world.bound == {"default/a": "n1"}
    assert world.holds()["default/b"].message.endswith(
        "Policy burst: waits for tier burst, by its place in the order; the next after 2m "
        "(node virtual does not exist)."
    )
    assert world.remove("a").after(15).bound == {"default/b": "n1"}


def test_pods_beyond_every_max_wait_and_are_told_so():
    world = under(
        policy("few", BASE | {"max": 1}, groupBy="policy"), things=[node("n1"), pod("a"), pod("b", created=1)]
    )
    assert world.holds()["default/b"].message.endswith("Policy few: every tier has reached its max.")
    assert world.remove("a").after(15).bound == {"default/b": "n1"}


def test_when_the_policy_goes_pods_are_planned_without_it():
    world = under(policy("few", BASE | {"max": 0}, groupBy="policy"), things=[node("n1"), pod("a")])
    assert world.bound == {}
    world.settle(world.tell(PoliciesAre(())))
    assert world.after(15).bound == {"default/a": "n1"}


def test_nothing_happens_when_nothing_changes():
    things = [*spots(2), *deployment(12), *(web(n) for n in range(12))]
    world = under(policy(), things=things)
    assert world.tell(*(seen(thing) for thing in things if thing["kind"] != "Pod")) == []
    assert world.tell(PoliciesAre((policy(),), ("kube-system",))) == []
    assert world.after(3600).actions == []
