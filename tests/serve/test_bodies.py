"""The memory that bodies may take: by the control group's limit, shared, and not for slow senders."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from fairlead.doors.bodies import BODIES, Refused, memory_limit
from fairlead.doors.health import serving
from support.wire import PATIENCE_S

KIB = 1024
MIB = 1024 * KIB


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("0::/\n", {"memory.max": "536870912"}, 536870912),
        ("0::/kubepods/pod1\n", {"memory.max": "536870912"}, 536870912),
        ("0::/a/b\n", {"a/memory.max": "1000000", "a/b/memory.max": "2000000"}, 1000000),
        ("0::/\n", {"memory.max": "max"}, None),
        ("4:memory:/pod1\n0::/\n", {"memory/pod1/memory.limit_in_bytes": "1000000"}, 1000000),
        ("4:cpu,memory:/x\n", {"memory/memory.limit_in_bytes": "1000000"}, 1000000),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("", {}, None),
    ],
)
def test_the_least_limit_of_a_control_group_counts(
    tmp_path: Path, groups: str, files: dict[str, str], limit: int | None
) -> None:
    every = {"proc/self/cgroup": groups} | {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in every.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert memory_limit(tmp_path) == limit


def test_a_machine_without_control_groups_has_no_limit(tmp_path: Path) -> None:
    assert memory_limit(tmp_path) is None


class Reading:
    """A route that reads its body and keeps it until it is told."""

    def __init__(self) -> None:
        self.held = asyncio.Event()
        self.free = asyncio.Event()
        self.routes = [web.post("/", self._answer)]

    async def _answer(self, http: web.Request) -> web.Response:
        try:
            async with http.app[BODIES].of(http, MIB, largest=2 * MIB) as body:
                if "hold" in http.query:
                    self.held.set()
                    await self.free.wait()
                return web.Response(text=str(len(body)))
        except Refused as error:
            return web.Response(status=error.status, text=str(error), headers=error.headers)


async def test_a_request_for_which_there_is_no_memory_is_asked_to_come_again() -> None:
    reading = Reading()
    async with (
        serving("127.0.0.1:0", checks=dict, metrics=bytes, routes=reading.routes, memory=MIB) as url,
        aiohttp.ClientSession() as session,
        asyncio.timeout(PATIENCE_S),
    ):
        first = asyncio.create_task(session.post(f"{url}/?hold", data=b" " * (600 * KIB)))
        await reading.held.wait()
        async with session.post(url, data=b" " * (600 * KIB)) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        async with session.post(url, data=b" " * (300 * KIB)) as answer:
            assert answer.status == 200, "there is room for this one"
        reading.free.set()
        assert (await first).status == 200
        async with session.post(url, data=b" " * (600 * KIB)) as answer:
            assert answer.status == 200


async def test_a_body_that_comes_slowly_makes_room_for_one_that_does_not() -> None:
    reading = Reading()
    async with (
        serving("127.0.0.1:0", checks=dict, metrics=bytes, routes=reading.routes, memory=MIB) as url,
        aiohttp.ClientSession() as session,
        asyncio.timeout(PATIENCE_S),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (900 * KIB))
        writer.write(b" " * (800 * KIB))
        await writer.drain()
        statuses = []
        while 200 not in statuses:
            async with session.post(url, data=b" " * (600 * KIB)) as answer:
                statuses.append(answer.status)
        assert set(statuses) <= {200, 503}
        assert b" 503 " in await reader.readline()
        writer.close()


async def test_bodies_beyond_the_ordinary_limit_are_read_one_at_a_time() -> None:
    reading, body = Reading(), b" " * (MIB + 1)
    async with (
        serving("127.0.0.1:0", checks=dict, metrics=bytes, routes=reading.routes, memory=16 * MIB) as url,
        aiohttp.ClientSession() as session,
        asyncio.timeout(PATIENCE_S),
    ):
        first = asyncio.create_task(session.post(f"{url}/?hold", data=io.BytesIO(body)))
        await reading.held.wait()
        async with session.post(url, data=io.BytesIO(body)) as answer:
            assert answer.status == 503
        async with session.post(url, data=io.BytesIO(body[:MIB])) as answer:
            assert answer.status == 200
        reading.free.set()
        assert (await first).status == 200
        async with session.post(url, data=io.BytesIO(b" " * (2 * MIB + 1))) as answer:
            assert answer.status == 413
