"""Writes over bare HTTP/1.1: every answer that a server may give is read, any other ends as unknown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fairlead.client.express import Express, Reply
from fairlead.errors import NotSent, Unreachable

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"


class Wire:
    """A server that reads requests as they are and answers with bytes that the test wrote."""

    def __init__(self, *answers: bytes | None, pieces: int = 0) -> None:
        self.answers = list(answers)
        self.pieces = pieces
        self.requests: list[bytes] = []
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                said = self.answers.pop(0) if self.answers else OK
                if said is None:
                    return
                step = self.pieces or max(1, len(said))
                for start in range(0, len(said), step):
                    writer.write(said[start : start + step])
                    await writer.drain()
                    if self.pieces:
                        await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client went away
        finally:
            writer.close()


@asynccontextmanager
async def express(wire: Wire) -> AsyncIterator[Express]:
    server = await asyncio.start_server(wire, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    lines = Express(f"http://127.0.0.1:{port}", tls=None, tls_name=None, connect_timeout_s=5)
    try:
        yield lines
    finally:
        lines.close()
        server.close()
        await server.wait_closed()


async def send(lines: Express, body: bytes = b"{}", timeout_s: float = 5.0) -> Reply:
    head = lines.head([("Content-Type", "application/json")])
    return await lines.send("POST", "/x", head, body, what="POST /x", timeout_s=timeout_s)


@pytest.mark.parametrize("pieces", [0, 1, 7])
@pytest.mark.parametrize(
    ("said", "status", "body"),
    [
        (OK, 201, b"{}"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200, b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 201, b"{}"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3\r\n{ab\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
            200,
            b"{ab0123456789",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nabcd", 200, b"abcd"),
    ],
)
async def test_an_answer_is_read_however_it_comes(said: bytes, status: int, body: bytes, pieces: int) -> None:
    async with express(Wire(said, pieces=pieces)) as lines:
        reply = await send(lines)
        assert (reply.status, reply.body) == (status, body)
        assert (await send(lines)).body == b"{}"  # the next one has a connection that works


async def test_a_refusal_says_when_to_come_back() -> None:
    said = b"HTTP/1.1 429 Too Many Requests\r\nretry-AFTER: 7\r\nContent-Length: 2\r\n\r\n{}"
    async with express(Wire(said)) as lines:
        assert await send(lines) == Reply(429, "Too Many Requests", "7", b"{}")


@pytest.mark.parametrize(
    "said",
    [
        None,
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
    ],
)
async def test_anything_else_is_an_unknown_outcome_and_the_next_works(said: bytes | None) -> None:
    wire = Wire(said)
    async with express(wire) as lines:
        with pytest.raises(Unreachable) as caught:
            await send(lines)
        assert not isinstance(caught.value, NotSent)
        assert (await send(lines)).status == 201
    assert len(wire.requests) == 2


async def test_an_answer_that_breaks_off_is_an_unknown_outcome() -> None:
    async with express(Wire(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf", None)) as lines:
        with pytest.raises(Unreachable, match="no answer in"):
            await send(lines, timeout_s=0.05)


async def test_a_connection_is_used_again_and_one_request_is_under_way_on_it() -> None:
    wire = Wire()
    async with express(wire) as lines:
        for _ in range(5):
            await send(lines)
        assert wire.connections == 1
        await asyncio.gather(*(send(lines) for _ in range(3)))
        assert wire.connections == 3
    assert wire.requests[0].endswith(b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")


async def test_cancelled_it_gives_up_its_connection() -> None:
    wire = Wire(b"")
    async with express(wire) as lines:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await send(lines)
        await send(lines)
        assert wire.connections == 2


async def test_closed_it_sends_nothing() -> None:
    wire = Wire()
    async with express(wire) as lines:
        lines.close()
        with pytest.raises(NotSent, match="closed"):
            await send(lines)
    assert wire.requests == []
