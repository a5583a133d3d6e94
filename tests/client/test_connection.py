"""Requests end in an answer or in an error that says whether the request can have been applied.

The small servers here stand for API servers, and for what sits before them, in moods that a real one
is hard to bring into.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from aiohttp import web

from fairlead.client.config import Server, Target, User
from fairlead.client.connection import Connection
from fairlead.errors import (
    ApiError,
    Conflict,
    Gone,
    Invalid,
    LeaseLost,
    NotFound,
    NotSent,
    TooManyRequests,
    Unreachable,
)
from support.odd_server import answer, break_off, serving, status


class Fence:
    """Lets a number of looks pass, then refuses."""

    def __init__(self, looks: int, left_s: float = 10.0) -> None:
        self.looks = looks
        self.left_s = left_s

    def check(self) -> float:
        self.looks -= 1
        if self.looks < 0:
            raise LeaseLost("no")
        return self.left_s


class TestAnswers:
    @pytest.mark.parametrize(
        ("code", "kind"),
        [
            (404, NotFound),
            (409, Conflict),
            (410, Gone),
            (422, Invalid),
            (429, TooManyRequests),
            (403, ApiError),
        ],
    )
    async def test_a_status_becomes_the_error_it_stands_for(self, code: int, kind: type[ApiError]) -> None:
        async def handler(request: web.BaseRequest) -> web.Response:
            return status(code, "SomeReason", "some message", details={"causes": [{"field": "spec"}]})

        async with serving(handler) as target, Connection(target) as connection:
            with pytest.raises(kind) as caught:
                await connection.request("GET", "/x")
        error = caught.value
        assert type(error) is kind
        assert (error.code, error.reason, error.message) == (code, "SomeReason", "some message")
        assert error.details == {"causes": [{"field": "spec"}]}

    async def test_a_gateways_page_is_quoted(self) -> None:
        async def handler(request: web.BaseRequest) -> web.Response:
            return web.Response(status=502, text="<h1>Bad Gateway</h1>")

        async with serving(handler) as target, Connection(target) as connection:
            with pytest.raises(ApiError, match=r"<h1>Bad Gateway</h1> \(502 BadGateway\)"):
                await connection.request("GET", "/x")

    async def test_retry_after_is_read_as_seconds_as_a_date_and_from_the_status(self) -> None:
        soon = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
        answers = [
            status(429, "x", retry_after=7),
            status(503, "x", retry_after=soon),
            status(429, "x", details={"retryAfterSeconds": 3}),
            status(429, "x", retry_after="soon"),
            status(429, "x"),
        ]

        async def handler(request: web.BaseRequest) -> web.Response:
            return answers.pop(0)

        waits = []
        async with serving(handler) as target, Connection(target) as connection:
            while answers:
                with pytest.raises(ApiError) as caught:
                    await connection.request("GET", "/x")
                waits.append(caught.value.retry_after_s)
        assert waits[0] == 7
        assert waits[1] is not None
        assert 3000 < waits[1] <= 3600
        assert waits[2:] == [3, None, None]

    async def test_redirects_are_not_followed_with_our_credentials(self) -> None:
        seen = []

        async def handler(request: web.BaseRequest) -> web.Response:
            seen.append(request.path)
            return web.Response(status=307, headers={"Location": "/elsewhere"})

        async with serving(handler) as target, Connection(target) as connection:
            for method, body in (("GET", None), ("POST", b"{}")):
                # Nothing was done: a bind that a login page answers is not a bind.
                with pytest.raises(ApiError) as caught:
                    await connection.request(method, "/x", body)
                assert caught.value.code == 307
            with pytest.raises(ApiError):
                async with connection.stream("/x"):
                    pass
        assert seen == ["/x", "/x", "/x"]


class TestNoAnswer:
    async def test_a_refused_connection_means_nothing_was_sent(self) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))  # bound but not listening: refuses
            target = Target(Server(f"http://127.0.0.1:{unused.getsockname()[1]}"))
            async with Connection(target) as connection:
                with pytest.raises(NotSent, match=r"POST http://127.0.0.1:\d+/x: no connection"):
                    await connection.request("POST", "/x", b"{}")

    async def test_a_connection_that_breaks_means_nobody_knows(self) -> None:
        async def handler(request: web.BaseRequest) -> web.Response:
            return break_off(request)

        async with serving(handler) as target, Connection(target) as connection:
            with pytest.raises(Unreachable) as caught:
                await connection.request("POST", "/x", b"{}")
        assert not isinstance(caught.value, NotSent)

    async def test_an_answer_that_breaks_off_half_way_is_none(self) -> None:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            response.content_length = 1000
            await response.prepare(request)
            await response.write(b"half")
            return break_off(request)

        async with serving(handler) as target, Connection(target) as connection:
            with pytest.raises(Unreachable, match="broke off"):
                await connection.request("POST", "/x", b"{}")

    async def test_silence_ends_with_the_timeout(self) -> None:
        async def handler(request: web.BaseRequest) -> web.Response:
            await asyncio.Event().wait()
            raise AssertionError

        async with serving(handler) as target, Connection(target, timeout_s=0.5) as connection:
            with pytest.raises(Unreachable, match="no answer"):
                await connection.request("POST", "/x", b"{}")

    @pytest.mark.parametrize("method", ["PUT", "DELETE", "POST", "PATCH"])
    async def test_a_write_is_sent_once_even_when_a_kept_alive_connection_turns_out_dead(
        self, method: str
    ) -> None:
        arrived: Counter[str] = Counter()

        async def handler(request: web.BaseRequest) -> web.Response:
            arrived[request.method] += 1
            return answer({}) if request.method == "GET" else break_off(request)

        async with serving(handler) as target, Connection(target) as connection:
            await connection.request("GET", "/x")  # leaves a connection to be used again
            with pytest.raises(Unreachable):
                await connection.request(method, "/x", b"{}")
        assert arrived == {"GET": 1, method: 1}

    async def test_after_close_everything_is_refused(self) -> None:
        async def handler(request: web.BaseRequest) -> web.Response:
            return answer({})

        async with serving(handler) as target:
            async with Connection(target) as connection:
                await connection.request("GET", "/x")
            with pytest.raises(NotSent, match="closed"):
                await connection.request("GET", "/x")


class TestCredentials:
    async def test_a_refused_token_is_renewed_once_and_the_request_repeated(self, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("old")
        seen = []

        async def handler(request: web.BaseRequest) -> web.Response:
            seen.append(request.headers["Authorization"])
            token.write_text("new")  # whoever rotates tokens has done so by now
            return answer({}) if seen[-1] == "Bearer new" else status(401, "Unauthorized")

        async with (
            serving(handler) as target,
            Connection(replace(target, user=User(token_file=token))) as connection,
        ):
            await connection.request("POST", "/x", b"{}")
        assert seen == ["Bearer old", "Bearer new"]

    async def test_a_token_that_cannot_be_renewed_is_an_error(self) -> None:
        seen = []

        async def handler(request: web.BaseRequest) -> web.Response:
            seen.append(request.method)
            return status(401, "Unauthorized")

        async with (
            serving(handler) as target,
            Connection(replace(target, user=User(token="t"))) as connection,
        ):
            with pytest.raises(ApiError, match="401"):
                await connection.request("GET", "/x")
            with pytest.raises(ApiError, match="401"):
                async with connection.stream("/x"):
                    pass
        assert seen == ["GET", "GET"]

    async def test_a_stream_renews_its_token_too(self, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("old")

        async def handler(request: web.BaseRequest) -> web.Response:
            token.write_text("new")
            if request.headers["Authorization"] == "Bearer new":
                return web.Response(body=b"line\n")
            return status(401, "Unauthorized")

        async with (
            serving(handler) as target,
            Connection(replace(target, user=User(token_file=token))) as connection,
            connection.stream("/x") as stream,
        ):
            assert await stream.read() == b"line\n"

    async def test_impersonation_is_sent(self) -> None:
        seen = []

        async def handler(request: web.BaseRequest) -> web.Response:
            seen.extend((request.headers["Impersonate-User"], *request.headers.getall("Impersonate-Group")))
            return answer({})

        user = User(
            headers=(("Impersonate-User", "jane"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
        )
        async with serving(handler) as target, Connection(replace(target, user=user)) as connection:
            await connection.request("GET", "/x")
        assert seen == ["jane", "a", "b"]


class TestProxies:
    @pytest.mark.parametrize(
        ("url", "proxy"),
        [
            ("https://api.example", "http://proxy.example:3128"),
            ("https://inside.example", None),
            ("https://127.0.0.1:6443", None),
            ("https://[::1]:6443", None),
            ("https://localhost:6443", None),
        ],
    )
    async def test_the_environments_is_used_but_never_for_this_machine(
        self, url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("https_proxy", "proxy.example:3128")
        monkeypatch.setenv("no_proxy", "inside.example")
        async with Connection(Target(Server(url))) as connection:
            assert connection.proxy == proxy

    async def test_the_configurations_own_goes_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("https_proxy", "proxy.example:3128")
        server = Server("https://api.example", proxy_url="http://own.example:1")
        async with Connection(Target(server)) as connection:
            assert connection.proxy == "http://own.example:1"

    async def test_requests_go_through_it(self) -> None:
        seen = []

        async def handler(request: web.BaseRequest) -> web.Response:
            seen.append(str(request.url))
            return answer({})

        async with serving(handler) as proxy:
            target = Target(Server("http://api.example", proxy_url=proxy.server.url))
            async with Connection(target) as connection:
                await connection.request("GET", "/x")
        assert seen == ["http://api.example/x"]


class TestInFlight:
    async def test_no_more_than_allowed_are_under_way(self) -> None:
        now, most = 0, 0
        gate = asyncio.Event()

        async def handler(request: web.BaseRequest) -> web.Response:
            nonlocal now, most
            now += 1
            most = max(most, now)
            if now == 3:
                gate.set()
            await gate.wait()
            now -= 1
            return answer({})

        async with serving(handler) as target, Connection(target, in_flight=3) as connection:
            await asyncio.gather(*(connection.request("GET", "/x") for _ in range(10)))
        assert most == 3

    async def test_another_lane_does_not_wait(self) -> None:
        hold = asyncio.Event()

        async def handler(request: web.BaseRequest) -> web.Response:
            if request.path == "/slow":
                await hold.wait()
            return answer({})

        async with (
            serving(handler) as target,
            Connection(target, in_flight=1) as connection,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(connection.request("GET", "/slow"))
            await connection.request("GET", "/quick", lane=asyncio.Semaphore(1))
            hold.set()

    async def test_reset_breaks_what_is_under_way_and_the_next_works(self) -> None:
        arrived = asyncio.Event()

        async def handler(request: web.BaseRequest) -> web.Response:
            if request.path == "/hang":
                arrived.set()
                await asyncio.Event().wait()
            return answer({})

        async with serving(handler) as target, Connection(target) as connection, asyncio.TaskGroup() as group:
            hanging = group.create_task(_outcome(connection.request("POST", "/hang", b"{}")))
            await arrived.wait()
            await connection.reset()
            assert isinstance(await hanging, Unreachable)
            await connection.request("GET", "/x")

    async def test_reset_breaks_a_watch_that_is_being_read(self) -> None:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"first")
            await asyncio.Event().wait()
            return response

        async with (
            asyncio.timeout(30),
            serving(handler) as target,
            Connection(target) as connection,
            connection.stream("/watch") as stream,
        ):
            assert await stream.read() == b"first"
            reading = asyncio.create_task(stream.read())
            await asyncio.sleep(0)
            await connection.reset()
            with pytest.raises(Unreachable):
                await reading


class TestFence:
    @pytest.fixture(params=["straight", "through a proxy"])
    def way(self, request: pytest.FixtureRequest) -> Callable[[Target], Target]:
        """Writes go over connections of our own; through a proxy, over aiohttp's."""
        if request.param == "straight":
            return lambda target: target
        return lambda target: Target(Server("http://api.example", proxy_url=target.server.url))

    async def test_it_is_asked_again_at_the_instant_of_sending(self, way: Callable[[Target], Target]) -> None:
        arrived = []

        async def handler(request: web.BaseRequest) -> web.Response:
            arrived.append(request.path)
            return answer({})

        async with serving(handler) as target, Connection(way(target)) as connection:
            for looks in (0, 1):
                with pytest.raises(LeaseLost):
                    await connection.request("POST", "/x", b"{}", fence=Fence(looks))
            assert arrived == []
            await connection.request("POST", "/x", b"{}", fence=Fence(2))
        assert arrived == ["/x"]

    async def test_it_is_asked_only_when_the_turn_has_come(self) -> None:
        hold, arrived = asyncio.Event(), asyncio.Event()

        async def handler(request: web.BaseRequest) -> web.Response:
            if request.path == "/first":
                arrived.set()
                await hold.wait()
            return answer({})

        fence = Fence(2)
        async with (
            serving(handler) as target,
            Connection(target, in_flight=1) as connection,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(connection.request("GET", "/first"))
            await arrived.wait()
            second = group.create_task(_outcome(connection.request("POST", "/second", b"{}", fence=fence)))
            await asyncio.sleep(0)
            fence.looks = 0  # the lease ends while it waits its turn
            hold.set()
            assert isinstance(await second, LeaseLost)

    async def test_a_write_takes_no_longer_than_the_lease_lasts(
        self, way: Callable[[Target], Target]
    ) -> None:
        async def handler(request: web.BaseRequest) -> web.Response:
            await asyncio.Event().wait()
            raise AssertionError

        async with serving(handler) as target, Connection(way(target), timeout_s=3600) as connection:
            with pytest.raises(Unreachable):
                await connection.request("POST", "/x", b"{}", fence=Fence(9, left_s=0.05))


class TestStreams:
    async def test_a_silent_stream_is_noticed(self) -> None:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"first\n")
            await asyncio.Event().wait()
            return response

        async with (
            serving(handler) as target,
            Connection(target) as connection,
            connection.stream("/x", inactivity_s=0.5) as stream,
        ):
            assert await stream.read() == b"first\n"
            with pytest.raises(Unreachable, match="stream broke off"):
                await stream.read()

    async def test_streams_take_no_turn_from_requests(self) -> None:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            if request.path == "/quick":
                return answer({})
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.Event().wait()
            return response

        async with (
            serving(handler) as target,
            Connection(target, in_flight=1) as connection,
            connection.stream("/a"),
            connection.stream("/b"),
        ):
            await connection.request("GET", "/quick")

    async def test_an_aborted_stream_wakes_its_reader(self) -> None:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.Event().wait()
            return response

        async with (
            serving(handler) as target,
            Connection(target) as connection,
            connection.stream("/a") as stream,
            asyncio.TaskGroup() as group,
        ):
            reading = group.create_task(_outcome(stream.read()))
            await asyncio.sleep(0)
            stream.abort()
            assert isinstance(await reading, Unreachable)


async def _outcome(call: object) -> object:
    """What it returned or raised."""
    try:
        return await call  # type: ignore[misc]
    except Exception as error:  # noqa: BLE001 (the test looks at it)
        return error
