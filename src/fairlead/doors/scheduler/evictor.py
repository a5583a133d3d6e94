"""Asks pods to leave for others: the victims of one unit in order, each only if it is still wanted.

N evictions are not one transaction. So budgets are looked at for the whole set before the first, the core is
asked again just before each, and a refusal midway stops the rest: the core plans again. A gang that leaves
whole is announced first, by a mark on each member: whichever scheduler leads next finishes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from weakref import WeakValueDictionary

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.retry import Backoff
from fairlead.doors.scheduler.lane import Lane
from fairlead.engine import evicted
from fairlead.engine.core.actions import EvictPod, ReleasePod, SparePod
from fairlead.engine.core.events import Event, EvictFailed, Gone
from fairlead.errors import ApiError, Conflict, Invalid, NotFound, Unreachable
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known
from fairlead.kube.workloads import PodDisruptionBudget

__all__ = ["Evictor"]

_log = structlog.get_logger(__name__)

_POD = known("Pod")
_TWO_BUDGETS = "more than one PodDisruptionBudget"


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a write about a victim failed: for good or for now, and whether it may have been applied."""

    message: str
    final: bool = False
    unknown: bool = False


_NOT_WANTED = _Failure("not wanted any more")


class Confirms(Protocol):
    """Asks the core whether an eviction is still wanted; `sending`: it is sent at once if so."""

    def __call__(self, evict: EvictPod, *, sending: bool = False) -> bool: ...


