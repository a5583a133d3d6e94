"""What one session watches, and what of it reaches the core.

The watches of the process hold every object as it last was, trimmed; so a standby keeps nothing of its own,
and a new leader begins with what they hold. An update that changes nothing we read (a heartbeat, a
status) is dropped. PodGroups come in flavours that may be installed while we run, so discovery is asked again
from time to time; everything else that a server does not serve, it will not serve tomorrow either.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import structlog

from fairlead.client.api import Client
from fairlead.client.discovery import served, served_at_last
from fairlead.client.reflector import Reflector
from fairlead.client.view import Added, Deleted, Modified, Spoiled, Synced
from fairlead.client.view import Event as WatchEvent
from fairlead.doors.scheduler.inbox import Inbox
from fairlead.engine.ask.objects import remains
from fairlead.engine.core.events import Event, Gone, Seen, Unread
from fairlead.engine.core.kinds import KINDS
from fairlead.errors import ApiError, BadObject, Unreachable
from fairlead.feed.scales import Scales
from fairlead.feed.sources import POD_GROUP_GROUPS, as_listed, pod_groups, sources
from fairlead.feed.trimming import trimmed, trimmed_metadata
from fairlead.feed.watches import Watches
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.resources import Resource, known
from fairlead.kube.workloads import DEPLOYMENT_REVISION, Job, Workload

_log = structlog.get_logger(__name__)

_DISCOVER_S = 30.0


class Watching:
    """See the module. Cancelled, the streams are closed; what was put in the inbox stays there.

    Nothing is put there before `known` was asked for.
    """

    def __init__(
        self, client: Client, watches: Watches, inbox: Inbox, scales: Scales, *, rng: random.Random
    ) -> None:
        self._client = client
        self._watches = watches
        self._inbox = inbox
        self._scales = scales
        self._rng = rng
        self._listed: dict[Resource, asyncio.Event] = {}
        self._started = asyncio.Event()
        self._is_told = False
        self._unread: dict[str, Unread] = {}  # pods, by name, while nothing is told

    def __iter__(self) -> Iterator[tuple[Resource, Reflector[Any, Any]]]:
        """What is watched, and how each watch does."""
        for resource in tuple(self._listed):
            reflector = self._watches.reflector(resource)
            if reflector is not None:
                yield resource, reflector

    def __len__(self) -> int:
        return sum(len(reflector.view) for _, reflector in self)

    async def run(self) -> None:
        """Watch for ever."""
        resources = await served_at_last(self._client)
        async with asyncio.TaskGroup() as group:
            for resource in sources(resources):
                self._start(group, resource)
            self._started.set()
            group.create_task(self._scales.run(self._put))
            while True:
                await asyncio.sleep(_DISCOVER_S * self._rng.uniform(1.0, 1.5))
                await self._discover(group)

    async def synced(self) -> None:
        """Wait until everything that is watched has been listed."""
        await self._started.wait()
        for listed in tuple(self._listed.values()):
            await listed.wait()

    def unlisted(self) -> list[str]:
        """What has not been listed yet, by its name in the API."""
        if not self._started.is_set():
            return ["everything"]
        return [resource.plural for resource, listed in self._listed.items() if not listed.is_set()]

    def known(self) -> list[Event]:
        """All there is: nodes first, for what is on them. Whatever happens from now on goes to the inbox."""
        self._is_told = True
        objects: list[Event] = [
            seen(resource, thing)
            for resource, reflector in sorted(self, key=lambda one: one[0].kind != "Node")
            for _, thing in reflector.view.items()
        ]
        pods = self._watches.reflector(known("Pod"))
        never_read = [event for key, event in self._unread.items() if pods and pods.view.get(key) is None]
        self._unread.clear()
        return [*objects, *never_read, *self._scales.known()]

    def _start(self, group: asyncio.TaskGroup, resource: Resource) -> None:
        listed = self._listed[resource] = asyncio.Event()

        async def take(batch: list[WatchEvent[Any, Any]]) -> None:
            events = core_events(resource, batch)
            if resource.kind == "Pod":
                # Sizes of owners come before their pods.
                events = [*await self._scales.before(events), *events]
                if not self._is_told:
                    self._note_unread(events)
            await self._put(events)
            if any(isinstance(event, Synced) for event in batch):
                listed.set()

        group.create_task(self._watches.follow(resource, KINDS[resource.kind], take))

    async def _put(self, events: list[Event]) -> None:
        if events and self._is_told:
            await self._inbox.put(events)

    def _note_unread(self, events: Iterable[Event]) -> None:
        """Of what cannot be read the watch keeps nothing."""
        for event in events:
            if isinstance(event, Unread):
                self._unread[event.pod.metadata.key] = event
            elif isinstance(event, Gone):
                self._unread.pop(f"{event.namespace}/{event.name}", None)

    async def _discover(self, group: asyncio.TaskGroup) -> None:
        watched = {resource.group for resource in self._listed if resource.kind == "PodGroup"}
        if len(watched) == len(POD_GROUP_GROUPS):
            return
        try:
            resources = await served(self._client)
        except (ApiError, Unreachable, BadObject) as error:
            _log.info("discovery_failed", reason=str(error))
            return
        for resource in pod_groups(resources):
            if resource.group not in watched:
                _log.info("watching", resource=resource.plural, group=resource.group)
                self._start(group, resource)


def core_events(resource: Resource, batch: Iterable[WatchEvent[Any, Any]]) -> list[Event]:
    """What the core receives of a batch of watch events.

    An object that cannot be read stays, for the core, as it last was: what it holds it still holds. Of a
    pod that could never be read the core receives what can be made out, because its gang waits for it.
    """
    kind, gist = resource.kind, _GISTS.get(KINDS[resource.kind])
    events: list[Event] = []
    for event in batch:
        if isinstance(event, Added):
            events.append(seen(resource, event.object))
        elif isinstance(event, Modified):
            if gist is None or event.old is None or gist(event.object) != gist(event.old):
                events.append(seen(resource, event.object))
        elif isinstance(event, Deleted):
            namespace, _, name = event.key.rpartition("/")
            group = resource.group if kind == "PodGroup" else ""
            events.append(Gone(kind, namespace, name, event.uid, group))
        elif isinstance(event, Spoiled) and kind == "Pod":
            events.append(Unread(_remains(event), str(event.error)))
    return events


def seen(resource: Resource, thing: Any) -> Seen:
    """What the core receives of an object that was read."""
    thing = as_listed(resource, thing)
    return Seen(resource.kind, _bare_node(thing) if isinstance(thing, Node) else thing)


def _remains(event: Spoiled[Any]) -> Pod:
    """What can be made out of a pod; of one that is no JSON at all only its name."""
    namespace, _, name = event.key.rpartition("/")
    try:
        body = msgspec.json.decode(event.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        body = None
    if not isinstance(body, dict):
        body = {"metadata": {"name": name, "namespace": namespace}}
    found = remains(body)
    return msgspec.structs.replace(found, metadata=trimmed_metadata(found.metadata))


def _bare_node(node: Node) -> Node:
    """A node without its version, so that a heartbeat is no change."""
    found = trimmed(node)
    return Node(msgspec.structs.replace(found.metadata, resource_version=""), found.spec, found.status)


def _spec_of_workload(owner: Workload) -> object:
    # The API server counts a new generation for every change of the spec, and for deletion. Which revision is
    # the newest is written later, by the controller.
    revision = owner.status.update_revision or owner.metadata.annotations.get(DEPLOYMENT_REVISION, "")
    return (owner.metadata.generation, owner.spec.replicas, revision)


def _spec_of_job(job: Job) -> object:
    return (job.metadata.generation, job.status.succeeded, job.status.conditions)


# What the core reads of a kind: a change that leaves it as it was is no news. Of other kinds every change is.
_GISTS: dict[type[Any], Callable[[Any], object]] = {
    Node: _bare_node,
    Workload: _spec_of_workload,
    Job: _spec_of_job,
}
