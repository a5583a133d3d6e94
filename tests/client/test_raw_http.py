"""Writes over bare HTTP/1.1: answers in every legal shape, and what is not an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from fairlead.client.raw_http import RawHttp, Reply
from fairlead.client.sockets import Sockets
from fairlead.errors import NotSent, Unreachable

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def express(handler: Handler) -> AsyncIterator[RawHttp]:
    """An express to a server that does with each connection what `handler` says."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client went away
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    own = RawHttp(f"http://{host}:{port}", tls=None, tls_name=None, connect_timeout_s=5, sockets=Sockets())
    try:
        yield own
    finally:
        own.close()
        server.close()
        await server.wait_closed()


async def post(own: RawHttp, body: bytes = b"{}", timeout_s: float = 5) -> Reply:
    return await own.send("POST", "/x", own.head([("A", "b")]), body, what="POST /x", timeout_s=timeout_s)


async def request(reader: asyncio.StreamReader) -> bytes:
    """One request, head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head + await reader.readexactly(length)


def says(*parts: bytes) -> Handler:
    """Answers every request with these bytes, part by part."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request(reader)
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)

    return handler


@pytest.mark.parametrize(
    "parts",
    [
        [b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nbody"],
        [b"HTTP/1.1 201 Cre", b"ated\r\ncontent-length:4\r\n\r\nbo", b"dy"],
        [b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbod\r\n1\r\ny\r\n0\r\n\r\n"],
        [
            b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nb",
            b"od\r\n1\r",
            b"\ny\r\n0\r\n\r\n",
        ],
        [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nbody"],
    ],
    ids=["whole", "in pieces", "chunked", "chunked in pieces", "after a 100"],
)
async def test_an_answer_is_read_whole_however_it_comes(parts: list[bytes]) -> None:
    async with express(says(*parts)) as own:
        for _ in range(2):
            assert await post(own) == Reply(201, "Created", None, b"body")


async def test_what_is_sent_is_one_whole_request() -> None:
    seen = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await request(reader))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with express(handler) as own:
        await post(own, b'{"a":1}')
    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nA: b\r\n" in head
    assert body == b'{"a":1}'


async def test_a_refusal_tells_when_to_come_back() -> None:
    answer = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
    async with express(says(answer)) as own:
        assert await post(own) == Reply(429, "Too Many Requests", "7", b"")


async def test_a_connection_is_used_again_unless_the_server_closes_it() -> None:
    made = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.append(writer)
        for extra in (b"", b"Connection: close\r\n"):
            await request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\n" + extra + b"Content-Length: 0\r\n\r\n")

    async with express(handler) as own:
        for _ in range(4):
            await post(own)
    assert len(made) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhow long is this?",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nmore than was said",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"x" * 70_000,
    ],
)
async def test_what_is_no_answer_leaves_the_outcome_unknown(answer: bytes) -> None:
    async with express(says(answer)) as own:
        with pytest.raises(Unreachable, match="not an answer") as caught:
            await post(own)
    assert not isinstance(caught.value, NotSent)


async def test_silence_ends_with_the_timeout_and_the_connection() -> None:
    ended = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await request(reader)
        assert await reader.read() == b""
        ended.set()

    async with express(handler) as own:
        await post(own)  # from here on there is a connection, which may take a busy machine longer than that
        with pytest.raises(Unreachable, match=r"no answer in 0\.05 s"):
            await post(own, timeout_s=0.05)
        await ended.wait()


async def test_a_refused_check_sends_nothing_and_keeps_the_connection() -> None:
    arrived = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            arrived.append(await request(reader))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    def refuse() -> None:
        raise PermissionError("not any more")

    async with express(handler) as own:
        await post(own)
        with pytest.raises(PermissionError):
            await own.send("POST", "/x", own.head([]), b"", what="POST /x", timeout_s=5, check=refuse)
        await post(own)
    assert len(arrived) == 2


async def test_closing_ends_what_is_under_way_and_refuses_what_comes() -> None:
    arrived = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        arrived.set()
        await reader.read()

    async with express(handler) as own:
        waiting = asyncio.create_task(post(own))
        await arrived.wait()
        own.close()
        with pytest.raises(Unreachable):
            await waiting
        with pytest.raises(NotSent, match="closed"):
            await post(own)


async def test_a_cancelled_request_takes_its_connection_with_it() -> None:
    made = []
    arrived = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.append(writer)
        await request(reader)
        arrived.set()
        if len(made) > 1:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    async with express(handler) as own:
        waiting = asyncio.create_task(post(own))
        await arrived.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await post(own)
    assert len(made) == 2


async def test_connections_are_opened_a_few_at_a_time_and_shared_by_all_who_wait() -> None:
    opened = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        while True:
            await request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with express(handler) as own:
        replies = await asyncio.gather(*(post(own) for _ in range(100)))
    assert [reply.status for reply in replies] == [200] * 100
    assert opened < 100
