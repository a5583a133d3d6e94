"""A reflector keeps its copy right through every way in which a stream can end or lie.

A scripted server stands for an API server here, because each test needs one particular misfortune at
one particular moment; the same reflector runs against real clusters in the storm test.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.client.reflector import Reflector, Tuning
from fairlead.client.retry import Retry
from fairlead.client.view import Added, Deleted, Event
from fairlead.errors import BadObject
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known
from support.odd_server import answer, bookmark, break_off, frame, serving, status

PODS = known("Pod")
QUICK = Tuning(
    page=2,
    inactivity_s=5.0,
    audit_s=0,
    settle_s=0.01,
    backoff_first_s=0.001,
    backoff_cap_s=0.01,
    listing_s=5.0,
)

Step = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def pod(name: str, version: int, uid: str = "", **spec: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"kind": "Pod", "metadata": metadata, "spec": spec}


def pods(*items: dict[str, Any], at: int, more: str = "") -> Step:
    """A page of a list."""

    async def step(request: web.BaseRequest) -> web.StreamResponse:
        return answer({"metadata": {"resourceVersion": str(at), "continue": more}, "items": list(items)})

    return step


def says(code: int, reason: str) -> Step:
    """An answer that is no success."""

    async def step(request: web.BaseRequest) -> web.StreamResponse:
        return status(code, reason)

    return step


def watch(*frames: bytes, then: str = "hang") -> Step:
    """A stream: these bytes, and then it hangs, ends, or breaks."""

    async def step(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in frames:
            await response.write(part)
        if then == "hang":
            await asyncio.Event().wait()
        return response if then == "end" else break_off(request)

    return step


def listed(*objects: dict[str, Any], at: int) -> bytes:
    """What a WatchList begins with."""
    return b"".join(frame("ADDED", obj) for obj in objects) + bookmark(at, initial_end=True)


class Scene:
    """A scripted server with a reflector on it; the script's steps answer the requests in order."""

    def __init__(
        self, reflector: Reflector[Pod, Pod], asked: list[dict[str, str]], bad: list[BadObject]
    ) -> None:
        self.reflector = reflector
        self.asked = asked
        self.bad = bad
        self.events: list[Event[Pod, Pod]] = []
        self.came = asyncio.Event()  # a request
        self._changed = asyncio.Event()

    def deliver(self, event: Event[Pod, Pod]) -> None:
        self.events.append(event)
        self._changed.set()

    @property
    def said(self) -> list[str]:
        return [f"{type(event).__name__} {getattr(event, 'key', '')}".strip() for event in self.events]

    async def until(self, *said: str) -> None:
        """Wait until exactly this was told."""
        while self.said != list(said):
            assert self.said == list(said)[: len(self.said)]
            self._changed.clear()
            await self._changed.wait()

    async def asked_for(self, number: int) -> dict[str, str]:
        """The query of the n-th request, once it has come."""
        while len(self.asked) < number:
            self.came.clear()
            await self.came.wait()
        return self.asked[number - 1]


@asynccontextmanager
async def scene(
    *script: Step, tuning: Tuning = QUICK, run: bool = True, **options: Any
) -> AsyncIterator[Scene]:
    steps, asked, bad = list(script), list[dict[str, str]](), list[BadObject]()
    stage: Scene

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(dict(request.query))
        stage.came.set()
        if not steps:
            await asyncio.Event().wait()
        return await steps.pop(0)(request)

    async with asyncio.timeout(20), serving(handler) as target, Connection(target) as connection:
        client = Client(connection, rng=random.Random(1), retry=Retry(random.Random(1), attempts=1))
        reflector = Reflector(client, PODS, Pod, tuning=tuning, on_bad=bad.append, **options)
        stage = Scene(reflector, asked, bad)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(reflector.run(stage.deliver)) if run else None
            yield stage
            if task is not None:
                task.cancel()


