"""Who owns pods, as far as policies ask: from watches, and read when a pod is faster than they are.

A new Deployment's first pod may reach admission before its ReplicaSet reaches our watch, and custom
resources are not watched at all: `learn` reads what is missing before anybody decides. Several who miss
the same owner wait for one read.
"""

from __future__ import annotations

import asyncio
import functools
import math
import random
from collections.abc import Callable, Iterable
from typing import Any

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.discovery import scalable
from fairlead.client.reflector import Reflector
from fairlead.client.view import Added, Deleted, Event, Modified
from fairlead.client.wire import object_path, read_as
from fairlead.doors.references import is_valid, keep_newest
from fairlead.errors import ApiError, BadObject, NotFound, Unreachable
from fairlead.kube.meta import OwnerReference
from fairlead.kube.pod import Pod
from fairlead.kube.resources import Resource, known
from fairlead.kube.workloads import Job, PodDisruptionBudget, Scale, Workload
from fairlead.policy.groups import called
from fairlead.policy.owners import trimmed
from fairlead.policy.sharing import Sharing

__all__ = ["Owner", "OwnersOfPods"]

_log = structlog.get_logger(__name__)

Owner = Workload | Job | Scale

_WATCHED: dict[tuple[str, str], type[Any]] = {
    ("apps", "Deployment"): Workload,
    ("apps", "ReplicaSet"): Workload,
    ("apps", "StatefulSet"): Workload,
    ("", "ReplicationController"): Workload,
    ("batch", "Job"): Job,
}
_FRESH_S = 2.0  # how long what was read of an owner is believed, and how much longer it is kept
_NO_SCALE_S = 60.0  # how long a kind without a scale is believed to have none
_PATIENCE_S = 3.0
# Users choose the names of owners and kinds: of each only so many are remembered.
_OWNERS = 5_000
_KINDS = 1_000
_NEVER_OWNED = ("DaemonSet", "Node")  # their pods are no policy's business


