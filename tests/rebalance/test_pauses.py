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
from fairlead.doors.process import Context
from fairlead.doors.rebalancer import door as door_module
from fairlead.doors.rebalancer.door import RebalancerDoor
from fairlead.feed.policies import LivePolicies
from support.cluster import Cluster
from support.policies import policy
from support.wire import PATIENCE_S


class Busy(RebalancerDoor):
    """Each of its passes waits for the API; from the second on it seems to have worked for a minute, too."""

    worked_s = 0.0

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.passes = 0
        self.rests: list[float] = []
        self.rested = asyncio.Event()

    async def _pass(self, client: Client, events: EventLane) -> float:
        await asyncio.sleep(0.1)
        self.passes += 1
        Busy.worked_s += 60.0 if self.passes > 1 else 0.0
        return 0.0

    async def _rest(self, rest_s: float, news: asyncio.Event) -> None:
        if self.passes:
            self.rests.append(rest_s)
            self.rested.set()
        await super()._rest(rest_s, news)

    async def until_rests(self, number: int) -> float:
        """The length of that rest, once it has begun."""
        while len(self.rests) < number:
            self.rested.clear()
            await self.rested.wait()
        return self.rests[number - 1]


@asynccontextmanager
async def passing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Busy]:
    """A rebalancer that leads, and that has ended when this has."""
    monkeypatch.setattr(Busy, "worked_s", 0.0)
    monkeypatch.setattr(time, "process_time", lambda: Busy.worked_s)
    async with cluster.client() as client, asyncio.timeout(PATIENCE_S):
        context = Context(
            client, LivePolicies(client, fixed=(policy(),)), cluster.namespace, random.Random(1)
        )
        door = Busy(context)
        # The standby's part would be among the rests.
        monkeypatch.setattr(door, "_stand_by", asyncio.Event().wait)
        async with asyncio.TaskGroup() as group:
            following = group.create_task(context.follow())
            running = group.create_task(door.run())
            yield door
            door.stop()
            await running
            following.cancel()


async def test_a_pass_that_only_waited_for_the_api_is_followed_by_the_next_at_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with passing(cluster, monkeypatch) as door:
        assert await door.until_rests(1) == door_module._PAUSE_S


async def test_a_pass_that_worked_is_followed_by_a_pause_but_not_by_a_long_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with passing(cluster, monkeypatch) as door:
        # A pause and a rest after the first pass, and then the pause after the second.
        assert await door.until_rests(3) == door_module._LONGEST_PAUSE_S <= 10.0


async def test_a_rebalancer_that_is_told_to_stop_ends_although_it_pauses(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "_LONGEST_PAUSE_S", 3600.0)
    async with passing(cluster, monkeypatch) as door:
        assert await door.until_rests(3) > PATIENCE_S
