"""Autoscalers' promises are heard as soon as they may be read."""

from __future__ import annotations

import asyncio
import random

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.client.retry import Retry
from fairlead.feed import scale_up_events
from fairlead.feed.scale_up_events import ScaleUpEvents
from support.odd_server import answer, bookmark, frame, serving, status
from support.wire import PATIENCE_S

REFUSALS = 3
PROMISE = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "promise", "namespace": "shop", "uid": "u", "resourceVersion": "5"},
    "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "p", "uid": "uid-p"},
    "reason": "TriggeredScaleUp",
    "lastTimestamp": "2026-01-01T00:00:00Z",
}


async def test_who_may_not_read_promises_at_first_hears_them_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale_up_events, "_AGAIN_S", 0.01)
    asked: list[str] = []
    told = asyncio.Event()

    async def events(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path_qs)
        if len(asked) <= REFUSALS:
            return status(403, "Forbidden", "events is forbidden")
        if "watch" not in request.query:
            return answer({"metadata": {"resourceVersion": "9"}, "items": []})
        response = web.StreamResponse()
        await response.prepare(request)
        promised = request.query["fieldSelector"] == "reason=TriggeredScaleUp"
        shown = frame("ADDED", PROMISE) if promised else b""
        await response.write(shown + bookmark(9, initial_end=True))
        await asyncio.Event().wait()
        return response

    def tell(uid: str, _at: float) -> None:
        assert uid == "uid-p"
        told.set()

    rng = random.Random(1)
    async with serving(events) as target, Connection(target) as connection:
        client = Client(connection, rng=rng, retry=Retry(rng, attempts=1))
        hearing = ScaleUpEvents(client)
        with capture_logs() as logs, hearing.reported_to(tell):
            running = asyncio.create_task(hearing.run())
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await hearing.listed.wait()
                    assert not told.is_set()  # nobody waits for rights
                    await told.wait()
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
    assert [line["event"] for line in logs].count("promises_unread") == 1
