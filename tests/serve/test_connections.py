"""The connections of a port: how many it takes, and which one goes for another."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from fairlead.doors.health import serving
from support.wire import PATIENCE_S

MOST = 4
LARGE = 64 * 1024 * 1024  # more than sockets take


class Caller:
    """One connection to a port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, path: str) -> None:
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())

    async def answer(self) -> str:
        """The first line of an answer; empty: it was closed."""
        async with asyncio.timeout(PATIENCE_S):
            found = await self.reader.readline()
            while (await self.reader.readline()).strip():
                pass
            await self.reader.read(2)
        return found.decode().strip()

    async def ended(self) -> bool:
        async with asyncio.timeout(PATIENCE_S):
            try:
                return not await self.reader.read(1)
            except ConnectionError:
                return True


class Held:
    """A route whose answers wait."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self._asked = asyncio.Semaphore(0)

    async def answer(self, _: web.Request) -> web.Response:
        self._asked.release()
        await self.free.wait()
        return web.Response(text="ok")

    async def large(self, _: web.Request) -> web.Response:
        self._asked.release()
        return web.Response(body=b"x" * LARGE)

    async def wait_for(self, number: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(number):
                await self._asked.acquire()


@asynccontextmanager
async def port(held: Held, **more: float) -> AsyncIterator[Callable[[], Awaitable[Caller]]]:
    """What connects to a port with few places."""
    made: list[Caller] = []
    async with serving(
        "127.0.0.1:0",
        checks=dict,
        metrics=bytes,
        routes=[web.get("/held", held.answer), web.get("/large", held.large)],
        most_connections=MOST,
        **more,
    ) as url:

        async def connect() -> Caller:
            made.append(Caller(*await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))))
            return made[-1]

        try:
            yield connect
        finally:
            for one in made:
                one.writer.close()
                with contextlib.suppress(ConnectionError):
                    await one.writer.wait_closed()


async def test_the_connection_that_was_idle_for_longest_goes_first() -> None:
    async with port(Held()) as connect:
        silent = await connect()
        idle = [await connect() for _ in range(MOST - 1)]
        for one in idle:
            one.send("/livez")
            assert await one.answer() == "HTTP/1.1 200 OK"
        for given_up in (*idle, silent):
            newcomer = await connect()
            newcomer.writer.write(b"GET /livez HTTP/1.1\r\n")  # and not the rest
            assert await given_up.ended()
        newcomer.writer.write(b"Host: a\r\n\r\n")
        assert await newcomer.answer() == "HTTP/1.1 200 OK"


async def test_connections_that_come_in_one_moment_and_are_given_up_at_once_are_closed() -> None:
    async with serving("127.0.0.1:0", checks=dict, metrics=bytes, most_connections=MOST) as url:
        # They are all in the kernel's queue before the port accepts the first.
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        made = [socket.create_connection(address, timeout=PATIENCE_S) for _ in range(10 * MOST)]
        try:
            ended = [await asyncio.to_thread(one.recv, 1) for one in made[:-MOST]]
            assert ended == [b""] * (9 * MOST)
        finally:
            for one in made:
                one.close()


async def test_a_request_that_is_being_answered_is_never_given_up_and_newcomers_wait() -> None:
    held = Held()
    async with port(held) as connect:
        busy = [await connect() for _ in range(MOST)]
        for one in busy:
            one.send("/held")
        await held.wait_for(MOST)
        late = await connect()
        late.send("/livez")
        waiting = asyncio.create_task(late.answer())
        await asyncio.wait((waiting,), timeout=0.3)
        assert not waiting.done()
        held.free.set()
        assert [await one.answer() for one in busy] == ["HTTP/1.1 200 OK"] * MOST
        assert await waiting == "HTTP/1.1 200 OK"


async def read_all(caller: Caller) -> int:
    """How many bytes there are to be read until the connection ends, or the whole answer is there."""
    found = 0
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionError):
            while found < LARGE and (part := await caller.reader.read(1024 * 1024)):
                found += len(part)
    return found


async def test_who_does_not_read_its_answer_in_time_loses_its_connection() -> None:
    held = Held()
    async with port(held, answer_s=0.1) as connect:
        callers = [await connect() for _ in range(MOST)]
        for one in callers:
            one.send("/large")
        await held.wait_for(MOST)
        # Nobody who is being answered is given up for another: there is no place before their time is over.
        late = await connect()
        late.send("/livez")
        assert await late.answer() == "HTTP/1.1 200 OK"
        assert min([await read_all(one) for one in callers]) < LARGE


async def test_who_reads_its_answer_has_all_of_it() -> None:
    async with port(Held(), answer_s=PATIENCE_S) as connect:
        one = await connect()
        one.send("/large")
        assert await read_all(one) >= LARGE
