"""A scheduler that dies at any write of a gang's preemption by another: the victims leave whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cluster import Cluster
from support.crash_points import Dies, Outcome, Story
from support.scheduler import SchedulerProcess, shop

pytestmark = [pytest.mark.real, pytest.mark.slow]

LOW = {"pod-group": "low", "pod-group-min-member": "3"}


class Preemption(Story):
    """Three nodes full of a gang of three, of which a gang of two of a higher priority needs two.

    The victims' Deployment recreates them. One node stays free, and no replacement may start on it alone.
    """

    name = "a gang preempts a gang"
    heart = "POST pods/eviction"

    def __init__(self, cluster: Cluster, kubeconfig: Path, folder: Path, plan: Dies) -> None:
        super().__init__(cluster, kubeconfig, folder, plan)
        self.shop = self.ends.enter_context(shop(cluster))
        self.door: SchedulerProcess
        self.victims: set[str] = set()

    def prepare(self) -> None:
        self.cluster.add_nodes(3, cpu=2)

    def start(self) -> None:
        self.door = self.shop.run(kubeconfig=self.kubeconfig)
        if not self.victims:
            self.shop.deployment("low", 3, annotations=LOW, cpu="1500m")
            self.victims = {one["metadata"]["uid"] for one in self.shop.running_of("low", 3)}

    def kill(self) -> None:
        self.door.kill()

    def act(self) -> None:
        for name in ("high-0", "high-1"):
            self.shop.add(name, gang="high", minimum=2, priority=100, cpu="1500m")
        self.until(self._is_over, "the victims to have left whole, and to be held again")

    def outcome(self) -> Outcome:
        there = self._there()
        high = [one["spec"].get("nodeName") for one in there if "pod-group" in _annotations(one, "high")]
        return {
            "nodes of the higher gang": len(set(filter(None, high))),
            "the lower gang": sorted(
                (one["spec"].get("nodeName", ""), _conditions(one))
                for one in there
                if "pod-group" in _annotations(one, "low")
            ),
            "victims": len(self.victims & {one["metadata"]["uid"] for one in there}),
            "pods": len(there),
        }

    def check(self, moments: list[list[dict[str, Any]]]) -> None:
        for pods in moments:
            for one in pods:
                if "deletionTimestamp" in one["metadata"]:
                    assert one["metadata"]["uid"] in self.victims, "a pod left that is no victim"
            low = [one for one in pods if "pod-group" in _annotations(one, "low")]
            fresh = [one for one in low if one["metadata"]["uid"] not in self.victims]
            assert not any(one["spec"].get("nodeName") for one in fresh), "part of the gang came back"

    def _there(self) -> list[dict[str, Any]]:
        items = self.cluster.list("Pod")["items"]
        return [one for one in items if "deletionTimestamp" not in one["metadata"]]

    def _is_over(self) -> bool:
        found = self.outcome()
        held = [conditions for _, conditions in found["the lower gang"]]
        return (found["nodes of the higher gang"], found["victims"]) == (2, 0) and held == [
            (("PodScheduled", "False", "Unschedulable"),)
        ] * 3


def _annotations(one: dict[str, Any], gang: str) -> dict[str, str]:
    """A pod's annotations, if it is of this gang."""
    found: dict[str, str] = one["metadata"].get("annotations", {})
    return found if found.get("pod-group") == gang else {}


def _conditions(one: dict[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """What a pod's conditions say, those of kubelets left out."""
    found = one["status"].get("conditions", [])
    kubelet = ("Ready", "ContainersReady", "Initialized", "PodReadyToStartContainers")
    return tuple(
        (each["type"], each["status"], each.get("reason", ""))
        for each in sorted(found, key=lambda each: str(each["type"]))
        if each["type"] not in kubelet
    )


def test_a_scheduler_that_dies_at_any_write_of_a_preemption_leaves_both_gangs_whole(
    crash_everywhere: Callable[..., None],
) -> None:
    crash_everywhere(Preemption, varying=("POST events", "PATCH pods/status"))
