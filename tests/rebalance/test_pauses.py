"""Between passes the rebalancer leaves the machine to others: by its own work, not by what it waits for."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fairlead.client.api import Client
from fairlead.client.events import EventLane
from fairlead.doors.policies import LivePolicies
from fairlead.doors.rebalancer import door as door_module
from fairlead.doors.rebalancer.door import RebalancerDoor
from fairlead.doors.running import Surroundings
from support.cluster import Cluster
from support.policies import policy
from support.wire import PATIENCE_S

SLOW_S = 0.5
SOON_S = 3.0  # well within nine times that, and within the longest pause


class Busy(RebalancerDoor):
    """Each of its passes waits for the API; `work_s` is what the machine seems to have worked by then."""

    work_s = 0.0

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.began: list[float] = []
        self.ended = asyncio.Event()

    async def _pass(self, client: Client, events: EventLane) -> float:
        self.began.append(time.monotonic())
        await asyncio.sleep(SLOW_S)
        Busy.work_s += 60.0 if len(self.began) > 1 else 0.0
        self.ended.set()
        return 0.0


@asynccontextmanager
async def passing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Busy]:
    """A rebalancer that leads, and has ended soon after being told to."""
    monkeypatch.setattr(Busy, "work_s", 0.0)
    monkeypatch.setattr(time, "process_time", lambda: Busy.work_s)
    async with cluster.client() as client, asyncio.timeout(PATIENCE_S):
        around = Surroundings(
            client, LivePolicies(client, fixed=(policy(),)), cluster.namespace, random.Random(1)
        )
        door = Busy(around)
        async with asyncio.TaskGroup() as group:
            policies = group.create_task(around.policies.run())
            running = group.create_task(door.run())
            await door.ended.wait()
            yield door
            door.stop()
            async with asyncio.timeout(SOON_S):
                await running
            policies.cancel()


async def test_a_pass_that_waited_for_the_api_is_followed_by_the_next_at_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with passing(cluster, monkeypatch) as door:
        door.ended.clear()
        await door.ended.wait()
        first, second = door.began[:2]
        assert second - first < SOON_S, "nobody but the API was busy meanwhile"


async def test_a_rebalancer_that_is_told_to_stop_ends_although_it_pauses(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with passing(cluster, monkeypatch) as door:
        door.ended.clear()
        await door.ended.wait()
        await asyncio.sleep(0.2)
        assert len(door.began) == 2, "after much work it pauses"


async def test_no_pause_is_longer_than_a_few_seconds_however_much_work_a_pass_was(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert door_module._LONGEST_PAUSE_S <= 10.0
    monkeypatch.setattr(door_module, "_LONGEST_PAUSE_S", 0.2)
    async with passing(cluster, monkeypatch) as door:
        while len(door.began) < 3:
            door.ended.clear()
            await door.ended.wait()
