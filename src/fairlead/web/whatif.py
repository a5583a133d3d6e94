"""What-ifs for the page: one at a time, each in a process of its own that ends with the request.

What would happen takes seconds, on a large cluster minutes, of computing; in this process it would hold up
every stream. The page has only parts of each object, and a copy of a cluster needs them whole, so the cluster
is read once for each what-if, with the rights that this process has. Its objects are handed on as they were
sent, page by page: nothing of them is decoded or kept here.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from asyncio import subprocess
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import structlog

from fairlead.client.api import Client
from fairlead.client.clock import Clock
from fairlead.doors.bodies import memory_limit
from fairlead.engine.ask.cost import Price
from fairlead.engine.planning.settings import Settings
from fairlead.errors import BadInput, FairleadError, Gone
from fairlead.feed.cluster_objects import read_objects
from fairlead.kube.resources import Resource
from fairlead.nodegroups import NodeGroup
from fairlead.web.whatif_task import HEAD, Task, framed, page_of

_log = structlog.get_logger(__name__)

LARGEST = 256 * 1024
"""Bytes of a request: changes, and the manifests that were pasted."""
MOST = 50
"""Changes at once."""
LONGEST_S = 1800.0
"""After this a what-if is given up."""
_ALIVE_S = 0.5  # how often something is sent, or it is noticed that the browser went away
_SHARE = 2  # of the memory, one part in this many is for the process that computes


class Busy(FairleadError):  # noqa: N818 (reads as what happened)
    """Another what-if is being worked out."""


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """What a browser sends: changes in order, each by name and text, such as ``drain`` and ``steady-1``."""

    changes: list[tuple[str, str]]


def read_asked(body: bytes | bytearray) -> Asked:
    """A request's body; BadInput says what is wrong with it."""
    try:
        asked = msgspec.json.decode(body, type=Asked)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"this is no what-if: {error}") from error
    if not asked.changes:
        raise BadInput("nothing is to be done: add a change")
    if len(asked.changes) > MOST:
        raise BadInput(f"these are {len(asked.changes)} changes; {MOST} can be made at once")
    return asked


