"""``/livez``, ``/readyz`` and ``/metrics`` on the one port that a scheduler opens, if it is told to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from fairlead.errors import BadInput

__all__ = ["serving"]


@asynccontextmanager
async def serving(
    listen: str, *, ready: Callable[[], bool], metrics: Callable[[], bytes]
) -> AsyncIterator[str]:
    """Serve on ``ADDRESS:PORT`` (``:PORT`` is every address, port 0 any) inside the context; the URL."""
    host, _, port = listen.rpartition(":")

    async def livez(_: web.Request) -> web.Response:
        # That it answers is the answer: one loop does everything.
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text="ok") if ready() else web.Response(status=503, text="not synced yet")

    async def numbers(_: web.Request) -> web.Response:
        return web.Response(
            body=metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    app = web.Application()
    app.router.add_get("/livez", livez)
    app.router.add_get("/healthz", livez)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", numbers)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host.strip("[]") or None, int(port), shutdown_timeout=1.0)
        try:
            await site.start()
        except OSError as error:
            raise BadInput(f"cannot listen on {listen}: {error.strerror or error}") from error
        bound = runner.addresses[0]
        yield f"http://{bound[0]}:{bound[1]}"
    finally:
        await runner.cleanup()
