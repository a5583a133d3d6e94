"""A gang that has waited long is not starved by small pods that come and go."""

from __future__ import annotations

from typing import Any

from support.cluster_of import Running, running
from support.units import node, pod


def stream(world: Running, first: int, last: int, *, prefix: str = "s") -> int | None:
    """Every half minute one small pod ends and another comes; the round in which the gang started."""
    for step in range(first, last):
        oldest = min((key for key in world.bound if key.startswith(f"default/{prefix}")), default=None)
        if oldest is not None:
            world.remove(oldest.partition("/")[2])
        world.add(pod(f"{prefix}{step:03}", created=100 + 30 * step)).after(30)
        if any("/big" in key for key in world.bound):
            return step
    return None


def big(number: int, cpu: int, **more: Any) -> list[dict[str, Any]]:
    return [pod(f"big{index}", cpu, gang="big", minimum=number, **more) for index in range(number)]


def test_small_pods_do_not_overtake_a_gang_of_several_members_on_one_node_for_ever():
    """The node that would hold all members is kept for them, not room for the first of them only."""
    world = running(None, node("n", cpu=4), *(pod(f"s{index:03}", created=index) for index in range(4)))
    world.add(*big(2, 2, created=10))
    assert stream(world, 4, 80) is not None
    assert len([key for key in world.bound if "/big" in key]) == 2


def test_small_pods_do_not_overtake_a_gang_that_needs_several_places_on_each_of_two_nodes_for_ever():
    """Four members, two on each node: both nodes are kept until both are free enough."""
    world = running(
        None,
        *(node(name, cpu=4) for name in ("n", "m")),
        *(pod(f"s{index:03}", created=index) for index in range(8)),
    )
    world.add(*big(4, 2, created=10))
    assert stream(world, 8, 100) is not None
    assert len([key for key in world.bound if "/big" in key]) == 4


def test_what_is_kept_for_a_gang_stays_kept_while_other_nodes_come_and_go():
    """Nodes that cannot hold the gang appear, change and vanish without costing it what it was promised."""
    busy = [pod(f"busy{index}", 2, on=name) for index, name in enumerate(("n", "m"))]
    ours = {"ours": "yes"}
    nodes = [node(name, cpu=2, labels=ours) for name in ("n", "m")]
    world = running(None, *nodes, *busy, *big(4, 1, created=10)).after(620)
    world.remove("busy0")
    for step in range(6):
        # Twice in a row: what the first may have helped has failed again just before the second.
        for half in range(2):
            world.add(node("other", cpu=1), pod("guest", on="other")).remove("guest").after(0.1)
            changed = node("other", cpu=1, labels={"round": f"{step}-{half}"})
            world.add(changed, pod("guest", on="other"))
            # Each unlike the one before: what was decided about that does not decide about this.
            memory = f"{100 + 10 * step + half}Mi"
            world.add(pod(f"small{step}-{half}", created=700 + step, nodeSelector=ours, memory=memory))
        assert not [key for key in world.after(30).bound if "/small" in key], f"round {step}"
    world.remove("busy1").after(30)
    assert {f"default/big{index}" for index in range(4)} <= set(world.bound)


def test_pods_that_are_done_in_time_may_use_what_is_kept_for_a_gang():
    """Short work fills the gap before a reservation is due, and does not delay the gang."""
    busy = [pod(f"busy{index}", 2, on="n", activeDeadlineSeconds=3000, started=0) for index in range(1)]
    world = running(None, node("n", cpu=4), *busy, *big(2, 2, created=10)).after(620)
    world.add(pod("long", created=700), pod("short", created=701, activeDeadlineSeconds=60)).after(5)
    assert set(world.bound) == {"default/busy0", "default/short"}
    world.remove("short", "busy0").after(15)
    assert {"default/big0", "default/big1"} <= set(world.bound)
