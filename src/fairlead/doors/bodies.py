"""The bodies of requests: how large each may be, how slow, and how much memory all of them may take.

A body is counted as it comes, never by what its header says: a sender that says a lot and sends little holds
little. What is made of a body counts too: a megabyte of brackets is twenty of lists. All that is in flight
has a fixed share of the process's memory. When that is full, bodies that have been coming for longer than a
moment make room, because a sender that means it is done by then; else a request waits briefly and is asked
to come again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from fairlead.doors.connections import Connections
from fairlead.errors import FairleadError

DEFAULT_MEMORY = 1024 * 1024 * 1024
"""The memory that a process without a limit is taken to have."""
_SHARE = 4  # a quarter of the memory is for bodies and what is made of them
_DEADLINE_S = 5.0  # for a whole body; kube-scheduler gives up by then
_PATIENCE_S = 1.0  # how long a request waits for memory
_SLOW_S = 1.0  # a body that comes for longer may be given up for others
_LOOK_S = 0.1
_RETRY_S = "1"
# What Python takes for a value in JSON, and for an object besides; where only some fields are read, for one
# that is read.
_VALUE, _OBJECT, _READ = 128, 240, 80


class Refused(FairleadError):  # noqa: N818 (reads as what happened)
    """A body that was not read to its end, and the HTTP status that says so."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        super().__init__(reason)

    @property
    def headers(self) -> dict[str, str]:
        """What the answer must say besides."""
        return {"Retry-After": _RETRY_S} if self.status == 503 else {}


@dataclass(slots=True, eq=False)
class _Body:
    """One that is in flight: `began` in the loop's time, `bytes` that it takes."""

    began: float
    deadline: asyncio.Timeout
    bytes: int = 0
    given_up: bool = False


class Bodies:
    """See the module.

    Invariant: `_used` is the sum of what the bodies in flight take, and never more than `most`.
    """

    def __init__(self, connections: Connections, most: int | None) -> None:
        """`most` bytes for all bodies together; None: a quarter of the memory of the process."""
        self._connections = connections
        self._most = (memory_limit() or DEFAULT_MEMORY) // _SHARE if most is None else most
        self._used = 0
        self._reading: dict[_Body, None] = {}  # in the order in which they began
        self._freed = asyncio.Event()
        self._large = asyncio.Lock()

    @asynccontextmanager
    async def of(
        self, http: web.Request, limit: int, *, largest: int = 0, typed: bool = False
    ) -> AsyncIterator[bytes | bytearray]:
        """The body of a request of up to `limit` bytes; it counts until the context ends.

        A body whose header says that it is larger, up to `largest` bytes, must be alone: others wait. Of a
        `typed` one only the fields that are needed become values.
        Refused where there is none to be had.
        """
        length = http.content_length
        most = max(limit, largest if length is not None else 0)
        if length is not None and length > most:
            raise Refused(413, f"the body has more than {most} bytes")
        alone = length is not None and length > limit
        async with AsyncExitStack() as stack:
            if alone:
                await self._alone(stack)
            body = _Body(asyncio.get_running_loop().time(), asyncio.timeout(_DEADLINE_S))
            stack.callback(self._release, body)
            found = await self._read(http, body, most)
            await self._take(body, _unfolded(found, typed=typed))
            yield found

    async def _alone(self, stack: AsyncExitStack) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await stack.enter_async_context(self._large)
        except TimeoutError as error:
            raise Refused(503, "another body of this size is being answered") from error

    async def _read(self, http: web.Request, body: _Body, most: int) -> bytes | bytearray:
        self._reading[body] = None
        found: bytes | bytearray = b""
        try:
            with self._connections.reading(http):
                async with body.deadline:
                    async for chunk in http.content.iter_any():
                        if len(found) + len(chunk) > most:
                            raise Refused(413, f"the body has more than {most} bytes")
                        await self._take(body, len(chunk))
                        if not found:
                            found = chunk
                        else:
                            found = bytearray(found) if isinstance(found, bytes) else found
                            found += chunk
        except TimeoutError as error:
            if body.given_up:
                raise Refused(503, "there is no memory for a body that comes this slowly") from error
            raise Refused(408, f"the body did not come within {_DEADLINE_S:g} s") from error
        except (web.RequestPayloadError, ConnectionError) as error:
            raise Refused(400, f"the body ended early: {error}") from error
        finally:
            del self._reading[body]
        return found

    async def _take(self, body: _Body, number: int) -> None:
        """Count this many more bytes for a body, as soon as there is room for them."""
        if self._used + number > self._most:
            await self._wait_for(body, number)
        self._used += number
        body.bytes += number

    async def _wait_for(self, body: _Body, number: int) -> None:
        if body.bytes + number > self._most:
            raise Refused(413, f"the body takes more than {self._most} bytes of memory")
        loop = asyncio.get_running_loop()
        until = loop.time() + _PATIENCE_S
        while self._used + number > self._most:
            now = loop.time()
            if now >= until:
                raise Refused(503, "there is no memory for another body now")
            self._give_up_slow(now, body)
            self._freed.clear()
            try:
                async with asyncio.timeout(_LOOK_S):
                    await self._freed.wait()
            except TimeoutError:
                continue

    def _give_up_slow(self, now: float, but: _Body) -> None:
        for body in self._reading:
            if now - body.began <= _SLOW_S:
                return
            if body is not but and body.bytes and not body.deadline.expired():
                body.given_up = True
                body.deadline.reschedule(now)
                return

    def _release(self, body: _Body) -> None:
        self._used -= body.bytes
        self._freed.set()


BODIES = web.AppKey("bodies", Bodies)


def memory_limit(root: Path = Path("/")) -> int | None:
    """The least that a control group of this process, version 2 or 1, is limited to; None: no limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            base, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # In a container the path is that on the host, and its own group is mounted at the base.
        group = base / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(base) and (limit := _number(folder / name)) is not None:
                found.append(limit)
    return min(found, default=None)


def _number(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    # Version 1 says "none" with a number beyond all memory.
    return int(text) if re.fullmatch(r"\d{1,15}", text) else None


def _unfolded(body: bytes | bytearray, *, typed: bool) -> int:
    """What the values of a JSON text take in memory, about, and not much more."""
    values = body.count(b",") + body.count(b"[")
    return _READ * values if typed else _VALUE * values + (_VALUE + _OBJECT) * body.count(b"{")
