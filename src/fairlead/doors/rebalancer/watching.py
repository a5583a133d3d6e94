"""The rebalancer's eyes: everything that it decides from, straight from watches into its machine."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import Clock
from fairlead.client.discovery import served_at_last
from fairlead.client.reflector import Reflector
from fairlead.client.view import Added, Deleted, Modified
from fairlead.doors.promises import Promises
from fairlead.engine.rebalancer import KINDS, Rebalancer
from fairlead.errors import BadObject
from fairlead.kube.resources import Resource, known
from fairlead.policy.names import LEDGERS

__all__ = ["Watching"]

_log = structlog.get_logger(__name__)


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
        resources = await served_at_last(self._client)
        async with asyncio.TaskGroup() as group:
            for kind, struct in KINDS.items():
                resource = _resource(kind, resources)
                if resource is not None:
                    reflector = self._reflect(resource, struct)
                    self._reflectors.append(reflector)
                    group.create_task(self._follow(kind, reflector))
            promises = Promises(self._client, self._promised, rng=self._rng, clock=self._clock)
            group.create_task(promises.run())
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

    def _reflect(self, resource: Resource, struct: type[Any]) -> Reflector[Any, Any]:
        return Reflector(self._client, resource, struct, keep=_nothing, rng=self._rng, clock=self._clock)

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

    def _promised(self, uid: str, at: float) -> None:
        self._machine.promised(uid, at)
        self._changed()

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
