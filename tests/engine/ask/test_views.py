"""The cluster at one glance, how full nodes are, what they cost, workloads: counted over many pods."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from fairlead import Cluster
from fairlead.engine.ask.capacity import largest
from fairlead.engine.ask.cost import Price, prices_of_groups, read_prices
from fairlead.engine.ask.survey import summed_up
from fairlead.engine.ask.workloads import gang_view, workload_view
from fairlead.errors import BadInput
from fairlead.nodegroups import read_groups
from support.policies import plain_policy
from support.units import node, pod, workload

PRICE = "fairlead.dev/price-per-hour"


def owned(kind: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": name,
        "uid": f"uid-{kind}-{name}",
        "controller": True,
    }


# Fill


def test_a_node_is_as_full_as_its_pods_ask_for() -> None:
    things = [node("a", 4, "8Gi"), pod("x", 1, on="a", memory="2Gi"), pod("y", 1, on="a", phase="Succeeded")]
    (found,) = Cluster.from_objects(things).nodes()
    assert (found.pods, found.fill("cpu"), found.fill("memory")) == (1, 0.25, 0.25)
    assert found.to_dict()["free"]["cpu"] == "3"


def test_the_largest_pod_fits_on_the_node_with_most_left_that_takes_pods() -> None:
    things = [node("a", 4), node("b", 8), node("c", 16, unschedulable=True), pod("x", 7, on="b")]
    found = largest(Cluster.from_objects(things).nodes(), "cpu")
    assert found is not None
    assert (found.name, found.free("cpu")) == ("a", 4000)


def test_nodes_know_their_group_by_whichever_label_says_it() -> None:
    labels = [{"fairlead.dev/node-group": "g"}, {"karpenter.sh/nodepool": "p"}, {}]
    things = [node(f"n{number}", labels=more) for number, more in enumerate(labels)]
    assert [one.group for one in Cluster.from_objects(things).nodes()] == ["g", "p", ""]


# At one glance


def test_pods_that_wait_are_summed_up_by_reason_with_the_oldest() -> None:
    things = [
        node("n", 1),
        pod("a", 2, created=5),
        pod("b", 4, created=3),
        pod("c", schedulingGates=[{"name": "g"}]),
    ]
    cluster = Cluster.from_objects(things)
    resources, gate = cluster.survey().waiting
    assert (resources.kind, resources.pods, resources.examples) == (
        "NodeResourcesFit",
        2,
        ("default/b", "default/a"),
    )
    assert resources.oldest == cluster.pods["default/b"].metadata.creation_timestamp.timestamp()  # type: ignore[union-attr]
    assert (gate.kind, gate.pods) == ("gate", 1)


def test_a_policy_is_shown_as_it_should_be_and_as_it_is() -> None:
    split = plain_policy(
        "web",
        {"name": "spot", "nodes": {"kind": "spot"}, "max": 1},
        {"name": "firm", "nodes": {"kind": "firm"}},
        groupBy="policy",
    )
    spot, firm = (node(name, labels={"kind": name}) for name in ("spot", "firm"))
    things = [split, spot, firm, pod("a", on="spot"), pod("b", on="spot"), pod("c", on="firm")]
    (found,) = Cluster.from_objects(things).survey().policies
    assert [(name, desired, actual) for name, desired, actual, _, _ in found.tiers] == [
        ("spot", 1, 2),
        ("firm", 2, 1),
    ]
    assert found.misplaced == 1
    assert [fill.nodes for *_, fill in found.tiers] == [1, 1]


def test_pods_on_their_way_out_by_a_decision_are_shown() -> None:
    going = pod("x", on="n", terminating=True)
    going["status"]["conditions"] = [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "evicted",
        }
    ]
    found = Cluster.from_objects([node("n"), going, pod("y", on="n", terminating=True)]).survey()
    assert [(one.pod, one.what) for one in found.moving] == [("default/x", "leaves n: evicted")]


def test_the_last_decisions_are_the_last_pods_to_be_placed() -> None:
    pods = [pod(f"p{number:02}", 0, on="n") for number in range(12)]
    for number, each in enumerate(pods):
        each["status"]["conditions"] = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": f"2026-01-01T00:00:{number:02}Z"}
        ]
    found = Cluster.from_objects([node("n"), *pods]).survey().decisions
    assert [one.pod for one in found] == [f"default/p{number:02}" for number in range(11, 1, -1)]


def test_trouble_that_does_not_pass_is_warned_of_with_its_cure() -> None:
    things = [node("n"), pod("x", scheduler="fairlaed"), pod("y", scheduler="fairlaed")]
    (warning,) = Cluster.from_objects(things).survey().warnings
    assert warning.startswith("default/x: no scheduler answers to the name fairlaed")
    assert warning.endswith("set schedulerName to one that runs, in the template of the pods")


def test_summing_up_nothing_gives_nothing() -> None:
    assert summed_up([]) == []


# Workloads and gangs


def test_a_deployment_is_explained_by_its_replica_sets_pods() -> None:
    made = workload("Deployment", "web", replicas=3)
    replica_set = workload("ReplicaSet", "web-1", replicas=3, owner=owned("Deployment", "web"))
    mine = owned("ReplicaSet", "web-1")
    things = [node("n", 1), made, replica_set, pod("web-1-a", on="n", owner=mine), pod("web-1-b", owner=mine)]
    found = workload_view(Cluster.from_objects(things).asked, "Deployment", "default/web")
    assert (found.desired, found.placed, found.pending) == (3, 1, 1)
    assert found.headline == (
        "Deployment default/web: 1 of 3 pods have a node: "
        "web-1-b: 0/1 nodes are available: 1 Insufficient cpu."
    )


def test_pods_that_could_not_be_created_are_the_first_thing_said() -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "ReplicaSet", "namespace": "default", "name": "web-1"},
        "reason": "FailedCreate",
        "message": 'Error creating: pods "web-1-x" is forbidden: exceeded quota: none',
    }
    made = workload("Deployment", "web", replicas=2)
    replica_set = workload("ReplicaSet", "web-1", replicas=2, owner=owned("Deployment", "web"))
    found = workload_view(
        Cluster.from_objects([node("n"), made, replica_set, event]).asked, "Deployment", "default/web"
    )
    assert found.headline == (
        "Deployment default/web: 0 of 2 pods have a node: 2 could not be created: "
        'pods "web-1-x" is forbidden: exceeded quota: none'
    )


def test_an_unknown_workload_or_gang_is_answered_with_its_likes() -> None:
    asked = Cluster.from_objects([workload("Deployment", "web"), pod("x", gang="train", minimum=2)]).asked
    with pytest.raises(BadInput, match="Deployment default/wed is not in the cluster; there is default/web"):
        workload_view(asked, "Deployment", "default/wed")
    with pytest.raises(BadInput, match="gang default/trian is not in the cluster; there is default/train"):
        gang_view(asked, "default/trian")


# Cost


def test_a_price_is_shared_half_by_cpu_and_half_by_memory_and_the_rest_is_idle() -> None:
    things = [
        node("n", 4, "8Gi", labels={PRICE: "1"}),
        pod("x", 1, on="n", memory="4Gi", namespace="shop"),
        pod("y", 1, on="n", namespace="ml"),
    ]
    found = Cluster.from_objects(things).cost()
    assert {line.name: line.per_hour for line in found.by["namespace"]} == {"shop": 0.375, "ml": 0.125}
    assert (found.per_hour, found.idle) == (1.0, 0.5)


def test_an_overcommitted_node_costs_no_more_than_its_price() -> None:
    things = [
        node("n", 1, "1Gi", labels={PRICE: "1"}),
        *(pod(name, 1, on="n", memory="1Gi") for name in "xy"),
    ]
    found = Cluster.from_objects(things).cost()
    assert [line.per_hour for line in found.by["workload"]] == [0.5, 0.5]
    assert found.idle == 0.0


def test_a_nodes_label_wins_over_prices_and_the_first_that_matches_over_others() -> None:
    prices = [Price({"size": "l"}, Decimal(2)), Price({"kind": "x"}, Decimal(3))]
    things = [
        node("label", labels={PRICE: "1", "size": "l"}),
        node("first", labels={"size": "l", "kind": "x"}),
        node("second", labels={"kind": "x"}),
        node("wrong", labels={PRICE: "cheap", "kind": "x"}),
        node("none"),
    ]
    found = Cluster.from_objects(things).cost(prices)
    assert (found.per_hour, found.unpriced) == (1 + 2 + 3 + 3, ("none",))


def test_node_groups_say_prices_of_their_nodes() -> None:
    groups = read_groups(
        [{"name": "g", "instanceTypes": [{"name": "m5", "capacity": {"cpu": "4"}, "pricePerHour": "0.5"}]}]
    )
    labels = {"fairlead.dev/node-group": "g"}
    assert Cluster.from_objects([node("n", labels=labels)]).cost(prices_of_groups(groups)).per_hour == 0.5


def test_what_a_policy_saves_is_against_its_other_tiers() -> None:
    split = plain_policy(
        "web",
        {"name": "spot", "nodes": {"kind": "spot"}, "volatile": True},
        {"name": "firm", "nodes": {"kind": "firm"}, "min": 1},
        groupBy="policy",
    )
    things = [
        split,
        node("spot", 4, "4Gi", labels={"kind": "spot", PRICE: "1"}),
        node("firm", 4, "4Gi", labels={"kind": "firm", PRICE: "3"}),
        pod("a", 2, on="spot", memory="2Gi"),
        pod("b", 2, on="firm", memory="2Gi"),
    ]
    (saving,) = Cluster.from_objects(things).cost().savings
    assert (saving.policy, saving.per_hour, saving.pods) == ("web", 1.0, 1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"prices": 5}, "prices: is not a list"),
        ({"prices": [{"pricePerHour": "1"}]}, r"prices\[0\]: labels: say which nodes it is for"),
        ({"prices": [{"labels": {"a": "b"}, "pricePerHour": "dear"}]}, "'dear' is not a price"),
        ({"labels": {"a": "b"}, "pricePerHour": -1}, "-1 is not a price"),
    ],
)
def test_prices_that_make_no_sense_are_named(data: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read_prices([data], "prices.yaml")
