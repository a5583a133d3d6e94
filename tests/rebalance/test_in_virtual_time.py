"""Hours of placement in virtual time: spot lost and back, scale-downs, oscillation, from nothing."""

from __future__ import annotations

import itertools
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.engine.rebalance.rebalance import Move
from fairlead.policy.rule.split import Tiers
from fairlead.world.autoscaler import Pacing
from fairlead.world.schema.resources import PODS
from fairlead.world.spot import Supply
from fairlead.world.store import Change
from support.placed import Door, Placed
from support.policies import ON_DEMAND, SPOT, policy
from support.worlds import group, seconds

QUICK = {"minPodAge": "1m", "perMinute": 2, "stabilize": "1m"}
SAFE = {**ON_DEMAND, "min": "pdb"}


def lost(**more: object) -> Placed:
    """Ten pods of which those on spot have just gone with their nodes."""
    cluster = Placed(policy(rebalance=QUICK, **more))
    cluster.deployment("web", 10)
    cluster.after(10)
    cluster.lose("s1", "s2", "s3")
    return cluster


def test_a_deployment_of_ten_is_split_by_the_rule() -> None:
    cluster = Placed(policy())
    cluster.deployment("web", 10)
    cluster.after(10)
    assert cluster.split("web") == {"on-demand": 3, "spot": 7}


def test_pods_made_after_a_scale_down_take_the_slots_of_those_that_went() -> None:
    cluster = Placed(policy())
    cluster.deployment("web", 10)
    cluster.after(10)
    cluster.scale("web", 5)
    cluster.after(10)  # the last pod that was admitted is gone before another asks
    cluster.scale("web", 10)
    cluster.after(10)
    assert cluster.split("web") == {"on-demand": 3, "spot": 7}


def test_pods_of_lost_spot_nodes_go_to_on_demand_at_once() -> None:
    cluster = lost(fallback={"after": "1h"})
    cluster.after(90)  # until the cluster's garbage collection has missed the nodes
    assert cluster.split("web") == {"on-demand": 10}


def test_pods_come_back_when_a_spot_node_does_one_at_a_time_and_never_below_the_budget() -> None:
    cluster = lost()
    cluster.budget("web", 9)
    cluster.after(300)
    cluster.add_node("s4", "spot")
    cluster.watch("web")
    cluster.after(600)
    assert cluster.split("web") == {"on-demand": 3, "spot": 7}
    assert cluster.least_ready["web"] == 9


def test_a_budget_that_allows_nothing_keeps_pods_where_they_are() -> None:
    cluster = lost()
    cluster.after(90)
    cluster.budget("web", 10)
    cluster.add_node("s4", "spot")
    cluster.after(600)
    assert cluster.split("web") == {"on-demand": 10}
    assert not cluster.placement.moves
    assert "PodDisruptionBudget web does not let" in cluster.placement.waits[0].reason


def test_with_a_min_of_its_budget_losing_every_spot_node_interrupts_nothing() -> None:
    cluster = Placed(policy("web", SPOT, SAFE, rebalance=QUICK))
    cluster.budget("web", 6)
    cluster.deployment("web", 10)
    cluster.after(20)
    assert cluster.split("web") == {"on-demand": 6, "spot": 4}
    cluster.watch("web")
    cluster.lose("s1", "s2", "s3")
    cluster.after(120)
    cluster.add_node("s4", "spot")
    cluster.after(600)
    assert cluster.split("web") == {"on-demand": 6, "spot": 4}
    assert cluster.least_ready["web"] >= 6


def test_cordoned_spot_nodes_are_an_interruption_before_they_are_gone() -> None:
    cluster = Placed(policy(rebalance=QUICK, fallback={"after": "1h"}))
    cluster.deployment("web", 10)
    cluster.after(10)
    cluster.cordon("s1", "s2", "s3")
    cluster.after(2)
    cluster.scale("web", 20)
    cluster.after(10)
    assert cluster.split("web") == {"on-demand": 13, "spot": 7}
    cluster.cordon("s1", "s2", "s3", undo=True)
    cluster.after(900)
    assert cluster.split("web") == {"on-demand": 6, "spot": 14}


