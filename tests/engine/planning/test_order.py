"""Who is served first."""

from __future__ import annotations

import pytest

from fairlead.engine.ask.cluster import Cluster
from fairlead.engine.core.core import Core
from fairlead.engine.planning.settings import Settings
from fairlead.engine.planning.units import Stage, rank
from support.units import node, pod


def bound(*objects: dict) -> dict[str, str]:
    return {key.partition("/")[2]: where for key, where in Cluster.from_objects(objects).plan().binds}


def held(*objects: dict) -> dict[str, str]:
    return {key.partition("/")[2]: why for key, why in Cluster.from_objects(objects).plan().holds}


def gang(name: str, size: int, **more) -> list[dict]:
    return [pod(f"{name}-{index}", gang=name, minimum=size, **more) for index in range(size)]


def test_higher_priority_goes_first():
    assert set(bound(node("n", cpu=1), pod("low", priority=1), pod("high", priority=2))) == {"high"}


def test_the_annotation_decides_before_the_spec():
    favoured = pod("favoured", priority=1, annotations={"priority": "9"})
    assert set(bound(node("n", cpu=1), pod("other", priority=5), favoured)) == {"favoured"}


def test_a_gang_has_the_priority_of_its_lowest_member():
    mixed = [pod("a", gang="g", minimum=2, priority=9), pod("b", gang="g", minimum=2, priority=1)]
    assert set(bound(node("n", cpu=2), *mixed, pod("c", 2, priority=5))) == {"c"}


def test_what_runs_comes_before_what_waits_at_equal_priority():
    objects = [node("n", cpu=1), pod("runs", on="n", priority=5), pod("waits", priority=5)]
    assert not Cluster.from_objects(objects).plan()


def test_smaller_goes_first():
    objects = [node("n", cpu=3), *gang("large", 3, created=0), *gang("small", 2, created=5)]
    assert set(bound(*objects)) == {"small-0", "small-1"}


def test_among_equals_the_oldest_goes_first_then_the_name():
    assert set(bound(node("n", cpu=1), pod("young", created=9), pod("old", created=1))) == {"old"}
    assert set(bound(node("n", cpu=1), pod("b"), pod("a"))) == {"a"}


def test_fifo_serves_the_older_before_the_smaller():
    older = {"size": 3, "created": 1.0, "name": "older"}
    smaller = {"size": 1, "created": 2.0, "name": "smaller"}
    first = {
        order: min((older, smaller), key=lambda one: rank(priority=0, stage=Stage.WAITS, order=order, **one))[
            "name"
        ]
        for order in ("smallest", "fifo")
    }
    assert first == {"smallest": "smaller", "fifo": "older"}


def test_fifo_is_a_setting_of_the_core():
    from support.cluster_of import running

    world = running(Settings(order="fifo"), node("n", cpu=3), *gang("large", 3), *gang("small", 2, created=5))
    assert set(world.bound) == {"default/large-0", "default/large-1", "default/large-2"}


def test_a_high_priority_gang_that_cannot_fit_does_not_block_what_can():
    objects = [node("n", cpu=2), *gang("huge", 5, priority=100), pod("humble", priority=0)]
    assert set(bound(*objects)) == {"humble"}
    assert "gang default/huge" in held(*objects)["huge-0"]


def test_a_replacement_in_a_running_gang_goes_before_what_waits_and_that_before_members_beyond_a_minimum():
    from support.cluster_of import running

    started = [pod(f"m{index}", on="n", gang="g", minimum=2) for index in range(2)]
    world = running(None, node("n", cpu=2, unschedulable=True), *started, pod("waits", created=1))
    world.remove("m0")
    late = [
        pod(name, gang="g", minimum=2, created=50 + index) for index, name in enumerate(("heals", "extra"))
    ]
    world.add(*late)
    assert set(world.add(node("n", cpu=2)).after(15).bound) == {"default/m1", "default/heals"}
    assert "default/waits" in world.add(node("n", cpu=3)).after(15).bound
    assert "default/extra" in world.add(node("n", cpu=4)).after(15).bound


@pytest.mark.parametrize("reverse", [False, True])
def test_the_order_of_the_input_changes_nothing(reverse):
    objects = [node("a", cpu=2), node("b", cpu=2), *(pod(f"p{i}", created=i % 3) for i in range(6))]
    plan = Cluster.from_objects(objects).plan()
    again = Cluster.from_objects(objects[::-1] if reverse else objects).plan()
    assert plan.to_dict() == again.to_dict()


def test_the_queue_tells_who_is_ahead():
    from support.cluster_of import running

    world = running(Settings(), node("n", cpu=1), pod("a", 2, priority=9), pod("b", 2, created=3))
    core: Core = world.core
    position = core.queue_position("default/b")
    assert (position.position, position.ahead) == (2, ("default/a",))
    assert "Insufficient cpu" in position.message


def test_a_held_gang_tells_which_members_fit_and_who_holds_the_others_back():
    from support.cluster_of import running

    equal = pod("equal", 2, on="n", priority=5)
    world = running(Settings(), node("n", cpu=3), equal, *gang("g", 3, priority=5))
    position = world.core.queue_position("default/g-1")
    assert (position.unit, position.members) == ("default/g", 3)
    assert position.fitting == ("default/g-0",)
    assert position.held_back_by == ("default/equal",)
    assert position.to_dict()["heldBackBy"] == ["default/equal"]
