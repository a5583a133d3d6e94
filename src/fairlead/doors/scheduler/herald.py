"""Tells people: events in kube-scheduler's words, after what matters more.

Writing an event costs the API server about as much as a bind. So while a backlog of binds is being
written events wait, though not for long and never without bound; none is dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.events import About, EventLane
from fairlead.kube.resources import known

__all__ = ["Herald"]

_POD = known("Pod")
_PATIENCE_S = 60.0  # how long events stand back for binds
_ROOM = 20_000  # events that may stand back; beyond that they are written alongside
_LOOK_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class _News:
    at: float
    pod: str
    uid: str
    reason: str
    message: str
    type: Literal["Normal", "Warning"]
    action: str


class Herald:
    """Takes news from anybody at once, and hands them to the lane while `run` runs.

    `busy` says whether writes are waiting that come first. Cancelled, what was not handed over is lost:
    drain before.
    """

    def __init__(self, lane: EventLane, busy: Callable[[], bool], clock: Clock = WALL_CLOCK) -> None:
        self._lane = lane
        self._busy = busy
        self._clock = clock
        self._news: deque[_News] = deque()
        self._some = asyncio.Event()
        self._handed_over = asyncio.Event()
        self._handed_over.set()
        self._hurry = False

    def __len__(self) -> int:
        return len(self._news)

    def scheduled(self, pod: str, uid: str, node: str) -> None:
        """A pod was bound."""
        self.tell(pod, uid, "Scheduled", f"Successfully assigned {pod} to {node}", action="Binding")

    def failed(self, pod: str, uid: str, message: str) -> None:
        """A pod found no node."""
        self.tell(pod, uid, "FailedScheduling", message, type="Warning", action="Scheduling")

    def preempted(self, pod: str, uid: str, message: str) -> None:
        """A pod was asked to leave for another."""
        self.tell(pod, uid, "Preempted", message, action="Preempting")

    def tell(
        self,
        pod: str,
        uid: str,
        reason: str,
        message: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 (the field's own name)
        action: str = "Scheduling",
    ) -> None:
        """Anything else about a pod (``namespace/name``)."""
        self._news.append(_News(self._clock.now(), pod, uid, reason, message, type, action))
        self._handed_over.clear()
        self._some.set()

    async def drain(self) -> None:
        """Hand over everything without standing back for anybody, and wait until it is written."""
        self._hurry = True
        self._some.set()
        await self._handed_over.wait()
        await self._lane.flush()

    async def run(self) -> None:
        """Hand over for ever; see `EventLane.run` for how it ends."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._lane.run())
            while True:
                await self._hand_over()
                self._handed_over.set()
                self._some.clear()
                await self._some.wait()

    async def _hand_over(self) -> None:
        while self._news:
            if self._stands_back():
                await asyncio.sleep(_LOOK_AGAIN_S)
                continue
            news = self._news.popleft()
            namespace, _, name = news.pod.partition("/")
            about = About(_POD, name, namespace, news.uid)
            await self._lane.record(about, news.reason, news.message, type=news.type, action=news.action)

    def _stands_back(self) -> bool:
        return (
            not self._hurry
            and self._busy()
            and len(self._news) < _ROOM
            and self._clock.now() - self._news[0].at < _PATIENCE_S
        )
