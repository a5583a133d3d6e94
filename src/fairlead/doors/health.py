"""The one port that a process opens: calls of its doors, ``/livez``, ``/readyz`` and ``/metrics``.

``/readyz`` answers as Kubernetes' own components do: ``ok``, or every check on a line of its own, which
``?verbose`` shows in any case.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from fairlead.errors import BadInput

__all__ = ["serving"]

# A pod may be over 1 MiB, and kube-scheduler sends an extender every node with it.
BODY_LIMIT = 256 * 1024 * 1024


@asynccontextmanager
async def serving(
    listen: str,
    *,
    checks: Callable[[], Mapping[str, str]],
    metrics: Callable[[], bytes],
    routes: Iterable[web.RouteDef] = (),
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[str]:
    """Serve on ``ADDRESS:PORT`` (``:PORT`` is every address, port 0 any) inside the context; the URL.

    `checks` are asked anew each time: what must hold to be ready, by name, and "" or what is wrong.
    At the end, calls under way get a second to finish; no new ones are taken.
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

    app = web.Application(client_max_size=BODY_LIMIT)
    app.router.add_get("/livez", livez)
    app.router.add_get("/healthz", livez)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", numbers)
    app.router.add_routes(routes)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host.strip("[]") or None, int(port), ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            raise BadInput(f"cannot listen on {listen}: {error.strerror or error}") from error
        bound = runner.addresses[0]
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        yield f"{'http' if tls is None else 'https'}://{shown}:{bound[1]}"
    finally:
        await runner.cleanup()


def _lines(checks: Mapping[str, str], *, ready: bool) -> str:
    lines = [f"[-]{name} failed: {wrong}" if wrong else f"[+]{name} ok" for name, wrong in checks.items()]
    return "\n".join([*lines, f"readyz check {'passed' if ready else 'failed'}", ""])
