"""The order in which units are served, and that waiting between two tries costs no unit its turn."""

from __future__ import annotations

import pytest

from fairlead.engine.core.actions import BindPod
from fairlead.engine.planning.settings import Settings
from support.cluster_of import running, seen
from support.stories import Story
from support.units import node, pod


def test_a_higher_gang_starts_before_smaller_units_of_lower_priority(story: Story):
    """Size decides among equals only: what matters more comes first however large it is (Volcano)."""
    story.cluster.add_nodes(1, cpu=3)
    for index in range(3):
        story.add(f"small-{index}", priority=1)
    members = story.gang("ring", 3, priority=5)
    with story.scheduled():
        story.bound(*members)
        assert story.meanwhile() == set(members)


def test_at_equal_priority_the_smaller_gang_starts_first(story: Story):
    """Three places are too few for a gang of three and a gang of two; the smaller starts."""
    story.cluster.add_nodes(1, cpu=3)
    story.gang("large", 3)
    small = story.gang("small", 2)
    with story.scheduled():
        story.bound(*small)
        assert story.meanwhile() == set(small)


def test_a_gang_that_cannot_start_lets_a_lower_one_have_the_room(story: Story):
    """A queue is not blocked by its head: a lower gang that fits starts beside a higher one that does not."""
    story.cluster.add_nodes(1, cpu=2)
    high = story.gang("high", 3, priority=9)
    low = story.gang("low", 2, priority=1)
    with story.scheduled():
        story.bound(*low)
        for name in high:
            assert story.held(name)["reason"] == "Unschedulable"
        assert story.meanwhile() == set(low)


@pytest.mark.parametrize("policy", ["PreemptLowerPriority", "Never"])
def test_a_higher_pod_that_waits_for_its_next_try_gets_the_room_before_a_lower_one(story: Story, policy: str):
    """Backoff spares work; it does not let a pod that comes later and matters less take a freed place."""
    story.cluster.add_nodes(1, cpu=2)
    middle = story.priority_class("middle", 5, preemptionPolicy=policy)
    with story.scheduled(queue__backoff="30s", queue__backoffMax="30s"):
        story.add("busy", cpu="2", priority=9)
        story.bound("busy")
        story.add("high", cpu="2", priority_class=middle)
        story.held("high")
        story.cluster.delete("Pod", "busy")
        story.add("low", priority=1)
        story.bound("high")
        story.held("low")


@pytest.mark.parametrize("policy", ["PreemptLowerPriority", "Never"])
def test_a_higher_gang_in_backoff_is_not_overtaken_at_the_moment_that_helps_it(policy: str):
    """The event that frees the room serves the gang that waited for it, in order of priority, at once."""
    gang = [
        pod(f"g{index}", gang="ring", minimum=2, priority=5, preemptionPolicy=policy) for index in range(2)
    ]
    world = running(None, node("n", cpu=2), node("m", cpu=1), pod("busy", 2, on="n", priority=9), *gang)
    for number in range(5):
        # Room for one member comes and goes: each time the next try is put off for longer.
        noise = f"noise-{number}"
        world.add(pod(noise, on="m", priority=9)).after(11).remove(noise).after(0.5)
    world.add(pod("noise", on="m", priority=9))
    world.settle(world.tell(world.gone("default/busy"), seen(pod("low", 2, priority=1, created=90))))
    world.after(60)
    assert set(world.bound) == {"default/g0", "default/g1", "default/noise"}
    assert "default/low" not in [one.pod for one in world.log if isinstance(one, BindPod)]
    assert world.evicted == []


def test_with_fifo_the_older_gang_starts_first_though_it_is_larger():
    """Where the order is first come, first served, being small is no advantage."""
    large = [pod(f"l{index}", gang="large", minimum=3, created=1) for index in range(3)]
    small = [pod(f"s{index}", gang="small", minimum=2, created=2) for index in range(2)]
    fifo = running(Settings(order="fifo"), node("n", cpu=3), *small, *large)
    assert set(fifo.bound) == {"default/l0", "default/l1", "default/l2"}
    smallest = running(Settings(), node("n", cpu=3), *small, *large)
    assert set(smallest.bound) == {"default/s0", "default/s1"}


def test_among_gangs_of_one_size_and_priority_the_oldest_starts_first():
    """What has waited longest comes first (coscheduling: by the time of creation)."""
    young = [pod(f"a{index}", gang="a-young", minimum=2, created=9) for index in range(2)]
    old = [pod(f"z{index}", gang="z-old", minimum=2, created=1) for index in range(2)]
    assert set(running(None, node("n", cpu=3), *young, *old).bound) == {"default/z0", "default/z1"}
