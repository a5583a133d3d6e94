"""A tiny HTTP server whose answers a test writes itself.

It stands for an API server in a mood that a real one is hard to bring into: odd answers, broken
bodies, watches that say strange things. What a sane server does is tested on the real one.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from fairlead.client.config import Server, Target

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Target]:
    """The server, while the context is open; yields what a client needs to reach it."""
    server = web.Server(handler, handler_cancellation=True, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    port = runner.addresses[0][1]
    try:
        yield Target(Server(f"{'https' if tls else 'http'}://127.0.0.1:{port}"), source="odd server")
    finally:
        await runner.cleanup()


def answer(data: Any, status: int = 200, **headers: str) -> web.Response:
    """JSON, as an API server says it."""
    spelt = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.Response(status=status, text=json.dumps(data), content_type="application/json", headers=spelt)


def status(code: int, reason: str, message: str = "no", **more: Any) -> web.Response:
    """A Status that is not success; `retry_after` becomes the header."""
    headers = {"Retry_After": str(more.pop("retry_after"))} if "retry_after" in more else {}
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return answer({**body, **more}, code, **headers)


def break_off(request: web.BaseRequest) -> web.Response:
    """End the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def config_map(name: str, version: int | str = 1, uid: str = "", **more: Any) -> dict[str, Any]:
    """An object of the simplest kind."""
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


def frame(kind: str, obj: dict[str, Any]) -> bytes:
    """One line of a watch, spelt as the API server does."""
    return json.dumps({"type": kind, "object": obj}, separators=(",", ":")).encode() + b"\n"


def bookmark(version: int, *, initial_end: bool = False) -> bytes:
    """A bookmark; `initial_end` is the one that ends a WatchList's listing."""
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return frame("BOOKMARK", {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})
