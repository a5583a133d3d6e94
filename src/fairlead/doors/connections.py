"""The connections of a port: how many there may be, and how long a client may take for each step.

A port waits for a client's TLS handshake, then for the header of its request, then for the body (see
`bodies`), then for the client to read the answer. aiohttp has no deadline for any of these, so connections
are accepted here and handed to it.

The subtle thing is which one goes when a port is full. A connection that wants to be served sends its
request within milliseconds, so the place of a newcomer is taken from the connection that has been silent
for longest: an idle one first, then one that has not sent its request, then one that has not sent its body.
A request that is being answered is never given up: newcomers wait in the kernel's queue instead.
"""

from __future__ import annotations

import asyncio
import enum
import resource
import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

import structlog
from aiohttp import web

_log = structlog.get_logger(__name__)

MOST = 500
"""Connections at once; fewer where the process may not open as many files."""
ANSWER_S = 10.0
"""How long a caller may read nothing of its answer."""
_HANDSHAKE_S = 5.0
_HEADER_S = 10.0
_CLOSING_S = 5.0
_LOOK_S = 0.5
_FULL_S = 0.2  # until accepting is tried again after the kernel refused
_UNREAD = 16 * 1024 * 1024
"""Bytes of headers that all connections together may have sent without a request coming of it."""


class _State(enum.Enum):
    OPENING = "has not sent a whole header"
    READING = "has not sent its whole body"
    BUSY = "is being answered"
    IDLE = "was answered, and may send another request"
    CLOSING = "was answered before its body was read"


_GIVEN_UP = (_State.IDLE, _State.OPENING, _State.READING)  # in this order


