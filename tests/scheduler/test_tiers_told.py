"""The core's marks and the API's stay the same, whoever changes them, and promises come with the start."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK
from fairlead.doors.marks import LiveMarks
from fairlead.doors.policies import LivePolicies
from fairlead.doors.scheduler.inbox import Latest
from fairlead.doors.scheduler.tiers import TierFeed, Tiering
from fairlead.engine.core.actions import MarkTiers
from fairlead.engine.core.events import Event, Gone, MarksAre, PoliciesAre, Promised
from fairlead.policy.marks import Marks
from support.cluster import Cluster
from support.cluster_of import seen
from support.policies import plain_policy, serve_policies
from support.units import node, pod
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
    async def running(self, client: Client) -> AsyncIterator[tuple[Tiering, LiveMarks]]:
        policies = LivePolicies(client, file=str(self.file))
        marks = LiveMarks(client, policies, self.cluster.namespace)
        feed = TierFeed(policies, marks, ())
        tiering = Tiering(feed, client, self.told, rng=random.Random(1), clock=WALL_CLOCK)
        async with beside(policies.run(), marks.run(), tiering.listen()):
            async with asyncio.timeout(PATIENCE_S):
                await tiering.synced()
            yield tiering, marks

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
    async with following.cluster.client() as client, following.running(client) as (tiering, marks):
        await marks.change(following.name, lambda found: found.failed("spot", 1000))
        assert any(map(following.marks_are(SPOT_FAILED), tiering.news()))
        claimed = SPOT_FAILED.claim_probe("spot", "us", 1070)
        assert claimed is not None
        tiering.put(MarkTiers(following.name, dict(SPOT_FAILED), dict(claimed)))
        await marks.change(following.name, lambda found: found.succeeded("spot"))
        async with beside(tiering.run()):  # only now is anything written
            await following.told.until(following.marks_are(Marks()))


async def test_marks_are_told_again_of_a_policy_that_was_away(following: Following):
    async with (
        following.cluster.client() as client,
        following.running(client) as (tiering, marks),
        beside(tiering.run()),
    ):
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
    async with following.cluster.client() as client, following.running(client):
        assert [event.uid for event in following.told.events if isinstance(event, Promised)] == ["uid-p"]


class TestWhatAStandByKeeps:
    def test_is_told_nodes_first_and_promises_last(self):
        latest, there, here = Latest(), seen(pod("p", on="n")), seen(node("n"))
        latest.take([Promised("uid-default-p", 1.0), there, here])
        assert latest.all() == [here, there, Promised("uid-default-p", 1.0)]
        assert latest.all() == []

    def test_is_the_newest_promise_of_pods_that_are_not_gone(self):
        latest = Latest()
        latest.take([seen(pod("p")), seen(pod("q")), Promised("uid-default-p", 2.0)])
        latest.take([Promised("uid-default-q", 2.0), Promised("uid-default-q", 1.0)])
        latest.take([Gone("Pod", "default", "p", "uid-default-p")])
        assert latest.all() == [seen(pod("q")), Promised("uid-default-q", 2.0)]
