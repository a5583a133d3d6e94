"""One watch of a kind serves all of its followers, whenever they come and whatever becomes of the others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.client.view import Added, Deleted, Event, Modified, Synced
from fairlead.feed.trimming import BriefPod
from fairlead.feed.watches import Watches
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known
from support.odd_server import bookmark, frame, serving
from support.units import pod
from support.wire import PATIENCE_S

PODS = known("Pod")
SECRET = {"kubectl.kubernetes.io/last-applied-configuration": "secret", "fairlead.dev/slot": "3"}


def versioned(name: str, version: int) -> dict[str, Any]:
    made = pod(name, annotations=SECRET)
    return made | {"metadata": made["metadata"] | {"resourceVersion": str(version)}}


class Server:
    """Tells of pods; counts its watches."""

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.opened += 1
        try:
            first = frame("ADDED", versioned("a", 1)) + frame("ADDED", versioned("b", 2))
            await response.write(first + bookmark(9, initial_end=True))
            while True:
                await response.write(await self.lines.get())
        finally:
            self.closed += 1


class Follower:
    """Remembers what it received."""

    def __init__(self) -> None:
        self.events: list[Event[Any, Any]] = []
        self._news = asyncio.Event()

    def __call__(self, batch: list[Event[Any, Any]]) -> None:
        self.events += batch
        self._news.set()

    async def until(self, *wanted: str) -> None:
        while self.said() != list(wanted):
            self._news.clear()
            await self._news.wait()

    def said(self) -> list[str]:
        found = []
        for event in self.events:
            match event:
                case Added(key=key):
                    found.append(f"+{key.rpartition('/')[2]}")
                case Modified(key=key):
                    found.append(f"~{key.rpartition('/')[2]}")
                case Deleted(key=key):
                    found.append(f"-{key.rpartition('/')[2]}")
                case Synced():
                    found.append("all")
        return found


@asynccontextmanager
async def watching() -> AsyncIterator[tuple[Server, Watches, asyncio.TaskGroup]]:
    server = Server()
    async with (
        asyncio.timeout(PATIENCE_S),
        serving(server.handle) as target,
        Connection(target) as connection,
        asyncio.TaskGroup() as group,
    ):
        watches = Watches(Client(connection, rng=random.Random(1)))
        running = group.create_task(watches.run())
        yield server, watches, group
        running.cancel()


async def test_followers_share_one_watch_and_late_ones_receive_what_there_is() -> None:
    async with watching() as (server, watches, group):
        first, second = Follower(), Follower()
        following = [group.create_task(watches.follow(PODS, BriefPod, first))]
        await first.until("+a", "+b", "all")
        await server.lines.put(frame("DELETED", versioned("a", 10)) + frame("ADDED", versioned("c", 11)))
        await first.until("+a", "+b", "all", "-a", "+c")
        following.append(group.create_task(watches.follow(PODS, BriefPod, second)))
        await second.until("+b", "+c", "all")
        await server.lines.put(frame("MODIFIED", versioned("b", 12)))
        await first.until("+a", "+b", "all", "-a", "+c", "~b")
        await second.until("+b", "+c", "all", "~b")
        assert (server.opened, server.closed) == (1, 0)
        for task in following:
            task.cancel()


async def test_what_one_follower_raises_ends_that_one_alone() -> None:
    async with watching() as (server, watches, group):
        good = Follower()
        following = group.create_task(watches.follow(PODS, BriefPod, good))
        await good.until("+a", "+b", "all")

        def bad(batch: list[Event[Any, Any]]) -> None:
            if any(isinstance(event, Modified) for event in batch):
                raise ValueError("what nobody thought of")

        stumbling = asyncio.ensure_future(watches.follow(PODS, BriefPod, bad))
        for _ in range(3):
            await asyncio.sleep(0)  # it joins
        await server.lines.put(frame("MODIFIED", versioned("b", 12)))
        with pytest.raises(ValueError, match="nobody thought of"):
            await stumbling
        await server.lines.put(frame("MODIFIED", versioned("a", 13)))
        await good.until("+a", "+b", "all", "~b", "~a")
        following.cancel()


async def test_a_slow_follower_loses_nothing_and_holds_the_others_back() -> None:
    async with watching() as (server, watches, group):
        quick, slow, go_on = Follower(), Follower(), asyncio.Event()

        async def slowly(batch: list[Event[Any, Any]]) -> None:
            if any(isinstance(event, Modified) for event in batch):
                await go_on.wait()
            slow(batch)

        following = [group.create_task(watches.follow(PODS, BriefPod, take)) for take in (slowly, quick)]
        await quick.until("+a", "+b", "all")
        await server.lines.put(frame("MODIFIED", versioned("a", 12)))
        await server.lines.put(frame("MODIFIED", versioned("b", 13)))
        go_on.set()
        await slow.until("+a", "+b", "all", "~a", "~b")
        await quick.until("+a", "+b", "all", "~a", "~b")
        for task in following:
            task.cancel()


async def test_a_watch_ends_with_its_last_follower_and_begins_again_with_the_next() -> None:
    async with watching() as (server, watches, group):
        for number in (1, 2):
            follower = Follower()
            following = group.create_task(watches.follow(PODS, BriefPod, follower))
            await follower.until("+a", "+b", "all")
            assert watches.trouble(PODS) is None
            following.cancel()
            await asyncio.wait((following,))
            assert watches.trouble(PODS) == "not listed yet"
            assert server.opened == number


@pytest.mark.parametrize("whole", [False, True])
async def test_objects_come_as_the_one_who_wants_most_wants_them_and_without_what_nobody_reads(
    whole: bool,
) -> None:
    async with watching() as (_, watches, group):
        follower = Follower()
        if whole:
            watches.want(PODS, Pod)
        following = group.create_task(watches.follow(PODS, BriefPod, follower))
        await follower.until("+a", "+b", "all")
        first = follower.events[0]
        assert isinstance(first, Added)
        assert isinstance(first.object, Pod if whole else BriefPod)
        assert first.object.metadata.annotations == {"fairlead.dev/slot": "3"}
        following.cancel()
