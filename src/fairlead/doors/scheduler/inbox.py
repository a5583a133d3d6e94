"""What the core is yet to be told, in the order in which it happened."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fairlead.engine.core.events import Event

__all__ = ["Inbox"]


class Inbox:
    """Bounded by making the reflectors wait: a full inbox holds the streams back, nothing is dropped.

    Answers to our own writes are always taken: there are never more of them than writes in flight.
    """

    def __init__(self, room: int = 100_000) -> None:
        self._room = room
        self._events: list[Event] = []
        self._some = asyncio.Event()
        self._space = asyncio.Event()
        self._space.set()
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._events)

    async def put(self, events: Sequence[Event]) -> None:
        """Add events; waits while there is no room. Cancelled while waiting, nothing was added."""
        await self._space.wait()
        self.tell(*events)

    def tell(self, *events: Event) -> None:
        """Add events at once."""
        if events:
            self._events.extend(events)
            self._some.set()
            self._empty.clear()
            if len(self._events) >= self._room:
                self._space.clear()

    async def empty(self) -> None:
        """Wait until everything has been taken."""
        await self._empty.wait()

    def knock(self) -> None:
        """Wake whoever waits, though there is nothing new."""
        self._some.set()

    async def wait(self, timeout_s: float | None) -> None:
        """Return when there are events, after a knock, or after a time."""
        if self._some.is_set():
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._some.wait()
        except TimeoutError:
            pass  # that time has passed is what the caller wants to know

    def take(self) -> list[Event]:
        """Everything so far."""
        events, self._events = self._events, []
        self._some.clear()
        self._space.set()
        self._empty.set()
        return events
