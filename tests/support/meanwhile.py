"""What happens behind the back of a scheduler in this process, at the very moment of one of its requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from support.faults import FrameFault, Hold, RequestFault
from support.scheduler import Shop
from support.wire import PATIENCE_S

__all__ = ["Held", "Meanwhile", "bind", "gone", "replaced_by"]

Manifest = dict[str, Any]


@dataclass
class Meanwhile:
    """Does something just before the first request arrives whose ``METHOD path`` ends with `request`.

    What `happens` may return a fault for that request.
    """

    request: str
    happens: Callable[[], RequestFault | None]
    done: bool = False

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if self.done or not f"{method} {path.partition('?')[0]}".endswith(self.request):
            return None
        self.done = True
        return self.happens()

    def on_frame(self, path: str) -> FrameFault | None:
        return None


class Held(Meanwhile):
    """Holds the first such request back until the test has done something and the scheduler knows it."""

    def __init__(self, request: str) -> None:
        self._arrived, self._released = asyncio.Event(), asyncio.Event()
        super().__init__(request, self._arrive)

    def _arrive(self) -> RequestFault:
        self._arrived.set()
        return Hold(self._released)

    @contextlib.asynccontextmanager
    async def meanwhile(self) -> AsyncIterator[None]:
        """What is done in the block happens while the request is held."""
        async with asyncio.timeout(PATIENCE_S):
            await self._arrived.wait()
        yield
        self._released.set()


def gone(ours: Shop, name: str) -> None:
    """Delete a pod at once."""
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    _send(ours, "DELETE", ours.cluster.path("Pod", name), options)


def replaced_by(ours: Shop, pod: Manifest) -> None:
    """Delete the pod of that name and create this one."""
    gone(ours, pod["metadata"]["name"])
    _send(ours, "POST", ours.cluster.path("Pod"), pod)


def bind(ours: Shop, name: str, node: str) -> None:
    """Bind a pod, as another scheduler would."""
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": node},
    }
    _send(ours, "POST", ours.cluster.path("Pod", name, "binding"), binding)


def _send(ours: Shop, method: str, path: str, body: Manifest) -> None:
    """A request over a connection of its own: the test's is in use while it waits."""
    wire = ours.cluster.host.wire()
    wire.request(method, path, body).ok()
    wire.close()
