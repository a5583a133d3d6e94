"""Pods of one workload over several kinds of nodes, in order, as OpenKruise's users expect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.engine.core.events import PoliciesAre
from fairlead.engine.planning.settings import Settings
from support.cluster import Cluster
from support.cluster_of import Running
from support.placed import Placed
from support.policies import policy
from support.scheduled_tiers import ByScheduler, by_scheduler
from support.units import node, pod

Manifest = dict[str, Any]

BASE = {"name": "on-demand", "nodes": {"capacity": "on-demand"}}
REST = {"name": "spot", "nodes": {"capacity": "spot"}}


@pytest.fixture
def corner(cluster: Cluster, tmp_path: Path) -> Iterator[ByScheduler]:
    """The test's own nodes and scheduler, on each kind of cluster."""
    with by_scheduler(cluster, tmp_path) as own:
        yield own


def base_first(corner: ByScheduler, most: int) -> Manifest:
    """Up to so many on demand, the rest on spot."""
    own = corner.corner
    return own.policy("web", own.tier("on-demand", max=most), own.tier("spot"))


def test_the_first_kind_is_filled_up_to_its_maximum_and_emptied_last(corner: ByScheduler):
    """Two pods on demand before any on spot; scaling in takes those on spot first, scaling out adds there."""
    corner.corner.nodes(spot=1, on_demand=1)
    corner.policies(base_first(corner, 2))
    corner.deploy("web", 5)
    assert corner.corner.settled("web", 5) == {"on-demand": 2, "spot": 3}
    corner.corner.marked("web", 5)
    corner.corner.scale("web", 2)
    assert corner.corner.settled("web", 2) == {"on-demand": 2}
    corner.corner.scale("web", 4)
    assert corner.corner.settled("web", 4) == {"on-demand": 2, "spot": 2}


def test_a_gang_starts_whole_over_the_kinds_that_its_policy_splits_it_into():
    """A maximum for one kind of nodes is no reason to start a gang in part, or to wait."""
    world = Running(Settings())
    world.tell(PoliciesAre((policy("web", {**BASE, "max": 1}, REST, groupBy="policy"),)))
    nodes = [node(name, labels={"capacity": name}) for name in ("on-demand", "spot")]
    world.add(*nodes, *(pod(name, gang="ring", minimum=3) for name in ("a", "b"))).after(10)
    assert world.bound == {}
    assert sorted(world.add(pod("c", gang="ring", minimum=3)).bound.values()) == ["on-demand", "spot", "spot"]


def test_a_kind_without_room_passes_its_pods_on_and_running_ones_stay():
    """What does not fit in the first kind within the time that the policy gives it goes to the next."""
    placed = Placed(
        policy("web", BASE, REST, fallback={"after": "1m", "coolDown": "30m"}), on_demand=1, cpu=2
    )
    placed.deployment("web", 4, cpu="1")
    placed.after(30)
    assert placed.split("web") == {"": 2, "on-demand": 2}
    before = {one["metadata"]["uid"] for one in placed.pods("web") if one["spec"].get("nodeName")}
    placed.after(120)
    assert placed.split("web") == {"on-demand": 2, "spot": 2}
    assert before <= {one["metadata"]["uid"] for one in placed.pods("web")}
