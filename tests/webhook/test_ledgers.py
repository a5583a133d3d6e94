"""Slots taken in ledgers by many at once, in one process."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.doors.process import Context
from fairlead.doors.webhook.ledgers import Ledgers
from fairlead.doors.webhook.metrics import Metrics
from fairlead.feed.policies import LivePolicies
from fairlead.policy.names import LEDGERS
from fairlead.policy.slots.ledger import Ledger
from support.cluster import Cluster
from support.ledgers import kept, wishes_of_one_group
from support.wire import PATIENCE_S


def stumbles() -> int:
    raise ValueError("what nobody thought of")


async def test_it_is_synced_only_when_all_ledgers_were_listed(served: Cluster) -> None:
    async with served.client() as client:
        context = Context(client, LivePolicies(client), "fairlead-system", random.Random(1))
        following = asyncio.ensure_future(context.follow())
        ledgers = Ledgers(client, context.watches, context.groups, Metrics())
        waiting = asyncio.ensure_future(ledgers.synced())
        await asyncio.sleep(0)  # its turn: were there nothing to wait for, it would be done
        assert not waiting.done()
        running = asyncio.ensure_future(ledgers.run())
        async with asyncio.timeout(PATIENCE_S):
            await waiting
        assert ledgers.is_synced
        for task in (running, following):
            task.cancel()
        await asyncio.wait((running, following))


async def test_who_comes_in_the_same_breath_comes_along_in_one_write(served: Cluster, tmp_path: Path) -> None:
    wishes = wishes_of_one_group(served)
    async with served.client() as client, kept(client, tmp_path) as ledgers:
        asked = []
        for wish in wishes:
            asked.append(asyncio.ensure_future(ledgers.take(wish)))
            await asyncio.sleep(0)  # each a turn of the loop after the one before
        assert [placing.slot for placing in await asyncio.gather(*asked)] == [1, 2, 3, 4]
        (ledger,) = served.list(LEDGERS)["items"]
        assert ledger["metadata"]["generation"] == 1


async def test_wishes_that_arrive_while_others_still_do_share_one_write(
    served: Cluster, tmp_path: Path
) -> None:
    """A write waits for more of them by the clock: a busy machine may be too late, but not each time."""
    wish, number, written = wishes_of_one_group(served)[0], 10, 0
    async with served.client() as client, kept(client, tmp_path) as ledgers:
        for attempt in range(10):
            asked = []
            for index in range(number):
                each = replace(wish, token=f"t-{attempt}-{index}")
                asked.append(asyncio.ensure_future(ledgers.take(each)))
                await asyncio.sleep(0)  # each a turn of the loop after the one before
            await asyncio.gather(*asked)
            (ledger,) = served.list(LEDGERS)["items"]
            before, written = written, ledger["metadata"]["generation"]
            if written == before + 1:
                return
    pytest.fail("none of ten bursts of wishes was one write")


async def test_a_ledger_that_others_changed_is_written_as_they_left_it(
    served: Cluster, tmp_path: Path
) -> None:
    wishes = wishes_of_one_group(served)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(served.client())
        replicas = [await stack.enter_async_context(kept(client, tmp_path)) for _ in range(2)]
        asked = [replicas[index % 2].take(wish) for index, wish in enumerate(wishes)]
        given = await asyncio.gather(*asked)
        assert sorted(placing.slot for placing in given) == [1, 2, 3, 4]
        (found,) = served.list(LEDGERS)["items"]
        held = {entry.slot: entry.token for entry in Ledger.from_object(found).entries}
        assert held == {placing.slot: placing.token for placing in given}


async def test_whoever_comes_while_a_race_is_lost_is_answered_too(served: Cluster, tmp_path: Path) -> None:
    """Two replicas and a stream of wishes for one ledger: races are lost while others wait."""
    wish, number = wishes_of_one_group(served)[0], 60
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(served.client())
        replicas = [await stack.enter_async_context(kept(client, tmp_path)) for _ in range(2)]
        asked = []
        for index in range(number):
            asked.append(asyncio.ensure_future(replicas[index % 2].take(replace(wish, token=f"t-{index}"))))
            await asyncio.sleep(0.002)
        async with asyncio.timeout(PATIENCE_S):
            given = await asyncio.gather(*asked)
        assert sorted(placing.slot for placing in given) == [*range(1, number + 1)]


async def test_nobody_waits_until_a_stream_of_others_ends(served: Cluster, tmp_path: Path) -> None:
    wish, number = wishes_of_one_group(served)[0], 500
    async with served.client() as client, kept(client, tmp_path) as ledgers:
        first = asyncio.ensure_future(ledgers.take(wish))
        others = []
        for index in range(number):
            others.append(asyncio.ensure_future(ledgers.take(replace(wish, token=f"t-{index}"))))
            # It must look like a rush from the first turn of the loop on.
            await asyncio.sleep(0 if index < 20 else 0.0005)
            if first.done():
                break
        assert first.done(), f"{number} others came along, and it was not written"
        assert first.result().slot == 1
        await asyncio.gather(*others)


async def test_ended_while_pods_are_tried_one_by_one_everybody_is_told(
    served: Cluster, tmp_path: Path
) -> None:
    fine = wishes_of_one_group(served)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(served.client())
        ledgers = await stack.enter_async_context(kept(client, tmp_path))
        ended = asyncio.Event()

        def ends_it() -> int:
            ended.set()
            raise ValueError("what nobody thought of")

        wishes = [*fine[:3], replace(fine[3], bound=ends_it)]
        asked = [asyncio.ensure_future(ledgers.take(wish)) for wish in wishes]
        await ended.wait()
        await stack.aclose()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait(asked)


async def test_a_pod_that_we_stumble_over_fails_alone(served: Cluster, tmp_path: Path) -> None:
    fine = wishes_of_one_group(served)
    async with served.client() as client, kept(client, tmp_path) as ledgers:
        wishes = [*fine[:2], replace(fine[2], bound=stumbles), fine[3]]
        *given, last = await asyncio.gather(*map(ledgers.take, wishes), return_exceptions=True)
        assert isinstance(given.pop(2), ValueError)
        slots = [one.slot for one in (*given, last) if not isinstance(one, BaseException)]
        assert slots == [1, 2, 3]
        assert (await ledgers.take(fine[2])).slot == 4
