"""A rebalancer that dies at any write of a mark, a fallback or a move: the split is right in the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.feed.marks_map import MARKS_MAP
from fairlead.kube.resources import known
from support.admission import SLOT, TIER
from support.cluster import Cluster
from support.crash_points import Dies, Outcome, Story
from support.door import DoorProcess
from support.rebalancing import PACE, rebalanced
from support.workloads import is_ready

pytestmark = [pytest.mark.real, pytest.mark.slow]

LEASE = "fairlead-rebalancer"


class Move(Story):
    """Spot has no node: it is marked, and the pod that was sent there recreated on demand. A spot node comes:
    the mark goes, and the pod is brought back.
    """

    name = "a tier is marked, a pod moved"
    heart = "POST pods/eviction"

    def __init__(self, cluster: Cluster, kubeconfig: Path, folder: Path, plan: Dies) -> None:
        super().__init__(cluster, kubeconfig, folder, plan)
        self.own = self.ends.enter_context(rebalanced(cluster, folder))
        self.corner = self.own.corner
        self.door: DoorProcess | None = None

    def prepare(self) -> None:
        self.corner.nodes(spot=0, on_demand=1)
        tiers = self.corner.tier("spot", volatile=True), self.corner.tier("on-demand", min=1)
        patience = {"after": "1s", "coolDown": "10m"}
        self.own.policies(self.corner.policy("web", *tiers, rebalance=PACE, fallback=patience))

    def start(self) -> None:
        self.door = self.own.door("rebalance", kubeconfig=self.kubeconfig)
        self.door.wait_for("synced")

    def kill(self) -> None:
        assert self.door is not None
        self.door.kill()

    def while_down(self) -> None:
        """The dead one's lease ends at once: how long that takes is not the story here."""
        self.cluster.wire.request("DELETE", known("Lease").path(self.corner.system, LEASE))

    def act(self) -> None:
        self.own.deploy("web", 2)
        self.until(lambda: self.corner.is_settled("web", 2, {"on-demand": 2}), "both pods on demand")
        self.corner.nodes(spot=1, on_demand=0)
        back = {"on-demand": 1, "spot": 1}
        self.until(lambda: self.corner.is_settled("web", 2, back), "one of them back on spot")
        self.until(lambda: not self._marks(), "no mark to be left")

    def outcome(self) -> Outcome:
        pods = self.corner.pods("web")
        marks = [one["metadata"]["annotations"] for one in pods]
        return {
            "pods": sorted((int(mark[SLOT]), mark[TIER]) for mark in marks),
            "where": self.corner.split(pods),
            "ready": sum(map(is_ready, pods)),
            "marks": self._marks(),
        }

    def check(self, moments: list[list[dict[str, Any]]]) -> None:
        both = False
        for pods in moments:
            there = [one for one in pods if "deletionTimestamp" not in one["metadata"] and is_ready(one)]
            both |= len(there) == 2
            assert not both or there, "both pods were away at once"

    def _marks(self) -> dict[str, Any]:
        path = known("ConfigMap").path(self.corner.system, MARKS_MAP)
        found = self.cluster.wire.request("GET", path)
        data = found.body.get("data", {}) if found.status == 200 else {}
        return {policy: marks for policy, said in data.items() if (marks := json.loads(said))}


def test_a_rebalancer_that_dies_at_any_write_of_a_move_ends_with_the_same_split(
    crash_everywhere: Callable[..., None],
) -> None:
    # A replacement may be admitted before the webhook knows of the mark: then it is deleted, too.
    crash_everywhere(Move, varying=("DELETE pods", "PATCH configmaps", "POST events"))
