"""Pods whose terms demand no label outright wait beyond a limit, and no other pod notices."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead import Cluster
from fairlead.engine.snapshot.loose_terms import TERMS_MAX
from support.cluster_of import Running, running, seen
from support.loose import apart, has, loose_pod, not_in, spread_over, would_rather_be_apart
from support.units import node, pod

HALF = TERMS_MAX // 2
WORDS = (
    "namespace default would have more than 256 distinct pod affinity terms and spread constraints whose "
    "labelSelector has neither matchLabels nor an In with one value: add one of these, or wait: the pod is "
    "tried again when there are fewer"
)


def started(*things: dict[str, Any]) -> Running:
    return running(None, node("n1", 64), node("n2", 64), *things)


def waits(world: Running) -> list[str]:
    """The pods that have no node, by name."""
    return sorted(one.metadata.name for one in world.pods.values() if not one.spec.node_name)


def test_pods_within_the_limit_are_bound_and_the_next_is_held_with_a_reason() -> None:
    world = started(*(loose_pod(name, HALF) for name in ("a", "b", "c")))
    assert waits(world) == ["c"]
    held = world.holds()["default/c"]
    assert held.message == WORDS
    assert not held.unschedulable, "another node would not help"
    assert (held.condition_reason, held.event_reason) == ("Waiting", "FailedScheduling")


def test_a_pod_that_adds_no_term_of_its_own_is_bound() -> None:
    same = apart(*(has(f"a-{index}") for index in range(HALF)))
    assert waits(started(loose_pod("a", HALF), loose_pod("b", HALF), pod("c", **same))) == []


def test_a_pod_with_more_terms_than_a_namespace_may_have_is_held_and_blocks_no_other() -> None:
    world = started(loose_pod("a", TERMS_MAX + 1), loose_pod("b", TERMS_MAX))
    assert waits(world) == ["a"]


@pytest.mark.parametrize(
    "wishes",
    [
        apart(*(not_in(str(index)) for index in range(HALF + 1))),
        would_rather_be_apart(*(not_in(str(index)) for index in range(HALF + 1))),
        spread_over(*(not_in(str(index)) for index in range(HALF + 1))),
    ],
    ids=["anti-affinity", "preferred anti-affinity", "spread"],
)
def test_every_kind_of_term_counts(wishes: dict[str, Any]) -> None:
    world = started(loose_pod("a", HALF), pod("b", **wishes))
    assert waits(world) == ["b"]


def test_spread_constraints_count_only_while_their_pod_waits() -> None:
    spreading = spread_over(*(not_in(str(index)) for index in range(TERMS_MAX)))
    world = started(pod("a", **spreading))
    assert waits(world.add(loose_pod("b", TERMS_MAX))) == []


def test_terms_with_an_equality_label_do_not_count() -> None:
    mixed = [{**has(f"k{index}"), "matchLabels": {"app": "web"}} for index in range(TERMS_MAX + 1)]
    assert waits(started(pod("a", **apart(*mixed)))) == []


def test_other_namespaces_and_pods_without_such_terms_do_not_notice() -> None:
    hostile = [loose_pod(f"p{index}", HALF) for index in range(20)]
    plain = [pod("plain"), loose_pod("loose", HALF, namespace="other"), pod("x", namespace="other")]
    world = started(*hostile, *plain)
    assert {"default/plain", "other/loose", "other/x"} <= world.bound.keys()
    assert len(waits(world)) == len(hostile) - 2


def test_held_pods_are_tried_again_when_terms_are_freed() -> None:
    world = started(*(loose_pod(name, HALF) for name in ("a", "b", "c", "d")))
    assert waits(world) == ["c", "d"]
    assert waits(world.remove("a")) == ["d"]
    assert waits(world.remove("b")) == []


def test_held_pods_are_tried_again_when_pods_that_wait_before_them_are_gone() -> None:
    too_big = [loose_pod(name, HALF, cpu=1000) for name in ("a", "b")]
    world = started(*too_big, loose_pod("c", HALF))
    assert waits(world) == ["a", "b", "c"]
    assert world.holds()["default/c"].message == WORDS
    assert waits(world.remove("a")) == ["b"]


def test_more_important_pods_come_first_whenever_they_come() -> None:
    too_big = [loose_pod(name, HALF, cpu=1000) for name in ("a", "b")]
    world = started(*too_big)
    assert waits(world.add(loose_pod("c", HALF, priority=5))) == ["a", "b"]
    assert world.holds()["default/b"].message == WORDS
    assert world.holds()["default/a"].message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_pods_of_other_schedulers_take_terms_too() -> None:
    there = [loose_pod(f"p{index}", 1, on="n1", scheduler="other") for index in range(TERMS_MAX)]
    world = started(*there, loose_pod("a", 1), pod("b"))
    assert waits(world) == ["a"]
    assert waits(world.remove("p0")) == []


def test_a_gang_is_held_whole() -> None:
    members = [loose_pod(name, HALF, gang="g", minimum=3) for name in ("a", "b", "c")]
    world = started(*members)
    assert waits(world) == ["a", "b", "c"]
    assert world.holds()["default/a"].message == f"gang default/g: {WORDS}"
    smaller = [loose_pod(name, HALF // 2, gang="g", minimum=3) for name in ("a", "b", "c")]
    assert waits(started(*smaller)) == []


def test_nothing_is_said_or_done_twice() -> None:
    world = started(*(loose_pod(name, HALF) for name in ("a", "b", "c")))
    again = [seen(loose_pod("c", HALF)), seen(node("n1", 64))]
    assert world.tell(*again) == []
    assert world.tell() == []
    assert world.core.wake_at is None


def test_a_held_pod_that_no_longer_has_too_many_is_bound() -> None:
    world = started(*(loose_pod(name, HALF) for name in ("a", "b", "c")))
    assert waits(world.add(loose_pod("c", 0))) == []


def test_plan_and_explanation_give_the_same_reason() -> None:
    things = [node("n1", 64), loose_pod("a", HALF), loose_pod("b", HALF), loose_pod("c", HALF)]
    plan = Cluster.from_objects(things).plan()
    assert [(hold.pod, hold.reason) for hold in plan.holds] == [("default/c", WORDS)]
    placed = [loose_pod(name, HALF, on="n1") for name in ("a", "b")]
    cluster = Cluster.from_objects([node("n1", 64), *placed, loose_pod("c", HALF)])
    explained = cluster.explain("default/c")
    assert explained.message == WORDS
    assert explained.reasons == {"n1": [WORDS]}
    position = cluster.queue_position("default/c")
    assert position is not None
    assert position.message == WORDS


def test_who_comes_first_does_not_depend_on_the_order_of_arrival() -> None:
    pods = [loose_pod(name, HALF, created=age) for name, age in (("a", 3.0), ("b", 2.0), ("c", 1.0))]
    for arriving in (pods, pods[::-1], [pods[1], pods[2], pods[0]]):
        assert waits(started(*arriving)) == ["a"]
