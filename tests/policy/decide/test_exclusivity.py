"""Exclusive tiers without a webhook: one governed pod per node, though no outcome was seen yet."""

from __future__ import annotations

from typing import Any

from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.policy.decide.filter.filter_state import FilterAnswer, FilterRequest, FilterState
from fairlead.policy.decide.filter.waiting_pod import RetryHints
from fairlead.policy.groups.member import GroupKey, Place
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Demand, Tiers
from fairlead.policy.tiers.tier_nodes import NodesOfTiers
from support.members import a_deployment, member
from support.policies import policy

TENANTS = {"name": "tenants", "nodes": {"capacity": "tenant"}, "exclusive": True}
SHARED = {"name": "shared", "nodes": {"capacity": "shared"}}
NODES = {"t1": "tenant", "t2": "tenant", "t3": "tenant", "s1": "shared", "s2": "shared"}


class Scene:
    """Three nodes of an exclusive tier and two of another; policies over them, and a clock."""

    def __init__(self, *governing: PlacementPolicy) -> None:
        self.policies = {one.name: one for one in governing}
        self.nodes = NodesOfTiers()
        self.nodes.use(governing)
        for number, (name, capacity) in enumerate(NODES.items()):
            labels = {"capacity": capacity, "zone": "ab"[number % 2]}
            self.nodes.put(convert({"metadata": {"name": name, "labels": labels}}, Node))
        self.state = FilterState(self.nodes)
        self.state.retry_hints = RetryHints()
        self.now = 0.0

    def key(self, name: str) -> GroupKey:
        return GroupKey(name, "default", f"Deployment/{name}")

    def ask(self, pod: str, by: str = "alone") -> FilterRequest:
        own = self.policies[by]
        place = Place(own, a_deployment(10), self.key(by))
        return FilterRequest(member(pod), "default", place, Tiers(own.spec.tiers, Demand()))

    def filter(self, pod: str, by: str = "alone", offered: tuple[str, ...] = tuple(NODES)) -> FilterAnswer:
        return self.state.filter(self.ask(pod, by), offered, self.now)

    def bound(self, pod: str, node: str, by: str = "alone", **more: Any) -> None:
        tier = {"tenant": "tenants", "shared": "shared"}[NODES[node]] if by == "alone" else by
        self.state.shown(self.key(by), member(pod, tier=tier, **more), node)

    def gone(self, pod: str, by: str = "alone") -> None:
        self.state.left(self.key(by), member(pod), gone=True)

    def outdated(self) -> list[str]:
        """Who is to ask again because room was made; each is made to."""
        self.state.tidy(self.now)
        found = [one for one in self.state.waiting.values() if one.outdated and not one.told]
        for one in found:
            assert one.outdated == "room-was-made"
            one.told = True
        return [one.name for one in found]


def test_each_pod_is_given_a_node_of_its_own_before_any_outcome_is_seen() -> None:
    scene = Scene(policy("alone", TENANTS))
    found = [tuple(scene.filter(f"p{number}").nodes) for number in range(4)]

    assert sorted(found[:3]) == [("t1",), ("t2",), ("t3",)]
    assert found[3] == ()


def test_who_finds_every_node_taken_is_told_so_and_waits_for_its_tier() -> None:
    scene = Scene(policy("alone", TENANTS, SHARED))
    for pod, node in (("p1", "t1"), ("p2", "t2"), ("p3", "t3")):
        scene.bound(pod, node)
    refused = scene.filter("p4")
    assert (refused.nodes, refused.taken) == ((), ["t1", "t2", "t3"])

    scene.now = 121.0
    assert scene.filter("p4").nodes == ["s1", "s2"], "passed on after fallback.after, as by any full tier"


def test_asking_again_replaces_the_node_and_half_a_minute_frees_it() -> None:
    scene = Scene(policy("alone", TENANTS))
    assert scene.filter("p1", offered=("t1", "t2")).nodes == ["t1"]
    assert scene.filter("p1", offered=("t2", "t3")).nodes == ["t2"]
    assert scene.filter("p2", offered=("t1", "t2")).nodes == ["t1"]
    scene.now = 30.0
    assert scene.filter("p3", offered=("t1", "t2")).nodes == ["t1"]


