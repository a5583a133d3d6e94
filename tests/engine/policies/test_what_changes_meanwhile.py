"""Policies, leaders and marks change while pods wait and binds are under way: what was decided stays so."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.engine.core.actions import BindPod, MarkTiers
from fairlead.engine.core.events import MarksAre, PoliciesAre
from fairlead.engine.planning.settings import Settings
from fairlead.policy.names import SLOT_ANNOTATION
from fairlead.policy.tiers.marks import Mark, Marks
from support.cluster_of import Running, seen
from support.policies import policy
from support.units import EPOCH, at, node, pod

TIERS = tuple({"name": tier, "nodes": {"tier": tier}} for tier in "abc")


def tier_node(tier: str, cpu: int = 4, **more: Any) -> dict[str, Any]:
    return node(f"node-{tier}", cpu=cpu, labels={"tier": tier}, **more)


def slots(world: Running) -> dict[str, str]:
    """The slots of all binds so far, by pod."""
    binds = (action for action in world.log if isinstance(action, BindPod))
    return {bind.pod: bind.annotations[SLOT_ANNOTATION] for bind in binds}


def marked(world: Running) -> dict[str, Mark]:
    """The marks that the core last asked to be written."""
    return [action.after for action in world.log if isinstance(action, MarkTiers)][-1]


# What a bind brings along


@pytest.mark.parametrize("tier", ["b", "none"])
def test_a_preferred_pod_brings_along_what_lets_it_stay_on_a_node_of_any_tier(tier: str):
    tolerating = TIERS[0] | {"tolerations": [{"key": "spot", "operator": "Exists"}]}
    soft = policy("soft", tolerating, TIERS[1], enforce="preferred")
    world = Running(Settings())
    world.tell(PoliciesAre((soft,)))
    world.add(tier_node(tier, taints=[{"key": "spot", "effect": "NoExecute"}]), pod("a"))
    (bind,) = (action for action in world.log if isinstance(action, BindPod))
    assert [one.key for one in bind.tolerations] == ["spot"]


# Policies come and go


def test_pods_whose_binds_are_under_way_keep_their_slots_when_another_policy_comes():
    web = policy("web", TIERS[0] | {"max": 3}, TIERS[1], groupBy="policy", match={"namespaces": ["default"]})
    other = policy("other", TIERS[0], match={"namespaces": ["elsewhere"]})
    world = Running(Settings())
    world.tell(PoliciesAre((web,)))
    world.tell(*map(seen, (tier_node("a"), tier_node("b"), *(pod(f"p{n}", created=n) for n in range(5)))))
    world.tell(world.gone("default/p1"))
    world.tell(PoliciesAre((other, web)), seen(pod("late", created=9)))
    assert slots(world)["default/late"] == slots(world)["default/p1"] == "2"
    assert world.tell(seen(pod("later", created=10))) != []
    assert slots(world)["default/later"] == "6"


# Another leads


def full(*tiers: str) -> list[dict[str, Any]]:
    """A node of each tier that would take the pod that waits, were another not there."""
    first = [pod(f"first-{tier}", cpu=3, on=f"node-{tier}", namespace="kube-system") for tier in tiers]
    return [*(tier_node(tier) for tier in tiers), *first]


def waiting(since: float) -> dict[str, Any]:
    """A pod that its status says is unschedulable."""
    found = pod("p", cpu=2)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    found["status"]["conditions"] = [condition | {"lastTransitionTime": at(since)}]
    return found


def test_the_next_leader_is_as_patient_with_the_second_tier_as_the_one_before():
    world, things = Running(Settings()), full(*"abc")
    abc = PoliciesAre((policy("abc", *TIERS, fallback={"coolDown": "10m"}),), ("kube-system",))
    world.tell(abc, *map(seen, things), seen(waiting(world.now)))
    world.after(125)
    assert marked(world).keys() == {"a"}
    successor = Running(Settings())
    successor.now = world.now + 60
    successor.tell(abc, MarksAre("abc", marked(world)), *map(seen, things), seen(waiting(100)))
    assert not any(
        isinstance(action, MarkTiers) and "b" in action.after for action in successor.after(50).log
    )
    assert marked(successor.after(20)).keys() == {"a", "b"}


def test_the_next_leader_is_as_patient_with_the_pod_that_tries_a_tier():
    world, things = Running(Settings()), full("a")
    abc = PoliciesAre((policy("abc", *TIERS),), ("kube-system",))
    world.now = 1000
    tried = Marks(60).failed("a", EPOCH.timestamp() + 800)
    claimed = tried.claim_probe("a", "uid-default-p", EPOCH.timestamp() + 950)
    assert claimed is not None
    world.tell(abc, MarksAre("abc", dict(claimed)), *map(seen, things), seen(waiting(100)))
    world.after(60)
    assert not any(isinstance(action, MarkTiers) for action in world.log)
    assert marked(world.after(15))["a"].cool_downs == 2


# Tiers are left


def test_a_gang_that_waits_for_victims_in_a_tier_that_it_leaves_is_placed_in_the_next():
    world = Running(Settings())
    world.leaves_at_once = False
    world.tell(PoliciesAre((policy("ab", *TIERS[:2], match={"labels": {"app": "gang"}}),)))
    world.add(tier_node("a"), tier_node("b"), *(pod(f"low-{n}", cpu=2, on="node-a") for n in range(2)))
    world.add(
        *(pod(f"g{n}", cpu=2, gang="g", minimum=2, priority=9, labels={"app": "gang"}) for n in range(2))
    )
    assert len(world.evicted) == 2
    world.settle(world.tell(MarksAre("ab", dict(Marks(60).failed("a", EPOCH.timestamp() + world.now)))))
    assert world.bound["default/g0"] == world.bound["default/g1"] == "node-b"


def test_what_a_held_pod_is_told_of_its_tiers_nodes_follows_them():
    world = Running(Settings())
    world.tell(PoliciesAre((policy("a", TIERS[0]),)))
    world.add(pod("p", cpu=2))
    assert world.holds()["default/p"].message.endswith("(it has no nodes).")
    world.add(tier_node("a", unschedulable=True)).after(120)
    assert world.holds()["default/p"].message.endswith("(none of its nodes takes pods).")