def test_a_workload_that_spot_could_never_take_goes_elsewhere_and_does_not_close_it_for_others() -> None:
    cluster = Placed(policy(fallback={"after": "2m"}))
    cluster.deployment("picky", 4, nodeSelector={"capacity": "on-demand"})
    cluster.deployment("large", 4, cpu="9")
    cluster.after(600)
    assert cluster.split("picky") == {"on-demand": 4}
    assert cluster.split("large") == {"": 4}
    assert not list(cluster.placement.marks["web"])
    assert not cluster.placement.done, "what no tier would take is not deleted again and again"
    cluster.deployment("web", 10)
    cluster.after(20)
    assert cluster.split("web") == {"on-demand": 3, "spot": 7}


def test_a_marked_tier_still_takes_pods_that_fit_there_now() -> None:
    cluster = Placed(policy(fallback={"after": "2m", "coolDown": "30m"}), spot=1)
    cluster.deployment("large", 5, cpu="3")
    cluster.after(300)
    assert [tier for tier, _ in cluster.placement.marks["web"]] == ["spot"]
    cluster.deployment("small", 10)
    cluster.after(20)
    small = cluster.split("small")
    assert small["spot"] > small["on-demand"] >= 3


def test_where_no_spot_can_be_had_pods_go_on_demand_after_a_while() -> None:
    cluster = Placed(policy(fallback={"after": "2m"}), spot=0)
    cluster.deployment("web", 10)
    cluster.after(119)
    assert cluster.split("web") == {"": 7, "on-demand": 3}
    cluster.after(10)
    assert cluster.split("web") == {"on-demand": 10}


def test_a_min_does_not_fall_back() -> None:
    cluster = Placed(policy(fallback={"after": "10s"}), on_demand=0)
    cluster.deployment("web", 10)
    cluster.after(600)
    assert cluster.split("web") == {"": 3, "spot": 7}


def test_a_min_whose_tier_says_so_does_fall_back() -> None:
    generous = {**ON_DEMAND, "fallback": True}
    cluster = Placed(policy("web", SPOT, generous, fallback={"after": "10s"}), on_demand=0)
    cluster.deployment("web", 10)
    cluster.after(60)
    assert cluster.split("web") == {"spot": 10}


def test_probes_find_out_when_spot_can_be_had_again_and_pods_return() -> None:
    pools = [group("spot", cpu=8, max=3, labels={"capacity": "spot"}, bootS=20.0)]
    cluster = Placed(policy(rebalance=QUICK), spot=0, groups=pools, autoscaler=Pacing(provision=seconds(120)))
    cluster.world.spot.follow(
        "spot", [Supply(seconds(0), 0), Supply(seconds(3600), 3)], cluster.world.clock.now()
    )
    cluster.deployment("web", 10)
    cluster.after(3500)
    assert cluster.split("web") == {"on-demand": 10}
    probes = [one for one in cluster.placement.moves if isinstance(one.what, Move) and one.what.probe]
    gaps = [later.at - sooner.at for sooner, later in itertools.pairwise(probes)]
    assert 3 <= len(probes) <= 8
    assert gaps == sorted(gaps), "each failed probe is followed by a longer wait"
    cluster.after(5400)
    assert cluster.split("web") == {"on-demand": 3, "spot": 7}


