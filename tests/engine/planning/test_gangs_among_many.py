"""Room for a gang among more candidates than can be tried in every combination."""

from __future__ import annotations

import pytest

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


def test_what_a_budget_allows_is_not_spent_by_a_gang_for_which_it_was_not_enough():
    app = {"app": "a"}
    world = running(None, *crowd(16, 1, labels=app), budget("b", app, allowed=3), *gang(4))
    assert world.evicted == []
    world.add(pod("single", priority=9, created=1, nodeSelector={"kubernetes.io/hostname": "n15"}))
    assert world.evicted == ["default/low-15-0"]


@pytest.mark.parametrize("nodes", [7, 50], ids=["few", "many"])
def test_a_pod_that_is_not_in_the_way_once_a_larger_one_has_left_stays(nodes: int):
    """A small pod is chosen on each node, then a large one for the last member, with room to spare."""
    things = [node(f"n{index:02}", cpu=4) for index in range(nodes)]
    for index in range(nodes):
        things.append(pod(f"small-{index:02}", 1, on=f"n{index:02}", priority=0))
        things.append(pod(f"large-{index:02}", 3, on=f"n{index:02}", priority=1))
    world = running(None, *things, *gang(nodes + 1))
    (large,) = (key for key in world.evicted if "large" in key)
    assert len(world.evicted) == nodes
    assert large.replace("large", "small") in world.bound


def test_no_more_pods_stay_than_there_is_room_for_beside_all_members():
    things = [node(f"n{index}", cpu=4) for index in range(5)]
    for index in range(5):
        things += [pod(f"small-{index}-{number}", 1, on=f"n{index}", priority=0) for number in range(2)]
        things.append(pod(f"large-{index}", 2, on=f"n{index}", priority=1))
    world = running(None, *things, *gang(11))
    assert len(world.evicted) == 10
    assert len([key for key in world.bound if "/m" in key]) == 11
