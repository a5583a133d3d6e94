"""One watch of each kind for all of a process: every follower receives every object and every change.

A follower may join at any time: it first receives all objects as added. A watch lasts as long as it has
followers. The subtle thing is a slow follower: it holds the watch back for all others, as it would hold back
a watch of its own, and nothing is queued.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.reflector import Reflector
from fairlead.client.view import Added, Deleted, Event, Modified, Spoiled, Synced
from fairlead.errors import FairleadError
from fairlead.feed.trimming import trimmed
from fairlead.kube.resources import Resource

Batch = list[Event[Any, Any]]
Take = Callable[[Batch], Awaitable[None] | None]
"""Receives what arrived together; what it awaits holds back the watch."""


class _Follower:
    """One that receives batches; `failure` is set when it raised."""

    __slots__ = ("_take", "failure")

    def __init__(self, take: Take) -> None:
        self._take = take
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def give(self, batch: Batch) -> None:
        """Hand a batch over. What is raised ends this follower, not the others."""
        if self.failure.done():
            return
        try:
            done = self._take(batch)
            if done is not None:
                await done
        except Exception as error:  # noqa: BLE001 (raised by `Watches.follow`, where the follower waits)
            self.failure.set_exception(error)


class _Watch:
    """One kind. Invariant: `lock` is held while a batch is handed over or a follower joins, so that each
    follower receives all objects and then all changes.
    """

    def __init__(self, reflector: Reflector[Any, Any]) -> None:
        self.reflector = reflector
        self.followers: dict[_Follower, None] = {}
        self.lock = asyncio.Lock()
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Watch and hand over, for ever."""
        async with aclosing(self.reflector.batches()) as batches:
            async for batch in batches:
                async with self.lock:
                    for follower in tuple(self.followers):
                        await follower.give(batch)

    async def join(self, follower: _Follower) -> None:
        """Let a follower receive what there is, and from then on what changes; of a batch that is about to be
        handed over it may receive an object twice.
        """
        async with self.lock:
            known: Batch = [Added(key, thing) for key, thing in self.reflector.view.items()]
            spoiled = self.reflector.view.spoiled()
            known += [Spoiled(key, self.reflector.view.get(key), error) for key, error in spoiled.items()]
            if self.reflector.is_synced and (resume := self.reflector.view.resume) is not None:
                known.append(Synced(resume))
            if known:
                await follower.give(known)
            self.followers[follower] = None


class Watches:
    """See the module. Run it beside its followers; `follow` waits until it runs.

    `want` a kind whole before anything follows it: otherwise only what group indexes read of it is decoded.
    Cancelled, every watch ends.
    """

    def __init__(
        self, client: Client, *, rng: random.Random | None = None, clock: Clock = WALL_CLOCK
    ) -> None:
        self._client = client
        self._rng = rng or client.rng
        self._clock = clock
        self._watches: dict[Resource, _Watch] = {}
        self._structs: dict[Resource, type[Any]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._running = asyncio.Event()

    def want(self, resource: Resource, struct: type[Any]) -> None:
        """Decode a kind into `struct`, whatever its other followers could do with."""
        self._structs[resource] = struct

    async def run(self) -> None:
        """Hold all watches, for ever."""
        async with asyncio.TaskGroup() as group:
            self._tasks = group
            self._running.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._running.clear()
                self._tasks = None
                for watch in self._watches.values():
                    if watch.task is not None:
                        watch.task.cancel()

    async def follow(self, resource: Resource, struct: type[Any], take: Take) -> None:
        """Give `take` every object of a kind, then every change, until cancelled.

        `struct` is what the follower reads of an object; one that is wanted whole comes whole.
        """
        await self._running.wait()
        watch = self._watches.get(resource)
        if watch is None:
            watch = self._watches[resource] = self._open(resource, struct)
        follower = _Follower(take)
        try:
            await watch.join(follower)
            await follower.failure
        finally:
            watch.followers.pop(follower, None)
            if not watch.followers and self._watches.get(resource) is watch:
                del self._watches[resource]
                if watch.task is not None:
                    watch.task.cancel()

    async def mend(self, resource: Resource, key: str) -> None:
        """Read one object again, whose change the watch has missed, and give it to every follower."""
        watch = self._watches.get(resource)
        if watch is not None:
            async with watch.lock:
                batch = await watch.reflector.mend(key)
                for follower in tuple(watch.followers):
                    await follower.give(batch)

    def start_over(self) -> None:
        """What is known is not to be trusted: list everything again."""
        for watch in self._watches.values():
            watch.reflector.list_again()

    def reflector(self, resource: Resource) -> Reflector[Any, Any] | None:
        """The watch of a kind, to see how it does; None: it is not followed yet."""
        found = self._watches.get(resource)
        return found.reflector if found is not None else None

    def trouble(self, resource: Resource) -> FairleadError | str | None:
        """Why what is known of a kind may be old; None while every change is shown."""
        found = self.reflector(resource)
        if found is None or not found.is_synced:
            return "not listed yet"
        return found.trouble

    def _open(self, resource: Resource, struct: type[Any]) -> _Watch:
        kind = self._structs.get(resource, struct)
        watch = _Watch(
            Reflector(self._client, resource, kind, trim=trimmed, rng=self._rng, clock=self._clock)
        )
        assert self._tasks is not None  # it runs
        watch.task = self._tasks.create_task(watch.run())
        return watch


class Followed:
    """A kind that one follower follows: `put` receives each object as it now is, `drop` the name and UID of
    each that is gone, and `changed` is called after each batch. Run it; `listed` is set when all objects were
    given.
    """

    def __init__(
        self,
        watches: Watches,
        resource: Resource,
        struct: type[Any],
        put: Callable[[Any], None],
        drop: Callable[[str, str], None],
        *,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.resource = resource
        self.listed = asyncio.Event()
        self._watches = watches
        self._struct = struct
        self._put = put
        self._drop = drop
        self._changed = changed

    async def run(self) -> None:
        """Follow for ever."""
        await self._watches.follow(self.resource, self._struct, self._take)

    def _take(self, batch: Batch) -> None:
        for event in batch:
            if isinstance(event, Added | Modified):
                self._put(event.object)
            elif isinstance(event, Deleted):
                self._drop(event.key, event.uid)
            elif isinstance(event, Synced):
                self.listed.set()
        self._changed()
