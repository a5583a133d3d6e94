"""The reflectors of one session, all feeding one inbox.

PodGroups come in flavours that may be installed while we run, so discovery is asked again from time to
time. Everything else that a server does not serve, it will not serve tomorrow either.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator
from typing import Any

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import Clock
from fairlead.client.discovery import served, served_at_last
from fairlead.client.reflector import Reflector, Tuning
from fairlead.client.view import Event as WatchEvent
from fairlead.doors.scheduler.inbox import Inbox
from fairlead.doors.scheduler.scales import Scales
from fairlead.doors.scheduler.sources import POD_GROUP_GROUPS, Source, core_events, pod_groups, sources
from fairlead.errors import ApiError, BadObject, Unreachable

__all__ = ["Watching"]

_log = structlog.get_logger(__name__)

_DISCOVER_S = 30.0


class Watching:
    """See the module. Cancelled, the streams are closed; what was put in the inbox stays there."""

    def __init__(
        self,
        client: Client,
        inbox: Inbox,
        scales: Scales,
        *,
        settle_s: float,
        rng: random.Random,
        clock: Clock,
    ) -> None:
        self._client = client
        self._inbox = inbox
        self._scales = scales
        self._settle_s = settle_s
        self._rng = rng
        self._clock = clock
        self._reflectors: list[tuple[Source, Reflector[Any, Any]]] = []
        self._started = asyncio.Event()

    def __iter__(self) -> Iterator[tuple[Source, Reflector[Any, Any]]]:
        return iter(list(self._reflectors))

    async def run(self) -> None:
        """Watch for ever."""
        resources = await served_at_last(self._client)
        async with asyncio.TaskGroup() as group:
            for source in sources(resources):
                self._start(group, source)
            self._started.set()
            group.create_task(self._scales.run(self._inbox.put))
            while True:
                await asyncio.sleep(_DISCOVER_S * self._rng.uniform(1.0, 1.5))
                await self._discover(group)

    async def synced(self) -> None:
        """Wait until everything that is watched has been listed."""
        await self._started.wait()
        for _, reflector in self:
            await reflector.synced()

    def unlisted(self) -> list[str]:
        """What has not been listed yet, by its name in the API."""
        if not self._started.is_set():
            return ["everything"]
        return [source.resource.plural for source, reflector in self if not reflector.is_synced]

    def _start(self, group: asyncio.TaskGroup, source: Source) -> None:
        reflector: Reflector[Any, Any] = Reflector(
            self._client,
            source.resource,
            source.struct,
            keep=source.keep,
            # The comparison with the API is the session's: it repairs object by object.
            tuning=Tuning(audit_s=0, settle_s=self._settle_s),
            rng=self._rng,
            clock=self._clock,
        )
        self._reflectors.append((source, reflector))
        group.create_task(self._feed(source, reflector))

    async def _feed(self, source: Source, reflector: Reflector[Any, Any]) -> None:
        async for batch in reflector.batches():
            await self.tell(source, batch)

    async def tell(self, source: Source, batch: Iterable[WatchEvent[Any, Any]]) -> None:
        """Put in the inbox what the core is to know of a batch; sizes of owners come before their pods."""
        events = core_events(source, batch)
        if source.kind == "Pod":
            events = [*await self._scales.before(events), *events]
        if events:
            await self._inbox.put(events)

    async def _discover(self, group: asyncio.TaskGroup) -> None:
        known = {source.resource.group for source, _ in self if source.kind == "PodGroup"}
        if len(known) == len(POD_GROUP_GROUPS):
            return
        try:
            resources = await served(self._client)
        except (ApiError, Unreachable, BadObject) as error:
            _log.info("discovery_failed", reason=str(error))
            return
        for source in pod_groups(resources):
            if source.resource.group not in known:
                _log.info("watching", resource=source.resource.plural, group=source.resource.group)
                self._start(group, source)
