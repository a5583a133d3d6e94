"""Nodes that are there but take no pods: what makes a tier count as interrupted, seen when it changes."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.engine.core.actions import MarkTiers
from fairlead.engine.core.events import PoliciesAre
from fairlead.engine.planning.settings import Settings
from support.cluster_of import Running, seen
from support.policies import policy
from support.units import node


def spot(**changed: Any) -> dict[str, Any]:
    """The only node of tier spot."""
    made = node("spot", labels={"capacity": "spot"})
    made["metadata"] |= changed.pop("metadata", {})
    made["status"] |= changed
    return made


def ready(status: str) -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": status}]}


def marked(world: Running, *things: dict[str, Any]) -> list[set[str]]:
    """The tiers that are marked after each change of marks which these objects lead to."""
    said = len(world.log)
    world.after(1).add(*things)
    return [set(one.after) for one in world.log[said:] if isinstance(one, MarkTiers)]


@pytest.fixture
def world() -> Running:
    found = Running(Settings())
    found.tell(PoliciesAre((policy(),)))
    return found.add(node("demand", labels={"capacity": "on-demand"}), spot(**ready("True")))


@pytest.mark.parametrize(
    "changed",
    [{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, ready("False"), ready("Unknown")],
    ids=["being deleted", "not ready", "silent"],
)
def test_a_tier_whose_last_node_stops_taking_pods_is_interrupted_before_any_taint(
    world: Running, changed: dict[str, Any]
):
    assert marked(world, spot(**changed)) == [{"spot"}]


def test_a_node_that_comes_up_makes_its_tier_usable_without_any_taint_being_taken_away(world: Running):
    assert marked(world, spot(**ready("False"))) == [{"spot"}]
    assert marked(world, spot(**ready("True"))) == [set()]


def test_other_conditions_are_no_change(world: Running):
    pressed = {"conditions": [*ready("True")["conditions"], {"type": "DiskPressure", "status": "True"}]}
    assert world.tell(seen(spot(**pressed))) == []
    assert marked(world, spot(**pressed)) == []