class OwnersOfPods:
    """See the module; it is the `Owners` that `fairlead.policy.workloads` asks.

    Run it and wait until `synced`. Only reads; cancelled, nothing is half-done.
    """

    def __init__(
        self,
        client: Client,
        *,
        changed: Callable[[str, str], None] = lambda _namespace, _workload: None,
        fresh_s: float = _FRESH_S,
        rng: random.Random | None = None,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        """`changed` hears the namespace and name, as `called` has it, of each watched workload of which
        policies may read something else than before; and of a namespace alone, with no name, when its
        budgets or who shares them may have changed. What was read of an owner is believed for `fresh_s`.
        """
        self._client = client
        self._changed = changed
        self._fresh_s = fresh_s
        self._clock = clock
        self._watched: dict[tuple[str, str], Reflector[Any, Any]] = {
            key: Reflector(client, known(key[1]), struct, keep=trimmed, rng=rng, clock=clock)
            for key, struct in _WATCHED.items()
        }
        self._budgets = Reflector(
            client, known("PodDisruptionBudget"), PodDisruptionBudget, rng=rng, clock=clock
        )
        self.sharing = Sharing()
        """Which workloads share a budget, of those that are watched."""
        self._read: dict[str, tuple[Owner | None, float]] = {}  # until when it is believed
        self._absent: set[str] = set()  # of those: owners that the API server does not have
        self._reading: dict[str, asyncio.Future[None]] = {}
        self._kinds: dict[tuple[str, str], tuple[Resource | None, float]] = {}

    async def run(self) -> None:
        """Watch for ever."""
        async with asyncio.TaskGroup() as group:
            for (_, kind), reflector in self._watched.items():
                group.create_task(reflector.run(functools.partial(self._on_owner, kind)))
            group.create_task(self._budgets.run(self._on_budget))

    async def synced(self) -> None:
        """Wait until everything was listed."""
        for reflector in (*self._watched.values(), self._budgets):
            await reflector.synced()

    def unlisted(self) -> list[str]:
        """What was not listed yet, by its name in the API."""
        every = (*self._watched.values(), self._budgets)
        return [reflector.resource.plural for reflector in every if not reflector.is_synced]

    def budgets(self) -> Iterable[PodDisruptionBudget]:
        """All PodDisruptionBudgets."""
        return (budget for _, budget in self._budgets.view.items())

    def owner(self, reference: OwnerReference, namespace: str) -> Owner | None:
        """See `fairlead.policy.workloads.Owners`: what is known now."""
        watched = self._watched.get(_kind_of(reference))
        key = f"{namespace}/{reference.name}"
        if watched is not None:
            found: Owner | None = watched.view.get(key)
            if found is not None and (not reference.uid or found.metadata.uid == reference.uid):
                return found
        read = self._read.get(_name(reference, namespace))
        return read[0] if read is not None else None

    def absent(self, reference: OwnerReference, namespace: str) -> bool:
        """Whether there certainly is no such owner, as `learn` has found: neither seen nor to be read.

        False where nobody could tell: a kind that is not watched, or an API server that did not answer.
        """
        if not is_valid(reference):
            return _kind_of(reference) in self._watched
        name = _name(reference, namespace)
        return name in self._absent and self.owner(reference, namespace) is None

    async def learn(self, pod: Pod, namespace: str) -> None:
        """Have at hand what `workload_of` will ask for. Where that cannot be read, it does without."""
        reference = pod.metadata.controller
        if reference is None or reference.kind in _NEVER_OWNED or not is_valid(reference):
            return
        await self._learn(reference, namespace)
        if reference.kind == "ReplicaSet" and (found := self.owner(reference, namespace)) is not None:
            above = found.metadata.controller
            if above is not None and is_valid(above):
                await self._learn(above, namespace)

    async def _learn(self, reference: OwnerReference, namespace: str) -> None:
        if _kind_of(reference) in self._watched and self.owner(reference, namespace) is not None:
            return
        name = _name(reference, namespace)
        _, until = self._read.get(name, (None, -math.inf))
        if self._clock.now() < until:
            return
        under_way = self._reading.get(name)
        if under_way is not None:
            await asyncio.shield(under_way)
            return
        done = self._reading[name] = asyncio.get_running_loop().create_future()
        try:
            self._forget()
            async with asyncio.timeout(_PATIENCE_S):
                found = await self._look(reference, namespace)
            self._remember(name, found)
            if found is None and _kind_of(reference) in self._watched:
                self._absent.add(name)
        except (ApiError, Unreachable, BadObject, TimeoutError) as error:
            _log.info("owner_not_read", owner=name, reason=str(error) or "no answer in time")
            self._remember(name, None)
        finally:
            del self._reading[name]
            done.set_result(None)

    async def _look(self, reference: OwnerReference, namespace: str) -> Owner | None:
        struct = _WATCHED.get(_kind_of(reference))
        try:
            if struct is not None:
                resource = known(reference.kind)
                there = trimmed(await self._client.get(resource, reference.name, namespace, kind=struct))
                # Another of the same name is not whom the pod means.
                return there if not reference.uid or there.metadata.uid == reference.uid else None
            found = await self._scalable(reference)
            if found is None:
                return None
            within = namespace if found.namespaced else None
            answer = await self._client.read(object_path(found, within, reference.name, "scale"))
        except NotFound:
            return None
        scale: Scale = read_as(answer, Scale)
        return scale

    async def _scalable(self, reference: OwnerReference) -> Resource | None:
        key, now = (reference.api_version, reference.kind), self._clock.now()
        found, until = self._kinds.get(key, (None, -math.inf))
        if now >= until:
            found = await scalable(self._client, *key)
            self._kinds[key] = found, math.inf if found is not None else now + _NO_SCALE_S
            keep_newest(self._kinds, _KINDS)
        return found

    def _on_owner(self, kind: str, event: Event[Workload | Job, Any]) -> None:
        if isinstance(event, Added | Modified):
            meta = event.object.metadata
            if self.sharing.seen(kind, event.object):
                self._changed(meta.namespace, "")
            # A Deployment's ReplicaSets say nothing that it does not, and most of what happens to any
            # owner is that its status follows its pods.
            owned = kind == "ReplicaSet" and meta.controller is not None
            if not owned and (isinstance(event, Added) or trimmed(event.object) != event.old):
                self._changed(meta.namespace, called(kind, "", meta.name))
        elif isinstance(event, Deleted):
            namespace, _, name = event.key.rpartition("/")
            if self.sharing.gone(kind, namespace, name):
                self._changed(namespace, "")

    def _on_budget(self, event: Event[PodDisruptionBudget, PodDisruptionBudget]) -> None:
        if isinstance(event, Modified) and event.object.spec == event.old.spec:
            return  # its status follows its pods
        if isinstance(event, Added | Modified | Deleted):
            self._changed(event.key.rpartition("/")[0], "")

    def _remember(self, name: str, found: Owner | None) -> None:
        self._drop(name)  # so that the first is always the oldest
        self._read[name] = found, self._clock.now() + self._fresh_s
        while len(self._read) > _OWNERS:
            self._drop(next(iter(self._read)))

    def _forget(self) -> None:
        """Drop what is no longer believed; watches have it by now, or it is gone."""
        now = self._clock.now()
        while self._read and self._read[first := next(iter(self._read))][1] + _FRESH_S < now:
            self._drop(first)

    def _drop(self, name: str) -> None:
        self._read.pop(name, None)
        self._absent.discard(name)


def _kind_of(reference: OwnerReference) -> tuple[str, str]:
    return reference.api_version.rpartition("/")[0], reference.kind


def _name(reference: OwnerReference, namespace: str) -> str:
    return f"{reference.kind}.{reference.api_version} {namespace}/{reference.name} {reference.uid}"
