"""Serving: a listening socket on loopback, plain or with TLS, and an orderly end."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from types import TracebackType

import yaml
from aiohttp import web

from fairlead.world.admission import Admitter
from fairlead.world.api import Api
from fairlead.world.http.handler import MAX_BODY, Handler
from fairlead.world.http.webhooks import Webhooks

_LEAVE_S = 2.0


class Server:
    """A listening API server; `close` ends open watches in good order. An async context manager."""

    def __init__(
        self, runner: web.AppRunner, handler: Handler, address: str, webhooks: Webhooks | None
    ) -> None:
        self._runner = runner
        self._handler = handler
        self._webhooks = webhooks
        self.address = address

    async def close(self) -> None:
        """Stop listening, end watches, wait for what is in flight."""
        self._handler.bell.close()
        await self._runner.cleanup()
        if self._webhooks is not None:
            await self._webhooks.close()

    async def __aenter__(self) -> Server:
        """Nothing to do: it listens already."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()


async def serve(
    api: Api,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    admitter: Admitter | None = None,
    token: str = "",
    tls: ssl.SSLContext | None = None,
    bookmark_every_s: float = 60.0,
) -> Server:
    """Serve `api` and say where. Port 0 takes a free one.

    Without an `admitter` the cluster's own webhook configurations are called (`Webhooks`).
    """
    webhooks = Webhooks(api) if admitter is None else None
    chosen: Admitter = admitter or webhooks  # type: ignore[assignment]  # exactly one of the two is set
    handler = Handler(api, chosen, token=token, bookmark_every_s=bookmark_every_s)
    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_route("*", "/{path:.*}", handler.__call__)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_LEAVE_S)
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=tls)
    await site.start()
    actual = runner.addresses[0][1]
    scheme = "https" if tls else "http"
    return Server(runner, handler, f"{scheme}://{host}:{actual}", webhooks)


def write_kubeconfig(
    path: Path, address: str, *, token: str = "", ca_pem: bytes = b"", name: str = "fairlead"
) -> Path:
    """Write a kubeconfig that points to `address` and return its path; readable by the owner alone."""
    cluster: dict[str, str] = {"server": address}
    if ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token} if token else {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path
