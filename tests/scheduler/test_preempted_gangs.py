"""A gang that makes room for others leaves whole and comes back whole, whatever else waits for room."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.faults import Faithful, LoseReply, LoseRequest, RequestFault
from support.scheduler import Shop, aside, in_process

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


def preempt(ours: Shop) -> set[str]:
    """A crowd waits, then two higher pods come; the UIDs of the gang's members before that."""
    cluster = ours.cluster
    before = {one["metadata"]["uid"] for one in members(ours)}
    scale(ours, crowd=6)
    cluster.wait(lambda: len(cluster.list("Pod", labelSelector="app=crowd")["items"]) >= 6, "the crowd")
    scale(ours, high=2)
    return before


def assert_left_whole(ours: Shop, before: set[str], what: str) -> None:
    """Every member was replaced, the nodes are full, and no replacement is bound."""

    def all_recreated() -> bool:
        # Four nodes for one pod each, and every replacement of the gang is there.
        there = members(ours)
        full = sum(1 for node in ours.nodes_of().values() if node) == 4
        return full and len(there) == SIZE and not before & {one["metadata"]["uid"] for one in there}

    ours.running_of("high", 2)
    ours.cluster.wait(all_recreated, "the gang's replacements, and full nodes")
    bound = [one["metadata"]["name"] for one in members(ours) if one["spec"].get("nodeName")]
    assert bound == [], f"{what}: part of the gang was bound"


def make_room(ours: Shop) -> None:
    """The others go, and the gang starts again."""
    scale(ours, crowd=0, high=0)
    ours.cluster.wait(lambda: is_whole(ours), "the gang to start again")


def test_a_preempted_gang_comes_back_whole_or_not_at_all(ours: Shop, count: Callable[[int, int], int]):
    deployments_of(ours)
    ours.run()
    ours.cluster.wait(lambda: is_whole(ours), "the gang to start")
    for number in range(count(5, 200)):
        before = preempt(ours)
        assert_left_whole(ours, before, f"round {number}")
        make_room(ours)


@dataclass
class EndsAt(Faithful):
    """The scheduler ends at the given write about victims: nothing that it sends later arrives."""

    write: int
    fault: RequestFault
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    writes: int = 0

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if self.reached.is_set():
            return LoseRequest() if method != "GET" else None
        if re.search(r"/pods/part-[^/]+/(status|eviction)$|/eviction$", path.partition("?")[0]):
            self.writes += 1
        if self.writes < self.write:
            return None
        self.reached.set()
        return self.fault


@pytest.mark.parametrize("fault", [LoseRequest(), LoseReply()], ids=["before", "after"])
async def test_a_scheduler_that_takes_over_finishes_the_eviction_of_a_gang(
    ours: Shop, count: Callable[[int, int], int], fault: RequestFault
):
    await aside(deployments_of, ours)
    async with in_process(ours):
        await aside(ours.cluster.wait, lambda: is_whole(ours), "the gang to start")
    for write in range(1, 8) if count(0, 1) else (2, 5):
        plan = EndsAt(write, fault)
        async with in_process(ours, plan) as running:
            before = await aside(preempt, ours)
            await plan.reached.wait()
            await running.crash()
        async with in_process(ours):
            await aside(assert_left_whole, ours, before, f"ended at write {write}")
            await aside(make_room, ours)
