"""Work done by a bounded number of workers, in the order in which it was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lane(Generic[T]):
    """See the module. `put` never waits: what is queued is bounded by what the core has under way.

    Cancelled, `run` stops its workers half-way: a write may or may not have been applied. What a worker
    raises ends the run.
    """

    def __init__(self, work: Callable[[T], Awaitable[None]], workers: int) -> None:
        self._work = work
        self._workers = workers
        self._queue: asyncio.Queue[T] = asyncio.Queue()
        self._open = 0
        self.idle = self._queue.join

    def __len__(self) -> int:
        """What waits or is under way."""
        return self._open

    def put(self, item: T) -> None:
        """Ask for work."""
        self._open += 1
        self._queue.put_nowait(item)

    async def run(self) -> None:
        """Work for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._loop())

    async def _loop(self) -> None:
        while True:
            item = await self._queue.get()
            try:
                await self._work(item)
            finally:
                self._open -= 1
                self._queue.task_done()