class WhatIf:
    """See the module.

    Invariant: inside `alone` there is one process at most, and after it none.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        *,
        policies: Callable[[], Sequence[dict[str, Any]]],
        clock: Clock,
        system_namespace: str,
        prices: Sequence[Price] = (),
        groups: Sequence[NodeGroup] = (),
        memory: int | None = None,
    ) -> None:
        """`policies` are those that hold here and are not the cluster's; `groups` what an autoscaler
        may bring.

        `memory` is what the process may take in bytes; unless given, half of what this one has.
        """
        self._busy = False
        self._client = client
        self._settings = settings
        self._policies = policies
        self._clock = clock
        self._system_namespace = system_namespace
        self._prices = tuple(prices)
        self._groups = tuple(groups)
        self._memory = _memory() // _SHARE if memory is None else memory
        self.process: subprocess.Process | None = None

    @property
    def groups(self) -> list[str]:
        """The names of node groups that nodes can be added of, though none may be there."""
        return [one.name for one in self._groups]

    @contextmanager
    def alone(self) -> Iterator[None]:
        """What runs inside is the only one; Busy where another is."""
        if self._busy:
            raise Busy("another what-if is being worked out by this server; try again when it is done")
        self._busy = True
        began = self._clock.now()
        try:
            yield
        finally:
            self._busy = False
            _log.info("whatif", took_s=round(self._clock.now() - began, 3))

    async def lines(self, asked: Asked) -> AsyncGenerator[bytes, None]:
        """JSON, a line at a time: what is being done (``say``), and at last ``answer`` or ``wrong``.

        To be called inside `alone`. Where nothing is new for half a second, an empty line comes. Closed or
        cancelled, the process ends.
        """
        task = Task(
            tuple(asked.changes),
            self._clock.wall(),
            self._settings,
            self._groups,
            self._prices,
            tuple(self._policies()),
            self._memory,
        )
        process = self.process = await _start()
        reading = _Reading(self._client, process, self._system_namespace)
        feeding = asyncio.create_task(reading.run(task))
        receiving: asyncio.Task[bytes] | None = None
        try:
            async with asyncio.timeout(LONGEST_S):
                yield b'{"say":"reading the cluster"}\n'
                while True:
                    receiving = receiving or asyncio.create_task(_receive(process))
                    await asyncio.wait((receiving,), timeout=_ALIVE_S)
                    if feeding.done() and (failed := feeding.exception()) is not None:
                        if not isinstance(failed, FairleadError):
                            raise failed
                        yield _wrong(f"the cluster could not be read: {failed}")
                        return
                    if not receiving.done():
                        yield (b"" if feeding.done() else reading.progress()) or b"\n"
                        continue
                    try:
                        line = receiving.result()
                    except asyncio.IncompleteReadError:
                        yield _wrong(await _ended(process))
                        return
                    receiving = None
                    yield line + b"\n"
                    if not line.startswith(b'{"say"'):
                        return
        except TimeoutError:
            yield _wrong(f"it was given up after {LONGEST_S / 60:.0f} minutes")
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            for one in (feeding, receiving):
                if one is not None:
                    one.cancel()
            await asyncio.gather(*filter(None, (feeding, receiving)), return_exceptions=True)
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()


class _Reading:
    """Hands the cluster's objects to the process."""

    def __init__(self, client: Client, process: subprocess.Process, system_namespace: str) -> None:
        assert process.stdin is not None
        self._client = client
        self._pipe = process.stdin
        self._system_namespace = system_namespace
        self._objects = self._said = 0
        self._writing = asyncio.Lock()

    async def run(self, task: Task) -> None:
        """All of it. What keeps the process from taking more is its own to say: it has ended then."""
        try:
            await self._send(pickle.dumps(task))
            unread = await self._read()
            await self._send(msgspec.json.encode({"unread": unread}))
        except (BrokenPipeError, ConnectionResetError):
            pass

    def progress(self) -> bytes:
        """A line that says how much has been read, if that is news."""
        if self._objects == self._said:
            return b""
        self._said = self._objects
        return msgspec.json.encode({"say": f"reading the cluster: {self._objects:,} objects"}) + b"\n"

    async def _read(self) -> dict[str, str]:
        for paged in (True, False):
            try:
                found = await read_objects(
                    self._client,
                    system_namespace=self._system_namespace,
                    progress=self._count,
                    take_page=self._page,
                    paged=paged,
                )
            except Gone:
                if not paged:
                    raise
                await self._send(b'{"again":true}')
            else:
                return found.unread
        raise AssertionError("the second round returns or raises")

    async def _page(self, resource: Resource, items: Sequence[bytes]) -> None:
        if items:
            await self._send(page_of(resource.api_version, resource.kind, items))

    async def _send(self, data: bytes) -> None:
        # Kinds are read side by side; a pipe has one writer that waits.
        async with self._writing:
            self._pipe.write(framed(data))
            await self._pipe.drain()

    def _count(self, objects: int) -> None:
        self._objects = objects


async def _start() -> subprocess.Process:
    # Ctrl-C in a terminal is for us; and what lies in the working directory is not to be imported.
    arguments = ("-P", "-m", "fairlead.web.whatif_process")
    return await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )


async def _receive(process: subprocess.Process) -> bytes:
    assert process.stdout is not None
    size = int.from_bytes(await process.stdout.readexactly(HEAD), "big")
    return await process.stdout.readexactly(size)


async def _ended(process: subprocess.Process) -> str:
    code = await process.wait()
    if code < 0:
        return "it was ended by the system, mostly for want of memory"
    return "fairlead failed; the log of its server says why"


def _wrong(why: str) -> bytes:
    return msgspec.json.encode({"wrong": {"why": why}}) + b"\n"


def _memory() -> int:
    limit = memory_limit()
    return limit if limit is not None else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
