"""Autoscalers' word that a node is on its way for a pod: events, watched by their reasons.

A cluster's other events cost nothing this way. They are hints, not knowledge: nobody waits for them, and
who may not read them does without, until it may.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.reflector import Reflector, Tuning
from fairlead.client.view import Added, Modified
from fairlead.errors import ApiError, Unreachable
from fairlead.kube.event import Event
from fairlead.kube.resources import known
from fairlead.policy.fallback import PROMISES

__all__ = ["Promises"]

_log = structlog.get_logger(__name__)

_EVENT = known("Event")
_AGAIN_S = 30.0
# API servers do not cache events, so there are no bookmarks: only the server's own end of a watch is sure.
_QUIET = Tuning(watch_s=240.0, inactivity_s=600.0)


class Promises:
    """Run it; `tell` hears of each promise: the pod's UID, and when. Cancelled, the watches are closed.

    `heard` is set once all there are were told, or when they cannot be read for now.
    """

    def __init__(
        self,
        client: Client,
        tell: Callable[[str, float], None],
        *,
        rng: random.Random,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self._client = client
        self._tell = tell
        self._rng = rng
        self._clock = clock
        self.heard = asyncio.Event()
        self._unlisted = set(PROMISES)

    async def run(self) -> None:
        """Watch for ever, once that is allowed."""
        await self._allowed()
        async with asyncio.TaskGroup() as group:
            for reason in PROMISES:
                group.create_task(self._listen(reason))

    async def _allowed(self) -> None:
        """Wait until they can be read. Rights may come after us, or be away while somebody changes them."""
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
            self.heard.set()
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
                        self._tell(event.object.involved_object.uid, at.timestamp())
                if reflector.view.resume is not None:
                    self._unlisted.discard(reason)
                if not self._unlisted:
                    self.heard.set()


def _nothing(_: object) -> None:
    """Who hears of a promise keeps it."""
