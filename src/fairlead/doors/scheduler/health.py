"""``/livez``, ``/readyz`` and ``/metrics`` on the one port that a scheduler opens, if it is told to.

``/readyz`` answers as Kubernetes' own components do: ``ok``, or every check on a line of its own, which
``?verbose`` shows in any case.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from fairlead.errors import BadInput

__all__ = ["serving"]


@asynccontextmanager
async def serving(
    listen: str, *, checks: Callable[[], Mapping[str, str]], metrics: Callable[[], bytes]
) -> AsyncIterator[str]:
    """Serve on ``ADDRESS:PORT`` (``:PORT`` is every address, port 0 any) inside the context; the URL.

    `checks` are asked anew each time: what must hold to be ready, by name, and "" or what is wrong.
    """
    host, _, port = listen.rpartition(":")

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

    app = web.Application()
    app.router.add_get("/livez", livez)
    app.router.add_get("/healthz", livez)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", numbers)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host.strip("[]") or None, int(port))
        try:
            await site.start()
        except OSError as error:
            raise BadInput(f"cannot listen on {listen}: {error.strerror or error}") from error
        bound = runner.addresses[0]
        yield f"http://{bound[0]}:{bound[1]}"
    finally:
        await runner.cleanup()


def _lines(checks: Mapping[str, str], *, ready: bool) -> str:
    lines = [f"[-]{name} failed: {wrong}" if wrong else f"[+]{name} ok" for name, wrong in checks.items()]
    return "\n".join([*lines, f"readyz check {'passed' if ready else 'failed'}", ""])
