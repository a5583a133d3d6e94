"""Spot lost and back, nothing to be had, burst and back: webhook and rebalancer beside a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from support.manifests import budget
from support.rebalancing import PACE, Rebalanced
from support.workloads import is_ready

Manifest = dict[str, Any]

# Longer than any test: what happens within one did not wait for it.
NEVER = {"after": "1h", "coolDown": "1s"}


def least_ready(moments: Iterator[list[Manifest]]) -> int:
    """The lowest number of Ready pods, not on their way out, at any moment."""
    return min(
        sum(is_ready(one) and "deletionTimestamp" not in one["metadata"] for one in pods) for pods in moments
    )


def spot_and_on_demand(corner: Rebalanced, **spec: Any) -> Manifest:
    """A policy that keeps what a budget demands off spot."""
    own = corner.corner
    tiers = (own.tier("spot", volatile=True), own.tier("on-demand", min="pdb"))
    return own.policy("web", *tiers, rebalance=PACE, **{"fallback": NEVER, **spec})


@pytest.mark.slow
def test_all_spot_lost_at_once_never_takes_a_workload_below_its_budget(corner: Rebalanced) -> None:
    corner.corner.nodes()
    corner.running(spot_and_on_demand(corner))
    corner.cluster.create(budget("web", {"app": "web"}, minAvailable=4))
    corner.corner.deploy("web", 10)
    corner.lies("web", spot=6, on_demand=4)

    with corner.corner.watching("web") as moments:
        corner.lose(*corner.nodes("spot"))
        corner.lies("web", on_demand=10)
        corner.corner.nodes(spot=2, on_demand=0)
        corner.lies("web", spot=6, on_demand=4)
        assert least_ready(moments()) >= 4
