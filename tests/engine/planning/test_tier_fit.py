"""Whether an empty node of a tier would take a pod: decided by the kinds of nodes that the tier has."""

from __future__ import annotations

from typing import Any

from fairlead.engine.planning.tier_fit import TierFit
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.policy.rule.model import read_policy

POLICY = read_policy(
    {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "two"},
        "spec": {"tiers": [{"name": "own", "nodes": {"own": "yes"}}, {"name": "rest"}]},
    }
)
FEATURE = "UserNamespacesHostNetworkSupport"


def node(name: str, *features: str, **labels: str) -> Node:
    plain: dict[str, Any] = {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}, "declaredFeatures": features},
    }
    return convert(plain, Node)


def a_pod_in_need_of_the_feature() -> Pod:
    spec = {"hostNetwork": True, "hostUsers": False, "containers": [{"name": "c"}]}
    return convert({"metadata": {"name": "a", "namespace": "default"}, "spec": spec}, Pod)


def test_nodes_that_differ_in_declared_features_are_of_two_kinds() -> None:
    fit = TierFit(POLICY)
    fit.node("other", node("other"))
    fit.node("plain", node("plain", own="yes"))
    assert fit.blame(a_pod_in_need_of_the_feature(), 0) == "pod"
    fit.node("able", node("able", FEATURE, own="yes"))
    assert fit.blame(a_pod_in_need_of_the_feature(), 0) == "tier"
    assert fit.closed_to(a_pod_in_need_of_the_feature()) == {"rest"}


def test_a_node_that_declares_a_feature_later_takes_the_pod_from_then_on() -> None:
    fit = TierFit(POLICY)
    fit.node("n", node("n", own="yes"))
    assert fit.blame(a_pod_in_need_of_the_feature(), 0) == "pod"
    fit.node("n", node("n", FEATURE, own="yes"))
    assert fit.blame(a_pod_in_need_of_the_feature(), 0) == "tier"
