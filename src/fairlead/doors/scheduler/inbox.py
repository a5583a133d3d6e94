"""What is yet to be reported to the core, in the order in which it happened."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from fairlead.engine.core.events import Event


class Inbox:
    """Bounded by making the reflectors wait: a full inbox holds the streams back, nothing is dropped.

    Answers to our own writes are always taken: there are never more of them than writes in flight.
    What was taken counts as open until it is `settled`: the core receives events one after the other, and
    lets others run in between.
    """

    def __init__(self, room: int = 100_000) -> None:
        self._room = room
        self._events: list[Event] = []
        self._some = asyncio.Event()
        self._space = asyncio.Event()
        self._space.set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._settled = asyncio.Event()
        self._settled.set()

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
        """Wait until everything has been taken and is settled."""
        while not (self._empty.is_set() and self._settled.is_set()):
            await self._empty.wait()
            await self._settled.wait()

    async def between_turns(self) -> None:
        """Wait until all that was taken is settled."""
        while not self._settled.is_set():
            await self._settled.wait()

    def knock(self) -> None:
        """Wake the waiting task, though there is nothing new."""
        self._some.set()

    async def wait(self, timeout_s: float | None) -> None:
        """Return when there are events, after a knock, or after a time."""
        with suppress(TimeoutError):  # that time has passed is what the caller wants to know
            async with asyncio.timeout(timeout_s):
                await self._some.wait()

    def take(self) -> list[Event]:
        """Everything so far; to be settled."""
        events, self._events = self._events, []
        self._some.clear()
        self._space.set()
        self._empty.set()
        self._settled.clear()
        return events

    def settle(self) -> None:
        """The core knows of all that was taken, and its answers were handed on."""
        self._settled.set()
