"""A reflector keeps its copy right through every way in which a stream can end or lie.

A scripted server stands for an API server here, because each test needs one particular misfortune at
one particular moment; the same reflector runs against real clusters in the storm test.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from fairlead.client.reflector import Tuning
from fairlead.client.view import Deleted
from support.odd_server import bookmark, frame
from support.reflected import QUICK, Step, listed, pod, pods, says, scene, watch


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
            tuning=Tuning(inactivity_s=0.5, audit_s=0, backoff_first_s=0.001),
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
            tuning=Tuning(inactivity_s=0.5, audit_s=0, backoff_first_s=0.001),
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

    async def test_trouble_is_over_when_a_stream_goes_on_though_nothing_happens(self) -> None:
        goes_on = asyncio.Event()

        async def waits(request: web.BaseRequest) -> web.StreamResponse:
            await goes_on.wait()
            return await watch()(request)

        async with scene(watch(listed(pod("a", 3), at=10), then="break"), waits) as stage:
            await stage.asked_for(2)
            assert "broke off" in str(stage.reflector.trouble)
            goes_on.set()
            while stage.reflector.trouble is not None:  # noqa: ASYNC110 (time alone ends it)
                await asyncio.sleep(0.001)
            assert stage.said == ["Added shop/a", "Synced"]

    async def test_trouble_is_over_at_once_when_a_stream_tells_something(self) -> None:
        tuning = replace(QUICK, believed_s=3600.0)
        async with scene(watch(listed(at=10), then="break"), watch(bookmark(11)), tuning=tuning) as stage:
            await stage.asked_for(2)
            assert stage.reflector.trouble is not None
            while stage.reflector.view.resume != "11":  # noqa: ASYNC110 (bookmarks are not told)
                await asyncio.sleep(0.001)
            assert stage.reflector.trouble is None

    async def test_trouble_lasts_until_a_listing_is_complete(self) -> None:
        tuning = replace(QUICK, believed_s=0.0)
        began = watch(frame("ADDED", pod("a", 3)))
        async with scene(says(503, "Unavailable"), began, tuning=tuning) as stage:
            await stage.until("Added shop/a")
            assert stage.reflector.trouble is not None

    async def test_a_stream_that_ends_before_it_is_believed_ends_no_trouble(self) -> None:
        tuning = replace(QUICK, believed_s=3600.0)
        hung_up = [watch(then="end")] * 3
        async with scene(watch(listed(at=10), then="break"), *hung_up, tuning=tuning) as stage:
            await stage.asked_for(5)
            assert stage.reflector.trouble is not None

    async def test_a_stream_that_was_believed_may_come_to_its_end(self) -> None:
        tuning = replace(QUICK, believed_s=0.0)
        async with scene(watch(listed(at=10), then="break"), watch(then="end"), tuning=tuning) as stage:
            await stage.asked_for(3)
            assert stage.reflector.trouble is None

    async def test_trouble_comes_again_when_a_stream_that_was_believed_breaks(self) -> None:
        tuning = replace(QUICK, believed_s=0.0)
        async with scene(watch(listed(at=10), then="break"), watch(then="break"), tuning=tuning) as stage:
            await stage.asked_for(3)
            assert stage.reflector.trouble is not None


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
