"""Autoscalers' word that a node is on its way for a pod: events, watched by their reasons.

A cluster's other events cost nothing this way. They are hints, not knowledge: nothing waits for them, and
a process that may not read them does without, until it may.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.reflector import Reflector, Tuning
from fairlead.client.view import Added, Modified
from fairlead.errors import ApiError, Unreachable
from fairlead.feed.references import keep_newest
from fairlead.kube.event import Event
from fairlead.kube.resources import known
from fairlead.policy.tiers.fallback import PROMISES

_log = structlog.get_logger(__name__)

_EVENT = known("Event")
_AGAIN_S = 30.0
_REMEMBERED = 10_000  # pods that a node was announced for; events last an hour
# API servers do not cache events, so there are no bookmarks: only the server's own end of a watch is sure.
_QUIET = Tuning(watch_s=240.0, inactivity_s=600.0)


class ScaleUpEvents:
    """Run it; it watches from when it is first `reported_to` a listener. Cancelled, the watches are closed.

    `listed` is set once all there are were reported, or when they cannot be read for now.
    """

    def __init__(
        self, client: Client, *, rng: random.Random | None = None, clock: Clock = WALL_CLOCK
    ) -> None:
        self._client = client
        self._rng = rng or client.rng
        self._clock = clock
        self._needed = asyncio.Event()
        self._listeners: list[Callable[[str, float], None]] = []
        self.known: dict[str, float] = {}  # by the pod's UID; the newest, for listeners that come later
        self.listed = asyncio.Event()
        self._unlisted = set(PROMISES)

    @contextmanager
    def reported_to(self, listener: Callable[[str, float], None]) -> Iterator[None]:
        """Call `listener` with the pod's UID and the time of each event, first of those so far."""
        self._needed.set()
        for uid, at in self.known.items():
            listener(uid, at)
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    async def run(self) -> None:
        """Watch for ever, once that is needed and allowed."""
        await self._needed.wait()
        await self._allowed()
        async with asyncio.TaskGroup() as group:
            for reason in PROMISES:
                group.create_task(self._listen(reason))

    async def _allowed(self) -> None:
        """Wait until they can be read. Rights may come after us, or be away while they are changed."""
        told = False
        while True:
            try:
                await self._client.read(f"{_EVENT.path()}?limit=1&fieldSelector=reason%3D{PROMISES[0]}")
                return
            except ApiError as error:
                if error.code == 403 and not told:
                    told = True
                    _log.warning("promises_unread", reason=str(error))
            except Unreachable:
                pass  # the watches of others say so
            self.listed.set()
            await asyncio.sleep(_AGAIN_S)

    async def _listen(self, reason: str) -> None:
        reflector = Reflector(
            self._client,
            _EVENT,
            Event,
            tuning=_QUIET,
            keep=_nothing,
            fields=f"reason={reason}",
            rng=self._rng,
            clock=self._clock,
        )
        async with aclosing(reflector.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    if isinstance(event, Added | Modified) and event.object.involved_object.uid:
                        at = event.object.at or self._clock.wall()
                        self._report(event.object.involved_object.uid, at.timestamp())
                if reflector.view.resume is not None:
                    self._unlisted.discard(reason)
                if not self._unlisted:
                    self.listed.set()

    def _report(self, uid: str, at: float) -> None:
        self.known.pop(uid, None)  # so that the first is always the oldest
        self.known[uid] = at
        keep_newest(self.known, _REMEMBERED)
        for listener in self._listeners:
            listener(uid, at)


def _nothing(_: object) -> None:
    """A listener that receives a promise keeps it."""
