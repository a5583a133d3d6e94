"""One life of the core: list, watch, wait for the lead, decide, write.

Nothing is decided before everything is listed and we lead; until then what is watched is only kept, and
nothing that writes runs. Then each turn takes all that has happened, asks the core once, and hands its
answers to the lanes that write. Two things are subtle. Who owns what: the core alone holds the state; lanes
only carry, and what they find out comes back through the inbox like anything else. And a long turn lets
others run (the lease, probes, admission in the same process), so who asks the core waits until it is over.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.events import EventLane
from fairlead.doors.failures import worst
from fairlead.doors.scheduler.binder import Binder
from fairlead.doors.scheduler.configuration import Configuration
from fairlead.doors.scheduler.drift import Drift, Drifted
from fairlead.doors.scheduler.evictor import Evictor
from fairlead.doors.scheduler.herald import Herald
from fairlead.doors.scheduler.inbox import Inbox, Latest
from fairlead.doors.scheduler.metrics import Metrics
from fairlead.doors.scheduler.recording import Recorder
from fairlead.doors.scheduler.reporting import Reporting
from fairlead.doors.scheduler.scales import Scales
from fairlead.doors.scheduler.sources import Source, trimmed
from fairlead.doors.scheduler.statuses import Statuses
from fairlead.doors.scheduler.tiers import TierFeed, Tiering
from fairlead.doors.scheduler.volumes import Volumes
from fairlead.doors.scheduler.watching import Watching
from fairlead.engine.core.actions import (
    Action,
    BindPod,
    EvictPod,
    HoldPod,
    MarkTiers,
    NominatePod,
    ReleasePod,
    Say,
    SparePod,
)
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import Event, Seen
from fairlead.engine.steps import Steps
from fairlead.errors import LeaseLost
from fairlead.kube.duration import seconds
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known
from fairlead.kube.workloads import PodDisruptionBudget

__all__ = ["WORK_AT_ONCE", "InternalError", "Session"]

_log = structlog.get_logger(__name__)

T = TypeVar("T")

_DRAIN_S = 10.0  # how long a hand-over waits for writes under way
# How much work, in events, is done before others have their turn: some tens of milliseconds.
WORK_AT_ONCE = 500
_VOLUME_KINDS = frozenset(("PersistentVolumeClaim", "PersistentVolume"))
_PODS = Source("Pod", known("Pod"), Pod, lambda _: None)


class InternalError(Exception):
    """The core raised: a defect of ours. What it knew is not to be trusted, so everything is listed anew."""


class Session:
    """See the module. Runs once. Cancelled, writes under way may or may not have been applied."""

    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        metrics: Metrics,
        *,
        rng: random.Random,
        recording: Callable[[], Recorder | None] = lambda: None,
        instance: str = "",
        tiers: TierFeed | None = None,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        """`tiers` are the placement policies to go by; None: there are none."""
        self.core = Core(configuration.settings())
        self.synced = False  # whether the core has been told everything
        self._recording = recording
        self._recorder: Recorder | None = None
        self._clock = clock
        self._metrics = metrics
        self._inbox = Inbox()
        self._tiering = (
            Tiering(tiers, client, self._inbox.tell, rng=rng, clock=clock) if tiers is not None else None
        )
        state = self.core.state
        self._watching = Watching(
            client,
            self._inbox,
            Scales(client, state.ours, clock),
            settle_s=seconds(configuration.drift.settle),
            rng=rng,
            clock=clock,
        )
        self._volumes = Volumes(client, state.snapshot.storage)
        self._statuses = Statuses(client, state.pending.get, clock=clock)
        lane = EventLane(
            client, component=configuration.scheduler_names[0], instance=instance, rng=rng, clock=clock
        )
        self._herald = Herald(lane, lambda: self._binder.backlog > 0, clock)
        self._reporting = Reporting(self.core, self._herald, metrics, clock)
        self._binder = Binder(
            client,
            self._volumes,
            self._statuses,
            tell=self._inbox.tell,
            done=self._reporting.bound,
            trim=lambda pod: cast(Pod, trimmed(_PODS, pod)),
            in_flight=configuration.in_flight,
            clock=clock,
        )
        self.drift = Drift(
            self._watching,
            self.core,
            self._inbox,
            metrics,
            interval_s=seconds(configuration.drift.interval),
            tolerated=configuration.drift.tolerated,
            rng=rng,
        )
        self._evictor = Evictor(
            client,
            how=configuration.preemption.evict,
            between_turns=self._inbox.between_turns,
            confirms=self._confirms,
            is_spared=self.core.spares,
            budgets=self._budgets_of,
            allowed=state.budgets.allowed,
            respect=configuration.preemption.pdb == "respect",
            tell=self._inbox.tell,
            done=self._reporting.evicted,
            refused=self._reporting.refused,
            clock=clock,
        )

    def checks(self, *, leads: bool) -> dict[str, str]:
        """What must hold for it to be ready, by name: "" or what is wrong."""
        missing = self._watching.unlisted()
        found = {"caches": f"not listed yet: {', '.join(missing)}" if missing else ""}
        if leads:
            found["core"] = "" if self.synced else "the leader has not begun to plan"
        return found

    async def run(self, stopping: asyncio.Event, leads: asyncio.Event) -> None:
        """Watch at once, schedule from when `leads` is set until `stopping` is set; then finish what is
        under way and return.

        Raises LeaseLost when the fence refuses a write, InternalError when the core fails, Drifted when
        too much of what it knows is not so.
        """
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._watching.run())]
                if self._tiering is not None:
                    tasks.append(group.create_task(self._tiering.listen()))
                tasks += [group.create_task(self._knock_when(event)) for event in (stopping, leads)]
                known = await self._stand_by(stopping, leads)
                if known is not None:
                    known = self._tiers_first(known)
                    writers = (self._binder, self._evictor, self._statuses, self._herald, self._tiering)
                    tasks += [group.create_task(part.run()) for part in writers if part is not None]
                    tasks.append(group.create_task(self.drift.run()))
                    await self._lead(known, stopping)
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as several:
            raise worst(several, LeaseLost, InternalError, Drifted) from several
        finally:
            self._metrics.watch(None)
            if self._recorder is not None:
                self._recorder.close()

    async def _knock_when(self, event: asyncio.Event) -> None:
        await event.wait()
        self._inbox.knock()

    async def _synced(self) -> None:
        await self._watching.synced()
        if self._tiering is not None:
            await self._tiering.synced()

    async def _stand_by(self, stopping: asyncio.Event, leads: asyncio.Event) -> list[Event] | None:
        """Keep what is watched until everything is listed and we lead: all of it; None: told to stop."""
        latest = Latest()
        gc.unfreeze()  # what a former session left may go
        gc.collect()
        waiting = asyncio.ensure_future(self._synced())
        waiting.add_done_callback(lambda _: self._inbox.knock())
        try:
            with _loading():
                while not (waiting.done() or stopping.is_set()):
                    await self._inbox.wait(None)
                    latest.take(self._inbox.take())
            if waiting.done():
                waiting.result()
        finally:
            waiting.cancel()
        if not (leads.is_set() or stopping.is_set()):
            _log.info("standing_by", objects=len(latest))
        while not (leads.is_set() or stopping.is_set()):
            await self._inbox.wait(None)
            latest.take(self._inbox.take())
        return None if stopping.is_set() else latest.all()

    def _tiers_first(self, known: list[Event]) -> list[Event]:
        return known if self._tiering is None else [*self._tiering.news(), *known]

    async def _lead(self, known: list[Event], stopping: asyncio.Event) -> None:
        """Tell the core all that is known at once, so that order counts, and go on from there."""
        self._recorder = self._recording()
        self._metrics.watch(self.core, self._writes)
        with _loading():
            await self._turn(known)
        self.synced = True
        _log.info("synced", objects=len(known), pending=len(self.core.state.pending))
        known.clear()  # the core has it now
        while not stopping.is_set():
            await self._turn(self._inbox.take())
            if self._recorder is not None and self._recorder.full:
                stopping.set()  # the next segment is the next session's
            # Let others run between turns, so that a flood of events cannot starve the writes.
            await asyncio.sleep(0)
            await self._inbox.wait(self._until_wake())
        await self._drain()

    def _until_wake(self) -> float | None:
        at = self.core.wake_at
        return None if at is None else max(0.0, at - self._wall())

    def _wall(self) -> float:
        return self._clock.wall().timestamp()

    async def _turn(self, events: list[Event]) -> None:
        """Ask the core and hand on what it answers, letting others run meanwhile."""
        began, wall = self._clock.now(), self._wall()
        try:
            actions = await _in_steps(self.core.turn(events, wall))
        except Exception as error:
            raise InternalError(f"the core failed: {error!r}") from error
        took_s = self._clock.now() - began
        if self._recorder is not None:
            self._recorder.turn(wall, events, actions)
        # Reported before it is handed on: a bind that is done at once is counted from when its pod was seen.
        await _in_steps(self._reporting.turn(events, actions, took_s))
        await _in_steps(self._carry(actions, began))
        if any(isinstance(event, Seen) and event.kind in _VOLUME_KINDS for event in events):
            self._volumes.changed()
        self._inbox.settle()

    def _carry(self, actions: Sequence[Action], decided_at: float) -> Steps[None]:
        evictions: list[EvictPod] = []
        releases: list[ReleasePod] = []
        for action in actions:
            yield 1
            if isinstance(action, BindPod):
                placed = self.core.state.snapshot.placed(action.pod)
                self._binder.put(action, self._volumes.wanted(placed), decided_at)
            elif isinstance(action, HoldPod):
                self._statuses.hold(action)
            elif isinstance(action, NominatePod):
                self._statuses.nominate(action)
            elif isinstance(action, EvictPod):
                evictions.append(action)
            elif isinstance(action, ReleasePod):
                releases.append(action)
            elif isinstance(action, SparePod):
                self._evictor.spare(action)
            elif isinstance(action, MarkTiers):
                if self._tiering is not None:
                    self._tiering.put(action)
            else:
                assert isinstance(action, Say)
        self._evictor.put(evictions)
        self._evictor.release(releases)

    def _confirms(self, evict: EvictPod, *, sending: bool = False) -> bool:
        answer = self.core.confirms(evict, sending=sending)
        if self._recorder is not None:
            self._recorder.asked(evict, answer, sending=sending)
        return answer

    def _budgets_of(self, evict: EvictPod) -> tuple[PodDisruptionBudget, ...]:
        placed = self.core.state.snapshot.placed(evict.pod)
        return self.core.state.budgets.of(placed.pod) if placed is not None else ()

    def _writes(self) -> int:
        parts = (self._binder, self._evictor, self._statuses, self._herald, self._tiering)
        return sum(len(part) for part in parts if part is not None)

    async def _drain(self) -> None:
        """Finish what is under way, as far as there is time: the next leader takes it from there."""
        try:
            async with asyncio.timeout(_DRAIN_S):
                for part in (self._binder, self._evictor, self._statuses, self._tiering):
                    if part is not None:
                        await part.idle()
                await self._herald.drain()
        except TimeoutError:
            _log.warning("not_drained", writes=self._writes())


async def _in_steps(steps: Steps[T]) -> T:
    """Take all steps, letting others run after so much work; what they return."""
    work = 0
    while True:
        try:
            work += next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        if work >= WORK_AT_ONCE:
            work = 0
            await asyncio.sleep(0)


@contextmanager
def _loading() -> Iterator[None]:
    """Loading makes only things that stay: collecting garbage then is time wasted."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()
