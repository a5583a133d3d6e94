"""Who takes a reflector's events: slow, failing, forgetful or cancelled, nobody else is the worse for it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from aiohttp import web

from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.client.reflector import Reflector
from fairlead.client.view import Added, Deleted, Event
from fairlead.kube.pod import Pod
from support.odd_server import frame, serving
from support.reflected import PODS, QUICK, listed, pod, scene, watch
from support.wire import PATIENCE_S


async def test_a_slow_one_holds_the_server_back_and_loses_nothing() -> None:
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


async def test_what_one_raises_ends_the_run() -> None:
    class BrokenError(Exception):
        pass

    def deliver(event: Event[Pod, Pod]) -> None:
        raise BrokenError

    async with scene(watch(listed(pod("a", 3), at=10)), run=False) as stage:
        with pytest.raises(BrokenError):
            await stage.reflector.run(deliver)


async def test_only_what_is_kept_stays_in_memory() -> None:
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


async def test_cancelling_leaves_nothing_open() -> None:
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
        async with asyncio.timeout(PATIENCE_S):
            await closed.wait()
