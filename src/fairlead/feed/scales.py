"""How many pods custom owners of gangs want, read from their ``scale`` subresource.

Kinds that cannot be named beforehand cannot be watched, so they are read: an owner before its first pod is
reported, or part of a gang might pass for all of it; and again when its pods come and go or wait. The subtle
thing is that a user's webhook may hang behind a scale: pods are held back for it once, and briefly.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import Clock
from fairlead.engine.core.events import Event, Gone, Seen
from fairlead.engine.gangs.membership import MIN_MEMBER, membership_of
from fairlead.errors import ApiError, BadKubeconfig, BadObject, Unreachable
from fairlead.feed.owners import WATCHED, ScaleReader, kind_of
from fairlead.feed.references import is_valid, keep_newest
from fairlead.kube.meta import ObjectMeta, OwnerReference
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import Workload, WorkloadSpec

_log = structlog.get_logger(__name__)

_IN_FLIGHT = 16  # of one kind
_LOOK_S = 0.5
_PER_LOOK = 10  # reads a look: however many owners wait, the API server is not asked faster than this
_AGAIN_S = 2.0  # well within the time that a gang waits to settle
_REFUSED_S = 30.0  # until what was refused, or is not there, is asked for again
_KINDS = 1_000  # kinds that are remembered beside those of pods that are there
_PATIENCE_S = 5.0  # how long pods are held back for first answers, however many they wait for


@dataclass(slots=True)
class _Owner:
    """`due` is when to read it, `rests` until when not to, `told` what the core knows of it."""

    reference: OwnerReference
    namespace: str
    due: float = math.inf
    rests: float = math.inf  # for ever while it is being read
    told: Workload | None = None
    pods: dict[str, bool] = field(default_factory=dict)  # by name: whether it waits for a node

    @property
    def waits(self) -> bool:
        """Whether its size may matter: one of its pods waits, or it wants pods and has none."""
        return not self.pods or any(self.pods.values())

    @property
    def kind(self) -> str:
        """Its kind as reported to the core: two groups may have the same."""
        group, kind = kind_of(self.reference)
        return f"{kind}.{group}" if group else kind


@dataclass(slots=True, eq=False)
class _Kind:
    """A kind of owners. `silent`: the last read was not answered. Then only one is read at a time, and no
    pod waits for it.
    """

    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_IN_FLIGHT))
    silent: bool = False
    under_way: int = 0

    @property
    def busy(self) -> bool:
        """Whether no more should be asked for now."""
        return self.under_way >= (1 if self.silent else _IN_FLIGHT)


class Scales:
    """See the module. `ours` tells whether a pod is ours to place.

    Only reads. Cancelled, nothing is half-done.
    """

    def __init__(self, client: Client, ours: Callable[[Pod], bool], clock: Clock) -> None:
        self._reader = ScaleReader(client, clock)
        self._ours = ours
        self._clock = clock
        self._owners: dict[str, _Owner] = {}
        self._owner_of: dict[str, str] = {}  # pod → uid of its owner
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._most_kinds = _KINDS
        self._reported: dict[str, None] = {}
        self._some = asyncio.Event()

    async def before(self, events: Sequence[Event]) -> list[Event]:
        """Take note of what happens to pods; what must be reported to the core before it.

        What is not answered in time is asked for again by `run`.
        """
        new = self._note(events)
        if not new:
            return []
        self._some.set()
        deadline = _deadline()
        asked: list[_Owner] = []
        for owner in new:
            if self._kind(owner).silent:
                owner.due = owner.rests = self._clock.now()
            else:
                asked.append(owner)
        told = await asyncio.gather(*(self._read(owner, deadline) for owner in asked))
        return [event for events in told for event in events]

    def known(self) -> list[Event]:
        """What was read so far of all owners."""
        return [Seen(one.kind, one.told) for one in self._owners.values() if one.told is not None]

    async def run(self, tell: Callable[[list[Event]], Awaitable[None]]) -> None:
        """Read again what may have changed, for ever. Owners are read beside each other: one may hang."""

        async def again(owner: _Owner) -> None:
            if told := await self._read(owner, _deadline()):
                await tell(told)

        async with asyncio.TaskGroup() as group:
            while True:
                if not self._owners:
                    self._some.clear()
                    await self._some.wait()
                await asyncio.sleep(_LOOK_S)
                for owner in self._due():
                    group.create_task(again(owner))

    def _due(self) -> list[_Owner]:
        """The owners to read now."""
        now = self._clock.now()
        found: list[_Owner] = []
        begun: set[_Kind] = set()
        due = (one for one in self._owners.values() if one.due <= now)
        for owner in sorted(due, key=lambda one: one.due):
            kind = self._kind(owner)
            if kind.busy or (kind.silent and kind in begun):
                continue
            begun.add(kind)
            found.append(owner)
            if len(found) == _PER_LOOK:
                break
        return found

    def _note(self, events: Iterable[Event]) -> list[_Owner]:
        """Take note of pods; owners that were not known."""
        new: list[_Owner] = []
        for event in events:
            if isinstance(event, Gone):
                self._leave(f"{event.namespace}/{event.name}")
                continue
            pod = event.object if isinstance(event, Seen) else None
            if not isinstance(pod, Pod):
                continue
            reference, key = self._custom_owner(pod), pod.metadata.key
            if self._owner_of.get(key, "") != (reference.uid if reference else ""):
                self._leave(key)
            if reference is None:
                continue
            owner = self._owners.get(reference.uid)
            if owner is None:
                owner = self._owners[reference.uid] = _Owner(reference, pod.metadata.namespace)
                new.append(owner)
            elif key not in owner.pods:
                self._soon(owner)
            self._owner_of[key] = reference.uid
            owner.pods[key] = not (
                pod.spec.node_name or pod.terminal or pod.metadata.deletion_timestamp is not None
            )
        return new

    def _leave(self, pod: str) -> None:
        owner = self._owners.get(self._owner_of.pop(pod, ""))
        if owner is not None:
            owner.pods.pop(pod, None)
            self._soon(owner)

    def _soon(self, owner: _Owner) -> None:
        owner.due = min(owner.due, max(owner.rests, self._clock.now()))

    def _custom_owner(self, pod: Pod) -> OwnerReference | None:
        """The owner whose scale may tell how large the pod's gang is to become."""
        owner = pod.metadata.controller
        if owner is None or kind_of(owner) in WATCHED:
            return None
        if not owner.uid or MIN_MEMBER in pod.metadata.annotations or not is_valid(owner):
            return None
        if membership_of(pod.metadata, pod.spec) is None:
            return None
        return owner if self._ours(pod) else None

    async def _read(self, owner: _Owner, deadline: float) -> list[Event]:
        """Read an owner's scale, and plan when to read it again; what is to be reported to the core."""
        owner.due = owner.rests = math.inf
        kind, now, again_s, asked = self._kind(owner), owner.told, _AGAIN_S, False
        kind.under_way += 1
        try:
            async with asyncio.timeout_at(deadline), kind.slots:
                asked = True
                now = await self._scale(owner)
            kind.silent = False
            if now is None:
                again_s = _REFUSED_S
        except ApiError as error:
            kind.silent = error.code >= 500
            self._report(owner, str(error))
            again_s = _REFUSED_S
        except TimeoutError:
            if asked:
                kind.silent = True
                self._report(owner, "no answer in time")
                again_s = _REFUSED_S
        except (Unreachable, BadObject, BadKubeconfig) as error:
            _log.info("scale_not_read", owner=_name(owner), reason=str(error))
        finally:
            kind.under_way -= 1
        owner.rests = self._clock.now() + again_s
        if not owner.pods and (now is None or not now.spec.replicas):
            self._owners.pop(owner.reference.uid, None)  # no pod to wait for
            now = None
        elif owner.waits:
            owner.due = owner.rests
        before, owner.told = owner.told, now
        if now == before:
            return []
        if now is not None:
            return [Seen(owner.kind, now)]
        assert before is not None
        metadata = before.metadata
        return [Gone(owner.kind, metadata.namespace, metadata.name, metadata.uid)]

    async def _scale(self, owner: _Owner) -> Workload | None:
        """The owner with its desired replicas; None when it is gone or its kind has no such thing."""
        scale = await self._reader.read(owner.reference, owner.namespace)
        if scale is None:
            return None
        metadata = ObjectMeta(
            name=owner.reference.name,
            namespace=owner.namespace,
            uid=scale.metadata.uid,
            creation_timestamp=scale.metadata.creation_timestamp,
        )
        return Workload(metadata, WorkloadSpec(replicas=max(0, scale.spec.replicas)))

    def _kind(self, owner: _Owner) -> _Kind:
        key = _kind_of(owner)
        found = self._kinds.get(key)
        if found is None:
            self._forget_kinds()
            found = self._kinds[key] = _Kind()
        return found

    def _forget_kinds(self) -> None:
        """Users choose the names of kinds: drop those of which there are no pods, when there are many."""
        if len(self._kinds) < self._most_kinds:
            return
        used = {_kind_of(owner) for owner in self._owners.values()}
        self._kinds = {key: kind for key, kind in self._kinds.items() if key in used or kind.under_way}
        self._most_kinds = max(_KINDS, 2 * len(self._kinds))

    def _report(self, owner: _Owner, reason: str) -> None:
        """Once for a kind: without its scale the members that are there are counted."""
        if owner.kind not in self._reported:
            self._reported[owner.kind] = None
            keep_newest(self._reported, _KINDS)
            _log.warning(
                "scale_refused",
                owner=_name(owner),
                reason=reason,
                consequence="gangs of this kind's pods count the members that are there",
            )


def _kind_of(owner: _Owner) -> tuple[str, str]:
    return owner.reference.api_version, owner.reference.kind


def _name(owner: _Owner) -> str:
    return f"{owner.kind} {owner.namespace}/{owner.reference.name}"


def _deadline() -> float:
    return asyncio.get_running_loop().time() + _PATIENCE_S
