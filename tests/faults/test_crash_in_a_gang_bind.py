"""A scheduler that dies at any write of a gang's bind: the gang is whole in the end, or waits as a whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cluster import Cluster
from support.crash_points import Dies, Outcome, Story
from support.scheduler import SchedulerProcess, shop

pytestmark = [pytest.mark.real, pytest.mark.slow]

SIZE = 3
MEMBERS = tuple(f"member-{index}" for index in range(SIZE))


class GangBind(Story):
    """Three nodes for one pod each, a gang of three, and a single pod that would take one of them.

    Where part of the gang is bound when the scheduler dies, the single pod comes before the next one starts.
    It has the same priority and is smaller, and still the gang must be finished first.
    """

    name = "a gang of three is bound"
    heart = "POST pods/binding"

    def __init__(self, cluster: Cluster, kubeconfig: Path, folder: Path, plan: Dies) -> None:
        super().__init__(cluster, kubeconfig, folder, plan)
        self.shop = self.ends.enter_context(shop(cluster))
        self.door: SchedulerProcess
        self.rival = False

    def prepare(self) -> None:
        self.cluster.add_nodes(SIZE, cpu=2)

    def start(self) -> None:
        self.door = self.shop.run(kubeconfig=self.kubeconfig)

    def kill(self) -> None:
        self.door.kill()

    def while_down(self) -> None:
        bound = [node for name, node in self.shop.nodes_of().items() if name in MEMBERS and node]
        if bound:
            self._add_rival()

    def act(self) -> None:
        *early, last = MEMBERS
        for name in early:
            self._add(name)
        # So that every play has these events.
        self.until(lambda: all(map(self._is_told_to_wait, early)), "the first to be told to wait")
        self._add(last)
        self.until(self._is_bound, "the gang to be bound")
        self._add_rival()
        self.until(lambda: _held(self.cluster, "rival"), "the single pod to be held")

    def outcome(self) -> Outcome:
        nodes = self.shop.nodes_of()
        return {
            "nodes of the gang": len({nodes[name] for name in MEMBERS if nodes[name]}),
            "members": sum(1 for name in MEMBERS if nodes[name]),
            "rival": (nodes["rival"], _held(self.cluster, "rival")),
            "pods": sorted(nodes),
        }

    def check(self, moments: list[list[dict[str, Any]]]) -> None:
        leaving = [one for pods in moments for one in pods if "deletionTimestamp" in one["metadata"]]
        assert leaving == [], "a bare pod was deleted"

    def _is_bound(self) -> bool:
        nodes = self.shop.nodes_of()
        return all(nodes.get(name) for name in MEMBERS)

    def _add(self, name: str) -> None:
        self.shop.add(name, gang="train", minimum=SIZE, cpu="1500m")

    def _is_told_to_wait(self, name: str) -> bool:
        found = self.cluster.list("Event", fieldSelector=f"involvedObject.name={name}")["items"]
        return any(one["reason"] == "WaitingForGang" for one in found)

    def _add_rival(self) -> None:
        if not self.rival:
            self.rival = True
            self.shop.add("rival", cpu="1500m")


def _held(cluster: Cluster, name: str) -> str:
    """Why a pod is Unschedulable, for autoscalers; "" for one that is not."""
    conditions = cluster.get("Pod", name)["status"].get("conditions", [])
    found = [one for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"]
    return found[0]["reason"] if found else ""


def test_a_scheduler_that_dies_at_any_write_of_a_gang_s_bind_leaves_it_whole(
    crash_everywhere: Callable[..., None],
) -> None:
    crash_everywhere(GangBind, varying=("POST events",))
