"""Cordons, names, taints, selectors, declared features."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead import Cluster
from support.units import node, pod

CORDON = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]


def message(objects: list[dict[str, Any]], asking: dict[str, Any]) -> str | None:
    return Cluster.from_objects(objects).explain(asking).message


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    }


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(*names: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]}


def test_a_cordoned_node_is_refused() -> None:
    found = message([node("n1", unschedulable=True)], pod("a"))
    assert found == "0/1 nodes are available: 1 node(s) were unschedulable."


def test_a_pod_that_tolerates_a_cordon_goes_onto_a_cordoned_node() -> None:
    assert message([node("n1", unschedulable=True)], pod("a", tolerations=CORDON)) is None


def test_a_pod_that_names_its_node_goes_nowhere_else() -> None:
    found = message([node("n1"), node("n2", 0)], pod("a", on="n2"))
    assert found == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match the requested node name."
    )


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_an_untolerated_taint_keeps_a_pod_out(effect: str) -> None:
    tainted = node("n1", taints=[{"key": "size", "value": "large", "effect": effect}])
    found = message([tainted], pod("a"))
    assert found == "0/1 nodes are available: 1 node(s) had untolerated taint(s)."


def test_a_soft_taint_keeps_nobody_out() -> None:
    tainted = node("n1", taints=[{"key": "size", "value": "large", "effect": "PreferNoSchedule"}])
    assert message([tainted], pod("a")) is None


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "size", "operator": "Exists"}, True),
        ({"key": "size", "value": "large"}, True),
        ({"key": "size", "value": "large", "effect": "NoSchedule"}, True),
        ({"key": "size", "value": "large", "effect": "NoExecute"}, False),
        ({"key": "size", "value": "small"}, False),
        ({"key": "size", "operator": "Gt", "value": "1"}, False),
    ],
)
def test_tolerations_cover_what_they_say(toleration: dict[str, Any], fits: bool) -> None:
    tainted = node("n1", taints=[{"key": "size", "value": "large", "effect": "NoSchedule"}])
    assert (message([tainted], pod("a", tolerations=[toleration])) is None) is fits


@pytest.mark.parametrize(
    ("term", "fits"),
    [
        (expression("disk", "In", "ssd", "nvme"), True),
        (expression("disk", "NotIn", "ssd"), False),
        (expression("other", "NotIn", "ssd"), True),
        (expression("disk", "Exists"), True),
        (expression("disk", "DoesNotExist"), False),
        (expression("rack", "Gt", "4"), True),
        (expression("rack", "Lt", "4"), False),
        (expression("rack", "Gt", "four"), False),
        (expression("disk", "Gt", "4"), False),
        (expression("disk", "Resembles", "ssd"), False),
        ({}, False),
        (named("n1"), True),
        (
            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]},
            False,
        ),
    ],
)
def test_every_operator_of_node_affinity(term: dict[str, Any], fits: bool) -> None:
    labelled = node("n1", labels={"disk": "ssd", "rack": "5"})
    found = message([labelled], pod("a", affinity=required(term)))
    assert (found is None) is fits
    if not fits:
        assert found == "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."


def test_one_of_several_terms_is_enough_but_the_selector_must_hold_too() -> None:
    labelled = node("n1", labels={"disk": "ssd", "zone": "a"})
    terms = required(expression("disk", "In", "hdd"), expression("zone", "In", "a"))
    assert message([labelled], pod("a", affinity=terms, nodeSelector={"disk": "ssd"})) is None
    assert message([labelled], pod("a", affinity=terms, nodeSelector={"disk": "hdd"})) is not None


def test_nodes_that_terms_do_not_name_say_so_in_their_own_words() -> None:
    found = message([node("n1", 0), node("n2"), node("n3")], pod("a", affinity=required(named("n1"))))
    assert found == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_terms_that_name_two_nodes_at_once_match_nothing_anywhere() -> None:
    found = message([node("n1"), node("n2")], pod("a", affinity=required(named("n1", "n2"))))
    assert found == "0/2 nodes are available: pod affinity terms conflict."


def test_a_feature_that_a_node_does_not_declare_keeps_the_pod_out() -> None:
    plain, able = node("n1"), node("n2")
    able["status"]["declaredFeatures"] = ["UserNamespacesHostNetworkSupport"]
    asking = pod("a", hostNetwork=True, hostUsers=False)
    found = Cluster.from_objects([plain, able]).explain(asking)
    assert found.feasible == ["n2"]
    assert found.reasons["n1"] == ["node(s) didn't match Pod's required features"]


def test_a_gated_pod_goes_nowhere() -> None:
    found = Cluster.from_objects([node("n1")]).explain(pod("a", schedulingGates=[{"name": "quota"}]))
    assert found.message == "Scheduling is blocked due to non-empty scheduling gates"
    assert found.reasons == {"n1": ["waiting for scheduling gates: [quota]"]}


def test_dynamic_resource_claims_are_refused_loudly() -> None:
    asking = pod("a", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    found = message([node("n1")], asking)
    assert found is not None
    assert "does not support dynamic resource claims (gpu)" in found


def test_a_gang_as_only_kubernetes_1_35_declares_it_is_refused_loudly() -> None:
    asking = pod("a", workloadRef={"name": "training", "podGroup": "workers"})
    found = message([node("n1")], asking)
    assert found is not None
    assert "does not support workloadRef (training)" in found


def test_resources_behind_a_device_class_are_refused_loudly() -> None:
    device = {
        "kind": "DeviceClass",
        "metadata": {"name": "gpus"},
        "spec": {"extendedResourceName": "example.com/gpu"},
    }
    containers = [{"name": "c", "resources": {"requests": {"example.com/gpu": 1}}}]
    found = message([node("n1", extended={"example.com/gpu": 4}), device], pod("a", containers=containers))
    assert found is not None
    assert "backed by a DeviceClass (example.com/gpu by gpus)" in found


def test_a_cluster_without_nodes_has_words_of_its_own() -> None:
    assert message([], pod("a")) == "no nodes available to schedule pods"


def test_counts_are_sorted_as_strings() -> None:
    nodes = [node(f"n{index}", 0) for index in range(10)]
    tainted = [node(f"t{index}", taints=[{"key": "x", "effect": "NoSchedule"}]) for index in range(2)]
    assert message([*nodes, *tainted], pod("a")) == (
        "0/12 nodes are available: 10 Insufficient cpu, 2 node(s) had untolerated taint(s)."
    )


def test_only_the_first_refusing_rule_reports() -> None:
    full = node("n1", 0, taints=[{"key": "x", "effect": "NoSchedule"}], unschedulable=True)
    assert message([full], pod("a")) == "0/1 nodes are available: 1 node(s) were unschedulable."