def test_a_node_that_was_given_stays_so_when_policies_change_and_no_longer_than_before() -> None:
    scene = Scene(policy("alone", TENANTS))
    assert scene.filter("p1").nodes == ["t1"]
    scene.bound("p2", "t2")
    scene.now = 20.0
    scene.state.start_over([(scene.key("alone"), member("p1"), "")], {"alone"})
    assert scene.filter("p3").nodes == ["t2"], "nobody was shown there"
    scene.now = 30.0
    assert scene.filter("p4").nodes == ["t1"]


def test_a_node_is_free_when_its_pod_is_gone_not_when_it_begins_to_go() -> None:
    scene = Scene(policy("alone", TENANTS))
    scene.bound("p1", "t1")
    scene.bound("p1", "t1", leaving=True)
    assert scene.filter("p2", offered=("t1",)).nodes == ()
    scene.gone("p1")
    assert scene.filter("p2", offered=("t1",)).nodes == ["t1"]


def test_a_finished_pod_needs_no_node() -> None:
    scene = Scene(policy("alone", TENANTS))
    scene.bound("p1", "t1")
    scene.state.shown(scene.key("alone"), member("p1", tier="tenants", leaving=True), "")
    assert scene.filter("p2", offered=("t1",)).nodes == ["t1"]


def test_other_policies_pods_keep_off_a_node_that_is_somebodys_own_and_the_reverse() -> None:
    scene = Scene(policy("alone", TENANTS), policy("every", {"name": "every"}))
    scene.bound("p1", "t1")
    assert scene.filter("w1", "every", ("t1",)).nodes == ()
    scene.bound("w2", "t2", "every")
    assert scene.filter("p2", offered=("t1", "t2")).nodes == ()


def test_other_policies_pods_prefer_nodes_where_they_can_meet_nobody() -> None:
    scene = Scene(policy("alone", TENANTS), policy("every", {"name": "every"}))
    assert scene.filter("w1", "every").nodes == ["s1", "s2"]
    # With nothing else on offer it is given one, so that it is known where it goes.
    assert scene.filter("w2", "every", ("t1", "t2")).nodes == ["t1"]
    assert scene.filter("p1", offered=("t1", "t2")).nodes == ["t2"]
    # Who need not be alone may join it.
    assert scene.filter("w3", "every", ("t1",)).nodes == ["t1"]


def test_under_preferred_a_full_tier_is_not_waited_for_and_nobody_is_disturbed() -> None:
    scene = Scene(policy("alone", TENANTS, SHARED, enforce="preferred"))
    assert scene.filter("p1").nodes == ["t1"]
    scene.bound("p2", "t2")
    scene.bound("p3", "t3")
    assert scene.filter("p4").nodes == ["s1", "s2"]


def test_pods_are_spread_over_the_zones_of_an_exclusive_tier() -> None:
    scene = Scene(policy("alone", {**TENANTS, "spread": ["zone"]}))
    zones = {"t1": "a", "t2": "b", "t3": "a"}
    found = [scene.filter(f"p{number}", offered=("t1", "t3", "t2")).nodes[0] for number in range(2)]

    assert {zones[node] for node in found} == {"a", "b"}


def test_preemption_is_of_use_only_where_nobody_else_stays() -> None:
    scene = Scene(policy("alone", TENANTS), policy("every", {"name": "every"}))
    scene.bound("w1", "t1", "every")
    scene.bound("w2", "t2", "every")
    scene.bound("w3", "t2", "every")
    victims = {"t1": {member("w1").uid}, "t2": {member("w2").uid}}

    assert list(scene.state.preempt(scene.ask("p1"), victims, 0.0)) == ["t1"]


