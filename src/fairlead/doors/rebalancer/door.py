"""The rebalancer as a door: it watches all the time, and acts while it holds its lease.

A standby observes, so that it knows what was when it takes over; that writes nothing.
A pass follows every change, but a pause follows every pass, nine times as long as the pass worked and a few
seconds at most: a cluster in which everything changes at once is looked at often enough, not after each
change. Waiting for the API is no work, so a slow API does not make the rebalancer slower still.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from fairlead.client.api import Client
from fairlead.client.election import ApiLease, Terms
from fairlead.client.events import EventLane
from fairlead.doors.crds import ensure_crds
from fairlead.doors.leader import lead
from fairlead.doors.process import Context, Door
from fairlead.doors.rebalancer.executor import Executor, Outcome
from fairlead.doors.rebalancer.metrics import Metrics
from fairlead.doors.rebalancer.tier_events import TierEvents
from fairlead.doors.rebalancer.watching import Watching
from fairlead.engine.rebalance.rebalancer import Rebalancer
from fairlead.errors import FairleadError, LeaseLost, Missing
from fairlead.feed.owners import OwnerReader
from fairlead.nodegroups import NodeGroup
from fairlead.policy.rule.model import PlacementPolicy

_log = structlog.get_logger(__name__)

_LEASE = "fairlead-rebalancer"
_PAUSE_S = 0.1  # what comes together is decided together
_LONGEST_PAUSE_S = 5.0  # what happens is answered within seconds, however large the cluster
_LOOK_S = 60.0  # at the latest, for what no watch reported
_RETRY_S = 2.0
_LAST_WORDS_S = 5.0  # for events, when told to stop


@dataclass(frozen=True, slots=True)
class Settings:
    """The rebalancer's own flags."""

    schedulers: tuple[str, ...] = ("fairlead",)
    only_ours: bool = False
    """Whether policies are for the pods of these schedulers only."""
    once: bool = False
    node_groups: tuple[NodeGroup, ...] = ()
    """What an autoscaler may add nodes to, by the user's word."""
    lease: str = _LEASE
    terms: Terms = field(default_factory=Terms)


