"""Owners of pods that no watch has shown: read before a decision needs them.

A new Deployment's first pod may reach admission before its ReplicaSet reaches our watch, and custom
resources are not watched at all: `learn` reads what is missing. Several callers that miss the same owner wait
for one read.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.discovery import scalable
from fairlead.client.wire import object_path, read_as
from fairlead.errors import ApiError, BadObject, NotFound, Unreachable
from fairlead.feed.references import is_valid, keep_newest
from fairlead.kube.meta import ObjectMeta, OwnerReference
from fairlead.kube.resources import Resource, known
from fairlead.kube.workloads import Job, Scale, Workload
from fairlead.policy.groups.owners import Owner, trimmed

_log = structlog.get_logger(__name__)

WATCHED: dict[tuple[str, str], type[Any]] = {
    ("apps", "Deployment"): Workload,
    ("apps", "ReplicaSet"): Workload,
    ("apps", "StatefulSet"): Workload,
    ("", "ReplicationController"): Workload,
    ("batch", "Job"): Job,
}
"""Owners that are watched, by API group and kind."""
FRESH_S = 2.0
"""How long what was read of an owner is believed, and how much longer it is kept."""
_NO_SCALE_S = 30.0  # how long a kind without a scale is believed to have none
_PATIENCE_S = 3.0
# Users choose the names of owners and kinds: of each only a bounded number is remembered.
_OWNERS = 5_000
_KINDS = 1_000
_NEVER_OWNED = ("DaemonSet", "Node")  # no policy governs their pods


class OwnerReader:
    """See the module; the `Owners` of what was read. Only reads; cancelled, nothing is half-done."""

    def __init__(
        self,
        client: Client,
        *,
        watched: Callable[[OwnerReference, str], Owner | None] = lambda _reference, _namespace: None,
        read: Callable[[str, str, str], None] = lambda _kind, _namespace, _name: None,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        """`watched` gives owners that a watch has shown, which are not read. `read` receives kind, namespace
        and name of each owner that was read.
        """
        self._client = client
        self._watched = watched
        self._was_read = read
        self._clock = clock
        self._read: dict[str, tuple[Owner | None, float]] = {}  # when it was read
        self._absent: set[str] = set()  # of those: owners that the API server does not have
        self._reading: dict[str, asyncio.Future[None]] = {}
        self._scales = ScaleReader(client, clock)

    def owner(self, reference: OwnerReference, namespace: str) -> Owner | None:
        """See `fairlead.policy.rule.workloads.Owners`: what was read."""
        read = self._read.get(_name(reference, namespace))
        return read[0] if read is not None else None

    def absent(self, reference: OwnerReference, namespace: str) -> bool:
        """Whether there certainly is no such owner, as `learn` has found: neither seen nor to be read.

        False where that is not known: a kind that is not watched, or an API server that did not answer.
        """
        if not is_valid(reference):
            return kind_of(reference) in WATCHED
        name = _name(reference, namespace)
        return name in self._absent and self._seen(reference, namespace) is None

    async def learn(self, pod: ObjectMeta, namespace: str, *, fresh_s: float = FRESH_S) -> None:
        """Have at hand what `workload_of` will query. What cannot be read stays unknown; what was read is
        believed for `fresh_s`.
        """
        reference = pod.controller
        if reference is None or reference.kind in _NEVER_OWNED or not is_valid(reference):
            return
        await self._learn(reference, namespace, fresh_s)
        found = self._known(reference, namespace) if reference.kind == "ReplicaSet" else None
        if found is not None:
            above = found.metadata.controller
            if above is not None and is_valid(above):
                await self._learn(above, namespace, fresh_s)

    def _seen(self, reference: OwnerReference, namespace: str) -> Owner | None:
        """The owner, if a watch has shown it."""
        found = self._watched(reference, namespace) if kind_of(reference) in WATCHED else None
        other = found is not None and reference.uid not in ("", found.metadata.uid)
        return None if other else found

    def _known(self, reference: OwnerReference, namespace: str) -> Owner | None:
        return self._seen(reference, namespace) or self.owner(reference, namespace)

    async def _learn(self, reference: OwnerReference, namespace: str, fresh_s: float) -> None:
        if self._seen(reference, namespace) is not None:
            return
        name = _name(reference, namespace)
        _, at = self._read.get(name, (None, -math.inf))
        if self._clock.now() < at + fresh_s:
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
            if found is None and kind_of(reference) in WATCHED:
                self._absent.add(name)
        except (ApiError, Unreachable, BadObject, TimeoutError) as error:
            _log.info("owner_not_read", owner=name, reason=str(error) or "no answer in time")
            self._remember(name, None)
        finally:
            del self._reading[name]
            done.set_result(None)
        self._was_read(reference.kind, namespace, reference.name)

    async def _look(self, reference: OwnerReference, namespace: str) -> Owner | None:
        struct = WATCHED.get(kind_of(reference))
        if struct is None:
            return await self._scales.read(reference, namespace)
        try:
            resource = known(reference.kind)
            there = trimmed(await self._client.get(resource, reference.name, namespace, kind=struct))
        except NotFound:
            return None
        return there if _is_meant(reference, there.metadata) else None

    def _remember(self, name: str, found: Owner | None) -> None:
        self._drop(name)  # so that the first is always the oldest
        self._read[name] = found, self._clock.now()
        while len(self._read) > _OWNERS:
            self._drop(next(iter(self._read)))

    def _forget(self) -> None:
        """Drop what is no longer believed; watches have it by now, or it is gone."""
        now = self._clock.now()
        while self._read and self._read[first := next(iter(self._read))][1] + 2 * FRESH_S < now:
            self._drop(first)

    def _drop(self, name: str) -> None:
        self._read.pop(name, None)
        self._absent.discard(name)


@dataclass(slots=True, eq=False)
class _Kind:
    """How to ask for the scales of a kind, as far as known until `until`; None: it has none."""

    finding: asyncio.Lock = field(default_factory=asyncio.Lock)
    resource: Resource | None = None
    until: float = -math.inf


class ScaleReader:
    """Reads the ``scale`` subresource of owners, and remembers which kinds have one."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._kinds: dict[tuple[str, str], _Kind] = {}

    async def read(self, reference: OwnerReference, namespace: str) -> Scale | None:
        """The scale of an owner; None when it is gone or its kind has no such thing."""
        resource = await self._resource(reference)
        if resource is None:
            return None
        within = namespace if resource.namespaced else None
        try:
            answer = await self._client.read(object_path(resource, within, reference.name, "scale"))
        except NotFound:
            return None
        scale: Scale = read_as(answer, Scale)
        return scale if _is_meant(reference, scale.metadata) else None

    async def _resource(self, reference: OwnerReference) -> Resource | None:
        key = reference.api_version, reference.kind
        kind = self._kinds.setdefault(key, _Kind())
        keep_newest(self._kinds, _KINDS)
        async with kind.finding:  # a caller that asks for the same meanwhile finds the answer
            now = self._clock.now()
            if now >= kind.until:
                kind.resource = await scalable(self._client, *key)
                kind.until = math.inf if kind.resource is not None else now + _NO_SCALE_S
            return kind.resource


def kind_of(reference: OwnerReference) -> tuple[str, str]:
    """The API group and kind of an owner."""
    return reference.api_version.rpartition("/")[0], reference.kind


def _is_meant(reference: OwnerReference, found: ObjectMeta) -> bool:
    """Whether it is not another of the same name."""
    return reference.uid in ("", found.uid)


def _name(reference: OwnerReference, namespace: str) -> str:
    return f"{reference.kind}.{reference.api_version} {namespace}/{reference.name} {reference.uid}"
