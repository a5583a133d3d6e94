"""Room for a gang among more candidates than can be tried in every combination."""

from __future__ import annotations

from support.cluster_of import running
from support.units import budget, node, pod


def crowd(nodes: int, each: int, **more) -> list[dict]:
    """Nodes full of pods of one cpu, the priority growing with the node's number."""
    things = [node(f"n{index:02}", cpu=each) for index in range(nodes)]
    for index in range(nodes):
        things += [
            pod(f"low-{index:02}-{number}", on=f"n{index:02}", priority=index % 4, started=index, **more)
            for number in range(each)
        ]
    return things


def gang(size: int, cpu: int = 1, priority: int = 9) -> list[dict]:
    return [pod(f"m{index}", cpu, gang="g", minimum=size, priority=priority) for index in range(size)]


def test_the_least_important_leave_and_no_more_than_needed():
    world = running(None, *crowd(20, 3), *gang(10))
    assert len(world.evicted) == 10
    assert {int(key.split("-")[1]) % 4 for key in world.evicted} == {0}
    assert len([key for key in world.bound if "/m" in key]) == 10


def test_free_room_is_used_before_anybody_leaves():
    world = running(None, *crowd(20, 2), *(node(f"free{index}", cpu=1) for index in range(4)), *gang(10))
    assert len(world.evicted) == 6


def test_large_members_clear_whole_nodes():
    world = running(None, *crowd(12, 3), *gang(3, cpu=3))
    assert len(world.evicted) == 9
    assert len({key.split("-")[1] for key in world.evicted}) == 3


def test_nobody_leaves_when_the_gang_would_not_fit_all_the_same():
    assert running(None, *crowd(20, 3), *gang(61)).evicted == []
    assert running(None, *crowd(20, 3), *gang(10, priority=0)).evicted == []


def test_budgets_are_kept_over_the_whole_of_a_gangs_victims():
    app = {"app": "a"}
    world = running(None, *crowd(16, 1, labels=app), budget("b", app, allowed=3), *gang(4))
    assert world.evicted == []
    world = running(None, *crowd(16, 1, labels=app), budget("b", app, allowed=4), *gang(4))
    assert len(world.evicted) == 4
