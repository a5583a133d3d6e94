"""A pod waits for its tier, is passed on, and one tries a tier again that was left alone: in virtual time."""

from __future__ import annotations

from collections import Counter

from support.filtering import ALL, Scene
from support.policies import ON_DEMAND, SPOT, policy


def test_a_tier_passes_a_pod_on_after_it_waited_long_enough_since_its_first_call() -> None:
    scene = Scene()
    scene.schedule("p1")
    assert not scene.filter("p2", ("d1", "d2")).nodes
    scene.now = 119.0
    assert not scene.filter("p2", ("d1", "d2")).nodes
    scene.now = 120.0
    verdict = scene.filter("p2", ("d1", "d2"))
    assert list(verdict.nodes) == ["d1", "d2"]
    assert verdict.passed == ("spot",)


def test_a_pod_that_waited_still_goes_to_its_own_tier_when_that_has_room_again() -> None:
    scene = Scene()
    scene.schedule("p1")
    scene.filter("p2", ("d1", "d2"))
    scene.now = 500.0

    assert scene.filter("p2").nodes == ["s1", "s2"]


def test_a_min_does_not_fall_back() -> None:
    scene = Scene()
    scene.filter("p1", ("s1", "s2"))
    scene.now = 10_000.0

    assert not scene.filter("p1", ("s1", "s2")).nodes


def test_a_min_falls_back_where_its_tier_says_so() -> None:
    scene = Scene(policy("web", SPOT, {**ON_DEMAND, "fallback": True}))
    scene.filter("p1", ("s1", "s2"))
    scene.now = 120.0

    assert scene.filter("p1", ("s1", "s2")).nodes == ["s1", "s2"]


def test_a_marked_tier_is_skipped_at_once() -> None:
    scene = Scene()
    scene.marked = {"spot"}
    offered = ("d1", "d2")
    tiers = Counter(scene.tier(scene.filter(f"p{number}", offered)) for number in range(10))

    assert tiers == {"on-demand": 10}


def test_a_marked_tier_still_takes_pods_that_fit_there_now() -> None:
    scene = Scene()
    scene.marked = {"spot"}
    tiers = Counter(scene.tier(scene.filter(f"p{number}", ("s2", "d1", "d2"))) for number in range(10))

    assert tiers == {"spot": 7, "on-demand": 3}


def test_a_tier_that_lost_its_last_node_is_skipped_before_anybody_marked_it() -> None:
    scene = Scene()
    scene.schedule("p1")
    scene.nodes.drop("s1")
    assert scene.tier(scene.filter("p2", ("s2", "d1"))) == "spot"
    scene.put_node("s2", "spot", unschedulable=True)
    assert scene.tier(scene.filter("p2", ("d1", "d2"))) == "on-demand"
    scene.put_node("s3", "spot")
    assert scene.tier(scene.filter("p2", ("s3", "d1"))) == "spot"


def test_a_tier_that_never_had_a_node_is_waited_for() -> None:
    scene = Scene(policy("web", {"name": "later", "nodes": {"capacity": "none"}}, ON_DEMAND))
    scene.schedule("p1")

    assert not scene.filter("p2").nodes


def test_a_tier_is_still_waited_for_while_its_first_node_starts() -> None:
    scene = Scene(policy("web", {"name": "later", "nodes": {"capacity": "none"}}, ON_DEMAND))
    scene.schedule("p1")
    scene.filter("p2")
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    scene.put_node("n1", "none", taints=[not_ready])

    assert scene.state.unavailable("web") == set()
    assert not scene.filter("p2").nodes
    scene.put_node("n1", "none")
    assert scene.filter("p2", ("n1", *ALL)).nodes == ["n1"]


def test_a_refused_pod_is_due_when_its_tier_is_left_alone_or_its_time_has_come() -> None:
    scene = Scene()
    scene.schedule("p1")
    scene.filter("p2", ("d1", "d2"))
    (waiting,) = scene.state.waiting.values()
    assert waiting.due(119.0, (), "spot") is False
    assert waiting.due(120.0, (), "spot") is True
    assert waiting.due(5.0, {"spot"}, "spot") is True
    assert waiting.next_pass(5.0) == 120.0

    waiting.told = True
    assert waiting.due(120.0, {"spot"}, "spot") is False
    scene.now = 121.0
    scene.filter("p2", ("d1", "d2"))
    assert waiting.due(1000.0, (), "spot") is False


