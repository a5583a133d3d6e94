"""The rebalancer's eyes: everything that it decides from, straight from watches into its machine.

Events of autoscalers are watched by their reasons, so that a cluster's other events cost nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import datetime
from typing import Any

import msgspec
import structlog

from fairlead.client.api import Client
from fairlead.client.clock import Clock
from fairlead.client.discovery import served
from fairlead.client.reflector import Reflector
from fairlead.client.retry import Backoff
from fairlead.client.view import Added, Deleted, Modified
from fairlead.engine.rebalancer import KINDS, Rebalancer
from fairlead.errors import ApiError, BadObject, Unreachable
from fairlead.kube.meta import ObjectMeta, Time
from fairlead.kube.resources import Resource, known
from fairlead.policy.fallback import PROMISES
from fairlead.policy.names import LEDGERS

__all__ = ["Watching"]

_log = structlog.get_logger(__name__)

_EVENT = known("Event")


class _About(msgspec.Struct, frozen=True):
    uid: str = ""


class _Series(msgspec.Struct, frozen=True, rename="camel"):
    last_observed_time: Time | None = None


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    metadata: ObjectMeta
    involved_object: _About = _About()
    reason: str = ""
    event_time: Time | None = None
    last_timestamp: Time | None = None
    series: _Series | None = None

    def at(self) -> datetime | None:
        """When it last happened."""
        times = (
            self.event_time,
            self.last_timestamp,
            self.series.last_observed_time if self.series is not None else None,
        )
        return max((time for time in times if time is not None), default=None)


class Watching:
    """Feeds a machine; `changed` is called after every batch. Cancelled, the streams are closed."""

    def __init__(
        self,
        client: Client,
        machine: Rebalancer,
        changed: Callable[[], None],
        *,
        rng: random.Random,
        clock: Clock,
    ) -> None:
        self._client = client
        self._machine = machine
        self._changed = changed
        self._rng = rng
        self._clock = clock
        self._reflectors: list[Reflector[Any, Any]] = []
        self._started = asyncio.Event()

    async def run(self) -> None:
        """Watch for ever."""
        resources = await self._served()
        async with asyncio.TaskGroup() as group:
            for kind, struct in KINDS.items():
                resource = _resource(kind, resources)
                if resource is not None:
                    reflector = self._reflect(resource, struct)
                    self._reflectors.append(reflector)
                    group.create_task(self._follow(kind, reflector))
            for reason in PROMISES:
                # Hints, not knowledge: nobody waits for them.
                group.create_task(self._listen(self._reflect(_EVENT, _Event, fields=f"reason={reason}")))
            self._started.set()

    async def synced(self) -> None:
        """Wait until everything was listed."""
        await self._started.wait()
        for reflector in self._reflectors:
            await reflector.synced()

    def unlisted(self) -> list[str]:
        """What was not listed yet, by its name in the API."""
        if not self._started.is_set():
            return ["everything"]
        return [one.resource.plural for one in self._reflectors if not one.is_synced]

    @property
    def blind(self) -> bool:
        """Whether something that matters may have changed unseen at the moment: nobody moves then."""
        return any(one.trouble is not None for one in self._reflectors)

    def _reflect(self, resource: Resource, struct: type[Any], *, fields: str = "") -> Reflector[Any, Any]:
        return Reflector(
            self._client,
            resource,
            struct,
            keep=_nothing,
            fields=fields,
            rng=self._rng,
            clock=self._clock,
        )

    async def _follow(self, kind: str, reflector: Reflector[Any, Any]) -> None:
        async for event in _events(reflector, self._changed):
            if isinstance(event, Added | Modified):
                try:
                    self._machine.seen(kind, event.object, self._now())
                except BadObject as error:
                    # It stays as it last was: what it holds it still holds.
                    _log.warning("object_unusable", kind=kind, object=event.key, reason=str(error))
            elif isinstance(event, Deleted):
                namespace, _, name = event.key.rpartition("/")
                self._machine.gone(kind, namespace, name, event.uid)

    async def _listen(self, reflector: Reflector[Any, Any]) -> None:
        async for event in _events(reflector, self._changed):
            if isinstance(event, Added | Modified) and event.object.involved_object.uid:
                at = event.object.at()
                self._machine.promised(
                    event.object.involved_object.uid, at.timestamp() if at is not None else self._now()
                )

    async def _served(self) -> tuple[Resource, ...]:
        """Ask until there is an answer: an API server that is away for a while is no reason to end."""
        backoff = Backoff(self._rng)
        while True:
            try:
                return await served(self._client)
            except (ApiError, Unreachable) as error:
                wait_s = backoff.next_s(error.retry_after_s if isinstance(error, ApiError) else None)
                _log.warning("discovery_failed", reason=str(error), wait_s=round(wait_s, 3))
            await asyncio.sleep(wait_s)

    def _now(self) -> float:
        return self._clock.wall().timestamp()


async def _events(reflector: Reflector[Any, Any], changed: Callable[[], None]) -> AsyncIterator[Any]:
    """The events one by one; `changed` after those that came together."""
    async with aclosing(reflector.batches()) as batches:
        async for batch in batches:
            for event in batch:
                yield event
            changed()


def _resource(kind: str, resources: tuple[Resource, ...]) -> Resource | None:
    """The resource of a kind, if the server has it."""
    if kind == LEDGERS.kind:
        wanted = LEDGERS
    elif kind == "DeviceClass":
        return next((one for one in resources if (one.group, one.kind) == ("resource.k8s.io", kind)), None)
    else:
        wanted = known(kind)
    offered = any((one.group, one.plural) == (wanted.group, wanted.plural) for one in resources)
    return wanted if offered else None


def _nothing(_: object) -> None:
    """The machine has all that is kept."""