class TestWhoIsToAskAgain:
    """kube-scheduler asked before our watch showed that there is room."""

    def full(self) -> Scene:
        scene = Scene(policy("alone", TENANTS))
        for pod, node in (("p1", "t1"), ("p2", "t2"), ("p3", "t3")):
            scene.bound(pod, node)
        for pod in ("p4", "p5", "p6"):
            assert not scene.filter(pod).nodes
            scene.now += 1.0
        assert not scene.outdated()
        return scene

    def test_for_each_node_that_is_free_again_the_one_who_waits_longest_and_once(self) -> None:
        scene = self.full()
        scene.gone("p2")
        assert scene.outdated() == ["default/p4"]
        assert not scene.outdated()
        assert scene.filter("p4").nodes == ["t2"]

    def test_nobody_who_was_refused_long_ago_kube_scheduler_sees_to_those(self) -> None:
        scene = self.full()
        scene.now += 60.0
        scene.gone("p2")
        assert not scene.outdated()

    def test_when_a_node_was_given_and_not_taken(self) -> None:
        scene = Scene(policy("alone", TENANTS))
        assert scene.filter("p1", offered=("t1",)).nodes == ["t1"]
        scene.now = 5.0
        assert not scene.filter("p2", offered=("t1",)).nodes
        scene.now = 29.0
        assert not scene.outdated()
        scene.now = 30.0
        assert scene.outdated() == ["default/p2"]

    def test_nobody_when_a_pod_is_given_the_same_node_again(self) -> None:
        scene = Scene(policy("alone", TENANTS))
        assert scene.filter("p1", offered=("t1",)).nodes == ["t1"]
        assert not scene.filter("p2", offered=("t1",)).nodes
        assert scene.filter("p1", offered=("t1",)).nodes == ["t1"]
        assert not scene.outdated()
        assert scene.filter("p1", offered=("t2",)).nodes == ["t2"]
        assert scene.outdated() == ["default/p2"]

    def test_nobody_for_a_node_of_another_tier(self) -> None:
        scene = self.full()
        scene.bound("w1", "s1", "shared")
        scene.gone("w1", "shared")
        assert not scene.outdated()

    def test_of_a_group_whose_tiers_were_at_their_max(self) -> None:
        scene = Scene(policy("few", {**SHARED, "max": 1}))
        scene.bound("p1", "s1", "few")
        assert not scene.filter("p2", "few").nodes
        scene.gone("p1", "few")
        assert scene.outdated() == ["default/p2"]
        assert scene.filter("p2", "few").nodes == ["s1", "s2"]

    def test_nothing_is_kept_for_a_pod_that_is_gone_though_kube_scheduler_asks(self) -> None:
        scene = self.full()
        scene.gone("p4")
        scene.gone("p2")
        refused = scene.filter("p4")
        assert (refused.nodes, refused.refusal) == ((), "node(s) not needed: the pod is gone")
        assert not scene.state.preempt(scene.ask("p4"), {"t1": {member("p1").uid}}, 0.0)
        assert scene.filter("p5").nodes == ["t2"]

    def test_nor_for_one_that_is_on_its_way_out(self) -> None:
        scene = Scene(policy("alone", TENANTS))
        scene.state.shown(scene.key("alone"), member("p1", leaving=True), "")
        assert not scene.filter("p1", offered=("t1",)).nodes
        assert scene.filter("p2", offered=("t1",)).nodes == ["t1"]

    def test_when_the_pod_that_had_the_slot_is_finished(self) -> None:
        scene = Scene(policy("few", {**SHARED, "max": 1}))
        scene.bound("p1", "s1", "few")
        assert not scene.filter("p2", "few").nodes
        scene.state.shown(scene.key("few"), member("p1", tier="shared", leaving=True), "")
        assert scene.outdated() == ["default/p2"]

    def test_when_a_slot_was_given_and_not_taken(self) -> None:
        scene = Scene(policy("few", {**SHARED, "max": 1}))
        assert scene.filter("p1", "few").nodes == ["s1", "s2"]
        scene.now = 5.0
        assert not scene.filter("p2", "few").nodes
        scene.now = 30.0
        assert scene.outdated() == ["default/p2"]

    def test_nobody_to_whom_the_node_was_not_even_on_offer(self) -> None:
        scene = Scene(policy("alone", TENANTS))
        scene.bound("p1", "t1")
        assert not scene.filter("big", offered=()).nodes
        assert not scene.filter("p2").nodes[1:]
        assert not scene.filter("p3", offered=("t1",)).nodes
        scene.gone("p1")
        assert scene.outdated() == ["default/p3"]

    def test_a_pod_that_the_api_server_brought_back_is_there(self) -> None:
        scene = Scene(policy("alone", TENANTS))
        scene.bound("p1", "t1")
        scene.gone("p1")
        scene.state.shown(scene.key("alone"), member("p1"), "")
        assert scene.filter("p1").nodes
