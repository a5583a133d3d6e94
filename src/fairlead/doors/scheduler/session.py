"""One life of the core: list, watch, wait for the lead, decide, write.

Nothing is decided before everything is listed and we lead; until then only the watches of the process run,
and nothing that writes does. Then each turn takes all that has happened, asks the core once, and hands its
answers to the lanes that write. Two things are subtle. Ownership: the core alone holds the state; lanes
go by what an action brings and by the events since, and what they find out comes back through the inbox like
anything else. And a long turn lets
others run (the lease, probes, admission in the same process), so callers of the core wait until it is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import structlog

from fairlead.client.api import Client
from fairlead.client.events import EventLane
from fairlead.doors.process import Context
from fairlead.doors.scheduler.binder import Binder
from fairlead.doors.scheduler.configuration import Configuration
from fairlead.doors.scheduler.drift import Drift, Drifted
from fairlead.doors.scheduler.evictor import Evictor
from fairlead.doors.scheduler.inbox import Inbox
from fairlead.doors.scheduler.metrics import Metrics
from fairlead.doors.scheduler.policy_feed import PolicyFeed
from fairlead.doors.scheduler.recording import Recorder
from fairlead.doors.scheduler.reporting import Reporting
from fairlead.doors.scheduler.statuses import Statuses
from fairlead.doors.scheduler.volumes import Volumes
from fairlead.doors.scheduler.watching import Watching
from fairlead.doors.tasks import beside
from fairlead.engine.core.actions import (
    Action,
    BindPod,
    EvictPod,
    HoldPod,
    MarkTiers,
    NominatePod,
    ReleasePod,
    SparePod,
)
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import Event
from fairlead.engine.core.report import QueuePosition
from fairlead.engine.planning.steps import Steps
from fairlead.errors import LeaseLost
from fairlead.feed.scales import Scales

_log = structlog.get_logger(__name__)

T = TypeVar("T")

_DRAIN_S = 10.0  # how long a hand-over waits for writes under way
# How much work, in events, is done before others have their turn: some tens of milliseconds.
WORK_AT_ONCE = 500


class InternalError(Exception):
    """The core raised: a defect of ours. What it knew is not to be trusted, so everything is listed again."""


class Session:
    """See the module. Runs once. Cancelled, writes under way may or may not have been applied."""

    def __init__(
        self,
        context: Context,
        client: Client,
        configuration: Configuration,
        metrics: Metrics,
        *,
        only_ours: bool = False,
        instance: str = "",
    ) -> None:
        """`client` is the one to write with. `only_ours`: policies are for this scheduler's pods only."""
        self.core = Core(configuration.settings())
        self.synced = False  # whether the core has received everything
        self._configuration = configuration
        self._recorder: Recorder | None = None
        self._clock = clock = context.clock
        self._memory = context.memory
        self._metrics = metrics
        self._inbox = inbox = Inbox()
        profile = configuration.scheduler_names[0]
        self._policies = PolicyFeed(context, client, inbox.tell, only_ours=only_ours)
        self.look = self._policies.look
        self._watching = Watching(
            client, context.watches, inbox, Scales(client, self.core.ours, clock), rng=context.rng
        )
        self.drift = Drift(
            context.watches,
            self._watching,
            self.core.report,
            inbox,
            metrics,
            configuration.drift,
            context.rng,
        )
        self._volumes = Volumes(client)
        self._statuses = Statuses(client, clock=clock)
        self._events = EventLane(
            client,
            component=profile,
            instance=instance,
            rng=context.rng,
            clock=clock,
            busy=lambda: self._binder.backlog > 0,
        )
        reporting = self._reporting = Reporting(
            self.core.report, self._events, metrics, clock, profile=profile
        )
        self._binder = Binder(
            client,
            self._volumes,
            self._statuses,
            tell=inbox.tell,
            done=reporting.bound,
            in_flight=configuration.in_flight,
        )
        self._evictor = Evictor(
            client,
            how=configuration.preemption.evict,
            between_turns=inbox.between_turns,
            confirms=self._confirms,
            is_spared=self.core.spares,
            protected=self.core.protected,
            tell=inbox.tell,
            done=reporting.evicted,
            refused=reporting.refused,
            clock=clock,
        )
        self._lanes = (self._binder, self._evictor, self._statuses, self._policies)

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
            async with beside(LeaseLost, InternalError, Drifted) as start:
                start(self._watching.run())
                start(self._policies.listen())
                start(self._knock_when(stopping))
                if await self._stand_by(stopping, leads):
                    for lane in (*self._lanes, self._events, self.drift):
                        start(lane.run())
                    await self._lead(stopping)
        finally:
            self._metrics.watch(None)
            if self._recorder is not None:
                self._recorder.close()

    async def _knock_when(self, event: asyncio.Event) -> None:
        await event.wait()
        self._inbox.knock()

    async def _synced(self) -> None:
        await self._watching.synced()
        await self._policies.synced()

    async def _stand_by(self, stopping: asyncio.Event, leads: asyncio.Event) -> bool:
        """Wait until everything is listed and we lead; False: told to stop."""
        self._memory.start_over()  # what a former session left may go
        with self._memory.loading():
            await _first(self._synced(), stopping.wait())
        if not (leads.is_set() or stopping.is_set()):
            _log.info("standing_by", objects=len(self._watching))
        await _first(leads.wait(), stopping.wait())
        return not stopping.is_set()

    async def _lead(self, stopping: asyncio.Event) -> None:
        """Tell the core all that is known at once, so that order counts, and go on from there."""
        if self._configuration.record.file:
            self._recorder = Recorder(self._configuration.record, self._configuration.settings())
        self._metrics.watch(self.core.report, self._writes)
        known = [*self._policies.known(self._watching.known()), *self._inbox.take()]
        with self._memory.loading():
            await self._turn(known)
        self.synced = True
        _log.info("synced", objects=len(known), pending=self.core.report.pending)
        known.clear()  # the core has it now
        while not stopping.is_set():
            await self._turn(self._inbox.take())
            if self._recorder is not None and self._recorder.full:
                stopping.set()  # the next segment is the next session's
            # Let others run between turns, so that a flood of events cannot starve the writes.
            await asyncio.sleep(0)
            await self._inbox.wait(self._until_wake())
        await self._drain()

    async def queue_position(self, pod: str) -> QueuePosition | None:
        """Where a pod (``namespace/name``) stands in the queue as it is between two turns."""
        await self._inbox.between_turns()
        return self.core.queue_position(pod)

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
        self._statuses.told(events)
        self._volumes.told(events)
        await _in_steps(self._carry(actions, began))
        self._inbox.settle()

    def _carry(self, actions: Sequence[Action], decided_at: float) -> Steps[None]:
        for action in actions:
            yield 1
            if isinstance(action, BindPod):
                self._statuses.place(action.uid)
                self._binder.put(action, decided_at)
            elif isinstance(action, HoldPod):
                self._statuses.hold(action)
            elif isinstance(action, NominatePod):
                self._statuses.nominate(action)
            elif isinstance(action, SparePod):
                self._evictor.spare(action)
            elif isinstance(action, MarkTiers):
                self._policies.put(action)
        self._evictor.put([action for action in actions if isinstance(action, EvictPod)])
        self._evictor.release([action for action in actions if isinstance(action, ReleasePod)])

    def _confirms(self, evict: EvictPod, sending: bool) -> bool:
        answer = self.core.confirms(evict, sending=sending)
        if self._recorder is not None:
            self._recorder.asked(evict, answer, sending=sending)
        return answer

    def _writes(self) -> int:
        return sum(len(lane) for lane in self._lanes) + len(self._events)

    async def _drain(self) -> None:
        """Finish what is under way, as far as there is time: the next leader takes it from there."""
        try:
            async with asyncio.timeout(_DRAIN_S):
                for lane in self._lanes:
                    await lane.idle()
                await self._events.drain()
        except TimeoutError:
            _log.warning("not_drained", writes=self._writes())


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one of these is over; the others are given up."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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
