"""Small writes over bare HTTP/1.1: what a scheduler sends thousands of times a second.

A bind is four hundred bytes out and two hundred back; a general HTTP client spends several times more
CPU on it than that takes. Here a request is one `write` and an answer one parse. One request at a time
per connection, nothing pipelined; a connection that does anything unexpected is closed, and its request
ends as Unreachable, because it may have been applied.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from fairlead.client.request import distrusted, say
from fairlead.client.sockets import Sockets
from fairlead.errors import NotSent, Unreachable

_LIMIT = 64 * 1024 * 1024  # bytes of one answer
_CONNECTING = 4  # connections that are being opened at the same time


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: whole, whatever its status."""

    status: int
    reason: str
    retry_after: str | None
    body: bytes


class RawHttp:
    """Kept-alive connections to one server, each with one request under way at most.

    Cancelled while it waits for an answer, a request's connection is closed and its outcome unknown.
    """

    def __init__(
        self,
        url: str,
        *,
        tls: ssl.SSLContext | None,
        tls_name: str | None,
        connect_timeout_s: float,
        sockets: Sockets,
        keep_s: float = 60.0,
    ) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if tls is not None else 80)
        self._prefix = parts.path.rstrip("/")
        self._host_header = parts.netloc.rpartition("@")[2]
        self._tls = tls
        self._tls_name = tls_name
        self._connect_timeout_s = connect_timeout_s
        self._sockets = sockets
        self._keep_s = keep_s
        self._idle: deque[_Line] = deque()
        self._all: set[_Line] = set()
        self._closed = False
        self._waiters: deque[tuple[str, asyncio.Future[_Line]]] = deque()
        self._connecting: set[asyncio.Task[None]] = set()

    def head(self, headers: Iterable[tuple[str, str]]) -> bytes:
        """The part of a request's head that stays the same, made once for many requests."""
        lines = [f"Host: {self._host_header}", *(f"{name}: {value}" for name, value in headers)]
        return ("\r\n".join(lines) + "\r\nContent-Length: ").encode("latin-1")

    async def send(
        self,
        method: str,
        path: str,
        head: bytes,
        body: bytes,
        *,
        what: str,
        timeout_s: float,
        check: Callable[[], object] | None = None,
    ) -> Reply:
        """Send one request, once; `what` is how messages call it.

        `check` is called at the last instant and may raise instead.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout_s
        line = self._take(loop) or await self._wait(what, min(timeout_s, self._connect_timeout_s))
        if not line.alive:
            raise NotSent(f"{what}: the connection broke before anything was sent")
        if check is not None:
            try:
                check()
            except BaseException:
                self._give(line, loop)
                raise
        target = f"{method} {self._prefix}{path} HTTP/1.1\r\n".encode("ascii")
        data = b"".join((target, head, b"%d\r\n\r\n" % len(body), body))
        answer = line.ask(data, loop, what)
        timer = loop.call_at(ends, line.give_up, f"{what}: no answer in {timeout_s:g} s")
        try:
            reply = await answer
        except asyncio.CancelledError:
            line.abort()
            raise
        finally:
            timer.cancel()
        if line.reusable:
            self._give(line, loop)
        else:
            line.abort()
        return reply

    def close(self) -> None:
        """Close every connection, also those in use: their requests end as Unreachable."""
        self._closed = True
        for task in self._connecting:
            task.cancel()
        while self._waiters:
            self._disappoint(self._waiters.popleft(), "the connection was closed")
        for line in list(self._all):
            line.abort()
        self._idle.clear()

    def _take(self, loop: asyncio.AbstractEventLoop) -> _Line | None:
        while self._idle:
            line = self._idle.pop()  # the one used last: the others may grow old and go
            if line.alive and loop.time() - line.used_at < self._keep_s:
                return line
            line.abort()
        return None

    def _give(self, line: _Line, loop: asyncio.AbstractEventLoop) -> None:
        if not line.alive or self._closed:
            line.abort()
            return
        line.used_at = loop.time()
        while self._waiters:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(line)
                return
        self._idle.append(line)

    async def _wait(self, what: str, timeout_s: float) -> _Line:
        """The next connection that is free, an old one or a new one. Cancelled, nothing was sent."""
        if self._closed:
            raise NotSent(f"{what}: the connection was closed")
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[_Line] = loop.create_future()
        self._waiters.append((what, waiter))
        self._connect_more()
        try:
            async with asyncio.timeout(timeout_s):
                return await waiter
        except (TimeoutError, asyncio.CancelledError) as error:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._give(waiter.result(), loop)  # it came just as we left: for the next one
            waiter.cancel()
            if isinstance(error, TimeoutError):
                raise NotSent(f"{what}: no connection in {timeout_s:g} s") from None
            raise

    def _connect_more(self) -> None:
        """Open connections for waiting requests, a few at a time: a handshake costs more than a request,
        and a connection that becomes free meanwhile will do as well.
        """
        while len(self._connecting) < min(_CONNECTING, len(self._waiters)):
            task = asyncio.get_running_loop().create_task(self._connect())
            self._connecting.add(task)
            task.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[None]) -> None:
        self._connecting.discard(task)
        if not self._closed:
            self._connect_more()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, line = await loop.create_connection(
                    lambda: _Line(self._all),
                    sock=await self._sockets.connect(self._host, self._port),
                    ssl=self._tls,
                    server_hostname=(self._tls_name or self._host) if self._tls is not None else None,
                )
        except ssl.SSLCertVerificationError as error:
            why = distrusted(error)
        except (OSError, TimeoutError) as error:
            why = f"no connection: {say(error)}"
        else:
            self._give(line, loop)
            return
        if self._waiters:
            self._disappoint(self._waiters.popleft(), why)

    @staticmethod
    def _disappoint(waiting: tuple[str, asyncio.Future[_Line]], why: str) -> None:
        what, waiter = waiting
        if not waiter.done():
            waiter.set_exception(NotSent(f"{what}: {why}"))


class _Line(asyncio.Protocol):
    """One connection. `reusable`: the last answer was whole and the server lets us go on."""

    __slots__ = ("_all", "_answer", "_data", "_transport", "_what", "alive", "reusable", "used_at")

    def __init__(self, everyone: set[_Line]) -> None:
        self._all = everyone
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Reply] | None = None
        self._data = b""
        self._what = ""
        self.alive = False
        self.reusable = False
        self.used_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]  # uvloop's transports are not asyncio's
        self.alive = True
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.alive = self.reusable = False
        self._all.discard(self)
        how = "the answer broke off" if self._data else "no answer: the connection broke"
        self._fail(f"{self._what}: {how}: {exc or 'closed by the server'}")

    def ask(self, data: bytes, loop: asyncio.AbstractEventLoop, what: str) -> asyncio.Future[Reply]:
        """Write a request; its answer will be in the future."""
        assert self._transport is not None
        answer: asyncio.Future[Reply] = loop.create_future()
        self._answer, self._what, self._data, self.reusable = answer, what, b"", False
        self._transport.write(data)
        return answer

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self.abort()  # an answer to nothing: there is no telling what comes next
            return
        self._data = self._data + data if self._data else data
        try:
            found = _parse(self._data)
        except ValueError as error:
            self.give_up(f"{self._what}: not an answer: {error}")
            return
        if found is not None:
            reply, self.reusable = found
            answer, self._answer, self._data = self._answer, None, b""
            if not answer.done():
                answer.set_result(reply)

    def give_up(self, why: str) -> None:
        """End the request as Unreachable."""
        self._fail(why)
        self.abort()

    def abort(self) -> None:
        """Close the connection, without sending what is still to be sent."""
        if self.alive and self._transport is not None:
            self.alive = self.reusable = False
            self._all.discard(self)
            self._transport.abort()

    def _fail(self, why: str) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(Unreachable(why))


def _parse(data: bytes) -> tuple[Reply, bool] | None:
    """The answer, and whether the connection may be used again; None when more is to come."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > 65536:
            raise ValueError("its head does not end")
        return None
    head = data[:end]
    if not head.startswith(b"HTTP/1.1 ") or not head[9:12].isdigit():
        raise ValueError(f"it starts with {head[:20]!r}")
    status = int(head[9:12])
    if status < 200:
        return _parse(data[end + 4 :])  # what comes before an answer says nothing
    lower = head.lower()
    start = end + 4
    keep = b"\r\nconnection: close" not in lower
    length = _field(lower, b"content-length")
    if status in (204, 304):
        body, after = b"", start
    elif length is not None:
        if not length.isdigit() or int(length) > _LIMIT:
            raise ValueError(f"its length is {length!r}")
        after = start + int(length)
        if len(data) < after:
            return None
        body = data[start:after]
    elif b"chunked" in (_field(lower, b"transfer-encoding") or b""):
        found = _chunks(data, start)
        if found is None:
            return None
        body, after = found
    else:
        raise ValueError("it does not say how long it is")
    if len(data) != after:
        raise ValueError("more came than was asked for")
    first = head.partition(b"\r\n")[0]
    retry_after = _field(head, b"retry-after", lower) if status >= 400 else None
    return (
        Reply(
            status,
            first[13:].decode("latin-1"),
            retry_after.decode("latin-1") if retry_after is not None else None,
            body,
        ),
        keep,
    )


def _field(head: bytes, name: bytes, lower: bytes | None = None) -> bytes | None:
    at = (lower if lower is not None else head).find(b"\r\n" + name + b":")
    if at < 0:
        return None
    start = at + len(name) + 3
    end = head.find(b"\r\n", start)
    return head[start : end if end >= 0 else len(head)].strip()


def _chunks(data: bytes, start: int) -> tuple[bytes, int] | None:
    parts: list[bytes] = []
    size = 0
    while True:
        end = data.find(b"\r\n", start)
        if end < 0:
            return None
        length = int(data[start:end].partition(b";")[0], 16)
        size += length
        if size > _LIMIT:
            raise ValueError("it is too long")
        start = end + 2
        if len(data) < start + length + 2:
            return None
        if data[start + length : start + length + 2] != b"\r\n":
            raise ValueError("its parts do not fit")
        if not length:
            return b"".join(parts), start + 2
        parts.append(data[start : start + length])
        start += length + 2
