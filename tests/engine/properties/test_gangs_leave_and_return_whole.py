"""Gangs that are evicted leave whole and come back whole: in whichever order their members leave, while a
crowd waits for their room, and though the scheduler ends between any two writes.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.engine.core.actions import EvictPod
from support.evicting import Evicting
from support.units import node

GANGS = ("g", "h")

SHAPES = st.fixed_dictionaries(
    {
        "nodes": st.lists(st.integers(1, 3), min_size=2, max_size=5),
        "sizes": st.tuples(st.integers(2, 4), st.integers(2, 3)),
        "extra": st.integers(0, 1),
        "crowd": st.integers(0, 6),
        "high": st.integers(1, 3),
        "cpu": st.integers(1, 2),
    }
)


def populated(shape: dict) -> Evicting:
    """Gangs first, then a crowd of their priority that waits for room."""
    world = Evicting(*(node(f"n{index}", cpu=cpu) for index, cpu in enumerate(shape["nodes"])))
    for gang, size in zip(GANGS, shape["sizes"], strict=True):
        world.create(size + shape["extra"], of=gang, minimum=size)
    world.create(shape["crowd"])
    return world


def sizes_of(shape: dict) -> dict[str, int]:
    return dict(zip(GANGS, shape["sizes"], strict=True))


def assert_whole_or_gone(world: Evicting, sizes: dict[str, int]) -> None:
    for gang, size in sizes.items():
        bound = len(world.bound(gang))
        assert bound == 0 or bound >= size, f"gang {gang}: {bound} of {size} members are bound"


def test_no_part_of_an_evicted_gang_is_ever_bound_without_the_rest(count):
    @settings(max_examples=count(120, 2000), deadline=None)
    @given(SHAPES, st.data())
    def check(shape, data):
        world, sizes = populated(shape), sizes_of(shape)
        assert_whole_or_gone(world, sizes)
        world.create(shape["high"], shape["cpu"], priority=9)
        for _ in range(40):
            steps = world.steps()
            if not steps:
                break
            world.take(*data.draw(st.sampled_from(steps)))
            # Marked members count as gone from the last mark on; until then all of them are bound.
            if not any(name == "write" for name, _ in world.steps()):
                assert_whole_or_gone(world, sizes)
        world.quiet()
        assert_whole_or_gone(world, sizes)

    check()


def test_a_scheduler_that_takes_over_between_any_two_writes_finishes_the_eviction(count):
    @settings(max_examples=count(120, 2000), deadline=None)
    @given(SHAPES, st.data())
    def check(shape, data):
        world, sizes = populated(shape), sizes_of(shape)
        world.create(shape["high"], shape["cpu"], priority=9)
        for _ in range(30):
            steps = [*world.steps(), ("restart", 0)]
            step = data.draw(st.sampled_from(steps))
            if step == ("restart", 0):
                world.restart()
            else:
                world.take(*step)
        world.quiet()
        assert_whole_or_gone(world, sizes)
        marked = [one for gang in GANGS for one in world.members(gang) if one not in world.bound(gang)]
        assert not [one for one in marked if one.spec.node_name], "a mark was left on a pod that stays"

    check()


def test_every_member_is_marked_before_the_first_is_evicted():
    world = Evicting(*(node(f"n{index}", cpu=1) for index in range(4)))
    world.create(3, of="g", minimum=3)
    world.create(6)
    world.create(2, priority=9)
    marked = 0
    while ("write", 0) in world.steps() and not any(
        one.metadata.deletion_timestamp for one in world.pods.values()
    ):
        marked = max(marked, 3 - len(world.bound("g")))
        world.take("write", len(world.jobs) - 1)
    assert marked == 3


def test_an_eviction_that_no_unit_wants_any_more_is_taken_back_before_the_first_member_left():
    world = Evicting(*(node(f"n{index}", cpu=1) for index in range(3)))
    world.create(3, of="g", minimum=3)
    world.create(1, priority=9)
    (high,) = [uid for uid, one in world.pods.items() if one.spec.priority == 9]
    world.take("write", 0)  # one mark is written
    world.delete(high)
    world.take("leave", 0)
    world.recreated.clear()
    world.quiet()
    assert len(world.bound("g")) == 3
    assert not any(one.metadata.deletion_timestamp for one in world.pods.values())


def test_an_eviction_that_has_begun_is_finished_though_the_unit_is_gone():
    world = Evicting(*(node(f"n{index}", cpu=1) for index in range(3)))
    world.create(3, of="g", minimum=3)
    before = {one.metadata.uid for one in world.bound("g")}
    world.create(1, priority=9)
    (high,) = [uid for uid, one in world.pods.items() if one.spec.priority == 9]
    while len(world.members("g")) == 3:
        world.take("write", 0)
    world.recreated.clear()  # of the evicted members; the user scales down
    world.delete(high)
    world.recreated.clear()
    world.quiet()
    assert not before & set(world.pods)
    assert {action.uid for action in world.log if isinstance(action, EvictPod)} >= before


def test_two_evictions_of_members_beyond_the_minimum_do_not_add_up_to_a_broken_gang():
    world = Evicting(*(node(f"n{index}", cpu=1) for index in range(3)))
    world.create(3, of="g", minimum=2)
    world.create(2, priority=9)
    world.quiet()
    assert world.bound("g") == []


def test_a_member_that_a_user_deletes_heals_alone():
    world = Evicting(*(node(f"n{index}", cpu=1) for index in range(3)))
    world.create(3, of="g", minimum=3)
    world.delete(world.bound("g")[0].metadata.uid)
    world.quiet()
    assert len(world.bound("g")) == 3
    assert not [action for action in world.log if isinstance(action, EvictPod)]
