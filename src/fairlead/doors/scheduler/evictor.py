"""Asks pods to leave for others: the victims of one unit in order, each only if it is still wanted.

N evictions are not one transaction. So budgets are looked at for the whole set before the first, the core is
asked again just before each, and a refusal midway stops the rest: the core plans again. A gang that leaves
whole is announced first, by a mark on each member: whichever scheduler leads next finishes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar
from weakref import WeakValueDictionary

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.retry import Backoff
from fairlead.doors.scheduler.lane import Lane
from fairlead.engine.core.actions import EvictPod, ReleasePod, SparePod
from fairlead.engine.core.core import Protected
from fairlead.engine.core.events import Event, EvictFailed, Gone
from fairlead.engine.snapshot import evicted
from fairlead.errors import ApiError, Conflict, Invalid, NotFound, Unreachable
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known

_log = structlog.get_logger(__name__)

T = TypeVar("T")

_POD = known("Pod")
_TWO_BUDGETS = "more than one PodDisruptionBudget"


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a write about a victim failed: for good or for now, and whether it may have been applied."""

    message: str
    final: bool = False
    unknown: bool = False


_NOT_WANTED = _Failure("not wanted any more")


class Evictor:
    """See the module.

    `between_turns` waits until the core is not in the middle of a turn; only then it is asked.
    `confirms` asks the core whether an eviction is still wanted, and is going to be sent at once; `is_spared`
    whether a mark is still to be taken back, `protected` which victim of a set its budgets keep. `refused`
    receives an eviction that was refused, why, and whether for good.
    """

    def __init__(
        self,
        client: Client,
        *,
        how: Literal["api", "delete"],
        between_turns: Callable[[], Awaitable[None]],
        confirms: Callable[[EvictPod, bool], bool],
        is_spared: Callable[[str], bool],
        protected: Callable[[Iterable[EvictPod]], Protected | None],
        tell: Callable[[Event], None],
        done: Callable[[EvictPod], None],
        refused: Callable[[EvictPod, str, bool], None],
        workers: int = 16,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self._client = client
        self._how = how
        self._between_turns = between_turns
        self._confirms = confirms
        self._is_spared = is_spared
        self._protected = protected
        self._tell = tell
        self._done = done
        self._refused = refused
        self._clock = clock
        self._marks_at_once = asyncio.Semaphore(workers)
        self._marking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by the pod's UID
        self._lane: Lane[Callable[[], Awaitable[None]]] = Lane(lambda work: work(), workers)
        self.run = self._lane.run
        self.idle = self._lane.idle

    def __len__(self) -> int:
        return len(self._lane)

    def put(self, evictions: Iterable[EvictPod]) -> None:
        """Evict what one call of the core asked for."""
        for victims in _grouped(evictions, lambda evict: evict.unit_id or f"gang:{evict.gang}"):
            self._lane.put(partial(self._evict_all, victims))

    def release(self, releases: Iterable[ReleasePod]) -> None:
        """Let members of gangs go that could not be completed."""
        for members in _grouped(releases, lambda release: release.gang):
            self._lane.put(partial(self._release, members))

    def spare(self, spare: SparePod) -> None:
        """Take back the mark on a pod whose gang stays."""
        self._lane.put(partial(self._unmark, spare))

    async def _evict_all(self, evictions: tuple[EvictPod, ...]) -> None:
        await self._between_turns()
        protected = self._protected(evictions) if self._how == "api" else None
        if protected is not None:
            self._refuse(evictions, protected.evict, _kept_by(protected.budgets))
            return
        # The members of a gang that leaves whole together, every other pod by itself.
        parts = _grouped(evictions, lambda evict: f"gang:{evict.gang}" if evict.gang else f"pod:{evict.uid}")
        goes_on = True
        for part in parts:
            if goes_on:
                goes_on = await self._evict_part(part)
                continue
            # The core has planned otherwise meanwhile, or will: what is left is not wanted for now.
            for evict in part:
                self._tell(EvictFailed(evict.pod, evict.uid, "another eviction was refused"))

    async def _evict_part(self, part: tuple[EvictPod, ...]) -> bool:
        """Evict one pod, or a gang that leaves whole; whether all of it was done.

        Every member of a gang is marked before the first is evicted. Once that one was sent, the others
        follow even if one of them is refused: the core asks for that one again.
        """
        first = part[0]
        await self._between_turns()
        # The members of a gang are wanted gone together: one question is enough for all of them.
        failure = await self._announce(part) if self._confirms(first, False) else _NOT_WANTED
        if failure is not None:
            self._refuse(part, first, failure)
            return False
        done = True
        for index, evict in enumerate(part):
            failure = await self._evict(evict)
            if failure is not None:
                done = False
                self._refuse((evict,) if index else part, evict, failure)
                if not index:
                    break
        return done

    async def _announce(self, part: Sequence[EvictPod | ReleasePod]) -> _Failure | None:
        """Mark all victims of a part; what failed, if one could not be marked."""

        async def mark(evict: EvictPod | ReleasePod) -> _Failure | None:
            async with self._marks_at_once:
                return await self._attempt(evict, self._mark(evict))

        return next(filter(None, await asyncio.gather(*map(mark, part))), None)

    async def _evict(self, evict: EvictPod) -> _Failure | None:
        """Send one eviction; what failed, if it was refused."""
        await self._between_turns()
        if not self._confirms(evict, True):
            return _NOT_WANTED
        return await self._attempt(evict, self._send(evict))

    async def _send(self, evict: EvictPod) -> None:
        if self._how == "api":
            await self._client.evict(evict.name, evict.namespace, uid=evict.uid)
        else:
            await self._delete(evict)
        self._done(evict)

    async def _delete(self, pod: EvictPod | ReleasePod) -> None:
        await self._client.delete(_POD, pod.name, pod.namespace, uid=pod.uid)

    async def _attempt(
        self, evict: EvictPod | ReleasePod, write: Coroutine[None, None, None]
    ) -> _Failure | None:
        """Carry out a write about a victim; what failed, if it was refused."""
        try:
            await write
        except (NotFound, Conflict):
            # Gone, or another pod of that name: this one has left.
            self._tell(Gone("Pod", evict.namespace, evict.name, evict.uid))
        except ApiError as error:
            return _Failure(error.message, final=error.code == 500 and _TWO_BUDGETS in error.message)
        except Unreachable as error:
            # It may have been applied: the watch will show the pod leaving, or it is asked for again.
            return _Failure(str(error), unknown=True)
        return None

    async def _mark(self, evict: EvictPod | ReleasePod) -> None:
        """Write the conditions by which Jobs and people tell a disruption from a failure, and by which
        another scheduler knows what was decided.
        """
        reason = evicted.GANG if evict.gang else evicted.POD
        if isinstance(evict, ReleasePod):
            reason = evicted.RELEASE
        conditions = [
            self._condition("DisruptionTarget", "True", "PreemptionByScheduler", evict.message),
            self._condition(evicted.CONDITION, "True", reason, evict.message),
        ]
        async with self._marks_of(evict.uid):
            await self._write_conditions(evict, conditions)

    async def _unmark(self, spare: SparePod) -> None:
        """Take the marks back, unless the gang is evicted again by now; tried until it is done.

        Only the marks that were read are taken back: whatever is written meanwhile, by this process or
        another, makes the write a Conflict, and the pod is read again.
        """
        backoff = Backoff(self._client.rng)
        while await self._is_still_spared(spare.uid):
            try:
                async with self._marks_of(spare.uid):
                    await self._take_back(spare)
                return
            except (NotFound, Invalid):
                return  # gone, or another pod of that name
            except (ApiError, Unreachable) as error:
                if not isinstance(error, Conflict):
                    _log.info("unmark_delayed", pod=spare.pod, reason=str(error))
                await asyncio.sleep(backoff.next_s())

    async def _take_back(self, spare: SparePod) -> None:
        pod = await self._client.get(_POD, spare.name, spare.namespace, kind=Pod)
        if pod.metadata.uid != spare.uid or not evicted.with_its_gang(pod):
            return
        if not await self._is_still_spared(spare.uid):
            return
        conditions = [
            self._condition(kind, "False", "Spared", "the eviction of the pod's gang was taken back")
            for kind in ("DisruptionTarget", evicted.CONDITION)
        ]
        await self._write_conditions(spare, conditions, resourceVersion=pod.metadata.resource_version)

    def _marks_of(self, uid: str) -> asyncio.Lock:
        """Held while marks of a pod are written.

        A mark that is made again within the second is the same to the byte: no resourceVersion tells it from
        the one that is being taken back.
        """
        return self._marking.setdefault(uid, asyncio.Lock())

    async def _is_still_spared(self, uid: str) -> bool:
        await self._between_turns()
        return self._is_spared(uid)

    def _condition(self, kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
        return {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    async def _write_conditions(
        self, about: EvictPod | ReleasePod | SparePod, conditions: list[dict[str, Any]], **read: str
    ) -> None:
        body = {"metadata": {"uid": about.uid, **read}, "status": {"conditions": conditions}}
        await self._client.patch(
            _POD, about.name, about.namespace, body, how="strategic", subresource="status", repeatable=True
        )

    async def _release(self, members: tuple[ReleasePod, ...]) -> None:
        failure = await self._announce(members)
        for release in members:
            refused = failure or await self._attempt(release, self._delete(release))
            if refused is not None:
                _log.warning("release_failed", pod=release.pod, unit=release.unit, reason=refused.message)
                # Others of the gang may have left: it is finished, with an eviction.
                self._tell(EvictFailed(release.pod, release.uid, refused.message, unknown=True))

    def _refuse(self, evictions: Iterable[EvictPod], refused: EvictPod, failure: _Failure) -> None:
        """Tell the core of all that were not done; only the refused one may be refused for good."""
        self._refused(refused, failure.message, failure.final)
        for evict in evictions:
            final = failure.final and evict is refused
            self._tell(
                EvictFailed(evict.pod, evict.uid, failure.message, final=final, unknown=failure.unknown)
            )


def _kept_by(budgets: Sequence[str]) -> _Failure:
    names = ", ".join(budgets)
    if len(budgets) > 1:
        # The eviction API answers such a pod with an error for ever.
        return _Failure(f"the pod has {_TWO_BUDGETS}: {names}", final=True)
    return _Failure(f"PodDisruptionBudget {names} does not allow it now")


def _grouped(actions: Iterable[T], key: Callable[[T], str]) -> list[tuple[T, ...]]:
    """What has the same key together, in the order in which it first came."""
    found: dict[str, list[T]] = {}
    for action in actions:
        found.setdefault(key(action), []).append(action)
    return [tuple(group) for group in found.values()]
