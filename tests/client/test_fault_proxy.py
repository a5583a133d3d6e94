"""The fault proxy does what its faults say, and counts them; without a plan it changes nothing."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import aclosing
from pathlib import Path

import pytest
from aiohttp import web

from fairlead.client.api import Client
from fairlead.client.authority import Authority
from fairlead.client.connection import Connection, Stream
from fairlead.client.lines import Lines
from fairlead.errors import ApiError, Conflict, Gone, TooManyRequests, Unreachable
from fairlead.kube.resources import known
from support.faults import (
    Answer,
    Cut,
    Delay,
    Drop,
    Duplicate,
    ErrorFrame,
    FaultProxy,
    FrameFault,
    Freeze,
    LoseReply,
    LoseRequest,
    Plan,
    Reorder,
    RequestFault,
    Script,
    Seeded,
    only,
)
from support.odd_server import answer, serving

WATCH = "/api/v1/pods?watch=true"
FRAMES = [b"one", b"two", b"three"]


class Upstream:
    """Answers everything, streams three frames on a watch, and remembers what arrived."""

    def __init__(self) -> None:
        self.arrived: list[str] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.arrived.append(f"{request.method} {request.path_qs}")
        if "watch" not in request.query:
            return answer({"body": (await request.read()).decode(), "accept": request.headers.get("Accept")})
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"".join(frame + b"\n" for frame in FRAMES))
        return response


async def frames(plan: Plan, *, inactivity_s: float = 5.0) -> list[bytes]:
    """What comes of a watch through the proxy; ends with how the stream ended."""
    async with (
        serving(Upstream()) as target,
        FaultProxy(target, plan) as proxy,
        Connection(proxy.target) as connection,
        connection.stream(WATCH, inactivity_s=inactivity_s) as stream,
    ):
        return await _read(stream)


async def _read(stream: Stream) -> list[bytes]:
    lines, found = Lines(), []
    try:
        while chunk := await stream.read():
            found += [line for line in lines.feed(chunk) if isinstance(line, bytes)]
    except Unreachable:
        return [*found, b"(broken)"]
    return found


class TestFrames:
    async def test_without_faults_they_pass(self) -> None:
        assert await frames(Script()) == FRAMES

    @pytest.mark.parametrize(
        ("fault", "arrive"),
        [
            (Drop(), [b"two", b"three"]),
            (Delay(), [b"one", b"two", b"three"]),
            (Duplicate(), [b"one", b"one", b"two", b"three"]),
            (Reorder(), [b"two", b"one", b"three"]),
            (Cut(), [b"(broken)"]),
        ],
    )
    async def test_each_fault_does_what_it_says(self, fault: FrameFault, arrive: list[bytes]) -> None:
        assert await frames(Script(frames=[("/pods", fault)])) == arrive

    async def test_a_frozen_stream_stays_open_and_silent(self) -> None:
        assert await frames(Script(frames=[("/pods", Freeze())]), inactivity_s=0.5) == [b"(broken)"]

    async def test_an_error_frame_ends_the_stream(self) -> None:
        (only_frame,) = await frames(Script(frames=[("/pods", ErrorFrame())]))
        assert b'"type":"ERROR"' in only_frame
        assert b'"code": 410' in only_frame


class TestRequests:
    async def request(self, fault: RequestFault) -> tuple[Exception | None, list[str], int]:
        upstream = Upstream()
        async with (
            serving(upstream) as target,
            FaultProxy(target, Script([("POST", fault)])) as proxy,
            Connection(proxy.target) as connection,
        ):
            try:
                await connection.request("POST", "/x", b"{}")
            except (ApiError, Unreachable) as error:
                return error, upstream.arrived, proxy.injected.total()
        return None, upstream.arrived, proxy.injected.total()

    @pytest.mark.parametrize(
        ("code", "kind"), [(409, Conflict), (410, Gone), (429, TooManyRequests), (500, ApiError)]
    )
    async def test_answers_come_from_the_proxy_alone(self, code: int, kind: type[ApiError]) -> None:
        error, arrived, injected = await self.request(Answer(code, "Injected", retry_after="3"))
        assert isinstance(error, kind)
        assert error.retry_after_s == 3
        assert (arrived, injected) == ([], 1)

    async def test_a_lost_request_never_arrives(self) -> None:
        error, arrived, injected = await self.request(LoseRequest())
        assert isinstance(error, Unreachable)
        assert (arrived, injected) == ([], 1)

    async def test_a_lost_reply_was_applied(self) -> None:
        error, arrived, injected = await self.request(LoseReply())
        assert isinstance(error, Unreachable)
        assert (arrived, injected) == (["POST /x"], 1)

    async def test_a_write_that_was_passed_on_has_landed_once_it_is_answered(self) -> None:
        arrived, answered = asyncio.Event(), asyncio.Event()

        async def slow(request: web.BaseRequest) -> web.StreamResponse:
            arrived.set()
            await answered.wait()
            return answer({})

        async with (
            serving(slow) as target,
            FaultProxy(target) as proxy,
            Connection(proxy.target) as connection,
        ):
            await proxy.landed()
            sent = asyncio.ensure_future(connection.request("POST", "/x", b"{}"))
            await arrived.wait()
            landed = asyncio.ensure_future(proxy.landed())
            await asyncio.sleep(0)
            assert not landed.done()
            answered.set()
            await asyncio.gather(sent, landed)

    async def test_what_passes_keeps_its_body_and_headers(self) -> None:
        upstream = Upstream()
        async with (
            serving(upstream) as target,
            FaultProxy(target) as proxy,
            Connection(proxy.target) as connection,
        ):
            said = await connection.request("POST", "/x?a=b%20c", b'{"a":1}', accept="application/odd")
        assert said == b'{"body": "{\\"a\\":1}", "accept": "application/odd"}'
        assert upstream.arrived == ["POST /x?a=b%20c"] or upstream.arrived == ["POST /x?a=b+c"]
        assert proxy.injected.total() == 0


class TestPlans:
    def test_a_seed_gives_the_same_faults_again(self) -> None:
        def draw(seed: int) -> list[object]:
            plan = Seeded(seed, 50, every=3)
            return [plan.on_frame("/x") for _ in range(300)] + [
                plan.on_request("GET", "/x") for _ in range(30)
            ]

        assert draw(1) == draw(1)
        assert draw(1) != draw(2)

    def test_a_schedule_injects_as_many_as_it_promised_and_then_none(self) -> None:
        plan = Seeded(1, 25, every=2)
        faults = [plan.on_frame("/x") for _ in range(500)]
        assert sum(fault is not None for fault in faults) == 25
        assert faults[-100:] == [None] * 100

    def test_writes_are_spared_by_the_schedule(self) -> None:
        plan = Seeded(1, 25)
        assert [plan.on_request("POST", "/x") for _ in range(100)] == [None] * 100

    def test_a_plan_can_be_kept_to_some_paths(self) -> None:
        plan = only("/pods", Seeded(1, 1000, every=1))
        assert plan.on_frame("/configmaps") is None
        assert plan.on_frame("/pods") is not None


class TestConnections:
    async def test_all_can_be_cut_at_once(self) -> None:
        async def endless(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"one\n")
            await asyncio.Event().wait()
            return response

        async with (
            serving(endless) as target,
            FaultProxy(target) as proxy,
            Connection(proxy.target) as connection,
            connection.stream(WATCH) as first,
            connection.stream(WATCH) as second,
        ):
            await first.read()
            await second.read()
            assert proxy.cut_all() == 2
            for stream in (first, second):
                with pytest.raises(Unreachable):
                    await stream.read()

    async def test_it_can_speak_tls_itself(self, tmp_path: Path) -> None:
        pair = Authority().server(["localhost"], ["127.0.0.1"])
        (tmp_path / "pair.pem").write_bytes(pair.private + pair.public)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(tmp_path / "pair.pem")
        async with (
            serving(Upstream()) as target,
            FaultProxy(target, tls=tls) as proxy,
            Connection(proxy.target) as connection,
        ):
            assert proxy.url.startswith("https://")
            await connection.request("GET", "/x")

    async def test_a_client_of_ours_does_not_notice_it_without_faults(self) -> None:
        async def listing(request: web.BaseRequest) -> web.Response:
            return answer({"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": "a"}}]})

        async with (
            serving(listing) as target,
            FaultProxy(target) as proxy,
            Connection(proxy.target) as connection,
        ):
            client = Client(connection)
            async with aclosing(client.pages(known("Pod"))) as pages:
                assert [len(page.items) async for page in pages] == [1]