class TestListing:
    async def test_everything_comes_through_one_watch_where_that_is_served(self) -> None:
        script = watch(listed(pod("a", 3), at=10), frame("ADDED", pod("b", 11)))
        async with scene(script, namespace="shop", labels="app=web", fields="spec.nodeName=") as stage:
            await stage.reflector.synced()
            await stage.until("Added shop/a", "Synced", "Added shop/b")
            asked = stage.asked[0]
        assert asked.pop("timeoutSeconds").isdecimal()
        assert asked == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "labelSelector": "app=web",
            "fieldSelector": "spec.nodeName=",
        }

    @pytest.mark.parametrize("code", [400, 422])
    async def test_where_it_is_not_served_pages_are_read_and_then_watched(self, code: int) -> None:
        async with scene(
            says(code, "Invalid"),
            pods(pod("a", 3), pod("b", 4), at=10, more="next"),
            pods(pod("c", 5), at=10),
            watch(frame("DELETED", pod("a", 11))),
        ) as stage:
            await stage.until("Added shop/a", "Added shop/b", "Added shop/c", "Synced", "Deleted shop/a")
            assert stage.asked[1:3] == [{"limit": "2"}, {"limit": "2", "continue": "next"}]
            assert stage.asked[3]["resourceVersion"] == "10"

    async def test_a_list_whose_next_page_is_too_old_is_read_in_one_piece(self) -> None:
        async with scene(
            says(422, "Invalid"),
            pods(pod("a", 3), pod("b", 4), at=10, more="next"),
            says(410, "Expired"),
            pods(pod("a", 3), pod("c", 15), at=20),
            watch(),
        ) as stage:
            await stage.until("Added shop/a", "Added shop/b", "Added shop/c", "Deleted shop/b", "Synced")
            assert stage.asked[3] == {}

    async def test_a_watch_list_that_falls_silent_is_replaced_by_a_plain_list(self) -> None:
        async with scene(
            watch(frame("ADDED", pod("a", 3))),  # a server that ignores what it was asked
            pods(pod("a", 3), at=10),
            watch(),
            tuning=Tuning(inactivity_s=0.05, audit_s=0, backoff_first_s=0.001),
        ) as stage:
            await stage.until("Added shop/a", "Synced")

    async def test_a_busy_watch_list_that_never_ends_is_replaced_by_a_plain_list(self) -> None:
        async def busy(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(frame("ADDED", pod("a", 3)))
                await asyncio.sleep(0.01)

        async with scene(
            busy,
            pods(pod("a", 3), at=10),
            watch(),
            tuning=Tuning(listing_s=0.05, audit_s=0, backoff_first_s=0.001),
        ) as stage:
            await stage.until("Added shop/a", "Synced")

    async def test_an_empty_collection_is_synced_too(self) -> None:
        async with scene(watch(listed(at=10))) as stage:
            await stage.until("Synced")


class TestResuming:
    @pytest.mark.parametrize("then", ["end", "break"])
    async def test_a_stream_that_ends_is_taken_up_where_it_was(self, then: str) -> None:
        async with scene(
            watch(listed(pod("a", 3), at=10), frame("MODIFIED", pod("a", 12)), then=then),
            watch(frame("DELETED", pod("a", 13))),
        ) as stage:
            await stage.until("Added shop/a", "Synced", "Modified shop/a", "Deleted shop/a")
            assert stage.asked[1]["resourceVersion"] == "12"
            assert "sendInitialEvents" not in stage.asked[1]

    async def test_bookmarks_move_the_point(self) -> None:
        async with scene(watch(listed(at=10), bookmark(40), then="end"), watch()) as stage:
            assert (await stage.asked_for(2))["resourceVersion"] == "40"

    async def test_a_frame_that_broke_off_is_not_taken_in(self) -> None:
        half = frame("MODIFIED", pod("a", 12))[:40]
        async with scene(
            watch(listed(pod("a", 3), at=10), half, then="break"), watch(frame("MODIFIED", pod("a", 12)))
        ) as stage:
            await stage.until("Added shop/a", "Synced", "Modified shop/a")
            assert stage.asked[1]["resourceVersion"] == "10"

    async def test_a_frozen_stream_is_noticed(self) -> None:
        async with scene(
            watch(listed(pod("a", 3), at=10)),
            watch(frame("DELETED", pod("a", 11))),
            tuning=Tuning(inactivity_s=0.05, audit_s=0, backoff_first_s=0.001),
        ) as stage:
            await stage.until("Added shop/a", "Synced", "Deleted shop/a")
            assert stage.asked[1]["resourceVersion"] == "10"

    @pytest.mark.parametrize("code", [401, 403, 404, 429, 500, 503])
    async def test_a_server_that_says_no_is_asked_again_and_the_trouble_is_known(self, code: int) -> None:
        async with scene(says(code, "Nope"), watch(listed(pod("a", 3), at=10))) as stage:
            await stage.until("Added shop/a", "Synced")
            assert stage.reflector.trouble is None
            assert stage.reflector.counters.broken == 1

    async def test_trouble_is_kept_until_it_is_over(self) -> None:
        async with scene(*[says(403, "Forbidden")] * 3) as stage:
            await stage.asked_for(4)
            assert "Forbidden" in str(stage.reflector.trouble)


class TestListingAgain:
    def gone_after(self, how: str) -> Step:
        expired = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
        return says(410, "Expired") if how == "answer" else watch(frame("ERROR", expired), then="end")

    @pytest.mark.parametrize("how", ["answer", "frame"])
    async def test_a_version_that_is_too_old_means_a_listing_with_a_diff(self, how: str) -> None:
        async with scene(
            watch(listed(pod("a", 3, nodeName="n1"), pod("b", 4), at=10), then="end"),
            self.gone_after(how),
            watch(listed(pod("b", 24), pod("c", 25), at=30)),
        ) as stage:
            await stage.until(
                *("Added shop/a", "Added shop/b", "Synced"),
                *("Modified shop/b", "Added shop/c", "Deleted shop/a", "Synced"),
            )
            gone = stage.events[-2]
            assert isinstance(gone, Deleted)
            assert gone.final is None
            assert gone.last is not None
            assert gone.last.spec.node_name == "n1"

    async def test_events_before_an_error_frame_are_told(self) -> None:
        expired = {"kind": "Status", "code": 410, "reason": "Expired"}
        async with scene(
            watch(listed(at=10), frame("ADDED", pod("a", 11)) + frame("ERROR", expired), then="end"),
            watch(listed(pod("a", 11), at=12)),
        ) as stage:
            await stage.until("Synced", "Added shop/a", "Synced")

    async def test_a_cluster_that_was_set_back_is_listed_again(self) -> None:
        async with scene(
            watch(listed(pod("a", 50), at=90), then="end"),
            says(504, "Timeout"),  # "Too large resource version"
            watch(listed(pod("a", 3), at=10)),
        ) as stage:
            await stage.until("Added shop/a", "Synced", "Modified shop/a", "Synced")

    async def test_frames_out_of_order_lead_to_a_listing(self) -> None:
        async with scene(
            watch(listed(at=10), frame("ADDED", pod("b", 12)) + frame("ADDED", pod("a", 11))),
            watch(listed(pod("a", 11), pod("b", 12), at=12)),
        ) as stage:
            await stage.until("Synced", "Added shop/b", "Added shop/a", "Synced")


class TestBadObjects:
    async def test_none_of_them_stops_the_rest(self) -> None:
        big = pod("big", 14)
        big["metadata"]["annotations"] = {"blob": "x" * (2 << 20)}
        frames = [
            frame("ADDED", pod("typed-wrong", 11, priority="high")),
            frame("ADDED", {"spec": {}}),
            frame("ADDED", {"metadata": None}),
            frame("ADDED", pod("nulls", 12, containers=None, volumes=None, unheardOf=[None])),
            frame("ADDED", big),
            frame("ADDED", pod("last", 15)),
        ]
        async with scene(watch(listed(at=10), *frames)) as stage:
            await stage.until(
                *(
                    "Synced",
                    "Spoiled shop/typed-wrong",
                    "Added shop/nulls",
                    "Added shop/big",
                    "Added shop/last",
                )
            )
            assert [error.object for error in stage.bad] == [
                "Pod shop/typed-wrong",
                "Pod (no name)",
                "Pod (no name)",
            ]
            assert stage.reflector.counters.bad == 3

    async def test_nor_do_they_stop_a_paged_list(self) -> None:
        bad: list[Any] = [{}, 5, None, "text", [], pod("wrong", 5, priority="high")]
        async with scene(says(422, "x"), pods(pod("a", 3), *bad, pod("b", 4), at=10), watch()) as stage:
            await stage.until("Added shop/a", "Spoiled shop/wrong", "Added shop/b", "Synced")
            assert len(stage.bad) == len(bad)

    async def test_a_line_beyond_the_limit_is_named_and_passed(self) -> None:
        long = frame("ADDED", pod("long", 11, nodeName="x" * 500_000))
        tuning = Tuning(line_limit=100_000, audit_s=0)
        async with scene(watch(listed(at=10), long, frame("ADDED", pod("a", 12))), tuning=tuning) as stage:
            await stage.until("Synced", "Spoiled shop/long", "Added shop/a")

    async def test_a_list_that_is_no_list_is_asked_for_again(self) -> None:
        async def nonsense(request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(text="<html>")

        async with scene(says(422, "x"), nonsense, pods(pod("a", 3), at=10), watch()) as stage:
            await stage.until("Added shop/a", "Synced")


class TestAudit:
    async def test_a_frame_that_never_came_is_found_and_mended(self) -> None:
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

    async def test_a_frame_that_is_only_slow_is_no_miss(self) -> None:
        release = asyncio.Event()

        async def slow(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(listed(pod("a", 3), pod("b", 4), at=10))
            await release.wait()
            frames = (
                frame("MODIFIED", pod("a", 15))
                + frame("DELETED", pod("b", 16))
                + frame("ADDED", pod("c", 17))
            )
            await response.write(frames)
            await asyncio.Event().wait()
            return response

        async def released(request: web.BaseRequest) -> web.StreamResponse:
            release.set()
            return await pods(pod("a", 15), pod("c", 17), at=20)(request)

        async with scene(slow, released, tuning=Tuning(audit_s=0, settle_s=0.3)) as stage:
            await stage.reflector.synced()
            assert await stage.reflector.audit() == 0
            assert stage.reflector.counters.listings == 1

    async def test_it_asks_for_metadata_only(self) -> None:
        accepted = []

        async def metadata(request: web.BaseRequest) -> web.StreamResponse:
            accepted.append(request.headers["Accept"])
            return await pods(pod("a", 3), at=10)(request)

        async with scene(watch(listed(pod("a", 3), at=10)), metadata) as stage:
            await stage.reflector.synced()
            assert await stage.reflector.audit() == 0
        assert "PartialObjectMetadataList" in accepted[0]

    async def test_it_comes_round_by_itself(self) -> None:
        async with scene(
            watch(listed(pod("a", 3), at=10)),
            pods(at=20),
            watch(listed(at=20)),
            tuning=Tuning(audit_s=0.02, settle_s=0.01, backoff_first_s=0.001),
        ) as stage:
            await stage.until("Added shop/a", "Synced", "Deleted shop/a", "Synced")

    async def test_an_answer_that_makes_no_sense_does_no_harm(self) -> None:
        async with scene(
            watch(listed(pod("a", 3), at=10)),
            pods({"metadata": None}, pod("a", 3), at=10),
            pods(pod("a", 3), at=10),
            tuning=Tuning(audit_s=0.02, settle_s=0.01),
        ) as stage:
            await stage.asked_for(3)
            assert stage.said == ["Added shop/a", "Synced"]

    async def test_a_server_that_refuses_it_does_no_harm(self) -> None:
        async with scene(
            watch(listed(pod("a", 3), at=10)),
            says(500, "InternalError"),
            pods(pod("a", 3), at=10),
            tuning=Tuning(audit_s=0.02, settle_s=0.01),
        ) as stage:
            await stage.asked_for(3)
            assert stage.said == ["Added shop/a", "Synced"]


class TestConsumers:
    async def test_a_slow_one_holds_the_server_back_and_loses_nothing(self) -> None:
        number, wrote = 4000, 0
        held_back = asyncio.Event()

        async def flood(request: web.BaseRequest) -> web.StreamResponse:
            nonlocal wrote
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(listed(at=10))
            for version in range(11, 11 + number):
                obj = pod(f"p{version}", version)
                obj["metadata"]["annotations"] = {"blob": "x" * 5000}
                writing = asyncio.ensure_future(response.write(frame("ADDED", obj)))
                done, _ = await asyncio.wait([writing], timeout=0.3)
                if not done:
                    held_back.set()
                await writing
                wrote += 1
            await asyncio.Event().wait()
            return response

        async with scene(flood, run=False) as stage, aclosing(stage.reflector.batches()) as batches:
            taken = len(await anext(batches))
            await held_back.wait()
            assert wrote < number
            while taken < number + 1:
                taken += len(await anext(batches))
            assert len(stage.reflector.view) == number

    async def test_what_one_raises_ends_the_run(self) -> None:
        class BrokenError(Exception):
            pass

        def deliver(event: Event[Pod, Pod]) -> None:
            raise BrokenError

        async with scene(watch(listed(pod("a", 3), at=10)), run=False) as stage:
            with pytest.raises(ExceptionGroup) as caught:
                await stage.reflector.run(deliver)
        assert caught.group_contains(BrokenError)

    async def test_only_what_is_kept_stays_in_memory(self) -> None:
        script = watch(listed(pod("a", 3, nodeName="n1"), at=10), frame("DELETED", pod("a", 11)))
        told: list[Event[Pod, str]] = []

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            return await script(request)

        async with serving(handler) as target, Connection(target) as connection:
            reflector = Reflector(
                Client(connection), PODS, Pod, keep=lambda pod: pod.spec.node_name, tuning=QUICK
            )
            async with aclosing(reflector.batches()) as batches:
                while len(told) < 3:
                    told += await anext(batches)
        added, _, gone = told
        assert isinstance(added, Added)
        assert added.object.spec.node_name == "n1"
        assert isinstance(gone, Deleted)
        assert gone.last == "n1"

    async def test_cancelling_leaves_nothing_open(self) -> None:
        closed = asyncio.Event()

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            try:
                return await watch(listed(at=10))(request)
            finally:
                closed.set()

        async with serving(handler) as target, Connection(target) as connection:
            reflector = Reflector(Client(connection), PODS, Pod, tuning=QUICK)
            async with asyncio.TaskGroup() as group:
                task = group.create_task(reflector.run(lambda event: None))
                await reflector.synced()
                task.cancel()
            async with asyncio.timeout(10):
                await closed.wait()
