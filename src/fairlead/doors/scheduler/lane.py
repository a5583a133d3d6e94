"""Work done by a bounded number of workers, in the order in which it was asked for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ["Lane"]

T = TypeVar("T")


class Lane(Generic[T]):
    """See the module. `put` never waits: what is queued is bounded by what the core has under way.

    Cancelled, `run` stops its workers half-way: a write may or may not have been applied. What a worker
    raises ends the run.
    """

    def __init__(self, work: Callable[[T], Awaitable[None]], workers: int) -> None:
        self._work = work
        self._workers = workers
        self._queue: deque[T] = deque()
        self._free: deque[asyncio.Future[None]] = deque()
        self._active = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._queue) + self._active

    def put(self, item: T) -> None:
        """Ask for work."""
        self._queue.append(item)
        self._idle.clear()
        while self._free:
            worker = self._free.popleft()
            if not worker.done():
                worker.set_result(None)
                break

    async def idle(self) -> None:
        """Wait until nothing is waiting or under way."""
        await self._idle.wait()

    async def run(self) -> None:
        """Work for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._loop())

    async def _loop(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while self._queue:
                item = self._queue.popleft()
                self._active += 1
                try:
                    await self._work(item)
                finally:
                    self._active -= 1
            if not self._active:
                self._idle.set()
            turn: asyncio.Future[None] = loop.create_future()
            self._free.append(turn)
            await turn
