"""What the core is yet to be told, in the order in which it happened; or only what is left of it.

While the scheduler does not lead, only the latest of each object counts: `Latest` keeps one copy of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from fairlead.engine.core.events import Event, Gone, Promised, Seen, Unread
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.workloads import PodGroup

__all__ = ["Inbox", "Latest"]


class Inbox:
    """Bounded by making the reflectors wait: a full inbox holds the streams back, nothing is dropped.

    Answers to our own writes are always taken: there are never more of them than writes in flight.
    What was taken counts as open until it is `settled`: the core is told of events one after the other, and
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
        if self._some.is_set():
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._some.wait()
        except TimeoutError:
            pass  # that time has passed is what the caller wants to know

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


class Latest:
    """Every object as it was last seen, in the order in which they first came.

    Of a pod that could never be read it keeps that. Promises are kept until their pod is gone.
    """

    def __init__(self) -> None:
        # By API group, of PodGroups; "" for all else.
        self._seen: dict[tuple[str, str, str], dict[str, Seen | Unread]] = {}
        self._promised: dict[str, Promised] = {}

    def __len__(self) -> int:
        return sum(map(len, self._seen.values()))

    def take(self, events: Iterable[Event]) -> None:
        """Take note of what happened."""
        for event in events:
            if isinstance(event, Seen):
                thing = event.object
                metadata: ObjectMeta = thing.metadata  # type: ignore[attr-defined]  # all that is watched has it
                group = thing.api_version.partition("/")[0] if isinstance(thing, PodGroup) else ""
                key = event.kind, metadata.namespace, metadata.name
                self._seen.setdefault(key, {})[group] = event
            elif isinstance(event, Unread):
                metadata = event.pod.metadata
                held = self._seen.setdefault(("Pod", metadata.namespace, metadata.name), {})
                if not isinstance(held.get(""), Seen):
                    held[""] = event
            elif isinstance(event, Promised):
                known = self._promised.setdefault(event.uid, event)
                if known.at < event.at:
                    self._promised[event.uid] = event
            elif isinstance(event, Gone):
                self._gone(event)

    def all(self) -> list[Event]:
        """All of it, nodes first: what is on them then finds them there. Nothing is kept."""
        seen, self._seen = self._seen, {}
        promised, self._promised = self._promised, {}
        keys = sorted(seen, key=lambda key: key[0] != "Node")
        return [*(event for key in keys for event in seen[key].values()), *promised.values()]

    def _gone(self, event: Gone) -> None:
        key = event.kind, event.namespace, event.name
        held = self._seen.get(key, {})
        one = held.get(event.group)
        # Another under the same name stays: the deletion was of the one before.
        if one is not None and (not event.uid or _uid(one) in ("", event.uid)):
            del held[event.group]
            if not held:
                del self._seen[key]
            self._promised.pop(event.uid, None)


def _uid(event: Seen | Unread) -> str:
    if isinstance(event, Unread):
        return event.pod.metadata.uid
    uid: str = event.object.metadata.uid  # type: ignore[attr-defined]  # all that is watched has it
    return uid