class _Connection(asyncio.Protocol):
    """One connection; passes everything on to aiohttp's protocol."""

    __slots__ = ("_of", "accepting", "leaving", "received", "since", "state", "transport", "wrapped")

    def __init__(self, of: Connections, wrapped: web.RequestHandler) -> None:
        self._of = of
        self.wrapped = wrapped
        self.transport: asyncio.Transport | None = None
        self.accepting: asyncio.Task[None] | None = None
        self.state = _State.OPENING
        self.since = 0.0
        self.received = 0
        self.leaving = False
        """Whether it must be closed after its answer."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's do not inherit from it
        self._of.move(self, _State.OPENING)  # the header has all of its time
        self.wrapped.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._of.forget(self)
        self.wrapped.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        self._of.count(self, len(data))
        self.wrapped.data_received(data)

    def eof_received(self) -> None:
        self.wrapped.eof_received()

    def pause_writing(self) -> None:
        self._of.paused[self] = asyncio.get_running_loop().time()
        self.wrapped.pause_writing()

    def resume_writing(self) -> None:
        self._of.paused.pop(self, None)
        self.wrapped.resume_writing()

    def drop(self) -> None:
        """End it now, whatever it is doing."""
        self._of.forget(self)
        if self.transport is not None:
            self.transport.abort()
        elif self.accepting is not None:
            self.accepting.cancel()


class Connections:
    """See the module.

    Invariant: every connection that is open, or in its handshake, is in exactly one of `_in`'s states, in the
    order in which it came to be in it; there are never more than `most`.
    """

    def __init__(
        self,
        runner: web.AppRunner,
        *,
        most: int,
        answer_s: float,
    ) -> None:
        self._runner = runner
        # Half of the files are for watches, writes and what else the process has open.
        self._most = max(1, min(most, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
        self._answer_s = answer_s
        self._in: dict[_State, dict[_Connection, None]] = {state: {} for state in _State}
        self._by_wrapped: dict[object, _Connection] = {}
        self.paused: dict[_Connection, float] = {}
        """Connections that do not read their answer, and since when."""
        self._unread = 0
        self._room = asyncio.Event()

    def __len__(self) -> int:
        return len(self._by_wrapped)

    async def serve(self, listening: Iterable[socket.socket], tls: ssl.SSLContext | None) -> None:
        """Accept connections on these sockets for ever. Cancelled, those that are open stay open."""
        async with asyncio.TaskGroup() as group:
            for one in listening:
                group.create_task(self._accept(one, tls, group))
            group.create_task(self._end_slow())

    def close_all(self) -> None:
        """Have every connection closed: what is being answered is answered first."""
        for state in (_State.OPENING, _State.READING):
            for connection in list(self._in[state]):
                connection.drop()
        for connection in list(self._in[_State.IDLE]):
            self._close(connection)
        for connection in self._in[_State.BUSY]:
            connection.leaving = True

    @contextmanager
    def answering(self, http: web.Request) -> Iterator[None]:
        """Note that a request is being answered; its connection is idle again afterwards."""
        connection = self._by_wrapped.get(http.protocol)
        if connection is None:  # it was lost meanwhile
            yield
            return
        self.move(connection, _State.BUSY)
        try:
            yield
        finally:
            if connection.wrapped in self._by_wrapped:
                unread = not http.content.at_eof()
                self.move(connection, _State.CLOSING if unread else _State.IDLE)

    @contextmanager
    def reading(self, http: web.Request) -> Iterator[None]:
        """Note that the body of a request that is being answered is being read."""
        connection = self._by_wrapped.get(http.protocol)
        if connection is not None:
            self.move(connection, _State.READING)
        try:
            yield
        finally:
            if connection is not None and connection.state is _State.READING:
                self.move(connection, _State.BUSY)

    def leaving(self, http: web.Request) -> bool:
        """Whether the connection of a request must be closed after its answer."""
        connection = self._by_wrapped.get(http.protocol)
        return connection is None or connection.leaving or connection.state is _State.CLOSING

    def move(self, connection: _Connection, state: _State) -> None:
        """A connection is in another state from now on."""
        if self._in[connection.state].pop(connection, self) is self:
            return  # it was given up
        self._unread -= connection.received
        connection.received, connection.state = 0, state
        connection.since = asyncio.get_running_loop().time()
        self._in[state][connection] = None
        if state is not _State.BUSY:
            self._room.set()

    def forget(self, connection: _Connection) -> None:
        """A connection is gone."""
        self._in[connection.state].pop(connection, None)
        self._by_wrapped.pop(connection.wrapped, None)
        self.paused.pop(connection, None)
        self._unread -= connection.received
        connection.received = 0
        self._room.set()

    def count(self, connection: _Connection, received: int) -> None:
        """Bytes came that are no body that is being read: a header, or a request before its turn."""
        if connection.state is _State.IDLE:
            self.move(connection, _State.OPENING)
        if connection.state in (_State.READING, _State.CLOSING):
            return
        connection.received += received
        self._unread += received
        while self._unread > _UNREAD:
            max(self._by_wrapped.values(), key=lambda one: one.received).drop()

    async def _accept(
        self, listening: socket.socket, tls: ssl.SSLContext | None, group: asyncio.TaskGroup
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:
                # No descriptors left, or the caller is gone already.
                _log.warning("not_accepted", reason=error.strerror or str(error))
                await asyncio.sleep(_FULL_S)
                continue
            try:
                while len(self) >= self._most and not self._give_up_one():
                    self._room.clear()
                    await self._room.wait()
            except BaseException:
                accepted.close()
                raise
            assert self._runner.server is not None
            connection = _Connection(self, self._runner.server())
            connection.since = loop.time()
            self._in[_State.OPENING][connection] = None
            self._by_wrapped[connection.wrapped] = connection
            task = group.create_task(self._connect(connection, accepted, tls))
            task.add_done_callback(partial(_close_unstarted, accepted))
            connection.accepting = task

    async def _connect(
        self, connection: _Connection, accepted: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        try:
            accepted.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=tls,
                ssl_handshake_timeout=_HANDSHAKE_S if tls is not None else None,
            )
            return
        except (OSError, asyncio.CancelledError):
            pass  # no TLS, a certificate of a stranger, too slow, or given up
        except Exception:  # noqa: BLE001 (one connection must not end the port; the log has it all)
            _log.exception("not_accepted")
        self.forget(connection)
        accepted.close()

    def _give_up_one(self) -> bool:
        """Make room for another connection; False: every one is being answered."""
        for state in _GIVEN_UP:
            for connection in self._in[state]:
                if state is not _State.IDLE:
                    connection.drop()
                elif connection not in self.paused:
                    self._close(connection)
                else:
                    continue
                return True
        return False

    def _close(self, connection: _Connection) -> None:
        """End an idle connection, once its last answer was sent."""
        self.forget(connection)
        if connection.transport is not None:
            connection.transport.close()

    async def _end_slow(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            now = asyncio.get_running_loop().time()
            late = [one for one, since in self.paused.items() if now - since > self._answer_s]
            for state, most_s in ((_State.OPENING, _HEADER_S), (_State.CLOSING, _CLOSING_S)):
                for connection in self._in[state]:
                    if now - connection.since <= most_s:
                        break
                    late.append(connection)
            for connection in late:
                connection.drop()


def _close_unstarted(accepted: socket.socket, task: asyncio.Task[None]) -> None:
    """Close the socket of a connection that was given up before its task ran: nothing else would."""
    if task.cancelled():
        accepted.close()
