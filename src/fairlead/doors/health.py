"""The one port that a process opens: calls of its doors, ``/livez``, ``/readyz`` and ``/metrics``.

``/readyz`` answers as Kubernetes' own components do: ``ok``, or every check on a line of its own, which
``?verbose`` shows in any case. What a caller may cost is limited for all routes alike: see `connections` and
`bodies`. Nothing is ever unpacked: a few bytes of it could be more than the memory holds.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from fairlead.doors.bodies import BODIES, Bodies
from fairlead.doors.certificates import Shown
from fairlead.doors.connections import ANSWER_S, MOST, Connections
from fairlead.errors import BadInput

_log = structlog.get_logger(__name__)

_BACKLOG = 1024
_LINGER_S = 2.0  # how long what is sent after a refusal is discarded, so that the sender reads the refusal
_HEADERS = 64


class _Silent(logging.Logger):
    """Says nothing of requests that are no HTTP: those are the caller's mistakes.

    aiohttp would write a traceback for each, and keeps it in a cycle with what it is about: cut here, or the
    memory of a connection would wait for the garbage collector.
    """

    def exception(self, msg: object, *args: object, exc_info: object = None, **_: Any) -> None:
        error = exc_info if isinstance(exc_info, BaseException) else None
        while error is not None:
            error.__traceback__ = None
            error = error.__context__

    debug = exception


@asynccontextmanager
async def serving(
    listen: str,
    *,
    checks: Callable[[], Mapping[str, str]],
    metrics: Callable[[], bytes],
    routes: Iterable[web.RouteDef] = (),
    tls: Shown | None = None,
    memory: int | None = None,
    most_connections: int = MOST,
    answer_s: float = ANSWER_S,
) -> AsyncIterator[str]:
    """Serve on ``ADDRESS:PORT`` (``:PORT`` is every address, port 0 any) inside the context; the URL.

    `checks` are queried each time: what must hold to be ready, by name, and "" or what is wrong.
    `memory` is what all bodies together may take in bytes; unless told, a quarter of what the process has.
    A caller that does not read an answer for `answer_s` loses the connection.
    At the end, calls under way get a second to finish; no new ones are taken.
    """

    async def livez(_: web.Request) -> web.Response:
        # That it answers is the answer: one loop does everything.
        return web.Response(text="ok")

    async def readyz(request: web.Request) -> web.Response:
        found = checks()
        ready = not any(found.values())
        if ready and "verbose" not in request.query:
            return web.Response(text="ok")
        return web.Response(status=200 if ready else 503, text=_lines(found, ready=ready))

    async def numbers(_: web.Request) -> web.Response:
        return web.Response(
            body=metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    app = web.Application(middlewares=[_limited])
    app.router.add_get("/livez", livez)
    app.router.add_get("/healthz", livez)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", numbers)
    app.router.add_routes(routes)
    runner = web.AppRunner(
        app,
        access_log=None,
        shutdown_timeout=1.0,
        auto_decompress=False,
        lingering_time=_LINGER_S,
        max_headers=_HEADERS,
        logger=_Silent("fairlead.http"),
    )

    connections = app[_CONNECTIONS] = Connections(runner, most=most_connections, answer_s=answer_s)
    app[BODIES] = Bodies(connections, memory)
    await runner.setup()
    try:
        listening = await _listen(listen)
        if tls is not None:
            tls.on_change(connections.close_all)
        accepting = asyncio.create_task(
            connections.serve(listening, tls.context if tls is not None else None)
        )
        try:
            bound = listening[0].getsockname()
            shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
            yield f"{'http' if tls is None else 'https'}://{shown}:{bound[1]}"
        finally:
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
            for one in listening:
                one.close()
    finally:
        await runner.cleanup()


_CONNECTIONS = web.AppKey("connections", Connections)


@web.middleware
async def _limited(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what no route takes, and have connections closed that must be."""
    connections = request.app[_CONNECTIONS]
    with connections.answering(request):
        response = await _answer(request, handler)
    if connections.leaving(request):
        response.force_close()
    return response


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    packed = ", ".join(request.headers.getall("Content-Encoding", ()))
    if packed.lower() not in ("", "identity"):
        return web.Response(status=415, text=f"Content-Encoding {packed[:80]!r}: bodies are not unpacked")
    if request.method in ("GET", "HEAD") and request.body_exists:
        return web.Response(status=413, text=f"{request.method} takes no body")
    try:
        return await handler(request)
    except web.HTTPException as error:  # no such path, or another method
        allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
        return web.Response(status=error.status, text=error.text, headers=allowed)
    except Exception:  # noqa: BLE001 (the log has it all; the port goes on)
        _log.exception("not_answered", path=request.path[:200])
        return web.Response(status=500, text="fairlead failed; its log says why")


async def _listen(listen: str) -> list[socket.socket]:
    """Sockets that listen on every address that `listen` stands for."""
    host, _, port = listen.rpartition(":")
    sockets: list[socket.socket] = []
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        number = int(port)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                one = socket.socket(family, kind, protocol)
            except OSError:
                continue  # a kernel without IPv6 may still name its addresses
            sockets.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind((address[0], number, *address[2:]))
            one.listen(_BACKLOG)
            one.setblocking(False)
            number = one.getsockname()[1]  # port 0 is any, but the same for all addresses
        if not sockets:
            raise OSError("no such address")
    except OSError as error:
        for one in sockets:
            one.close()
        raise BadInput(f"cannot listen on {listen}: {error.strerror or error}") from error
    return sockets


def _lines(checks: Mapping[str, str], *, ready: bool) -> str:
    lines = [f"[-]{name} failed: {wrong}" if wrong else f"[+]{name} ok" for name, wrong in checks.items()]
    return "\n".join([*lines, f"readyz check {'passed' if ready else 'failed'}", ""])