class RebalancerDoor(Door):
    """See the module."""

    name = "rebalance"

    def __init__(self, context: Context, settings: Settings = Settings()) -> None:  # noqa: B008 (frozen)
        super().__init__(context)
        self._settings = settings
        self.machine = Rebalancer(settings.schedulers)
        self.machine.follow()
        self.machine.node_groups(settings.node_groups)
        self.marks = context.marks
        self._metrics = Metrics()
        self._news = asyncio.Event()
        self._watching = Watching(context, self.machine, self._news.set)
        self._scales = OwnerReader(context.client, clock=context.clock)
        self._carrying = Executor(
            self.machine,
            self.marks,
            self._metrics,
            context.clock,
            TierEvents(self.machine, settings.schedulers),
        )
        self._new = True  # there was no pass yet since we lead
        self._standing_by = asyncio.Event()  # we do not act
        self._standing_by.set()
        self._known: tuple[PlacementPolicy, ...] | None = None
        context.policies.on_change(self._news.set)
        self.marks.on_change(self._news.set)

    async def prepare(self) -> None:
        """Definitions of policies and ledgers; a file's policies can do without."""
        try:
            await ensure_crds(self._context.client, clock=self._context.clock)
        except Missing as error:
            if not self._context.policies.policies:
                raise
            _log.warning("without_definitions", reason=str(error))

    def checks(self) -> Mapping[str, str]:
        """Ready when everything that decides was listed."""
        unlisted = self._watching.unlisted()
        return {"informer-sync": f"not listed yet: {', '.join(unlisted)}" if unlisted else ""}

    def metrics(self) -> bytes:
        """See `Metrics`."""
        return self._metrics.text()

    def stop(self) -> None:
        """See `Door`."""
        super().stop()
        self._news.set()

    async def run(self) -> None:
        """Watch, and act while leading, until `stop`."""
        async with asyncio.TaskGroup() as group:
            eyes = [group.create_task(task) for task in (self._watching.run(), self._stand_by())]
            leading = group.create_task(
                lead(
                    self._context.client,
                    self._settings.lease,
                    self._context.system_namespace,
                    self._act,
                    terms=self._settings.terms,
                    clock=self._context.clock,
                )
            )
            ends: list[asyncio.Task[Any]] = [group.create_task(self._stopping.wait())]
            if self._settings.once:
                ends.append(group.create_task(self._another_leads()))
            await asyncio.wait((leading, *ends), return_when=asyncio.FIRST_COMPLETED)
            # The work has seen `stop` too and returns in order; a standby has nothing to finish.
            if not leading.done() and self._standing_by.is_set():
                leading.cancel()
            await asyncio.wait((leading,))
            for task in (*eyes, *ends):
                task.cancel()

    async def _another_leads(self) -> None:
        """Return once it is clear that another leads and will go on to: with `once` we do not stand by."""
        name, terms = self._settings.lease, self._settings.terms
        store = ApiLease(self._context.client, name, self._context.system_namespace)
        while True:
            await self._standing_by.wait()
            # The lease of a replica that died is free after a lease's time, and ours at the next try.
            await asyncio.sleep(terms.lease_s + 2 * terms.retry_s)
            try:
                lease = await store.get()
            except FairleadError as error:
                _log.warning("lease_unknown", lease=name, reason=str(error))
                continue
            holder = lease.spec.holder_identity if lease is not None else None
            if holder and self._standing_by.is_set():
                _log.info("not_acted", lease=name, holder=holder, reason="another rebalancer leads")
                return

    async def look(self) -> Outcome:
        """What a pass would do now; writes nothing. Ends its watches when it is done."""
        async with asyncio.TaskGroup() as group:
            eyes = [group.create_task(task) for task in (self._watching.run(), self._context.follow())]
            await self._synced()
            await self._learn()
            outcome = self._carrying.look()
            for task in eyes:
                task.cancel()
        return outcome

    async def _synced(self) -> None:
        await self._context.policies.synced()
        await self.marks.synced()
        await self._watching.synced()

    async def _synced_or_stopping(self) -> bool:
        """Whether everything was listed before we were told to stop."""
        tasks = [asyncio.ensure_future(self._synced()), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return not self._stopping.is_set()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _stand_by(self) -> None:
        """Observe while another leads, for ever."""
        await self._synced()
        told = False
        while True:
            await self._standing_by.wait()
            self._news.clear()
            began_s = time.process_time()
            try:
                if not self._watching.blind:
                    await self._learn()
                    if self._standing_by.is_set():
                        self._observe()
                        if not told and not self._stopping.is_set():
                            told = True
                            _log.info("observing", policies=len(self._context.policies.policies))
            except FairleadError as error:
                _log.warning("not_observed", reason=str(error))  # there is more to come
            await self._pause(time.process_time() - began_s)
            await self._rest(_LOOK_S, self._news)

    def _observe(self) -> None:
        marks = {policy.name: self.marks.of(policy.name) for policy in self.machine.policies}
        self.machine.observe(marks, self._context.clock.wall().timestamp())

    async def _act(self, client: Client) -> None:
        self._new = True
        self._standing_by.clear()
        self.machine.follow(following=False)
        events = EventLane(
            client,
            component="fairlead-rebalancer",
            rng=self._context.rng,
            clock=self._context.clock,
            writers=2,
        )
        try:
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(events.run())
                await self._passes(client, events)
                try:
                    async with asyncio.timeout(_LAST_WORDS_S):
                        await events.close()
                except TimeoutError:
                    writing.cancel()  # it says how many were not written
        finally:
            self._standing_by.set()
            self.machine.follow()
            self._news.set()  # for the standby

    async def _passes(self, client: Client, events: EventLane) -> None:
        if not await self._synced_or_stopping():
            return
        _log.info("synced", policies=len(self._context.policies.policies))
        while not self._stopping.is_set():
            self._news.clear()
            began_s = time.process_time()
            rest_s = await self._pass(client, events)
            if self._settings.once:
                return
            await self._pause(time.process_time() - began_s)
            await self._rest(rest_s, self._news)

    async def _pass(self, client: Client, events: EventLane) -> float:
        """One pass; seconds until the next one if nothing happens."""
        self._watching.tell_sight()
        if self._watching.blind:
            return _RETRY_S  # what we know may be old: no pod is deleted or moved for it
        try:
            await self._learn()
            if self._new:
                self._new = False
                self._observe()  # the previous leader has seen to what happened
            outcome = await self._carrying.pass_once(client, events)
        except LeaseLost:
            raise
        except FairleadError as error:
            _log.warning("pass_failed", reason=str(error))
            return _RETRY_S
        if outcome.wake_at is None:
            return _LOOK_S
        return min(max(outcome.wake_at - self._context.clock.wall().timestamp(), 0.0) + _PAUSE_S, _LOOK_S)

    async def _learn(self) -> None:
        """Go by the policies of now, and read the sizes of owners that are not watched."""
        if self._context.policies.policies is not self._known:
            self._known = self._context.policies.policies
            self.machine.use(self._known, self._context.exempt, only_ours=self._settings.only_ours)
        for pod in self.machine.unwatched():
            reference, namespace = pod.metadata.controller, pod.metadata.namespace
            if reference is not None:
                await self._scales.learn(pod.metadata, namespace)
                owner = self._scales.owner(reference, namespace)
                if owner is not None:
                    self.machine.seen(reference.kind, owner, self._context.clock.wall().timestamp())

    async def _pause(self, worked_s: float) -> None:
        """Leave the machine to others for a while, whatever the news, unless we are told to stop."""
        await self._rest(min(max(_PAUSE_S, 9 * worked_s), _LONGEST_PAUSE_S), self._stopping)

    async def _rest(self, rest_s: float, news: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(rest_s):
                await news.wait()
        except TimeoutError:
            pass  # rested
