"""The rebalancer's eyes: everything that it decides from, straight from watches into its machine.

Which kinds a server has may change while we run: definitions come and go. A kind that is not served has no
objects, so it need not be seen. Karpenter's NodePools are listed instead, every few seconds: they are a hint
whether nodes could come to a tier. A cluster without Karpenter has none, and a rebalancer that may not read
them does without, and says so once.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import structlog

from fairlead.client.api import Client
from fairlead.client.discovery import served, served_at_last
from fairlead.doors.process import Context
from fairlead.engine.rebalance.node_pools import NodePool
from fairlead.engine.rebalance.rebalancer import KINDS, Rebalancer
from fairlead.errors import ApiError, BadObject, FairleadError, NotFound, Unreachable
from fairlead.feed.watches import Followed
from fairlead.kube.resources import Resource, known
from fairlead.policy.names import LEDGERS

_log = structlog.get_logger(__name__)

_DISCOVER_S = 60.0  # how often we ask again what is served, where a kind is not
_DEVICE_CLASS = "DeviceClass"  # its version is the server's choice
_USUAL = {kind: LEDGERS if kind == LEDGERS.kind else known(kind) for kind in KINDS if kind != _DEVICE_CLASS}
_NODE_POOLS = Resource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False)
_POOLS_S = 15.0


class _NodePoolList(msgspec.Struct, frozen=True):
    items: tuple[NodePool, ...] = ()


class Watching:
    """Feeds a machine; `changed` is called after every batch. Cancelled, the streams are closed.

    Invariant: the machine knows no objects of a kind that is not followed.
    """

    def __init__(self, context: Context, machine: Rebalancer, changed: Callable[[], None]) -> None:
        self._context = context
        self._client = context.client
        self._watches = context.watches
        self._machine = machine
        self._changed = changed
        self._followed: dict[str, tuple[Followed, asyncio.Task[None]]] = {}  # by kind
        self._started = asyncio.Event()
        self._pools_listed = asyncio.Event()  # once it was tried
        self._told_pools = ""
        self._told_blind = False
        for kind, resource in _USUAL.items():
            context.watches.want(resource, KINDS[kind])

    async def run(self) -> None:
        """Watch for ever."""
        resources = await served_at_last(self._client)
        with self._context.scale_ups.reported_to(self._promised):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._list_pools())
                self._open(resources, group)
                self._started.set()
                await self._follow_served(group)

    async def synced(self) -> None:
        """Wait until everything was listed, or is no longer followed."""
        await self._started.wait()
        for followed, following in tuple(self._followed.values()):
            listing = asyncio.ensure_future(followed.listed.wait())
            try:
                await asyncio.wait((listing, following), return_when=asyncio.FIRST_COMPLETED)
            finally:
                listing.cancel()
        await self._pools_listed.wait()

    def unlisted(self) -> list[str]:
        """What was not listed yet, by its name in the API."""
        if not self._started.is_set():
            return ["everything"]
        return [one.resource.plural for one, _ in self._followed.values() if not one.listed.is_set()]

    @property
    def blind(self) -> bool:
        """Whether something that matters may have changed unseen at the moment: no pod is moved then."""
        return any(self._trouble(one) is not None for one, _ in self._followed.values())

    def tell_sight(self) -> None:
        """Log that no pod is moved because we are blind, and when that is over; each once."""
        blind = self.blind
        if blind and not self._told_blind:
            unseen = {
                one.resource.plural: str(why)
                for one, _ in self._followed.values()
                if (why := self._trouble(one)) is not None
            }
            _log.warning("not_acting", unseen=sorted(unseen), reason="; ".join(sorted({*unseen.values()})))
        elif not blind and self._told_blind:
            _log.info("acting_again")
        self._told_blind = blind

    def _trouble(self, followed: Followed) -> FairleadError | str | None:
        """Why what is known of a kind may be old; None while every change is shown."""
        return self._watches.trouble(followed.resource) if followed.listed.is_set() else "not listed yet"

    async def _follow_served(self, group: asyncio.TaskGroup) -> None:
        """Follow kinds that come, and let go of those that went, for ever."""
        while True:
            await asyncio.sleep(_DISCOVER_S)
            lost = [
                kind
                for kind, (one, _) in self._followed.items()
                if isinstance(self._watches.trouble(one.resource), NotFound)
            ]
            if len(self._followed) == len(KINDS) and not lost:
                continue
            try:
                resources = await served(self._client)
            except FairleadError as error:
                _log.warning("discovery_failed", reason=str(error), wait_s=_DISCOVER_S)
                continue
            there = _resources(resources)
            for kind in lost:
                # Discovery and the watch both call it gone: either alone may be a bad moment.
                if there.get(kind) != self._followed[kind][0].resource:
                    await self._close(kind)
            self._open(resources, group)

    def _open(self, resources: Iterable[Resource], group: asyncio.TaskGroup) -> None:
        """Follow every kind that is served and not followed yet."""
        for kind, resource in _resources(resources).items():
            if kind not in self._followed:
                put, drop = functools.partial(self._put, kind), functools.partial(self._drop, kind)
                followed = Followed(self._watches, resource, KINDS[kind], put, drop, changed=self._changed)
                self._followed[kind] = followed, group.create_task(followed.run())

    async def _close(self, kind: str) -> None:
        followed, following = self._followed.pop(kind)
        reflector = self._watches.reflector(followed.resource)
        keys = [key for key, _ in reflector.view.items()] if reflector is not None else []
        following.cancel()
        await asyncio.wait((following,))
        for key in keys:
            self._drop(kind, key)
        _log.warning("no_longer_served", resource=followed.resource.plural)
        self._changed()

    def _put(self, kind: str, thing: Any) -> None:
        try:
            self._machine.seen(kind, thing, self._context.clock.wall().timestamp())
        except BadObject as error:
            # It stays as it last was: what it holds it still holds.
            _log.warning("object_unusable", kind=kind, object=thing.metadata.key, reason=str(error))

    def _drop(self, kind: str, key: str, uid: str = "") -> None:
        namespace, _, name = key.rpartition("/")
        self._machine.gone(kind, namespace, name, uid)

    def _promised(self, uid: str, at: float) -> None:
        self._machine.promised(uid, at)
        self._changed()

    async def _list_pools(self) -> None:
        """List NodePools for ever."""
        while True:
            try:
                answer = await self._client.read(_NODE_POOLS.path())
                self._machine.node_pools(msgspec.json.decode(answer, type=_NodePoolList).items)
            except NotFound:
                self._machine.node_pools(())
            except (ApiError, msgspec.MsgspecError) as error:
                if str(error) != self._told_pools:
                    self._told_pools = str(error)
                    _log.warning("node_pools_unread", reason=str(error))
            except Unreachable:
                pass  # the watches say so
            self._pools_listed.set()
            await asyncio.sleep(_POOLS_S)


async def check_rights(client: Client) -> None:
    """Raise ApiError, naming all that may not be listed, before any task waits for it. A kind that is not
    served need not be.
    """
    refused: dict[str, ApiError] = {}
    for resource in _USUAL.values():
        try:
            await client.read(f"{resource.path()}?limit=1")
        except NotFound:
            continue
        except ApiError as error:
            if error.code != 403:
                raise
            refused[resource.plural] = error
    if refused:
        first = next(iter(refused.values()))
        said = f"this user may not list {', '.join(refused)}: {first.message}"
        raise ApiError.of(first.code, first.reason, said)


def _resources(resources: Iterable[Resource]) -> dict[str, Resource]:
    """By kind, the resources of those kinds that the server has."""
    offered = {(one.group, one.plural): one for one in reversed(tuple(resources))}  # the preferred come first
    found = {kind: one for kind, one in _USUAL.items() if (one.group, one.plural) in offered}
    if (device_class := offered.get(("resource.k8s.io", "deviceclasses"))) is not None:
        found[_DEVICE_CLASS] = device_class
    return found
