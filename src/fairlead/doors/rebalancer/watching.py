"""The rebalancer's eyes: everything that it decides from, straight from watches into its machine.

Which kinds a server has may change while we run: definitions come and go. A kind that is not served has no
objects, so nobody need see it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import Clock
from fairlead.client.discovery import served, served_at_last
from fairlead.client.reflector import Reflector
from fairlead.client.view import Added, Deleted, Modified
from fairlead.doors.promises import Promises
from fairlead.engine.rebalancer import KINDS, Rebalancer
from fairlead.errors import ApiError, BadObject, FairleadError, NotFound
from fairlead.kube.resources import Resource, known
from fairlead.policy.names import LEDGERS

__all__ = ["Watching", "check_rights"]

_log = structlog.get_logger(__name__)

_DISCOVER_S = 60.0  # how often we ask again what is served, where a kind is not


@dataclass(frozen=True, slots=True)
class _Eye:
    """One kind, as long as it is watched."""

    reflector: Reflector[Any, Any]
    watching: asyncio.Task[None]

    @property
    def clear(self) -> bool:
        """Whether it shows what is."""
        return self.reflector.is_synced and self.reflector.trouble is None

    @property
    def lost(self) -> bool:
        """Whether the server says that there is no such kind."""
        return isinstance(self.reflector.trouble, NotFound)

    async def listed(self) -> None:
        """Wait until it was listed, or is no longer watched."""
        listing = asyncio.ensure_future(self.reflector.synced())
        try:
            await asyncio.wait((listing, self.watching), return_when=asyncio.FIRST_COMPLETED)
        finally:
            listing.cancel()


class Watching:
    """Feeds a machine; `changed` is called after every batch. Cancelled, the streams are closed.

    Invariant: the machine knows no objects of a kind that has no eye.
    """

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
        self._eyes: dict[str, _Eye] = {}  # by kind
        self._started = asyncio.Event()
        self._told_blind = False

    async def run(self) -> None:
        """Watch for ever."""
        resources = await served_at_last(self._client)
        async with asyncio.TaskGroup() as group:
            self._open(resources, group)
            promises = Promises(self._client, self._promised, rng=self._rng, clock=self._clock)
            group.create_task(promises.run())
            self._started.set()
            await self._follow_served(group)

    async def synced(self) -> None:
        """Wait until everything was listed."""
        await self._started.wait()
        for eye in tuple(self._eyes.values()):
            await eye.listed()

    def unlisted(self) -> list[str]:
        """What was not listed yet, by its name in the API."""
        if not self._started.is_set():
            return ["everything"]
        return [one.reflector.resource.plural for one in self._eyes.values() if not one.reflector.is_synced]

    @property
    def blind(self) -> bool:
        """Whether something that matters may have changed unseen at the moment: nobody moves then."""
        return not all(one.clear for one in self._eyes.values())

    def tell_sight(self) -> None:
        """Say that nobody moves because we are blind, and when that is over; each of it once."""
        blind = self.blind
        if blind and not self._told_blind:
            unseen = [one.reflector for one in self._eyes.values() if not one.clear]
            reasons = sorted({str(one.trouble or "not listed yet") for one in unseen})
            _log.warning(
                "not_acting", unseen=sorted(one.resource.plural for one in unseen), reason="; ".join(reasons)
            )
        elif not blind and self._told_blind:
            _log.info("acting_again")
        self._told_blind = blind

    async def _follow_served(self, group: asyncio.TaskGroup) -> None:
        """Watch kinds that come, and let go of those that went, for ever."""
        while True:
            await asyncio.sleep(_DISCOVER_S)
            if len(self._eyes) == len(KINDS) and not any(one.lost for one in self._eyes.values()):
                continue
            try:
                resources = await served(self._client)
            except FairleadError as error:
                _log.warning("discovery_failed", reason=str(error), wait_s=_DISCOVER_S)
                continue
            await self._close_lost(resources)
            self._open(resources, group)

    def _open(self, resources: tuple[Resource, ...], group: asyncio.TaskGroup) -> None:
        """Watch every kind that is served and not watched yet."""
        for kind, struct in KINDS.items():
            resource = _resource(kind, resources)
            if resource is not None and kind not in self._eyes:
                reflector = self._reflect(resource, struct)
                self._eyes[kind] = _Eye(reflector, group.create_task(self._follow(kind, reflector)))

    async def _close_lost(self, resources: tuple[Resource, ...]) -> None:
        """Let go of kinds that discovery and their watch both call gone: either alone may be a bad moment."""
        for kind, eye in list(self._eyes.items()):
            if not eye.lost or _resource(kind, resources) == eye.reflector.resource:
                continue
            eye.watching.cancel()
            await asyncio.wait((eye.watching,))
            del self._eyes[kind]
            for key in eye.reflector.view.versions():
                namespace, _, name = key.rpartition("/")
                self._machine.gone(kind, namespace, name)
            _log.warning("no_longer_served", resource=eye.reflector.resource.plural)
            self._changed()

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


async def check_rights(client: Client) -> None:
    """Raise ApiError, naming all that may not be listed, before anybody waits for it. A kind that is not
    served need not be.
    """
    refused: list[ApiError] = []
    unlisted = []
    for kind in KINDS:
        resource = LEDGERS if kind == LEDGERS.kind else known(kind) if kind != "DeviceClass" else None
        if resource is None:
            continue
        try:
            await client.read(f"{resource.path()}?limit=1")
        except NotFound:
            continue
        except ApiError as error:
            if error.code != 403:
                raise
            refused.append(error)
            unlisted.append(resource.plural)
    if refused:
        first = refused[0]
        said = f"this user may not list {', '.join(unlisted)}: {first.message}"
        raise ApiError.of(first.code, first.reason, said)


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
