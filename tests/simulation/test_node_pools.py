"""Karpenter's NodePools as node groups: what each may bring is told by the nodes that it has brought."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.simulation.changes import Scale
from fairlead.simulation.contents import Contents
from fairlead.simulation.node_pools import groups_of_pools
from fairlead.simulation.whatif import Question, play
from fairlead.world.world import World
from support.manifests import deployment
from support.worlds import Obj, asking, node, seconds

ZONE, TYPE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"
CAPACITY_TYPE = "karpenter.sh/capacity-type"


def pool(name: str = "general", limits: Obj | None = None, taints: list[Obj] | None = None) -> Obj:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"taints": taints or []}}, **({"limits": limits} if limits else {})},
    }


def machine(name: str, cpu: int = 4, pool: str = "general", **labels: str) -> Obj:
    return node(name, cpu=cpu, labels={"karpenter.sh/nodepool": pool, **labels})


def test_a_pool_brings_nodes_of_its_most_frequent_shape_in_its_zones() -> None:
    there = [
        machine("a", 4, **{TYPE: "m5.xlarge", ZONE: "a"}),
        machine("b", 8, **{TYPE: "m5.2xlarge", ZONE: "b", CAPACITY_TYPE: "spot"}),
        machine("c", 8, **{TYPE: "m5.2xlarge", ZONE: "b", CAPACITY_TYPE: "spot"}),
    ]
    taint = {"key": "team", "value": "x", "effect": "NoSchedule"}
    (group,) = groups_of_pools([pool(taints=[taint]), *there]).groups
    assert (group.name, group.desired, group.zones, group.volatile) == ("general", 3, ("a", "b"), True)
    assert (group.instance_type.name, group.instance_type.capacity["cpu"]) == ("m5.2xlarge", "8")
    assert [(one.key, one.effect) for one in group.taints] == [("team", "NoSchedule")]
    assert "kubernetes.io/hostname" not in group.labels
    assert group.labels["karpenter.sh/nodepool"] == "general"


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ({"nodes": "5"}, 5),
        ({"cpu": "21"}, 5),
        ({"cpu": "40", "nodes": "3"}, 3),
        ({"cpu": "1"}, 2),
        ({"example.com/gpu": "1", "nodes": "4"}, 4),
    ],
)
def test_a_pool_keeps_to_its_limits(limits: Obj, most: int) -> None:
    (group,) = groups_of_pools([pool(limits=limits), machine("a"), machine("b")]).groups
    assert group.max == most


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (pool("empty"), "NodePool empty: no node of it shows what it would bring, so it brings none"),
        (pool(limits={"cpu": "many"}), "NodePool general: it brings no nodes: "),
    ],
)
def test_a_pool_that_brings_nothing_says_why(given: Obj, why: str) -> None:
    found = groups_of_pools([given, machine("a")])
    assert found.groups == ()
    (said,) = found.left_out
    assert said.startswith(why)


def test_other_kinds_of_that_name_are_no_pools() -> None:
    assert groups_of_pools([{**pool(), "apiVersion": "example.com/v1"}, machine("a")]).groups == ()


@pytest.mark.parametrize(("limits", "placed"), [({}, 9), ({"nodes": "2"}, 8)])
def test_what_does_not_fit_is_brought_nodes_by_the_pools(limits: Obj, placed: int) -> None:
    cluster = with_pool(pool(limits=limits), machine("a"), deployment("web", 4, pods=asking("1")))
    found = play(cluster, Question([Scale("default", "", "web", 9)]))
    assert (found.placed, found.pending) == (placed, 9 - placed)


def with_pool(given: Obj, *objects: Obj) -> Contents:
    world = World()
    for one in objects:
        world.create(one)
    world.run_until(seconds(30))
    found: list[Any] = [item for resource in world.store.resources() for item in world.store.list(resource)]
    at = world.clock.now()
    world.close()
    return Contents((*found, given), at, groups=groups_of_pools([*found, given]).groups)
