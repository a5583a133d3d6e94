"""Affinity, anti-affinity and spreading."""

from __future__ import annotations

from typing import Any

from fairlead import Cluster
from support.units import node, pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}


def zoned(name: str, zone: str, **more: Any) -> dict[str, Any]:
    return node(name, labels={ZONE: zone}, **more)


def near(*terms: dict[str, Any], kind: str = "podAffinity") -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    return near(*terms, kind="podAntiAffinity")


def term(key: str = ZONE, selector: dict[str, Any] | None = WEB, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, **({"labelSelector": selector} if selector is not None else {}), **more}


def constraint(key: str = ZONE, **more: Any) -> list[dict[str, Any]]:
    basics = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    return [{**basics, **more}]


def web(name: str, **more: Any) -> dict[str, Any]:
    return pod(name, **{"labels": {"app": "web"}, **more})


def feasible(objects: list[dict[str, Any]], asking: dict[str, Any]) -> list[str]:
    return Cluster.from_objects(objects).explain(asking).feasible


NODES = [zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b"), node("none")]


def test_affinity_draws_a_pod_to_the_zone_of_those_it_needs() -> None:
    assert feasible([*NODES, web("w", on="a1")], pod("x", affinity=near(term()))) == ["a1", "a2"]


def test_affinity_that_nobody_meets_says_so() -> None:
    found = Cluster.from_objects(NODES).explain(pod("x", affinity=near(term())))
    assert found.message == "0/4 nodes are available: 4 node(s) didn't match pod affinity rules."


def test_the_first_of_a_group_that_wants_to_be_together_may_start_where_the_key_is() -> None:
    assert feasible(NODES, web("w", affinity=near(term()))) == ["a1", "a2", "b1"]


def test_the_first_pod_rule_holds_while_the_others_are_where_the_key_is_not() -> None:
    assert feasible([*NODES, web("w", on="none")], web("x", affinity=near(term()))) == ["a1", "a2", "b1"]


def test_all_affinity_terms_must_be_met_by_the_same_pods() -> None:
    terms = near(term(), term(selector={"matchLabels": {"tier": "front"}}))
    split = [web("w", on="a1"), pod("t", on="a2", labels={"tier": "front"})]
    assert feasible([*NODES, *split], pod("x", affinity=terms)) == []
    both = pod("both", on="b1", labels={"app": "web", "tier": "front"})
    assert feasible([*NODES, *split, both], pod("x", affinity=terms)) == ["b1"]


def test_anti_affinity_keeps_away_from_the_whole_domain() -> None:
    found = Cluster.from_objects([*NODES, web("w", on="a1")]).explain(pod("x", affinity=apart(term())))
    assert found.feasible == ["b1", "none"]
    assert found.reasons["a2"] == ["node(s) didn't match pod anti-affinity rules"]


def test_anti_affinity_of_those_who_are_there_counts_too() -> None:
    placed = pod("p", on="a1", affinity=apart(term()))
    found = Cluster.from_objects([*NODES, placed]).explain(web("x"))
    assert found.feasible == ["b1", "none"]
    assert found.reasons["a2"] == ["node(s) didn't satisfy existing pods anti-affinity rules"]


def test_pods_being_deleted_count_for_affinity_but_not_for_spreading() -> None:
    leaving = web("w", on="a1", terminating=True)
    assert feasible([*NODES, leaving], pod("x", affinity=apart(term()))) == ["b1", "none"]
    assert feasible([*NODES, leaving], web("y", topologySpreadConstraints=constraint())) == ["a1", "a2", "b1"]


def test_a_term_speaks_of_its_own_namespace_unless_it_says_otherwise() -> None:
    objects = [
        *NODES,
        {"kind": "Namespace", "metadata": {"name": "prod", "labels": {"env": "prod"}}},
        web("w", on="a1", namespace="prod"),
    ]
    assert feasible(objects, pod("x", affinity=apart(term()))) == ["a1", "a2", "b1", "none"]
    for other in (
        {"namespaces": ["prod"]},
        {"namespaceSelector": {}},
        {"namespaceSelector": {"matchLabels": {"env": "prod"}}},
    ):
        assert feasible(objects, pod("x", affinity=apart(term(**other)))) == ["b1", "none"]


def test_a_namespace_selector_of_only_negatives_means_every_namespace_for_the_incoming_pod() -> None:
    negative = {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]}
    prod = {"kind": "Namespace", "metadata": {"name": "prod", "labels": {"env": "prod"}}}
    terms = apart(term(namespaceSelector=negative))
    objects = [*NODES, prod, web("w", on="a1", namespace="prod")]
    assert feasible(objects, pod("x", affinity=terms)) == ["b1", "none"]
    # For the terms of pods that are there already, the selector means what it says.
    objects = [*NODES, prod, pod("p", on="a1", affinity=terms)]
    assert feasible(objects, web("x", namespace="prod")) == ["a1", "a2", "b1", "none"]


