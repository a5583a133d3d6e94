"""Carries out what the leading extender does besides answering: marks of tiers, nudges, slots on pods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.doors.extender.causes import Causes
from fairlead.doors.extender.metrics import Metrics
from fairlead.engine.planning.tier_fit import TierFits
from fairlead.errors import ApiError, Conflict, FairleadError, LeaseLost, NotFound, Unreachable
from fairlead.feed.marks import LiveMarks
from fairlead.feed.policies import LivePolicies
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known
from fairlead.policy.decide.admission import cost_is_ours
from fairlead.policy.decide.filter.extender import Extender, Nudge, SlotWrite
from fairlead.policy.decide.filter.waiting_pod import RetryHints
from fairlead.policy.groups.member import GroupKey
from fairlead.policy.rule.model import PlacementPolicy

_log = structlog.get_logger(__name__)

_POD = known("Pod")
_GATHER_S = 0.1  # how long changes are gathered before they are looked at
_IDLE_S = 60.0
_REFUSED_S = 10.0  # how often room is looked for where a pod was refused: what was given may not be taken
_UNREAD_S = 1.0  # before more pods are read whose patience is over
_AT_ONCE = 16


class Upkeep:
    """See the module. `look` says that something changed, `touch` that a group did.

    Cancelled, writes under way may or may not have been applied; each is found or made again.
    """

    def __init__(
        self,
        extender: Extender,
        fits: TierFits,
        policies: LivePolicies,
        marks: LiveMarks,
        *,
        metrics: Metrics,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self._extender = extender
        self._state = extender.state
        self._fits = fits
        self._policies = policies
        self._marks = marks
        self._metrics = metrics
        self._clock = clock
        self._wake = asyncio.Event()
        self._complaint = ""
        self._causes = Causes(clock)

    def look(self) -> None:
        """Nodes, marks or policies may have changed, or a pod was refused."""
        self._wake.set()

    def touch(self, key: GroupKey) -> None:
        """A group's pods changed."""
        self._extender.touch(key)
        self._wake.set()

    async def run(self, client: Client) -> None:
        """Tend for ever, writing with `client`."""
        self._extender.begin()
        self._wake.set()
        self._state.retry_hints = RetryHints()
        try:
            await self._tend_for_ever(client)
        finally:
            self._state.retry_hints = None  # it is read only while this runs

    async def _tend_for_ever(self, client: Client) -> None:
        wait_s = _IDLE_S
        while True:
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                pass  # time alone may change an answer
            await asyncio.sleep(_GATHER_S)
            self._wake.clear()
            wait_s = await self._tend(client)

    async def _tend(self, client: Client) -> float:
        """Do what there is to do now; how long nothing will come of time alone."""
        now = self._clock.now()
        self._state.tidy(now)
        self._causes.keep(self._state.waiting.keys())
        self._metrics.waiting.set(len(self._state.waiting))
        self._metrics.assumed.set(sum(len(slots.assumed) for slots in self._state.groups.values()))
        wakes = [_IDLE_S]
        for policy in self._policies.policies:
            wakes.append(await self._mark(client, policy))
        await self._nudge(client)
        await self._write_slots(client)
        now = self._clock.now()
        wakes += [at - now for at in self._extender.wakes(now)]
        if any(one.refused for one in self._state.waiting.values()):
            wakes.append(_REFUSED_S)
        return max(min(wakes), _GATHER_S)

    async def _mark(self, client: Client, policy: PlacementPolicy) -> float:
        """Bring the policy's marks up to date; in how many seconds time alone will change them."""
        wall = self._clock.wall().timestamp()
        look = self._extender.look(policy, self._clock.now(), wall)
        if look is None:
            return _IDLE_S
        marks, written, unread = self._marks.of(policy.name), False, False
        try:
            if look.decided(marks) != marks and look.late:
                trying = {mark.probe for _, mark in marks if mark.probe}
                fit = self._fits.of(policy.name)
                look.causes, unread = await self._causes.of(client, fit, list(look.late.values()), trying)
            if look.decided(marks) != marks:
                await self._marks.change(policy.name, look.decided, client=client)
            written = True
        except LeaseLost:
            raise
        except FairleadError as error:
            self._complain(f"marks of policy {policy.name}: {error}")
        self._extender.noted(look, written=written)
        if unread:
            return _UNREAD_S
        again = look.wake_at(marks)
        return _IDLE_S if again is None else again - wall

    async def _nudge(self, client: Client) -> None:
        due = self._extender.nudges(self._clock.now())
        await _in_turns([partial(self._nudge_one, client, one) for one in due])

    async def _nudge_one(self, client: Client, nudge: Nudge) -> None:
        one = nudge.waiting
        if self._state.waiting.get(one.uid) is not one:
            return  # it got its node meanwhile
        if await self._annotate(client, one.uid, one.name, nudge.annotations(self._clock.wall())):
            nudge.written()
            _log.info("passed_on", pod=one.name, policy=one.key.policy, tier=nudge.why)

    async def _write_slots(self, client: Client) -> None:
        """Write on pods that have a node which slot is theirs, and what removing them costs."""
        await _in_turns([partial(self._write_slot, client, one) for one in self._extender.unwritten()])

    async def _write_slot(self, client: Client, write: SlotWrite) -> None:
        if write.held.costed is None:
            write.held.costed = await self._costed(client, write.key.namespace, write.held.name)
        if await self._annotate(client, write.uid, write.pod, write.annotations()):
            write.written()
        else:
            self._extender.touch(write.key)

    async def _costed(self, client: Client, namespace: str, name: str) -> bool | None:
        try:
            found = await client.get(_POD, name, namespace, kind=Pod)
        except (ApiError, Unreachable):
            return None
        return not cost_is_ours(found.metadata.annotations)

    async def _annotate(self, client: Client, uid: str, name: str, wanted: dict[str, str]) -> bool:
        """Whether there is nothing left to write: done, or the pod is another's or gone."""
        namespace, _, short = name.partition("/")
        try:
            patch = {"metadata": {"uid": uid, "annotations": wanted}}
            await client.patch(_POD, short, namespace, patch, repeatable=True)
        except (NotFound, Conflict):
            return True
        except LeaseLost:
            raise
        except (ApiError, Unreachable) as error:
            self._complain(f"pod {name}: {error}")
            return False
        return True

    def _complain(self, what: str) -> None:
        """Once, until it is something else: what may not be written is not written every second."""
        if what.partition(":")[2] != self._complaint:
            self._complaint = what.partition(":")[2]
            _log.warning("not_written", reason=what)


_Write = Callable[[], Awaitable[None]]


async def _in_turns(writes: Sequence[_Write]) -> None:
    """All of them, a few at a time."""
    left = iter(writes)

    async def work() -> None:
        for write in left:
            await write()

    async with asyncio.TaskGroup() as group:
        for _ in range(min(_AT_ONCE, len(writes))):
            group.create_task(work())
