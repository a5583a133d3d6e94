"""A pod tries a tier for all others as long as somebody tries to place it; else others get their turn."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.engine.core.events import MarksAre, PoliciesAre
from fairlead.engine.planning.settings import Settings
from fairlead.policy.tiers.marks import PROBE_S, Marks
from support.cluster_of import Running
from support.pictured import NOW, Picture, unschedulable
from support.policies import policy
from support.units import EPOCH, node, pod, workload

AB = tuple({"name": tier, "nodes": {"tier": tier}} for tier in "ab")


def trying(pending: dict[str, Any], picture: Picture) -> Picture:
    """A pod that goes by ``token-web-4`` was made just now to try spot, after its cool-down."""
    picture.deployment(4).failed("spot", ago=120)
    picture.add(*(picture.web(f"web-{number}", "d1", slot=number) for number in (1, 2, 3)), pending)
    claimed = picture.marks.claim_probe("spot", "token-web-4", EPOCH.timestamp() + NOW)
    assert claimed is not None
    picture.marks = claimed
    return picture


def until(picture: Picture, time: float) -> Picture:
    """A pass a minute until then."""
    while picture.now < time:
        picture.now = min(picture.now + 60, time)
        picture.fall_back()
    return picture


def may_probe(picture: Picture) -> bool:
    return picture.marks.may_probe("spot", EPOCH.timestamp() + picture.now)


def test_a_pod_with_a_scheduling_gate_does_not_keep_others_from_trying_a_tier_for_ever() -> None:
    picture = Picture()
    gated = picture.web("web-4", tier="spot", slot=4, created=NOW)
    gated["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    trying(unschedulable(gated, NOW, "SchedulingGated"), picture)
    until(picture, NOW + PROBE_S)
    assert may_probe(picture)
    assert picture.move().probe


def test_a_pod_that_nobody_has_tried_to_place_yet_has_its_time_to_try() -> None:
    picture = Picture()
    trying(picture.web("web-4", tier="spot", slot=4, created=NOW), picture)
    assert not may_probe(until(picture, NOW + PROBE_S - 1))


def test_a_probe_of_our_own_scheduler_s_is_neither_renewed_nor_ended_by_the_rebalancer() -> None:
    picture = Picture()
    ours = picture.web("web-4", tier="spot", slot=4, created=NOW, scheduler="fairlead")
    before = trying(unschedulable(ours, NOW), picture).marks
    assert until(picture, NOW + PROBE_S - 1).marks is before


@pytest.mark.parametrize(("bound", "ends"), [(NOW - 61, False), (NOW - 60, True), (NOW, True)])
def test_a_pod_that_got_a_place_after_the_cool_down_ends_the_mark_whoever_tries(
    bound: float, ends: bool
) -> None:
    picture = Picture()
    trying(unschedulable(picture.web("web-4", tier="spot", slot=4, created=NOW), NOW), picture)
    picture.fall_back()
    assert picture.marks.get("spot") is not None, "the pod that tries has no node yet"
    picture.add(picture.web("web-5", "s1", slot=5, bound=bound))
    picture.fall_back()
    assert (picture.marks.get("spot") is None) is ends


def test_a_pod_that_fits_into_a_tier_that_cools_down_does_not_end_the_mark() -> None:
    picture = Picture().deployment(2).failed("spot", ago=30)
    picture.add(picture.web("web-1", "d1"), picture.web("web-2", "s1", bound=NOW))
    picture.fall_back()
    assert picture.marks.get("spot") is not None
    picture.now += 60
    picture.fall_back()
    assert picture.marks.get("spot") is not None, "it came before the cool-down was over"


def test_a_pod_bound_by_a_clock_that_was_hours_ahead_ends_no_mark() -> None:
    picture = Picture().deployment(2).failed("spot", ago=120)
    picture.add(picture.web("web-1", "d1"), picture.web("web-2", "s1", bound=NOW + 7200))
    picture.fall_back()
    assert picture.marks.get("spot") is not None


def test_a_pod_on_a_node_that_takes_no_more_pods_does_not_open_its_tier() -> None:
    picture = Picture().deployment(2)
    picture.fall_back()
    picture.add(*(picture.spot(name, unschedulable=True) for name in ("s1", "s2")))
    picture.fall_back()
    picture.now += 120
    picture.add(picture.web("web-1", "d1"), picture.web("web-2", "s1", bound=picture.now))
    picture.fall_back()
    assert picture.marks.get("spot") is not None


class TestGangsThatAreNotWhole:
    """Nobody tries to place their pods, so they must not be the ones to try a tier."""

    def world(self) -> Running:
        world = Running(Settings())
        world.now = 1000.0
        world.tell(PoliciesAre((policy("ab", *AB, match={"labels": {"app": "x"}}),)))
        world.add(node("node-a", cpu=1, labels={"tier": "a"}), node("node-b", cpu=8, labels={"tier": "b"}))
        over = Marks(60).failed("a", EPOCH.timestamp() + world.now - 100)
        world.settle(world.tell(MarksAre("ab", dict(over))))
        for number in (1, 2):
            world.add(pod(f"g{number}", cpu=1, gang="g", minimum=3, labels={"app": "x"}, created=990))
        return world

    def test_another_pod_tries(self) -> None:
        world = self.world()
        owner = {"kind": "ReplicaSet", "name": "web", "uid": "uid-ReplicaSet-web", "controller": True}
        owned = pod("web", cpu=1, labels={"app": "x"}, owner=owner)
        world.add(workload("ReplicaSet", "web", replicas=1), owned)
        assert world.bound == {"default/web": "node-a"}

    def test_once_it_is_whole_one_of_them_tries(self) -> None:
        world = self.world()
        world.add(pod("g3", cpu=1, gang="g", minimum=3, labels={"app": "x"}, created=990))
        assert sorted(world.bound.values()) == ["node-a", "node-b", "node-b"]


def test_a_pod_that_is_alone_in_its_group_is_there_to_try_a_tier() -> None:
    picture = Picture()
    picture.add(pod("bare", created=NOW)).failed("spot", ago=120)
    claimed = picture.marks.claim_probe("spot", "uid-default-bare", EPOCH.timestamp() + NOW)
    assert claimed is not None
    picture.marks = claimed
    assert not may_probe(until(picture, NOW + PROBE_S - 1))
