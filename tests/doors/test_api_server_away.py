"""The API server is away from the doors for a while, and the world goes on: afterwards the split is right."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairlead.client.config import load
from support.cluster import Cluster
from support.door import kubeconfig_of
from support.doors import Behind
from support.faults import Faithful, FaultProxy, LoseRequest, RequestFault
from support.rebalancing import PACE, Rebalanced

pytestmark = pytest.mark.slow


class Line(Faithful):
    """The doors' way to the API server; others have their own."""

    def __init__(self, cluster: Cluster) -> None:
        self._is_down = False
        self._loop = asyncio.new_event_loop()
        self._proxy = FaultProxy(load(cluster.kubeconfig), self)
        self._thread = threading.Thread(target=self._loop.run_forever)

    def on_request(self, method: str, path: str) -> RequestFault | None:
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


def test_the_split_is_right_again_when_it_is_back(door: Behind, tmp_path: Path) -> None:
    cluster = Cluster(door.host)
    line = Line(cluster)
    try:
        with line.served() as url:
            cluster.kubeconfig = kubeconfig_of(url, tmp_path)
            with door.corner(cluster, tmp_path) as corner:
                away_and_back(corner, line)
    finally:
        cluster.close()


def away_and_back(corner: Rebalanced, line: Line) -> None:
    own = corner.corner
    own.nodes()
    policy = own.policy("web", rebalance=PACE, fallback={"after": "1h", "coolDown": "10m"})
    door = corner.running(policy)
    corner.deploy("web", 10)
    corner.lies("web", spot=7, on_demand=3)
    line.down()
    door.wait_for("watch_broken", 3)
    own.scale("web", 12)
    corner.cluster.wait(lambda: len(own.pods("web")) == 12, "the pods to be made all the same")
    line.up()
    corner.lies("web", spot=8, on_demand=4)
    line.down()
    own.scale("web", 4)
    corner.cluster.wait(lambda: len(own.pods("web")) == 4, "the pods to be gone all the same")
    line.up()
    corner.lies("web", spot=2, on_demand=2)
