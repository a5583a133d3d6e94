"""Asks pods to leave for others: the victims of one unit in order, each only if it is still wanted.

N evictions are not one transaction. So budgets are looked at for the whole set before the first, the
core is asked again just before each, and a refusal midway stops the rest: the core plans again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.doors.scheduler.lane import Lane
from fairlead.engine.core.actions import EvictPod, ReleasePod
from fairlead.engine.core.events import Event, EvictFailed, Gone
from fairlead.errors import ApiError, Conflict, NotFound, Unreachable
from fairlead.kube.resources import known
from fairlead.kube.workloads import PodDisruptionBudget

__all__ = ["Evictor"]

_log = structlog.get_logger(__name__)

_POD = known("Pod")
_TWO_BUDGETS = "more than one PodDisruptionBudget"


class Refused(Protocol):
    """Hears of an eviction that was refused, and whether for good."""

    def __call__(self, evict: EvictPod, message: str, *, final: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class _Victims:
    evictions: tuple[EvictPod, ...]


class Evictor:
    """See the module.

    `confirms` asks the core whether an eviction is still wanted, `budgets` which budgets protect a
    victim, `allowed` how many more pods a budget lets go once all that was asked for is done.
    """

    def __init__(
        self,
        client: Client,
        *,
        how: Literal["api", "delete"],
        confirms: Callable[[EvictPod], bool],
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
        self._confirms = confirms
        self._budgets = budgets
        self._allowed = allowed
        self._respect = respect
        self._tell = tell
        self._done = done
        self._refused = refused
        self._clock = clock
        self._lane: Lane[_Victims | ReleasePod] = Lane(self._work, workers)
        self.run = self._lane.run
        self.idle = self._lane.idle

    def __len__(self) -> int:
        return len(self._lane)

    def put(self, evictions: Iterable[EvictPod]) -> None:
        """Evict what one call of the core asked for."""
        by_unit: dict[str, list[EvictPod]] = {}
        for evict in evictions:
            by_unit.setdefault(evict.unit_id, []).append(evict)
        for victims in by_unit.values():
            self._lane.put(_Victims(tuple(victims)))

    def release(self, release: ReleasePod) -> None:
        """Let a member of a gang go that could not be completed."""
        self._lane.put(release)

    async def _work(self, job: _Victims | ReleasePod) -> None:
        if isinstance(job, ReleasePod):
            await self._release(job)
            return
        refused = self._refused_beforehand(job.evictions)
        if refused is not None:
            first, message, final = refused
            self._refuse(job.evictions, first, message, final=final)
            return
        for index, evict in enumerate(job.evictions):
            if not self._confirms(evict):
                # The core has planned otherwise meanwhile, or will: what is left is not wanted.
                self._refuse(job.evictions[index:], evict, "not wanted any more", final=False)
                return
            failure = await self._evict(evict)
            if failure is not None:
                message, final = failure
                self._refuse(job.evictions[index:], evict, message, final=final)
                return

    def _refused_beforehand(self, evictions: Iterable[EvictPod]) -> tuple[EvictPod, str, bool] | None:
        """Whether budgets stand against the whole set: (victim, why, whether for good)."""
        if self._how != "api":
            return None
        for evict in evictions:
            budgets = tuple(self._budgets(evict))
            if len(budgets) > 1:
                # The eviction API answers such a pod with an error for ever.
                names = ", ".join(budget.metadata.name for budget in budgets)
                return evict, f"the pod has {_TWO_BUDGETS}: {names}", True
            if self._respect and any(self._allowed(budget) < 0 for budget in budgets):
                return evict, f"PodDisruptionBudget {budgets[0].metadata.name} does not allow it now", False
        return None

    async def _evict(self, evict: EvictPod) -> tuple[str, bool] | None:
        """Send one eviction; (why, for good) when it was refused."""
        namespace, _, name = evict.pod.partition("/")
        try:
            await self._mark(evict)
            if not self._confirms(evict):
                return "not wanted any more", False
            if self._how == "api":
                await self._client.evict(name, namespace, uid=evict.uid)
            else:
                await self._client.delete(_POD, name, namespace, uid=evict.uid)
        except (NotFound, Conflict):
            # Gone, or another pod of that name: this one has left.
            self._tell(Gone("Pod", namespace, name, evict.uid))
            return None
        except ApiError as error:
            final = error.code == 500 and _TWO_BUDGETS in error.message
            return error.message, final
        except Unreachable as error:
            # It may have been applied: the watch will show the pod leaving, or it is asked for again.
            return str(error), False
        self._done(evict)
        return None

    async def _mark(self, evict: EvictPod) -> None:
        """Write the condition by which Jobs and people tell a disruption from a failure."""
        namespace, _, name = evict.pod.partition("/")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": evict.message,
            "lastProbeTime": None,
            "lastTransitionTime": self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        body = {"metadata": {"uid": evict.uid}, "status": {"conditions": [condition]}}
        await self._client.patch(
            _POD, name, namespace, body, how="strategic", subresource="status", repeatable=True
        )

    async def _release(self, release: ReleasePod) -> None:
        namespace, _, name = release.pod.partition("/")
        try:
            await self._client.delete(_POD, name, namespace, uid=release.uid)
        except (NotFound, Conflict):
            self._tell(Gone("Pod", namespace, name, release.uid))
        except (ApiError, Unreachable) as error:
            _log.warning("release_failed", pod=release.pod, unit=release.unit, reason=str(error))

    def _refuse(self, evictions: Iterable[EvictPod], refused: EvictPod, message: str, *, final: bool) -> None:
        """Tell the core of all that were not done; only the refused one may be refused for good."""
        self._refused(refused, message, final=final)
        for evict in evictions:
            self._tell(EvictFailed(evict.pod, evict.uid, message, final=final and evict is refused))
