"""The same stories behind every door of the embedded cluster, in virtual time: slots as the rule says."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from fairlead.policy.rule.split import Tiers
from support.placed import Door, Placed
from support.policies import ON_DEMAND, SPOT, policy
from support.worlds import history

QUICK = {"minPodAge": "1m", "perMinute": 2, "stabilize": "1m"}


@pytest.fixture(params=get_args(Door))
def door(request: pytest.FixtureRequest) -> Door:
    found: Door = request.param
    return found


def by_the_rule(number: int) -> dict[int, str]:
    """The slots of so many pods, with their tiers."""
    tiers = Tiers(policy().spec.tiers)
    found = {}
    for slot in range(1, number + 1):
        tier = tiers.of_slot(slot)
        assert tier is not None
        found[slot] = tiers.tiers[tier].name
    return found


def placed(door: Door, **more: Any) -> Placed:
    return Placed(policy(rebalance=QUICK, **more), door=door)


def test_each_slot_is_in_its_tier(door: Door) -> None:
    cluster = placed(door)
    cluster.deployment("web", 10)
    cluster.after(10)
    assert cluster.slots("web") == by_the_rule(10)


@pytest.mark.parametrize("numbers", [(20, 4, 11), (1, 30, 2)])
def test_at_every_quiet_point_of_scaling_the_slots_are_those_of_the_rule(
    door: Door, numbers: tuple[int, ...]
) -> None:
    cluster = placed(door)
    cluster.deployment("web", 10)
    cluster.after(10)
    for number in numbers:
        cluster.scale("web", number)
        cluster.after(30)
        assert cluster.slots("web") == by_the_rule(number)


def test_after_a_rollout_the_new_pods_are_split_as_the_old_ones_and_the_min_held_all_the_while(
    door: Door,
) -> None:
    cluster = placed(door)
    cluster.deployment("web", 10)
    cluster.after(10)
    least: list[int] = []
    cluster.world.store.subscribe(lambda _: least.append(cluster.split("web").get("on-demand", 0)))
    cluster.roll("web", "second")
    cluster.after(120)
    assert cluster.slots("web") == by_the_rule(10)
    assert min(least) >= 3


def test_a_tier_that_is_lost_is_left_at_once_and_pods_return_when_it_is_back(door: Door) -> None:
    cluster = placed(door, fallback={"after": "1h"})
    cluster.deployment("web", 10)
    cluster.after(10)
    cluster.lose("s1", "s2", "s3")
    cluster.after(90)  # until the cluster's garbage collection has missed the nodes
    assert cluster.split("web") == {"on-demand": 10}
    assert [tier for tier, _ in cluster.placement.marks["web"]] == ["spot"]
    cluster.add_node("s4", "spot")
    cluster.after(900)
    assert cluster.split("web") == {"on-demand": 3, "spot": 7}
    assert not list(cluster.placement.marks["web"])


def test_a_tier_without_room_passes_its_pods_on_after_a_while(door: Door) -> None:
    cluster = Placed(policy(fallback={"after": "2m"}), door=door, spot=1)
    cluster.deployment("web", 10, cpu="2")
    cluster.after(110)
    assert cluster.split("web") == {"": 3, "on-demand": 3, "spot": 4}
    cluster.after(60)
    assert cluster.split("web") == {"on-demand": 6, "spot": 4}
    assert [tier for tier, _ in cluster.placement.marks["web"]] == ["spot"]


def test_where_there_is_no_spot_a_probe_finds_out_when_there_is_some(door: Door) -> None:
    cluster = Placed(policy(fallback={"after": "1m", "coolDown": "2m"}, rebalance=QUICK), door=door, spot=0)
    cluster.deployment("web", 10)
    cluster.after(150)
    assert cluster.split("web") == {"on-demand": 10}
    cluster.add_node("s1", "spot")
    cluster.after(900)
    assert cluster.split("web") == {"on-demand": 3, "spot": 7}


def test_a_single_replica_stays_where_the_policy_wants_it(door: Door) -> None:
    cluster = Placed(policy("web", SPOT, {**ON_DEMAND, "min": 0}, singleReplica="on-demand"), door=door)
    cluster.deployment("one", 1)
    cluster.deployment("two", 2)
    cluster.after(10)
    assert cluster.split("one") == {"on-demand": 1}
    assert cluster.split("two") == {"spot": 2}


def test_pods_of_an_exclusive_tier_have_a_node_each(door: Door) -> None:
    alone = {"name": "alone", "nodes": {"capacity": "spot"}, "exclusive": True}
    cluster = Placed(policy("web", alone), door=door, on_demand=0)
    cluster.deployment("web", 3)
    cluster.after(10)
    assert {pod["spec"]["nodeName"] for pod in cluster.pods("web")} == {"s1", "s2", "s3"}
    cluster.scale("web", 4)
    cluster.after(30)
    assert cluster.split("web") == {"": 1, "spot": 3}
    cluster.add_node("s4", "spot")
    cluster.after(30)
    assert cluster.split("web") == {"spot": 4}


def test_a_steady_cluster_sees_no_writes(door: Door) -> None:
    cluster = placed(door)
    cluster.deployment("web", 10)
    cluster.after(120)
    before = cluster.world.store.rv
    cluster.after(3600)
    assert cluster.world.store.rv == before


def test_the_same_story_has_the_same_history(door: Door) -> None:
    def told() -> list[tuple[int, str, str, Any]]:
        cluster = placed(door)
        seen = history(cluster.world)
        cluster.deployment("web", 10)
        cluster.after(10)
        cluster.lose("s1", "s2", "s3")
        cluster.roll("web", "second")
        cluster.after(120)
        return seen

    assert told() == told()
