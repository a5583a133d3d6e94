"""A proxy that sits before an API server and misbehaves on purpose, as networks and servers do.

It ends the client's connection (HTTP, or HTTPS with a context of the test's), talks to the API server
with the credentials of a kubeconfig, and asks a plan what to do with each request and each frame of a
watch. A plan is a script (this fault, at that request) or a seeded schedule. Everything injected is
counted: a test that wants 300 faults can tell that there were 300.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

import aiohttp
from aiohttp import web
from yarl import URL

from fairlead.client.config import Server, Target
from fairlead.client.connection import abandon
from fairlead.client.credentials import source_of
from fairlead.client.sockets import Sockets
from fairlead.client.tls import client_context

# What can befall a request


@dataclass(frozen=True)
class Answer:
    """The server says no; the API server never sees the request."""

    code: int
    reason: str
    retry_after: str | None = None
    message: str = "injected"


@dataclass(frozen=True)
class LoseRequest:
    """The connection breaks before the request arrives."""


@dataclass(frozen=True)
class LoseReply:
    """The request is applied, the connection breaks before the answer comes back."""


@dataclass(frozen=True)
class Hold:
    """The request is passed on once the event is set, however long its client waits for an answer."""

    until: asyncio.Event


# What can befall a frame of a watch


@dataclass(frozen=True)
class Drop:
    """The frame never comes; the stream goes on as if nothing were missing."""


@dataclass(frozen=True)
class Delay:
    """The frame and all after it come later."""

    seconds: float = 0.02


@dataclass(frozen=True)
class Duplicate:
    """The frame comes twice."""


@dataclass(frozen=True)
class Reorder:
    """The frame comes after the one that follows it (or is lost with the stream)."""


@dataclass(frozen=True)
class Cut:
    """The connection breaks, half-way through the frame."""


@dataclass(frozen=True)
class Freeze:
    """Nothing comes any more, but the connection stays open."""


@dataclass(frozen=True)
class ErrorFrame:
    """The stream ends with an ERROR frame: 410 is a resourceVersion that was compacted away."""

    code: int = 410
    reason: str = "Expired"


RequestFault = Answer | LoseRequest | LoseReply | Hold
FrameFault = Drop | Delay | Duplicate | Reorder | Cut | Freeze | ErrorFrame


class Plan(Protocol):
    """Decides; called once for each request and once for each frame."""

    def on_request(self, method: str, path: str) -> RequestFault | None: ...

    def on_frame(self, path: str) -> FrameFault | None: ...


class Faithful:
    """Injects nothing."""

    def on_request(self, method: str, path: str) -> RequestFault | None:
        return None

    def on_frame(self, path: str) -> FrameFault | None:
        return None


@dataclass
class Script:
    """Steps in order: each waits for the first request (or frame of a watch) that it matches.

    A step for requests is ``("POST /api/v1/namespaces/x/pods", LoseReply())``: the text must be in
    ``METHOD path?query``. A step for frames names the path only.
    """

    requests: list[tuple[str, RequestFault]] = field(default_factory=list)
    frames: list[tuple[str, FrameFault]] = field(default_factory=list)

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if self.requests and self.requests[0][0] in f"{method} {path}":
            return self.requests.pop(0)[1]
        return None

    def on_frame(self, path: str) -> FrameFault | None:
        if self.frames and self.frames[0][0] in path:
            return self.frames.pop(0)[1]
        return None


class Seeded:
    """`number` faults drawn from a seed, about one in `every` frames and one in four requests; then none.

    Only watches and lists are hurt: what writes the churn must know what it wrote.
    """

    FRAMES: tuple[FrameFault, ...] = (
        Drop(),
        Delay(),
        Duplicate(),
        Duplicate(),
        Reorder(),
        Cut(),
        Cut(),
        Freeze(),
        ErrorFrame(),
        ErrorFrame(500, "InternalError"),
    )
    REQUESTS: tuple[RequestFault, ...] = (
        Answer(410, "Expired"),
        Answer(409, "Conflict"),
        Answer(429, "TooManyRequests", retry_after="0"),
        Answer(500, "InternalError"),
        LoseRequest(),
        LoseReply(),
    )

    def __init__(self, seed: int, number: int, *, every: int = 20) -> None:
        self._rng = random.Random(seed)
        self._every = every
        self.left = number

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if method != "GET" or not self._strikes(4):
            return None
        return self._rng.choice(self.REQUESTS)

    def on_frame(self, path: str) -> FrameFault | None:
        return self._rng.choice(self.FRAMES) if self._strikes(self._every) else None

    def _strikes(self, one_in: int) -> bool:
        if self.left == 0 or self._rng.randrange(one_in):
            return False
        self.left -= 1
        return True


class FaultProxy:
    """The proxy, while its context is open. `target` is what clients of it use.

    `plan` may be exchanged at any time. Cancelled or closed, every connection through it breaks.
    """

    def __init__(
        self,
        upstream: Target,
        plan: Plan | None = None,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.plan: Plan = plan or Faithful()
        self.injected: Counter[str] = Counter()
        self.requests = 0
        self._upstream = upstream
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None
        self._sockets = Sockets()
        self._runner: web.ServerRunner | None = None
        self._open: dict[int, web.BaseRequest] = {}
        self._writes_passed_on = 0
        self._landed = asyncio.Event()
        self._landed.set()

    async def __aenter__(self) -> Self:
        server = self._upstream.server
        source = source_of(self._upstream)
        credential = await source.get()
        context: ssl.SSLContext | bool = True
        if server.url.startswith("https://"):
            context = client_context(
                ca_pem=server.ca.read() if server.ca else None,
                verify=server.verify,
                strict=self._upstream.strict_x509,
                certificate=credential.certificate,
            )
        headers = {"Authorization": credential.authorization} if credential.authorization else {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=context, socket_factory=self._sockets.make),
            headers=headers,
            auto_decompress=False,
        )
        # Handlers end with their client: a frozen stream must not outlive whoever gave up on it.
        self._runner = web.ServerRunner(
            web.Server(self._handle, handler_cancellation=True), shutdown_timeout=0.1
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"{'https' if self._tls else 'http'}://{host}:{port}"
        self.target = Target(Server(self.url, verify=False), source="fault proxy")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut_all()
        assert self._runner is not None
        assert self._session is not None
        handlers = self._runner.server.connections if self._runner.server is not None else []
        accepted = [one.transport for one in handlers if one.transport is not None]
        await self._runner.cleanup()
        await self._session.close()
        # Cleaning up closes connections, which waits for what a client that is gone will never read, and is
        # over only when the loop has come to it.
        for one in accepted:
            one.abort()
        while any(one.get_extra_info("socket").fileno() >= 0 for one in accepted):  # noqa: ASYNC110 (no event says so)
            await asyncio.sleep(0)
        await self._sockets.close()

    def cut_all(self) -> int:
        """Break every connection that is in use; how many there were."""
        opened = [request.transport for request in self._open.values()]
        for transport in opened:
            if transport is not None:
                transport.abort()
        return len(opened)

    async def landed(self) -> None:
        """Wait until every write that was passed on is done: what a client sent lands, even if it dies."""
        await self._landed.wait()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests += 1
        with self._counted_open(request):
            fault = self.plan.on_request(request.method, request.path_qs)
            if fault is not None:
                self.injected[type(fault).__name__] += 1
            match fault:
                case Answer():
                    return _status(fault)
                case LoseRequest():
                    return _break(request)
                case Hold():
                    await fault.until.wait()
            try:
                with self._counted_write(request):
                    return await self._forward(request, lose_reply=isinstance(fault, LoseReply))
            except (aiohttp.ClientError, OSError):
                return _break(request)  # as the API server broke off, so do we

    async def _forward(self, request: web.BaseRequest, *, lose_reply: bool) -> web.StreamResponse:
        assert self._session is not None
        passed = ("Accept", "Content-Type", "User-Agent", "Accept-Encoding")
        body = await request.read() if request.can_read_body else None
        async with self._session.request(
            request.method,
            URL(self._upstream.server.url + request.path_qs, encoded=True),
            data=body,
            headers={name: request.headers[name] for name in passed if name in request.headers},
            server_hostname=self._upstream.server.tls_name,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            headers = {
                name: answer.headers[name]
                for name in ("Content-Type", "Content-Encoding", "Retry-After", "Warning")
                if name in answer.headers
            }
            if answer.status == 200 and request.query.get("watch") in ("true", "1"):
                try:
                    return _break(request) if lose_reply else await self._watch(request, answer, headers)
                finally:
                    abandon(answer)
            data = await answer.read()
            if lose_reply:
                return _break(request)
            return web.Response(status=answer.status, body=data, headers=headers)

    async def _watch(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse, headers: dict[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        held: bytes | None = None  # a reordered frame that waits for its successor
        rest = b""
        async for chunk in answer.content.iter_any():
            *frames, rest = (rest + chunk).split(b"\n")
            for frame in frames:
                fault = self.plan.on_frame(request.path_qs)
                if fault is not None:
                    self.injected[type(fault).__name__] += 1
                send = [frame]
                match fault:
                    case Drop():
                        send = []
                    case Delay():
                        await asyncio.sleep(fault.seconds)
                    case Duplicate():
                        send = [frame, frame]
                    case Reorder() if held is None:
                        held, send = frame, []
                    case Cut():
                        await response.write(frame[: len(frame) // 2])
                        return _break(request)
                    case Freeze():
                        await asyncio.Event().wait()
                    case ErrorFrame():
                        await response.write(_error_frame(fault))
                        return response
                if send and held is not None:
                    send, held = [*send, held], None
                if send:
                    await response.write(b"".join(part + b"\n" for part in send))
        return response

    @contextmanager
    def _counted_open(self, request: web.BaseRequest) -> Iterator[None]:
        self._open[id(request)] = request
        try:
            yield
        finally:
            del self._open[id(request)]

    @contextmanager
    def _counted_write(self, request: web.BaseRequest) -> Iterator[None]:
        if request.method == "GET":
            yield
            return
        self._writes_passed_on += 1
        self._landed.clear()
        try:
            yield
        finally:
            self._writes_passed_on -= 1
            if not self._writes_passed_on:
                self._landed.set()


def only(path: str, plan: Plan) -> Plan:
    """The plan, for requests whose ``METHOD path`` has `path` in it; others pass."""
    return _Only(lambda said: path in said, plan)


@dataclass
class _Only:
    matches: Callable[[str], bool]
    plan: Plan

    def on_request(self, method: str, path: str) -> RequestFault | None:
        return self.plan.on_request(method, path) if self.matches(f"{method} {path}") else None

    def on_frame(self, path: str) -> FrameFault | None:
        return self.plan.on_frame(path) if self.matches(f"GET {path}") else None


def _status(fault: Answer) -> web.Response:
    headers = {"Retry-After": fault.retry_after} if fault.retry_after is not None else {}
    body = _status_body(fault.code, fault.reason, fault.message)
    return web.Response(status=fault.code, text=body, content_type="application/json", headers=headers)


def _status_body(code: int, reason: str, message: str) -> str:
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return json.dumps({**said, "message": message})


def _error_frame(fault: ErrorFrame) -> bytes:
    return f'{{"type":"ERROR","object":{_status_body(fault.code, fault.reason, "injected")}}}\n'.encode()


def _break(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()  # goes nowhere: the connection is gone