def test_a_probe_is_wanted_only_where_the_marked_tier_would_take_the_pod() -> None:
    scene = Scene()
    scene.schedule("p1")
    ask = scene.ask("p2")
    assert scene.state.may_try(ask, ALL, 0.0) == ()
    scene.marked = {"spot"}
    assert scene.state.may_try(ask, ALL, 0.0) == ("spot",)
    assert scene.state.may_try(ask, ("d1", "d2"), 0.0) == ()
    verdict = scene.state.filter(ask, ALL, 0.0, "spot")
    assert scene.tier(verdict) == "spot"


def test_a_tier_without_a_node_is_waited_for_by_the_pod_that_tries_it_until_its_patience_ends() -> None:
    scene = Scene()
    scene.schedule("p1")
    scene.lose_spot()
    ask, left = scene.ask("p2"), ("d1", "d2")
    for now in (0.0, 60.0, 119.0):
        assert scene.state.may_try(ask, left, now) == ("spot",)
        verdict = scene.state.filter(ask, left, now, "spot")
        assert (scene.tier(verdict), list(verdict.nodes)) == ("spot", [])
        assert scene.tier(scene.filter("p3", left)) == "on-demand", "all others skip it"
    assert scene.state.may_try(ask, left, 120.0) == ("spot",)
    verdict = scene.state.filter(ask, left, 120.0, "spot")

    assert (list(verdict.nodes), verdict.passed) == (["d1", "d2"], ("spot",))
    assert scene.state.may_try(ask, left, 121.0) == (), "it has tried"


def test_who_tries_a_tier_has_all_of_its_patience_for_that() -> None:
    scene = Scene()
    scene.schedule("p1")
    scene.lose_spot()
    ask, full = scene.ask("p2"), ()
    scene.state.filter(ask, full, 0.0)  # spot cools down, and on-demand is full
    assert scene.state.may_try(ask, full, 110.0) == ("spot",)
    for now in (110.0, 121.0, 229.0):
        assert scene.tier(scene.state.filter(ask, full, now, "spot")) == "spot"
    assert scene.state.filter(ask, ("d1", "d2"), 230.0, "spot").passed == ("spot",)


def test_nodes_that_take_no_pods_keep_nobody_from_trying_their_tier() -> None:
    scene = Scene()
    scene.schedule("p1")
    scene.lose_spot()
    scene.put_node("s3", "spot", unschedulable=True)
    assert scene.state.may_try(scene.ask("p2"), ("d1", "d2"), 0.0) == ("spot",)
    # The autoscaler's node starts: who waits for it must not give up now.
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    scene.put_node("s3", "spot", taints=[not_ready])
    assert scene.state.may_try(scene.ask("p2"), ("d1", "d2"), 0.0) == ("spot",)


def test_who_would_not_wait_for_a_tier_without_a_node_does_not_try_it() -> None:
    scene = Scene()
    scene.schedule("p1")
    scene.filter("p2", ("d1", "d2"))
    scene.lose_spot()
    assert scene.state.may_try(scene.ask("p2"), ("d1", "d2"), 120.0) == (), "it has waited already"

    scene = Scene(policy(enforce="preferred"))
    scene.schedule("p1")
    scene.lose_spot()
    assert scene.state.may_try(scene.ask("p2"), ("d1", "d2"), 0.0) == (), "nobody waits for a tier"


def test_nobody_is_preempted_elsewhere_for_a_pod_that_tries_a_tier() -> None:
    scene = Scene()
    scene.schedule("p1")
    scene.lose_spot()
    ask = scene.ask("p2")
    scene.state.filter(ask, (), 0.0, "spot")
    assert list(scene.state.preempt(ask, {"d1": ()}, 0.0)) == []
    scene.state.filter(ask, (), 1.0)
    assert list(scene.state.preempt(ask, {"d1": ()}, 1.0)) == ["d1"]


def test_a_loss_that_is_in_the_marks_lasts_as_long_as_its_mark() -> None:
    scene = Scene()
    scene.lose_spot()
    scene.nodes.noted("web", scene.marked)
    assert scene.state.unavailable("web") == {"spot"}
    scene.marked = set()
    assert scene.state.unavailable("web") == set()
    scene.put_node("s3", "spot")
    scene.nodes.noted("web", {"spot"})
    scene.nodes.drop("s3")
    assert scene.state.unavailable("web") == {"spot"}, "the mark was of another loss"
