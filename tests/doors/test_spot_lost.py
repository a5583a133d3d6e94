"""Spot lost and back, whoever sends pods to their tiers: what must stay up stays up at every moment."""

from __future__ import annotations

from typing import Any

import pytest

from support.manifests import budget
from support.rebalancing import PACE, Rebalanced, least_ready

pytestmark = pytest.mark.slow

Manifest = dict[str, Any]

# Longer than any test: what happens within one did not wait for it, and nobody tries a lost tier.
NEVER = {"after": "1h", "coolDown": "10m"}


def off_spot(corner: Rebalanced, least: str) -> Manifest:
    """A policy that keeps so many pods off spot."""
    own = corner.corner
    tiers = (own.tier("spot", volatile=True), own.tier("on-demand", min=least))
    return own.policy("web", *tiers, rebalance=PACE, fallback=NEVER)


def four_of_ten_are_safe(corner: Rebalanced) -> None:
    """A budget of four for ten pods, four of which are on demand."""
    corner.corner.nodes()
    # Before any door runs, so that it knows of it: budgets are watched apart from pods.
    corner.cluster.create(budget("web", {"app": "web"}, minAvailable=4))
    corner.running(off_spot(corner, "pdb"))
    corner.deploy("web", 10)
    corner.lies("web", spot=6, on_demand=4)
    corner.corner.marked("web")


def test_all_spot_lost_at_once_never_takes_a_workload_below_its_budget(corner: Rebalanced) -> None:
    four_of_ten_are_safe(corner)

    with corner.corner.watching("web") as moments:
        corner.lose(*corner.nodes("spot"))
        corner.lies("web", on_demand=10)
        corner.corner.nodes(spot=2, on_demand=0)
        corner.lies("web", spot=6, on_demand=4)
        assert least_ready(moments()) >= 4


def test_all_spot_lost_during_a_rollout_never_takes_a_workload_below_its_budget(corner: Rebalanced) -> None:
    four_of_ten_are_safe(corner)

    with corner.corner.watching("web") as moments:
        template = {"metadata": {"annotations": {"rolled": "out"}}}
        corner.cluster.patch("Deployment", "web", {"spec": {"template": template}})
        corner.cluster.wait(lambda: any(map(is_new, corner.corner.pods("web"))), "the rollout to begin")
        corner.lose(*corner.nodes("spot"))
        corner.cluster.wait(lambda: is_rolled_out(corner), "the rollout to end")
        corner.lies("web", on_demand=10)
        corner.corner.nodes(spot=2, on_demand=0)
        corner.lies("web", spot=6, on_demand=4)
        assert least_ready(moments()) >= 4


def is_rolled_out(corner: Rebalanced) -> bool:
    corner.bury()
    return all(map(is_new, corner.corner.pods("web")))


def is_new(pod: Manifest) -> bool:
    return "rolled" in pod["metadata"].get("annotations", {})


def test_without_a_budget_ready_pods_never_drop_below_the_min(corner: Rebalanced) -> None:
    corner.corner.nodes()
    corner.running(off_spot(corner, "30%"))
    corner.deploy("web", 10)
    corner.lies("web", spot=7, on_demand=3)
    corner.corner.marked("web")

    with corner.corner.watching("web") as moments:
        corner.lose(*corner.nodes("spot"))
        corner.lies("web", on_demand=10)
        corner.corner.nodes(spot=2, on_demand=0)
        corner.lies("web", spot=7, on_demand=3)
        assert least_ready(moments()) >= 3


def test_nodes_that_are_cordoned_and_then_drained_by_somebody_else(corner: Rebalanced) -> None:
    four_of_ten_are_safe(corner)

    with corner.corner.watching("web") as moments:
        doomed = corner.nodes("spot")
        corner.cordon(*doomed)
        corner.drain(*doomed)
        corner.lies("web", on_demand=10)
        for name in doomed:
            corner.cluster.delete("Node", name)
        corner.corner.nodes(spot=2, on_demand=0)
        corner.lies("web", spot=6, on_demand=4)
        assert least_ready(moments()) >= 4
