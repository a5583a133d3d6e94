"""What a stream left out: the audit finds it, and only that, whatever the server answers."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from aiohttp import web

from fairlead.client.reflector import Tuning
from support.odd_server import frame
from support.reflected import listed, pod, pods, says, scene, watch


async def test_a_frame_that_never_came_is_found_and_mended() -> None:
    now = pods(pod("a", 15), pod("c", 16), at=20)  # b was deleted, a changed, c is new: nobody told
    async with scene(
        watch(listed(pod("a", 3), pod("b", 4), at=10)),
        now,
        watch(listed(pod("a", 15), pod("c", 16), at=20)),
    ) as stage:
        await stage.reflector.synced()
        assert await stage.reflector.audit() == 3
        await stage.until(
            *("Added shop/a", "Added shop/b", "Synced"),
            *("Modified shop/a", "Added shop/c", "Deleted shop/b", "Synced"),
        )
        assert stage.reflector.counters.missed == 3


async def test_a_frame_that_is_only_slow_is_no_miss() -> None:
    release = asyncio.Event()

    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(listed(pod("a", 3), pod("b", 4), at=10))
        await release.wait()
        frames = (
            frame("MODIFIED", pod("a", 15)) + frame("DELETED", pod("b", 16)) + frame("ADDED", pod("c", 17))
        )
        await response.write(frames)
        await asyncio.Event().wait()
        return response

    async def released(request: web.BaseRequest) -> web.StreamResponse:
        release.set()
        return await pods(pod("a", 15), pod("c", 17), at=20)(request)

    async with scene(slow, released, tuning=Tuning(audit_s=0, settle_s=1.0)) as stage:
        await stage.reflector.synced()
        assert await stage.reflector.audit() == 0
        assert stage.reflector.counters.listings == 1


async def test_it_asks_for_metadata_only() -> None:
    accepted = []

    async def metadata(request: web.BaseRequest) -> web.StreamResponse:
        accepted.append(request.headers["Accept"])
        return await pods(pod("a", 3), at=10)(request)

    async with scene(watch(listed(pod("a", 3), at=10)), metadata) as stage:
        await stage.reflector.synced()
        assert await stage.reflector.audit() == 0
    assert "PartialObjectMetadataList" in accepted[0]


async def test_it_comes_round_by_itself() -> None:
    async with scene(
        watch(listed(pod("a", 3), at=10)),
        pods(at=20),
        watch(listed(at=20)),
        tuning=Tuning(audit_s=0.02, settle_s=0.01, backoff_first_s=0.001),
    ) as stage:
        await stage.until("Added shop/a", "Synced", "Deleted shop/a", "Synced")


async def test_it_comes_round_for_who_takes_events_in_lists_too() -> None:
    async with (
        scene(
            watch(listed(pod("a", 3), at=10)),
            pods(at=20),
            watch(listed(at=20)),
            tuning=Tuning(audit_s=0.02, settle_s=0.01, backoff_first_s=0.001),
            run=False,
        ) as stage,
        aclosing(stage.reflector.batches()) as batches,
    ):
        async for batch in batches:
            for event in batch:
                stage.deliver(event)
            if "Deleted shop/a" in stage.said:
                break


async def test_an_answer_that_makes_no_sense_does_no_harm() -> None:
    async with scene(
        watch(listed(pod("a", 3), at=10)),
        pods({"metadata": None}, pod("a", 3), at=10),
        pods(pod("a", 3), at=10),
        tuning=Tuning(audit_s=0.02, settle_s=0.01),
    ) as stage:
        await stage.asked_for(3)
        assert stage.said == ["Added shop/a", "Synced"]


async def test_a_server_that_refuses_it_does_no_harm() -> None:
    async with scene(
        watch(listed(pod("a", 3), at=10)),
        says(500, "InternalError"),
        pods(pod("a", 3), at=10),
        tuning=Tuning(audit_s=0.02, settle_s=0.01),
    ) as stage:
        await stage.asked_for(3)
        assert stage.said == ["Added shop/a", "Synced"]
