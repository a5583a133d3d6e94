"""Backoff does not invert priorities, and costs no more than what something could have helped."""

from __future__ import annotations

from fairlead.engine.core.actions import BindPod
from fairlead.engine.core.events import BindFailed
from support.cluster_of import running, seen
from support.units import node, pod


def test_a_higher_unit_in_backoff_is_tried_before_a_lower_one_takes_the_room_that_helps_it():
    for policy in ("PreemptLowerPriority", "Never"):
        world = running(None, node("n", 2), pod("busy", 2, on="n", priority=9))
        world.add(pod("high", 2, priority=5, preemptionPolicy=policy))
        world.add(node("m", 1))  # tried again, and held
        world.tell(world.gone("default/busy"), seen(pod("low", 2, priority=1, created=200)))
        world.settle(world.actions)
        assert world.bound.get("default/high") == "n"
        assert world.evicted == []


def test_pods_that_are_placed_in_turns_do_not_overtake_a_helped_unit_of_higher_priority():
    world = running(None, node("n0", 1))
    world.add(pod("b", 3, priority=5))  # finds no room
    world.add(pod("d", 1, priority=1))
    world.add(node("n1", 4), pod("a", 1, priority=9), pod("c", 2, priority=1))
    assert {"default/a", "default/b"} <= set(world.bound)


def test_a_unit_that_rests_after_a_failed_bind_keeps_its_room_from_lower_ones():
    world = running(None, node("n0", 1))
    world.tell(seen(pod("high", 1, priority=9)))
    (bind,) = (action for action in world.actions if isinstance(action, BindPod))
    failed = BindFailed(bind.pod, bind.uid, bind.node, "500")
    world.settle(world.tell(failed, seen(pod("low", 1, priority=1))))
    assert set(world.bound) == {"default/high"}


def test_held_units_that_want_company_are_not_tried_again_for_every_lower_pod_that_is_placed():
    near = {"labelSelector": {"matchLabels": {"app": "nowhere"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    world = running(None, *(node(f"n{index}", 8) for index in range(4)))
    world.add(
        *(pod(f"high{index}", memory=f"{index + 1}Mi", priority=9, affinity=affinity) for index in range(4))
    )
    world.add(*(pod(f"low{index:02}", memory=f"{index + 1}Mi", priority=1) for index in range(20)))
    assert len(world.bound) == 20
    lines = [world.core._service.queue.line_of(f"pod:uid-default-high{index}") for index in range(4)]
    assert max(line.attempts for line in lines) <= 3