def test_pods_return_from_burst_to_base_when_there_is_room() -> None:
    base = {"name": "base", "nodes": {"capacity": "on-demand"}, "max": 10}
    burst = {"name": "burst", "nodes": {"capacity": "spot"}}
    cluster = Placed(policy("burst", base, burst, groupBy="policy", rebalance=QUICK))
    cluster.deployment("one", 10)
    cluster.after(5)
    cluster.deployment("two", 10)
    cluster.after(5)
    assert cluster.split("one") == {"on-demand": 10}
    assert cluster.split("two") == {"spot": 10}
    cluster.scale("one", 4)
    cluster.watch("two")
    cluster.after(900)
    assert cluster.split("one") == {"on-demand": 4}
    assert cluster.split("two") == {"on-demand": 6, "spot": 4}
    assert cluster.least_ready["two"] == 9, "one at a time"


def test_a_steady_cluster_sees_no_moves() -> None:
    cluster = Placed(policy(rebalance=QUICK))
    cluster.deployment("web", 10)
    cluster.deployment("one", 1)
    cluster.after(7200)
    assert not cluster.placement.done


@pytest.mark.slow
def test_autoscaling_and_an_oscillating_number_make_a_bounded_number_of_moves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two hours of a Deployment that swings every seven minutes over nodes that come and go."""
    pools = [
        group("spot", cpu=2, max=8, labels={"capacity": "spot"}, bootS=40.0, volatile=True),
        group("on-demand", cpu=2, max=8, min=1, labels={"capacity": "on-demand"}, bootS=40.0),
    ]
    cluster = Placed(
        policy(), spot=0, on_demand=0, groups=pools,
        autoscaler=Pacing(unneeded=seconds(120), after_add=seconds(60)),
    )  # fmt: skip
    taken = [Supply(seconds(at), 0 if odd % 2 else 8) for odd, at in enumerate(range(0, 7200, 1000))]
    cluster.world.spot.follow("spot", taken, cluster.world.clock.now())
    cluster.deployment("web", 10, cpu="500m")
    for turn in range(17):
        cluster.after(420)
        cluster.scale("web", 20 if turn % 2 == 0 else 8)
    cluster.after(3600)
    moves = len(cluster.placement.moves)
    passed_on = len(cluster.placement.done) - moves
    with capsys.disabled():
        said = f"{moves} moves and {passed_on} pods passed on in 3 h of oscillation and scale-down"
        sys.stdout.write(f"\n{said}\n")
    # At most two a minute, and only in the quiet two minutes of each swing and in the hour after.
    assert moves <= 17 * 2 * 2 + 20
    assert passed_on <= 17 * 20
    assert not cluster.placement.waits or "tier spot" in cluster.placement.waits[0].reason


SWINGS = st.lists(
    st.tuples(st.sampled_from(["scale", "lose", "bring", "cordon", "wait"]), st.integers(1, 20)),
    min_size=3,
    max_size=10,
)


@pytest.mark.parametrize(
    "door",
    ["webhook", *(pytest.param(door, marks=pytest.mark.slow) for door in ("extender", "scheduler"))],
)
@given(SWINGS)
@settings(max_examples=15)
def test_whatever_happens_nobody_is_moved_below_a_budget_and_all_comes_to_rest(
    door: Door, swings: list[tuple[str, int]]
) -> None:
    cluster = Placed(policy("web", SPOT, SAFE, rebalance=QUICK), door=door, spot=2, on_demand=2, cpu=16)
    cluster.deployment("web", 8)
    cluster.budget("web", "50%")
    cluster.after(60)
    number, replicas = 2, 8
    for what, size in swings:
        spot = [one["metadata"]["name"] for one in cluster.nodes() if one["metadata"]["name"].startswith("s")]
        match what:
            case "scale":
                cluster.scale("web", size)
                replicas = size
            case "lose":
                cluster.lose(*spot[:size])
            case "bring":
                number += 1
                cluster.add_node(f"s{number}", "spot")
            case "cordon":
                cluster.cordon(*spot[:size], undo=size % 2 == 0)
        cluster.after(size * 7.0)
    for name in [one["metadata"]["name"] for one in cluster.nodes()]:
        cluster.cordon(name, undo=True)
    cluster.add_node("s99", "spot")
    cluster.after(120)
    cluster.watch("web")
    cluster.after(3600)
    safe = -(-replicas // 2)
    wanted = {"on-demand": safe, "spot": replicas - safe}
    assert cluster.split("web") == {tier: pods for tier, pods in wanted.items() if pods}
    assert cluster.least_ready["web"] >= min(safe, replicas)
    before = len(cluster.placement.done)
    cluster.after(3600)
    assert len(cluster.placement.done) == before, "it never comes to rest"


SHARED = st.lists(
    st.tuples(
        st.sampled_from(["scale", "roll", "remake", "lose", "bring", "wait"]),
        st.sampled_from(["web", "app"]),
        st.integers(0, 12),
    ),
    min_size=3,
    max_size=12,
)


@pytest.mark.slow
@given(SHARED, st.integers(0, 3))
@settings(max_examples=15)
def test_whatever_happens_two_workloads_have_on_spot_what_their_budget_lets_go(
    swings: list[tuple[str, str, int]], allowed: int
) -> None:
    cluster = Placed(policy("web", SPOT, SAFE, rebalance=QUICK), spot=2, on_demand=3, cpu=16)
    cluster.protect("shop", {"team": "shop"}, maxUnavailable=allowed)
    replicas = {"web": 6, "app": 4}
    for name, number in replicas.items():
        cluster.deployment(name, number, team="shop")
    most: list[int] = [0]

    def watch(change: Change) -> None:
        if change.resource == PODS and change.object["spec"].get("nodeName", "").startswith("s"):
            splits = [cluster.split(name) for name in replicas]
            # While a rollout makes more pods than are wanted, so many may be lost beside.
            more = sum(sum(split.values()) for split in splits) - sum(replicas.values())
            most.append(sum(split.get("spot", 0) for split in splits) - max(0, more))

    cluster.world.store.subscribe(watch)
    cluster.after(60)
    nodes = 2
    for what, name, size in swings:
        match what:
            case "scale":
                cluster.scale(name, size)
                replicas[name] = size
            case "roll":
                version = {"metadata": {"labels": {"v": str(size)}}}
                cluster.world.patch("Deployment", name, {"spec": {"template": version}})
            case "remake":
                cluster.world.delete("Deployment", name)
                cluster.after(5)
                cluster.deployment(name, replicas[name], team="shop")
            case "lose":
                names = [one["metadata"]["name"] for one in cluster.nodes()]
                cluster.lose(*(one for one in names if one.startswith("s")))
            case "bring":
                nodes += 1
                cluster.add_node(f"s{nodes}", "spot")
        cluster.after(1 + size * 7.0)
        assert max(most) <= allowed
    cluster.after(600)
    assert max(most) <= allowed
    pods = {name: sum(cluster.split(name).values()) for name in replicas}
    assert pods == replicas


JUMPY = [
    {"name": "spot", "nodes": {"capacity": "spot"}, "max": "20%"},
    {"name": "on-demand", "nodes": {"capacity": "on-demand"}, "max": "20%"},
]


@pytest.mark.parametrize("replicas", range(1, 12))
def test_where_the_rule_is_not_nested_the_split_is_mended(replicas: int) -> None:
    """From four to five pods both maxes grow by one: no order of slots has both."""
    used = policy("web", *JUMPY, {"name": "rest", "nodes": {"capacity": "other"}}, rebalance=QUICK)
    cluster = Placed(used, spot=1, on_demand=1)
    cluster.add_node("o1", "other")
    cluster.deployment("web", 3)
    cluster.after(10)
    cluster.scale("web", replicas)
    cluster.after(1200)
    wanted = dict(zip(("spot", "on-demand", "other"), Tiers(used.spec.tiers).split(replicas), strict=True))
    assert cluster.split("web") == {tier: pods for tier, pods in sorted(wanted.items()) if pods}
    before = len(cluster.placement.done)
    cluster.after(3600)
    assert len(cluster.placement.done) == before
