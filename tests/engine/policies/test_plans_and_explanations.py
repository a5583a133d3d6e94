"""Policies among the objects of a state count in plans and explanations as they do in a scheduler."""

from __future__ import annotations

from collections import Counter

import pytest

import fairlead
from fairlead.errors import BadObject
from support.policies import plain_policy
from support.units import node, pod

BURST = plain_policy(
    "burst",
    {"name": "base", "max": 2},
    {"name": "burst", "names": ["virtual"], "tolerations": [{"key": "far", "operator": "Exists"}]},
    groupBy="policy",
)
NODES = [node("n1", cpu=8), node("virtual", cpu=8, taints=[{"key": "far", "effect": "NoSchedule"}])]


def test_a_plan_splits_pods_over_tiers():
    pods = [pod(f"p{number}") for number in range(5)]
    plan = fairlead.Cluster.from_objects([BURST, *NODES, *pods]).plan()
    assert Counter(node for _, node in plan.binds) == {"n1": 2, "virtual": 3}


def test_a_held_pod_is_told_its_tier():
    pods = [pod(f"p{number}") for number in range(3)]
    (hold,) = fairlead.Cluster.from_objects([BURST, NODES[0], *pods]).plan().holds
    assert hold.pod == "default/p2"
    assert "Policy burst: waits for tier burst" in hold.reason


def test_an_explanation_is_of_the_tier_that_a_pod_is_sent_to():
    pods = [pod("a", on="n1"), pod("b", on="n1"), pod("c")]
    cluster = fairlead.Cluster.from_objects([BURST, *NODES, *pods])
    assert cluster.explain("c").feasible == ["virtual"]
    assert cluster.explain("a").feasible == ["n1"]
    assert cluster.explain(pod("new")).rules == {"n1": "NodeAffinity"}


def test_a_policy_that_makes_no_sense_is_an_error_not_a_wrong_plan():
    wrong = plain_policy("wrong", {"name": "a", "max": "half"})
    with pytest.raises(BadObject, match="half"):
        fairlead.Cluster.from_objects([wrong, *NODES, pod("a")]).plan()
