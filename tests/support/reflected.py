"""A scripted server with a reflector on it: each test needs one misfortune at one moment."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.client.reflector import Reflector, Tuning
from fairlead.client.retry import Retry
from fairlead.client.view import Event
from fairlead.errors import BadObject
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known
from support.odd_server import answer, bookmark, break_off, frame, serving, status

__all__ = ["PODS", "QUICK", "Scene", "Step", "listed", "pod", "pods", "says", "scene", "watch"]

PODS = known("Pod")
QUICK = Tuning(
    page=2,
    inactivity_s=5.0,
    audit_s=0,
    believed_s=0.01,
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
