"""Definitions may be deleted and made while the rebalancer runs: what is not served has nothing to hide."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.client.retry import Retry
from fairlead.doors.process import Context
from fairlead.doors.rebalancer import watching
from fairlead.doors.rebalancer.watching import Watching
from fairlead.engine.rebalance.rebalancer import Rebalancer
from fairlead.feed.policies import LivePolicies
from fairlead.kube.meta import Object
from fairlead.kube.resources import Resource, known
from fairlead.policy.names import LEDGERS
from support.odd_server import answer, bookmark, frame, serving, status
from support.wire import PATIENCE_S

PODS = known("Pod")
LEDGER = {
    "apiVersion": LEDGERS.api_version,
    "kind": LEDGERS.kind,
    "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "5"},
    "spec": {"policy": "web", "group": "web"},
}


class Machine(Rebalancer):
    """Who keeps only which ledgers there are."""

    def __init__(self) -> None:
        super().__init__()
        self.ledgers: set[str] = set()

    def seen(self, kind: str, thing: Object, now: float) -> None:
        assert kind == LEDGERS.kind
        self.ledgers.add(thing.metadata.name)  # type: ignore[attr-defined]

    def gone(self, kind: str, namespace: str, name: str, uid: str = "") -> None:
        assert (kind, namespace) == (LEDGERS.kind, "shop")
        self.ledgers.remove(name)


class Definitions:
    """A server with pods, and with ledgers while they are defined. Watches end when that changes."""

    def __init__(self, *, defined: bool) -> None:
        self.defined = defined
        self.discovered = defined
        self.asked = 0
        self._changed = asyncio.Event()

    def define(self, *, defined: bool, discovered: bool | None = None) -> None:
        self.defined = defined
        self.discovered = defined if discovered is None else discovered
        self._changed.set()
        self._changed = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/api":
            return answer(discovery(PODS))
        if request.path == "/apis":
            self.asked += 1
            return answer(discovery(*([LEDGERS] if self.discovered else [])))
        if request.path == PODS.path():
            return await self._watched(request)
        if request.path == LEDGERS.path() and self.defined:
            return await self._watched(request, frame("ADDED", LEDGER))
        return status(404, "NotFound", "the server could not find the requested resource")

    async def _watched(self, request: web.BaseRequest, *objects: bytes) -> web.StreamResponse:
        changed = self._changed
        response = web.StreamResponse()
        await response.prepare(request)
        if "sendInitialEvents" in request.query:
            await response.write(b"".join(objects) + bookmark(9, initial_end=True))
        await changed.wait()
        return response


def discovery(*resources: Resource) -> dict[str, object]:
    groups = [
        {
            "metadata": {"name": one.group},
            "versions": [
                {
                    "version": one.version,
                    "resources": [
                        {
                            "resource": one.plural,
                            "scope": "Namespaced",
                            "responseKind": {"kind": one.kind},
                        }
                    ],
                }
            ],
        }
        for one in resources
    ]
    return {"kind": "APIGroupDiscoveryList", "items": groups}


@asynccontextmanager
async def watched(server: Definitions) -> AsyncIterator[tuple[Watching, Machine]]:
    machine, rng = Machine(), random.Random(1)
    async with serving(server.handle) as target, Connection(target) as connection:
        client = Client(connection, rng=rng, retry=Retry(rng, attempts=1))
        context = Context(client, LivePolicies(client, cluster=False), "fairlead-system", rng)
        eyes = Watching(context, machine, lambda: None)
        running = [asyncio.create_task(one.run()) for one in (context.watches, eyes)]
        try:
            async with asyncio.timeout(PATIENCE_S):
                await eyes.synced()
                yield eyes, machine
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 (nobody tells)
        await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def _looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_DISCOVER_S", 0.05, raising=False)


async def test_a_kind_that_is_no_longer_served_blinds_nobody_and_has_no_objects() -> None:
    server = Definitions(defined=True)
    async with watched(server) as (eyes, machine):
        assert (eyes.blind, machine.ledgers) == (False, {"web"})
        server.define(defined=False)
        await until(lambda: not machine.ledgers)
        assert not eyes.blind


async def test_a_kind_that_comes_later_is_watched() -> None:
    server = Definitions(defined=False)
    async with watched(server) as (eyes, machine):
        for _ in range(2):
            assert (eyes.blind, machine.ledgers) == (False, set())
            server.define(defined=True)
            await until(lambda: bool(machine.ledgers))
            await until(lambda: not eyes.blind)
            server.define(defined=False)
            await until(lambda: not machine.ledgers)
            await until(lambda: not eyes.blind)


async def test_a_watch_that_is_not_found_while_the_kind_is_served_is_believed_to_come_back() -> None:
    server = Definitions(defined=True)
    async with watched(server) as (eyes, machine):
        server.define(defined=False, discovered=True)
        await until(lambda: eyes.blind)
        asked = server.asked
        await until(lambda: server.asked > asked + 2)
        assert (eyes.blind, machine.ledgers) == (True, {"web"})


async def test_it_says_once_what_it_does_not_see_and_when_it_sees_again() -> None:
    server = Definitions(defined=True)
    async with watched(server) as (eyes, _):
        with capture_logs() as told:
            eyes.tell_sight()
            server.define(defined=False, discovered=True)
            await until(lambda: eyes.blind)
            eyes.tell_sight()
            eyes.tell_sight()
            server.discovered = False
            await until(lambda: not eyes.blind)
            eyes.tell_sight()
            eyes.tell_sight()
    said = [line for line in told if line["event"] in ("not_acting", "acting_again")]
    assert [line["event"] for line in said] == ["not_acting", "acting_again"]
    assert said[0]["unseen"] == ["placementledgers"]
    assert "could not find" in said[0]["reason"]