class Refused(Protocol):
    """Hears of an eviction that was refused, and whether for good."""

    def __call__(self, evict: EvictPod, message: str, *, final: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class _Victims:
    evictions: tuple[EvictPod, ...]


@dataclass(frozen=True, slots=True)
class _Released:
    members: tuple[ReleasePod, ...]


class Evictor:
    """See the module.

    `between_turns` waits until the core is not in the middle of a turn; only then it is asked.
    `confirms` asks the core whether an eviction is still wanted, `is_spared` whether a mark is still to be
    taken back, `budgets` which budgets protect a victim, `allowed` how many more pods a budget lets go once
    all that was asked for is done.
    """

    def __init__(
        self,
        client: Client,
        *,
        how: Literal["api", "delete"],
        between_turns: Callable[[], Awaitable[None]],
        confirms: Confirms,
        is_spared: Callable[[str], bool],
        budgets: Callable[[EvictPod], Iterable[PodDisruptionBudget]],
        allowed: Callable[[PodDisruptionBudget], int],
        respect: bool,
        tell: Callable[[Event], None],
        done: Callable[[EvictPod], None],
        refused: Refused,
        workers: int = 16,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self._client = client
        self._how = how
        self._between_turns = between_turns
        self._confirms = confirms
        self._is_spared = is_spared
        self._budgets = budgets
        self._allowed = allowed
        self._respect = respect
        self._tell = tell
        self._done = done
        self._refused = refused
        self._clock = clock
        self._marks_at_once = asyncio.Semaphore(workers)
        self._marking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by the pod's UID
        self._lane: Lane[_Victims | _Released | SparePod] = Lane(self._work, workers)
        self.run = self._lane.run
        self.idle = self._lane.idle

    def __len__(self) -> int:
        return len(self._lane)

    def put(self, evictions: Iterable[EvictPod]) -> None:
        """Evict what one call of the core asked for."""
        by_unit: dict[str, list[EvictPod]] = {}
        for evict in evictions:
            by_unit.setdefault(evict.unit_id or f"gang:{evict.gang}", []).append(evict)
        for victims in by_unit.values():
            self._lane.put(_Victims(tuple(victims)))

    def release(self, releases: Iterable[ReleasePod]) -> None:
        """Let members of gangs go that could not be completed."""
        by_gang: dict[str, list[ReleasePod]] = {}
        for release in releases:
            by_gang.setdefault(release.gang, []).append(release)
        for members in by_gang.values():
            self._lane.put(_Released(tuple(members)))

    def spare(self, spare: SparePod) -> None:
        """Take back the mark on a pod whose gang stays."""
        self._lane.put(spare)

    async def _work(self, job: _Victims | _Released | SparePod) -> None:
        match job:
            case _Victims():
                await self._evict_all(job.evictions)
            case _Released():
                await self._release(job.members)
            case SparePod():
                await self._unmark(job)

    async def _evict_all(self, evictions: tuple[EvictPod, ...]) -> None:
        await self._between_turns()
        refused = self._refused_beforehand(evictions)
        if refused is not None:
            self._refuse(evictions, *refused)
            return
        parts = _parts(evictions)
        for index, part in enumerate(parts):
            if await self._evict_part(part):
                continue
            # The core has planned otherwise meanwhile, or will: what is left is not wanted for now.
            for evict in (evict for later in parts[index + 1 :] for evict in later):
                self._tell(EvictFailed(evict.pod, evict.uid, "another eviction was refused"))
            return

    async def _evict_part(self, part: tuple[EvictPod, ...]) -> bool:
        """Evict one pod, or a gang that leaves whole; whether all of it was done.

        Every member of a gang is marked before the first is evicted. Once that one was sent, the others
        follow even if one of them is refused: the core asks for that one again.
        """
        first = part[0]
        await self._between_turns()
        # The members of a gang are wanted gone together: one question is enough for all of them.
        failure = await self._announce(part) if self._confirms(first) else _NOT_WANTED
        if failure is not None:
            self._refuse(part, first, failure)
            return False
        done = True
        for index, evict in enumerate(part):
            failure = await self._evict(evict)
            if failure is None:
                continue
            done = False
            if not index:
                self._refuse(part, evict, failure)
                break
            self._refuse((evict,), evict, failure)
        return done

    def _refused_beforehand(self, evictions: Iterable[EvictPod]) -> tuple[EvictPod, _Failure] | None:
        """The victim that a budget protects, so that the whole set stays, and why."""
        if self._how != "api":
            return None
        for evict in evictions:
            budgets = tuple(self._budgets(evict))
            if len(budgets) > 1:
                # The eviction API answers such a pod with an error for ever.
                names = ", ".join(budget.metadata.name for budget in budgets)
                return evict, _Failure(f"the pod has {_TWO_BUDGETS}: {names}", final=True)
            if self._respect and any(self._allowed(budget) < 0 for budget in budgets):
                name = budgets[0].metadata.name
                return evict, _Failure(f"PodDisruptionBudget {name} does not allow it now")
        return None

    async def _announce(self, part: Sequence[EvictPod | ReleasePod]) -> _Failure | None:
        """Mark all victims of a part; what failed, if one could not be marked."""

        async def mark(evict: EvictPod | ReleasePod) -> _Failure | None:
            async with self._marks_at_once:
                return await self._attempt(evict, self._mark(evict))

        failures = await asyncio.gather(*map(mark, part))
        return next((failure for failure in failures if failure is not None), None)

    async def _evict(self, evict: EvictPod) -> _Failure | None:
        """Send one eviction; what failed, if it was refused."""
        await self._between_turns()
        if not self._confirms(evict, sending=True):
            return _NOT_WANTED
        return await self._attempt(evict, self._send(evict))

    async def _send(self, evict: EvictPod) -> None:
        namespace, _, name = evict.pod.partition("/")
        if self._how == "api":
            await self._client.evict(name, namespace, uid=evict.uid)
        else:
            await self._client.delete(_POD, name, namespace, uid=evict.uid)
        self._done(evict)

    async def _attempt(
        self, evict: EvictPod | ReleasePod, write: Coroutine[None, None, None]
    ) -> _Failure | None:
        """Carry out a write about a victim; what failed, if it was refused."""
        namespace, _, name = evict.pod.partition("/")
        try:
            await write
        except (NotFound, Conflict):
            # Gone, or another pod of that name: this one has left.
            self._tell(Gone("Pod", namespace, name, evict.uid))
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
            await self._write_conditions(evict.pod, evict.uid, conditions)

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
        namespace, _, name = spare.pod.partition("/")
        pod = await self._client.get(_POD, name, namespace, kind=Pod)
        if pod.metadata.uid != spare.uid or not evicted.with_its_gang(pod):
            return
        if not await self._is_still_spared(spare.uid):
            return
        conditions = [
            self._condition(kind, "False", "Spared", "the eviction of the pod's gang was taken back")
            for kind in ("DisruptionTarget", evicted.CONDITION)
        ]
        await self._write_conditions(
            spare.pod, spare.uid, conditions, resource_version=pod.metadata.resource_version
        )

    def _marks_of(self, uid: str) -> asyncio.Lock:
        """Held while marks of a pod are written.

        A mark that is made again within the second is the same to the byte: no resourceVersion tells it from
        the one that is being taken back.
        """
        lock = self._marking.get(uid)
        if lock is None:
            lock = self._marking[uid] = asyncio.Lock()
        return lock

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
        self, pod: str, uid: str, conditions: list[dict[str, Any]], *, resource_version: str = ""
    ) -> None:
        namespace, _, name = pod.partition("/")
        metadata = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        body = {"metadata": metadata, "status": {"conditions": conditions}}
        await self._client.patch(
            _POD, name, namespace, body, how="strategic", subresource="status", repeatable=True
        )

    async def _release(self, members: tuple[ReleasePod, ...]) -> None:
        failure = await self._announce(members)
        for release in members:
            namespace, _, name = release.pod.partition("/")
            refused = failure or await self._attempt(
                release, self._client.delete(_POD, name, namespace, uid=release.uid)
            )
            if refused is not None:
                _log.warning("release_failed", pod=release.pod, unit=release.unit, reason=refused.message)
                # Others of the gang may have left: it is finished, with an eviction.
                self._tell(EvictFailed(release.pod, release.uid, refused.message, unknown=True))

    def _refuse(self, evictions: Iterable[EvictPod], refused: EvictPod, failure: _Failure) -> None:
        """Tell the core of all that were not done; only the refused one may be refused for good."""
        self._refused(refused, failure.message, final=failure.final)
        for evict in evictions:
            final = failure.final and evict is refused
            self._tell(
                EvictFailed(evict.pod, evict.uid, failure.message, final=final, unknown=failure.unknown)
            )


def _parts(evictions: tuple[EvictPod, ...]) -> list[tuple[EvictPod, ...]]:
    """What is evicted together: the members of a gang that leaves whole, every other pod by itself."""
    parts: dict[str, list[EvictPod]] = {}
    for evict in evictions:
        parts.setdefault(f"gang:{evict.gang}" if evict.gang else f"pod:{evict.uid}", []).append(evict)
    return [tuple(part) for part in parts.values()]
