"""What every long-running command shares: the order in which doors come up and go down, and their port."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from fairlead.client.api import Client
from fairlead.doors.leader import lead
from fairlead.doors.process import Context, Door, Options, serve_doors
from fairlead.errors import BadInput, FairleadError, LeaseLost, Missing
from fairlead.feed.policies import LivePolicies
from fairlead.kube.resources import known
from support.cluster import Cluster
from support.wire import PATIENCE_S


class Told(Door):
    """A door that writes down what happens to it."""

    def __init__(
        self, name: str, story: list[str], *, wrong: str = "", fails: Exception | None = None
    ) -> None:
        self.name = name
        self._story = story
        self._wrong = wrong
        self._fails = fails
        self._stopping = asyncio.Event()

    async def prepare(self) -> None:
        self._story.append(f"{self.name} prepared")
        if isinstance(self._fails, Missing):
            raise self._fails

    def routes(self) -> Iterable[web.RouteDef]:
        return (web.get(f"/{self.name}", self._answer),)

    async def _answer(self, _: web.Request) -> web.Response:
        return web.Response(text=self.name)

    def checks(self) -> Mapping[str, str]:
        return {"mood": self._wrong}

    def metrics(self) -> bytes:
        return f"{self.name} 1\n".encode()

    async def run(self) -> None:
        self._story.append(f"{self.name} runs")
        if self._fails is not None:
            raise self._fails
        await self._stopping.wait()
        self._story.append(f"{self.name} ended")

    def stop(self) -> None:
        self._stopping.set()


class Process:
    """Doors that are being served, and what their port says."""

    def __init__(self, cluster: Cluster, *doors: Door) -> None:
        self._cluster = cluster
        self._doors = doors
        self.stopping = asyncio.Event()
        self.url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        async with self._cluster.client() as client:
            policies = LivePolicies(client, cluster=False)
            context = Context(client, policies, self._cluster.namespace, random.Random(1))
            await serve_doors(
                self._doors,
                context,
                listen="127.0.0.1:0",
                stopping=self.stopping,
                ready=self.url.set_result,
            )

    async def get(self, path: str) -> tuple[int, str]:
        async with (
            asyncio.timeout(PATIENCE_S),
            aiohttp.ClientSession() as session,
            session.get(f"{await self.url}{path}") as answer,
        ):
            return answer.status, await answer.text()

    async def end(self) -> None:
        self.stopping.set()
        await asyncio.wait_for(self.task, PATIENCE_S)


@pytest.fixture
def own(embedded_host: Any) -> Any:
    cluster = Cluster(embedded_host)
    yield cluster
    cluster.close()


async def test_doors_are_prepared_before_the_port_opens_and_end_in_order(own: Cluster) -> None:
    story: list[str] = []
    process = Process(own, Told("one", story), Told("two", story))
    process.url.add_done_callback(lambda _: story.append("port open"))
    assert (await process.get("/one"), await process.get("/two")) == ((200, "one"), (200, "two"))
    await process.end()
    assert story == [
        *("one prepared", "two prepared", "port open", "one runs", "two runs", "one ended", "two ended")
    ]


async def test_one_port_answers_for_all(own: Cluster) -> None:
    process = Process(own, Told("one", []), Told("two", [], wrong="sad"))
    assert await process.get("/livez") == (200, "ok")
    status, text = await process.get("/readyz")
    assert status == 503
    assert text.splitlines() == [
        "[+]policies ok",
        "[+]one-mood ok",
        "[-]two-mood failed: sad",
        "readyz check failed",
    ]
    assert (await process.get("/metrics"))[1] == "one 1\ntwo 1\n"
    await process.end()


async def test_a_single_doors_checks_have_their_own_names(own: Cluster) -> None:
    process = Process(own, Told("one", []))
    assert "[+]mood ok" in (await process.get("/readyz?verbose"))[1]
    await process.end()


async def test_a_door_that_misses_something_ends_the_process_before_the_port_opens(own: Cluster) -> None:
    story: list[str] = []
    process = Process(own, Told("one", story, fails=Missing("a Secret is missing")), Told("two", story))
    with pytest.raises(Missing, match="a Secret is missing"):
        await process.task
    assert story == ["one prepared"]
    assert not process.url.done()


async def test_a_door_that_fails_takes_the_others_with_it(own: Cluster) -> None:
    story: list[str] = []
    process = Process(own, Told("one", story), Told("two", story, fails=FairleadError("it broke")))
    with pytest.raises(FairleadError, match="it broke"):
        await process.task
    assert "one ended" not in story, "it was cancelled, not stopped"


@pytest.mark.parametrize("listen", ["8080", "host:http", "1.2.3.4:99999", "[]:80"])
def test_an_address_that_is_none_is_refused_at_once(listen: str) -> None:
    with pytest.raises(BadInput, match="is not ADDRESS:PORT"):
        Options(listen=listen)


class TestLeading:
    async def test_one_of_two_works_and_the_other_takes_over(self, own: Cluster) -> None:
        told: asyncio.Queue[str] = asyncio.Queue()

        async def candidate(name: str) -> None:
            async def work(_: Client) -> None:
                await told.put(name)
                await asyncio.Event().wait()

            async with own.client() as client:
                await lead(client, "of-two", own.namespace, work, instance=name)

        tasks = {name: asyncio.create_task(candidate(name)) for name in ("a", "b")}
        async with asyncio.timeout(2 * PATIENCE_S):
            first = await told.get()
            assert told.empty()
            tasks.pop(first).cancel()
            (second,) = tasks
            assert await told.get() == second
        tasks[second].cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def test_a_write_stopped_by_the_fence_makes_it_a_candidate_again(self, own: Cluster) -> None:
        led = 0

        async def work(client: Client) -> None:
            nonlocal led
            led += 1
            if led == 1:
                async with asyncio.TaskGroup() as group:
                    group.create_task(fenced())
            await client.create(known("ConfigMap"), {"metadata": {"name": "written"}}, own.namespace)

        async def fenced() -> None:
            raise LeaseLost("not written: the lease may have ended")

        async with own.client() as client, asyncio.timeout(2 * PATIENCE_S):
            await lead(client, "lost", own.namespace, work)
        assert led == 2
        assert own.names("ConfigMap", fieldSelector="metadata.name=written") == ["written"]

    async def test_a_namespace_that_is_not_there_is_made(self, own: Cluster) -> None:
        name = own.unique("fresh")
        own.owns(f"/api/v1/namespaces/{name}")

        async def work(_: Client) -> None:
            """Leading is all that is asked."""

        async with own.client() as client:
            await lead(client, "first", name, work)
        path = known("Lease").path(name, "first")
        assert own.wire.request("GET", path).ok()["spec"]["holderIdentity"] == ""
