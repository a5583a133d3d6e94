"""A gang that makes room for others leaves whole and comes back whole, whatever else waits for room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.scheduler import Shop

SIZE = 3
GANG = {"pod-group": "train", "pod-group-min-member": str(SIZE)}


def deployments_of(ours: Shop) -> None:
    """A gang of three one-replica Deployments on four nodes for one pod each; a crowd and two higher pods."""
    ours.cluster.add_nodes(4, cpu=2)
    for part in range(SIZE):
        ours.deployment(f"part-{part}", 1, annotations=GANG, labels={"of": "gang"}, cpu="1500m")
    ours.deployment("crowd", 0, cpu="1500m")
    ours.deployment("high", 0, priority=100, cpu="1500m")


def scale(ours: Shop, **numbers: int) -> None:
    for name, number in numbers.items():
        ours.cluster.patch("Deployment", name, {"spec": {"replicas": number}})


def members(ours: Shop) -> list[dict[str, Any]]:
    """The gang's pods that are not on their way out."""
    items = ours.cluster.list("Pod", labelSelector="of=gang")["items"]
    return [one for one in items if "deletionTimestamp" not in one["metadata"]]


def is_whole(ours: Shop) -> bool:
    there = members(ours)
    return len(there) == SIZE and all(one["spec"].get("nodeName") for one in there)


def test_a_preempted_gang_comes_back_whole_or_not_at_all(ours: Shop, count: Callable[[int, int], int]):
    deployments_of(ours)
    ours.run()
    cluster = ours.cluster
    cluster.wait(lambda: is_whole(ours), "the gang to start")
    for number in range(count(5, 200)):
        before = {one["metadata"]["uid"] for one in members(ours)}
        scale(ours, crowd=6)
        cluster.wait(lambda: len(cluster.list("Pod", labelSelector="app=crowd")["items"]) >= 6, "the crowd")
        scale(ours, high=2)
        ours.running_of("high", 2)

        def all_recreated(before: set[str] = before) -> bool:
            # Four nodes for one pod each, and every replacement of the gang is there.
            there = members(ours)
            full = sum(1 for node in ours.nodes_of().values() if node) == 4
            return full and len(there) == SIZE and not before & {one["metadata"]["uid"] for one in there}

        cluster.wait(all_recreated, "the gang's replacements, and full nodes")
        bound = [one["metadata"]["name"] for one in members(ours) if one["spec"].get("nodeName")]
        assert bound == [], f"round {number}: part of the gang was bound"
        scale(ours, crowd=0, high=0)
        cluster.wait(lambda: is_whole(ours), "the gang to start again")
