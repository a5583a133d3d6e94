"""The way of some processes to the API server, which a test can cut and look at."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fairlead.client.config import load
from support.cluster import Cluster
from support.faults import Faithful, FaultProxy, LoseRequest, RequestFault

__all__ = ["Line"]


class Line(Faithful):
    """The doors' way to the API server; others have their own."""

    def __init__(self, cluster: Cluster) -> None:
        self.requests: list[str] = []
        """Paths, with their queries."""
        self._is_down = False
        self._loop = asyncio.new_event_loop()
        self._proxy = FaultProxy(load(cluster.kubeconfig), self)
        self._thread = threading.Thread(target=self._loop.run_forever)

    def on_request(self, method: str, path: str) -> RequestFault | None:
        self.requests.append(path)
        return LoseRequest() if self._is_down else None

    def down(self) -> None:
        """Every connection breaks, and no new one comes about."""
        self._is_down = True
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    async def _cut(self) -> None:
        self._proxy.cut_all()

    def up(self) -> None:
        self._is_down = False

    @contextmanager
    def served(self) -> Iterator[str]:
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._proxy.__aenter__(), self._loop).result()
            try:
                yield self._proxy.url
            finally:
                asyncio.run_coroutine_threadsafe(self._proxy.__aexit__(None, None, None), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
