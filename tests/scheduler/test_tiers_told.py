"""The core's marks and the API's stay the same, whoever changes them, and promises come with the start."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.client.api import Client
from fairlead.doors.process import Context
from fairlead.doors.scheduler.policy_feed import PolicyFeed
from fairlead.engine.core.actions import MarkTiers
from fairlead.engine.core.events import Event, MarksAre, PoliciesAre, Promised
from fairlead.feed.marks import LiveMarks
from fairlead.feed.policies import LivePolicies
from fairlead.feed.scale_up_events import ScaleUpEvents
from fairlead.policy.tiers.marks import Marks
from support.cluster import Cluster
from support.cluster_of import seen
from support.policies import plain_policy, serve_policies
from support.units import pod
from support.wire import PATIENCE_S

SPOT_FAILED = Marks(60).failed("spot", 1000)


class Told:
    """What a session's core would hear."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._some = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self._some.set()

    async def until(self, holds: Callable[[Event], bool]) -> None:
        """Wait for such an event, and forget all so far."""
        async with asyncio.timeout(PATIENCE_S):
            while not any(map(holds, self.events)):
                self._some.clear()
                await self._some.wait()
        self.events.clear()


@asynccontextmanager
async def beside(*parts: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """While these run."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Following:
    """A policy of a file, followed as a scheduler in stand-by does."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        serve_policies(cluster)
        self.cluster = cluster
        self.file = folder / "policies.yaml"
        self.name, self.other = cluster.unique("web"), cluster.unique("other")
        self.told = Told()
        self.say(self.name, self.other)

    def say(self, *names: str) -> None:
        """Write a file of these policies, in one step."""
        beside = self.file.with_suffix(".new")
        beside.write_text(yaml.safe_dump_all([plain_policy(name) for name in names]))
        os.replace(beside, self.file)

    @asynccontextmanager
    async def running(self, client: Client) -> AsyncIterator[tuple[PolicyFeed, LiveMarks, ScaleUpEvents]]:
        policies = LivePolicies(client, file=str(self.file))
        context = Context(client, policies, self.cluster.namespace, client.rng)
        feed = PolicyFeed(context, client, self.told)
        context.marks.on_change(feed.look)
        async with beside(context.follow(), feed.listen()):
            async with asyncio.timeout(PATIENCE_S):
                await feed.synced()
            yield feed, context.marks, context.scale_ups

    def marks_are(self, marks: Marks) -> Callable[[Event], bool]:
        return lambda event: event == MarksAre(self.name, dict(marks))

    def policies_are(self, *names: str) -> Callable[[Event], bool]:
        return lambda event: (
            isinstance(event, PoliciesAre) and {one.name for one in event.policies} == set(names)
        )


@pytest.fixture
def following(cluster: Cluster, tmp_path: Path) -> Following:
    return Following(cluster, tmp_path)


async def test_a_mark_that_another_took_away_while_ours_was_written_is_gone_for_the_core_too(
    following: Following,
):
    async with following.cluster.client() as client, following.running(client) as (feed, marks, _):
        await marks.change(following.name, lambda found: found.failed("spot", 1000))
        assert any(map(following.marks_are(SPOT_FAILED), feed.known([])))
        claimed = SPOT_FAILED.claim_probe("spot", "us", 1070)
        assert claimed is not None
        feed.put(MarkTiers(following.name, dict(SPOT_FAILED), dict(claimed)))
        await marks.change(following.name, lambda found: found.cleared("spot"))
        async with beside(feed.run()):  # only now is anything written
            await following.told.until(following.marks_are(Marks()))


async def test_marks_are_told_again_of_a_policy_that_was_away(following: Following):
    async with (
        following.cluster.client() as client,
        following.running(client) as (feed, marks, _),
        beside(feed.run()),
    ):
        feed.known([])
        await marks.change(following.name, lambda found: found.failed("spot", 1000))
        await following.told.until(following.marks_are(SPOT_FAILED))
        following.say(following.other)
        await following.told.until(following.policies_are(following.other))
        following.say(following.name, following.other)
        await following.told.until(following.marks_are(SPOT_FAILED))


async def test_promises_so_far_are_heard_before_anything_is_planned(following: Following):
    promise = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "promise", "namespace": following.cluster.namespace},
        "involvedObject": {
            "kind": "Pod",
            "namespace": following.cluster.namespace,
            "name": "p",
            "uid": "uid-p",
        },
        "reason": "TriggeredScaleUp",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    following.cluster.create(promise)
    async with following.cluster.client() as client, following.running(client) as (feed, _, _):
        assert [event.uid for event in feed.known([]) if isinstance(event, Promised)] == ["uid-p"]


async def test_only_the_newest_promise_of_a_pod_is_told_and_after_the_pods(following: Following):
    there = seen(pod("p"))
    async with following.cluster.client() as client, following.running(client) as (feed, _, scale_ups):
        assert not following.told.events
        scale_ups.known |= {"uid-default-p": 1.0}
        scale_ups.known |= {"uid-default-p": 2.0}
        assert feed.known([there])[-2:] == [there, Promised("uid-default-p", 2.0)]