def test_match_label_keys_narrow_a_term_to_the_pods_own_value() -> None:
    placed = pod("w", on="a1", labels={"app": "web", "rev": "1"})
    terms = apart(term(matchLabelKeys=["rev"]))
    assert feasible([*NODES, placed], pod("x", labels={"app": "web", "rev": "1"}, affinity=terms)) == [
        "b1",
        "none",
    ]
    assert len(feasible([*NODES, placed], pod("x", labels={"app": "web", "rev": "2"}, affinity=terms))) == 4
    terms = apart(term(mismatchLabelKeys=["rev"]))
    assert len(feasible([*NODES, placed], pod("x", labels={"app": "web", "rev": "1"}, affinity=terms))) == 4


def test_an_absent_selector_matches_nobody_and_an_empty_one_everybody() -> None:
    objects = [*NODES, pod("p", on="a1")]
    assert len(feasible(objects, pod("x", affinity=apart(term(selector=None))))) == 4
    assert feasible(objects, pod("x", affinity=apart(term(selector={})))) == ["b1", "none"]


def test_spreading_allows_only_the_emptiest_domains() -> None:
    found = Cluster.from_objects([*NODES, web("w", on="a1")]).explain(
        web("x", topologySpreadConstraints=constraint())
    )
    assert found.feasible == ["b1"]
    assert found.reasons["a1"] == ["node(s) didn't match pod topology spread constraints"]
    assert found.reasons["none"] == [
        "node(s) didn't match pod topology spread constraints (missing required label)"
    ]


def test_nodes_that_lack_any_of_the_keys_are_not_counted() -> None:
    objects = [zoned("a1", "a"), {**node("b1"), "metadata": {"name": "b1", "labels": {ZONE: "b"}}}]
    both = constraint() + constraint(HOST, labelSelector={"matchLabels": {"none": "x"}})
    # b1 has no hostname label, so that zone b does not exist and zone a may fill.
    objects += [web(f"w{index}", on="a1") for index in range(3)]
    assert feasible(objects, web("x", topologySpreadConstraints=both)) == ["a1"]


def test_with_fewer_domains_than_demanded_the_emptiest_has_none() -> None:
    objects = [zoned("a1", "a"), zoned("b1", "b"), web("w", on="a1"), web("v", on="b1")]
    assert feasible(objects, web("x", topologySpreadConstraints=constraint(minDomains=2))) == ["a1", "b1"]
    assert feasible(objects, web("x", topologySpreadConstraints=constraint(minDomains=3))) == []


def test_which_nodes_count_follows_the_node_policies() -> None:
    empty = zoned("c1", "c", taints=[{"key": "x", "effect": "NoSchedule"}], unschedulable=True)
    objects = [zoned("a1", "a"), zoned("b1", "b"), empty, web("w", on="a1"), web("v", on="b1")]
    # A zone where the pod cannot go still counts as the emptiest, unless taints are honoured.
    assert feasible(objects, web("x", topologySpreadConstraints=constraint())) == []
    honour = constraint(nodeTaintsPolicy="Honor")
    assert feasible(objects, web("x", topologySpreadConstraints=honour)) == ["a1", "b1"]
    selector = {"nodeSelector": {ZONE: "a"}}
    assert feasible(objects, web("x", topologySpreadConstraints=constraint(), **selector)) == ["a1"]
    ignore = constraint(nodeAffinityPolicy="Ignore")
    assert feasible(objects, web("x", topologySpreadConstraints=ignore, **selector)) == []


def test_an_empty_selector_counts_nobody_but_the_pod_itself() -> None:
    objects = [zoned("a1", "a"), zoned("b1", "b"), web("w", on="a1"), web("v", on="a1")]
    assert feasible(objects, web("x", topologySpreadConstraints=constraint(labelSelector={}))) == ["a1", "b1"]


def test_soft_constraints_refuse_nobody() -> None:
    objects = [zoned("a1", "a"), node("none"), web("w", on="a1"), web("v", on="a1")]
    soft = constraint(whenUnsatisfiable="ScheduleAnyway")
    assert feasible(objects, web("x", topologySpreadConstraints=soft)) == ["a1", "none"]


def test_an_exclusive_pod_wants_a_node_without_fairlead_pods() -> None:
    alone = {"annotations": {"fairlead.dev/capacity": "exclusive"}}
    daemon = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    objects = [
        *(node(name) for name in ("empty", "ours", "foreign", "daemon", "taken")),
        pod("o", on="ours"),
        pod("f", on="foreign", scheduler="default-scheduler"),
        pod("d", on="daemon", owner=daemon),
        pod("t", on="taken", **alone),
    ]
    cluster = Cluster.from_objects(objects)
    found = cluster.explain(pod("x", **alone))
    assert found.feasible == ["daemon", "empty", "foreign"]
    assert found.reasons == {
        "ours": ["node(s) were in use while the pod needs a node to itself"],
        "taken": ["node(s) were taken by a pod that has its node to itself"],
    }
    assert cluster.explain(pod("y")).feasible == ["daemon", "empty", "foreign", "ours"]
    assert cluster.explain(pod("z", owner=daemon)).feasible == ["daemon", "empty", "foreign", "ours", "taken"]


def test_a_whole_cluster_can_be_exclusive() -> None:
    objects = [node("n1"), node("n2"), pod("a", on="n1")]
    assert Cluster.from_objects(objects, capacity="exclusive").explain(pod("b")).feasible == ["n2"]
