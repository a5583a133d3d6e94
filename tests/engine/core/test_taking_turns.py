"""Pods whose classes take turns in the queue are served as one after the other would be."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.engine.core.actions import BindPod, HoldPod
from fairlead.engine.core.core import Core
from support.cluster_of import seen
from support.units import EPOCH, node, pod

NOW = EPOCH.timestamp() + 3600
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "apart"}}}
        ]
    }
}


def served(core: Core, arriving: list[Any]) -> list[str]:
    """Who was bound where, or held, in the order in which it was decided."""
    told = []
    for action in core.handle([seen(each) for each in arriving], NOW):
        if isinstance(action, BindPod):
            told.append(f"{action.pod} on {action.node}")
        elif isinstance(action, HoldPod):
            told.append(f"{action.pod} held")
    return told


def with_nodes(number: int, cpu: int) -> Core:
    core = Core()
    core.handle([seen(node(f"n{index:02}", cpu)) for index in range(number)], NOW)
    return core


@pytest.mark.parametrize("sizes", [[1], [1, 2, 1, 3]])
def test_all_at_once_go_where_each_alone_would(sizes: list[int]) -> None:
    apps = ["a", "b", "c", "d"]
    arriving = [
        pod(f"p{index:03}", sizes[index % len(sizes)], labels={"app": apps[index % 4]})
        for index in range(120)
    ]
    # Among equals the names decide, so one after the other is the same order.
    one_by_one = with_nodes(20, 16)
    expected = [told for each in arriving for told in served(one_by_one, [each])]
    assert served(with_nodes(20, 16), arriving) == expected
    assert len({told.split(" on ")[1] for told in expected if " on " in told}) == 20


def test_one_that_finds_no_room_does_not_stop_those_after_it() -> None:
    arriving = [
        pod(f"p{index}", 9 if index == 2 else 1, labels={"app": f"a{index % 3}"}) for index in range(6)
    ]
    told = served(with_nodes(2, 4), arriving)
    assert [one.split()[1] for one in told] == ["on", "on", "held", "on", "on", "on"]


def test_classes_that_keep_apart_do_so_while_others_take_turns_with_them() -> None:
    arriving = [
        pod(f"p{index}", 1, labels={"app": "apart"}, affinity=APART)
        if index % 2
        else pod(f"p{index}", 1, labels={"app": "plain"})
        for index in range(8)
    ]
    told = served(with_nodes(3, 16), arriving)
    apart = [one for one in told if int(one.split("/")[1][1]) % 2]
    assert [one.split()[1] for one in apart] == ["on", "on", "on", "held"]
    assert len({one.split(" on ")[1] for one in apart[:3]}) == 3


def test_nobody_joins_an_exclusive_pod_that_had_its_turn_among_them() -> None:
    arriving = [
        pod(f"p{index:02}", 1, annotations={"fairlead.dev/capacity": "exclusive"})
        if index == 2
        else pod(f"p{index:02}", 1, labels={"app": f"a{index % 2}"})
        for index in range(12)
    ]
    one_by_one = with_nodes(3, 16)
    expected = [told for each in arriving for told in served(one_by_one, [each])]
    told = served(with_nodes(3, 16), arriving)
    assert told == expected
    nodes = {one.split("/")[1].split()[0]: one.split(" on ")[1] for one in told}
    assert [name for name, where in nodes.items() if where == nodes["p02"]] == ["p02"]
