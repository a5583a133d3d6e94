"""Feeds the board and the answers from watches, and puts what changed into the history, ten times a second.

What may not be read is left out and named. Pods and nodes are what the page is about; while they cannot be
listed there is nothing to show, and the page says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

import msgspec
import structlog

from fairlead.client.api import Client
from fairlead.client.discovery import served_at_last
from fairlead.client.reflector import Reflector, Tuning
from fairlead.client.view import Added, Modified, Synced
from fairlead.client.wire import plain
from fairlead.doors.process import Context
from fairlead.engine.ask import timeline
from fairlead.engine.ask.schedulers import LEASE_NAMESPACES
from fairlead.engine.ask.timeline import Happening
from fairlead.engine.core.kinds import KINDS
from fairlead.errors import ApiError, Unreachable
from fairlead.feed.sources import as_listed, sources
from fairlead.feed.watches import Followed
from fairlead.kube.event import Event
from fairlead.kube.meta import Object
from fairlead.kube.resources import Resource, known
from fairlead.kube.workloads import Workload
from fairlead.policy.names import API_VERSION, POLICIES
from fairlead.web.answers import Answers, Objects
from fairlead.web.board import Board
from fairlead.web.history import History

_log = structlog.get_logger(__name__)

_EVERY_S = 0.1
_LEASES_S = 5.0
_AGAIN_S = 30.0
_REFUSED = (403, 404, 405)
_NEEDED = ("Pod", "Node")
_SCALED = ("Deployment", "StatefulSet", "ReplicaSet")
# What a cluster writes most of, and the page has from pods themselves.
_LOUD = (
    "Scheduled",
    "Pulling",
    "Pulled",
    "Created",
    "Started",
    "Killing",
    "SuccessfulCreate",
    "FailedScheduling",
)
# API servers do not cache events, so there are no bookmarks: only the server's own end of a watch is sure.
_QUIET = Tuning(watch_s=240.0, inactivity_s=600.0)


class Live:
    """See the module. Run it; the history begins when pods and nodes were listed.

    Cancelled, every watch ends.
    """

    def __init__(self, context: Context, board: Board, history: History, *, lease: str) -> None:
        """`lease` is the one that our scheduler is elected by."""
        self._lease = lease
        self._context = context
        self._client = context.client
        self._board = board
        self._history = history
        self._things: dict[str, dict[tuple[str, str], Object]] = {}
        self._leases: list[dict[str, Any]] = []
        self._marks: dict[str, dict[str, str]] = {}
        self._listed = {kind: asyncio.Event() for kind in (*_NEEDED, "Namespace", "Event")}
        self.unread: dict[str, str] = {}
        """By kind, why it cannot be read."""
        self.answers: Answers | None = None
        context.policies.on_change(self._policies_changed)
        context.marks.on_change(self._policies_changed)

    @property
    def trouble(self) -> str:
        """Why there is nothing to show; "" once there is."""
        if self._history.beginning.is_set():
            return ""
        for kind in _NEEDED:
            if kind in self.unread:
                return self.unread[kind]
        return "the cluster is being read"

    def collect(self) -> Objects:
        """All there is now, for the engine."""
        typed: dict[str, Iterable[Object]] = {
            kind: list(things.values()) for kind, things in self._things.items()
        }
        typed["Node"], typed["Pod"] = list(self._board.nodes.values()), list(self._board.pods.values())
        unread = dict(self.unread)
        unread.pop("Event", None)
        return Objects(self._now(), typed, [*self._policies(), *self._leases], unread)

    def file_policies(self) -> list[dict[str, Any]]:
        """The policies that hold and that the cluster does not have, as plain data."""
        from_file = self._context.policies.from_file
        return [one for one in self._policies() if from_file(one["metadata"]["name"])]

    def workloads(self) -> list[tuple[str, int]]:
        """What a user scales or deletes, as ``namespace/kind/name``, and how many replicas it wants."""
        return sorted(
            (f"{thing.metadata.namespace}/{kind}/{thing.metadata.name}", thing.desired)
            for kind in _SCALED
            for thing in self._things.get(kind, {}).values()
            if isinstance(thing, Workload) and thing.metadata.controller is None
        )

    def say(self, happening: Happening) -> None:
        """Something happened that no watch shows."""
        self._board.say(happening)

    async def run(self) -> None:
        """Follow the cluster for ever."""
        async with asyncio.TaskGroup() as group:
            served = await served_at_last(self._client)
            followed = sources(served)
            for kind in {*self._listed} - {one.kind for one in followed} - {"Event"}:
                self._listed[kind].set()  # it is not served
            for resource in followed:
                group.create_task(self._follow(resource))
            group.create_task(self._events())
            group.create_task(self._read_leases())
            for listed in self._listed.values():
                await listed.wait()
            self._board.listed()
            self._board.take(self._now())
            self._history.begin(self._board.whole(self._now()))
            self._changed()
            await self._flush()

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            now = self._now()
            delta = self._board.take(now)
            if delta is not None:
                self.add("delta", now, delta)

    def add(self, name: str, at: float, said: Any) -> None:
        """Put something into the history."""
        data = msgspec.json.encode(said)
        self._history.add(name, at, data, lambda: self._board.whole(at))

    async def _follow(self, resource: Resource) -> None:
        """Follow a kind, as soon as it may be read."""
        kind = resource.kind
        await self._allowed(resource)
        match kind:
            case "Pod":
                put: Any = self._put_pod
                drop: Any = self._drop_pod
            case "Node":
                put, drop = self._put_node, self._drop_node
            case _:
                put, drop = partial(self._put, resource), partial(self._drop, resource)
        followed = Followed(self._context.watches, resource, KINDS[kind], put, drop)
        async with asyncio.TaskGroup() as group:
            group.create_task(followed.run())
            await followed.listed.wait()
            if kind in self._listed:
                self._listed[kind].set()

    async def _allowed(self, resource: Resource) -> None:
        while True:
            try:
                await self._client.read(f"{resource.path()}?limit=1")
            except ApiError as error:
                if error.code in _REFUSED:
                    if resource.kind not in self.unread:
                        _log.warning("unread", kind=resource.kind, reason=str(error))
                    self.unread[resource.kind] = str(error)
                    if resource.kind in self._listed and resource.kind not in _NEEDED:
                        self._listed[resource.kind].set()
            except Unreachable:
                pass  # watches of others say so
            else:
                self.unread.pop(resource.kind, None)
                return
            await asyncio.sleep(_AGAIN_S)

    async def _events(self) -> None:
        resource = known("Event")
        await self._allowed(resource)
        reflector = Reflector(
            self._client,
            resource,
            Event,
            tuning=_QUIET,
            keep=_nothing,
            fields=",".join(f"reason!={reason}" for reason in _LOUD),
            rng=self._context.rng,
            clock=self._context.clock,
        )
        async with aclosing(reflector.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    if isinstance(event, Added | Modified):
                        self._board.put_event(event.object)
                    elif isinstance(event, Synced):
                        self._listed["Event"].set()

    async def _read_leases(self) -> None:
        """Who leads: of all leases only those of a few namespaces, which are read now and then."""
        lease = known("Lease")
        namespaces = dict.fromkeys((*LEASE_NAMESPACES, self._context.system_namespace))
        while True:
            found: list[dict[str, Any]] = []
            for namespace in namespaces:
                try:
                    async for page in self._client.pages(lease, namespace):
                        said = {"apiVersion": lease.api_version, "kind": lease.kind}
                        found += [{**said, **plain(bytes(item))} for item in page.items]
                except ApiError as error:
                    if error.code not in _REFUSED:
                        break
                    if namespace == self._context.system_namespace:
                        await self._own_lease(namespace, error, found)
                except Unreachable:
                    break
            else:
                if _holders(found) != _holders(self._leases):
                    self._changed()
                self._leases = found
            await asyncio.sleep(_LEASES_S)

    async def _own_lease(self, namespace: str, refused: ApiError, found: list[dict[str, Any]]) -> None:
        """One lease may be read where all may not: components have a right to their own."""
        lease = known("Lease")
        try:
            data = await self._client.read(f"{lease.path(namespace)}/{self._lease}")
        except (ApiError, Unreachable):
            self.unread["Lease"] = str(refused)
        else:
            self.unread.pop("Lease", None)
            found.append({"apiVersion": lease.api_version, "kind": lease.kind, **plain(data)})

    # What changed

    def _put_pod(self, pod: Any) -> None:
        self._board.put_pod(pod, self._now())
        self._changed()

    def _drop_pod(self, key: str, _: str) -> None:
        self._board.drop_pod(key, self._now())
        self._changed()

    def _put_node(self, node: Any) -> None:
        old = self._board.nodes.get(node.metadata.name)
        self._board.put_node(node, self._now())
        if old is None or _without_version(old) != _without_version(node):
            self._changed()

    def _drop_node(self, name: str, _: str) -> None:
        self._board.drop_node(name, self._now())
        self._changed()

    def _put(self, resource: Resource, thing: Any) -> None:
        kind = resource.kind
        if kind == "Namespace":
            self._board.put_namespace(thing.metadata.name, thing.metadata.labels)
        self._things.setdefault(kind, {})[resource.group, thing.metadata.key] = as_listed(resource, thing)
        self._changed()

    def _drop(self, resource: Resource, key: str, _: str) -> None:
        self._things.get(resource.kind, {}).pop((resource.group, key), None)
        self._changed()

    def _policies_changed(self) -> None:
        found = {}
        for name in self._context.policies.stored_names():
            marks = self._context.policies.status(name).get("marks")
            if isinstance(marks, Mapping):
                found[name] = {tier: str(mark.get("reason", "")) for tier, mark in marks.items()}
        for policy in self._context.policies.policies:
            if self._context.policies.from_file(policy.name):
                found[policy.name] = {tier: mark.reason for tier, mark in self._context.marks.of(policy.name)}
        now = self._now()
        for name in {**self._marks, **found}:
            happenings = timeline.of_marks(name, self._marks.get(name, {}), found.get(name, {}), now)
            self._board.say(*happenings)
        self._marks = found
        self._changed()

    def _policies(self) -> list[dict[str, Any]]:
        """Those that hold, as plain data."""
        policies = self._context.policies
        found = []
        for policy in policies.policies:
            spec = msgspec.to_builtins(policy.spec)
            status: dict[str, Any] = dict(policies.status(policy.name))
            if policies.from_file(policy.name):
                status["marks"] = self._context.marks.of(policy.name).to_plain()
            else:
                stored = policies.stored(policy.name)
                spec = stored.spec if stored is not None else spec
            said = {"apiVersion": API_VERSION, "kind": POLICIES.kind, "metadata": {"name": policy.name}}
            found.append({**said, "spec": spec, "status": status})
        return found

    def _changed(self) -> None:
        if self.answers is not None:
            self.answers.changed()

    def _now(self) -> float:
        return self._context.clock.wall().timestamp()


async def missing_rights(client: Client) -> list[str]:
    """What keeps the page from having anything to show: why pods or nodes cannot be listed."""
    found = []
    for kind in _NEEDED:
        try:
            await client.read(f"{known(kind).path()}?limit=1")
        except ApiError as error:
            if error.code not in _REFUSED:
                raise
            found.append(str(error))
    return found


def _holders(leases: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [
        (str(one.get("metadata", {}).get("name")), str((one.get("spec") or {}).get("holderIdentity")))
        for one in leases
    ]


def _without_version(thing: Any) -> Any:
    metadata = msgspec.structs.replace(thing.metadata, resource_version="")
    return msgspec.structs.replace(thing, metadata=metadata)


def _nothing(_: object) -> None:
    """An event is told when it comes, and not kept."""
