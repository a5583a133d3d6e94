"""However much there is to do in one turn, it is done in small steps that tell how much they did."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.engine.core.core import Core
from fairlead.engine.core.serving import AT_ONCE
from support.cluster_of import seen
from support.units import EPOCH, node, pod

NOW = EPOCH.timestamp() + 3600
PODS = 3 * AT_ONCE
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "a"}},
}


def alike(**spec: Any) -> list[dict]:
    return [pod(f"p{index:05}", 1, **spec) for index in range(PODS)]


def with_nodes(number: int, cpu: int, *there: dict) -> Core:
    core = Core()
    core.handle([seen(node(f"n{index:03}", cpu)) for index in range(number)], NOW)
    core.handle([seen(each) for each in there], NOW)
    return core


def steps(core: Core, arriving: list[dict]) -> list[tuple[int, int]]:
    """By step, how much work it said it did and how many actions came of it."""
    found, before = [], 0
    for work in core.turn([seen(each) for each in arriving], NOW):
        done = len(core._service.actions)
        found.append((work, done - before))
        before = done
    return found


def gangs(size: int) -> list[dict]:
    return [
        pod(
            f"p{index:05}",
            1,
            annotations={"pod-group": f"g{index // size}", "pod-group-min-member": str(size)},
        )
        for index in range(PODS // size * size)
    ]


@pytest.mark.parametrize(
    ("nodes", "arriving"),
    [
        pytest.param(4, alike(), id="one-template"),
        pytest.param(4, [pod(f"p{i:05}", 1, labels={"app": f"a{i % 50}"}) for i in range(PODS)], id="many"),
        pytest.param(0, alike(), id="no-room"),
        pytest.param(4, gangs(8), id="gangs"),
        pytest.param(0, gangs(8), id="gangs-without-room"),
    ],
)
def test_no_step_decides_over_more_pods_than_fit_into_one(nodes: int, arriving: list[dict]) -> None:
    taken = steps(with_nodes(nodes, len(arriving)), arriving)
    assert max(actions for _, actions in taken) <= AT_ONCE
    assert sum(actions for _, actions in taken) >= len(arriving)
    assert all(actions <= work for work, actions in taken)


@pytest.mark.parametrize("spec", [{}, {"topologySpreadConstraints": [SPREAD]}], ids=["plain", "spread"])
def test_the_search_for_victims_goes_node_by_node(spec: dict[str, Any]) -> None:
    nodes = 40
    core = with_nodes(nodes, 1, *(pod(f"low-{index}", 1, on=f"n{index:03}") for index in range(nodes)))
    assert len(steps(core, [pod("high", 1, priority=9, labels={"app": "a"}, **spec)])) >= nodes


def test_gangs_are_put_together_one_by_one() -> None:
    size = 8
    arriving = gangs(size)
    taken = steps(with_nodes(0, 0), arriving)
    assert sum(1 for work, _ in taken if work == 1 + size) >= len(arriving) // size
