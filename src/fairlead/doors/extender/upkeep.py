"""What the leading extender does besides answering: marks of tiers, slots written on pods, and nudges.

A pod that was refused sits in kube-scheduler's queue until something changes in the cluster, for up to
five minutes. When it would get another answer, it is nudged: an annotation on it that says which tier
passed it on, or what else happened, makes kube-scheduler ask again. And because a ReplicaSet chooses whom
to remove by deletion cost, a pod that got its node is given the cost of its slot; after a restart that is
our memory, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC
from functools import partial

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.doors.extender.causes import Causes
from fairlead.doors.extender.metrics import Metrics
from fairlead.doors.grouping import GroupsOfPods
from fairlead.doors.marks import LiveMarks
from fairlead.doors.policies import LivePolicies
from fairlead.engine.tier_fit import TierFits
from fairlead.errors import ApiError, Conflict, FairleadError, LeaseLost, NotFound, Unreachable
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known
from fairlead.policy.admission import annotations_of, cost_is_ours
from fairlead.policy.choice import Choice
from fairlead.policy.decide.filter.filter_state import FilterState
from fairlead.policy.decide.filter.retry_hints import RetryHints
from fairlead.policy.decide.filter.slots import Held
from fairlead.policy.decide.filter.waiting_pod import Waiting
from fairlead.policy.fallback import Blame, Nodes, Probes, Waiter, decide
from fairlead.policy.groups import GroupKey
from fairlead.policy.marks import Marks
from fairlead.policy.model import PlacementPolicy, Tier
from fairlead.policy.names import DELETION_COST, PASSED_ON_ANNOTATION
from fairlead.policy.placing import Placing

__all__ = ["Upkeep"]

_log = structlog.get_logger(__name__)

_POD = known("Pod")
_GATHER_S = 0.1  # how long changes are gathered before they are looked at
_IDLE_S = 60.0
_REFUSED_S = 10.0  # how often is looked for room where somebody was refused: what was given may not be taken
_UNREAD_S = 1.0  # before more pods are read whose patience is over
_AT_ONCE = 16
_STAYS = "the extender passes it on as it is"


class Upkeep:
    """See the module. `look` says that something changed, `touch` that a group did.

    Cancelled, writes under way may or may not have been applied; each is found or made again.
    """

    def __init__(
        self,
        state: FilterState,
        fits: TierFits,
        groups: GroupsOfPods,
        policies: LivePolicies,
        marks: LiveMarks,
        *,
        metrics: Metrics,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self._state = state
        self._fits = fits
        self._groups = groups
        self._policies = policies
        self._marks = marks
        self._metrics = metrics
        self._clock = clock
        self._wake = asyncio.Event()
        self._touched: set[GroupKey] = set()
        self._before: dict[str, tuple[Sequence[Tier], Nodes]] = {}
        self._complaint = ""
        self._causes = Causes(clock)

    def look(self) -> None:
        """Nodes, marks or policies may have changed, or a pod was refused."""
        self._wake.set()

    def touch(self, key: GroupKey) -> None:
        """A group's pods changed."""
        self._touched.add(key)
        self._wake.set()

    async def run(self, client: Client) -> None:
        """Tend for ever, writing with `client`."""
        self._touched.update(self._state.groups)
        self._before.clear()  # another replica may have led since
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
        names = {policy.name for policy in self._policies.policies}
        for name in self._before.keys() - names:
            del self._before[name]
        for policy in self._policies.policies:
            wakes.append(await self._mark(client, policy))
        await self._nudge(client)
        await self._write_slots(client)
        now = self._clock.now()
        waiting = self._state.waiting.values()
        wakes += [at - now for one in waiting if (at := one.next_pass(now)) is not None]
        if any(one.refused for one in waiting):
            wakes.append(_REFUSED_S)
        return max(min(wakes), _GATHER_S)

    async def _mark(self, client: Client, policy: PlacementPolicy) -> float:
        """Bring the policy's marks up to date; in how many seconds time alone will change them."""
        nodes = self._state.nodes.seen(policy.name)
        if nodes is None:
            return _IDLE_S
        tiers, before = self._before.get(policy.name, ((), None))
        if tiers != policy.spec.tiers:
            before = None  # by other tiers, which says nothing of these
        # What was lost before our first look, or while nobody led: unmarked, its cool-down would never end.
        lost = self._state.nodes.lost(policy.name)
        wall = self._clock.wall().timestamp()
        waiters = self._waiters(policy, wall)
        marks = self._marks.of(policy.name)
        causes: dict[str, Blame] = {}
        late: dict[str, Waiter] = {}
        untold: Blame = "tier"  # at first, to see whether the answers would matter
        unread = False

        def blame(waiter: Waiter) -> Blame:
            late[waiter.uid] = waiter
            return causes.get(waiter.uid, untold)

        def decided(marks: Marks) -> Marks:
            probes, landings = self._outcomes(policy, marks, wall)
            return decide(
                policy,
                marks,
                waiters,
                nodes,
                wall,
                before=before,
                stranded=lost,
                probes=probes,
                landings=landings,
                blame=blame,
            ).marks

        try:
            if decided(marks) != marks and late:
                trying = {mark.probe for _, mark in marks if mark.probe}
                fit = self._fits.of(policy.name)
                causes, unread = await self._causes.of(client, fit, list(late.values()), trying)
                untold = "unknown"
            if decided(marks) != marks:
                await self._marks.change(policy.name, decided, client=client)
            self._before[policy.name] = policy.spec.tiers, nodes
        except LeaseLost:
            raise
        except FairleadError as error:
            # What we saw ourselves counts without being written; the next look sees the same change again.
            self._complain(f"marks of policy {policy.name}: {error}")
        self._state.nodes.noted(policy.name, self._marks.unavailable(policy.name))
        if unread:
            return _UNREAD_S
        again = decide(policy, marks, waiters, nodes, wall, before=nodes).wake_at
        return _IDLE_S if again is None else again - wall

    def _waiters(self, policy: PlacementPolicy, wall: float) -> list[Waiter]:
        now = self._clock.now()
        return [
            Waiter(one.uid, one.name, one.tier, one.uid, wall - (now - one.first), _STAYS)
            for one in self._state.waiting.values()
            if one.refused and one.tier is not None and one.key.policy == policy.name
        ]

    def _outcomes(
        self, policy: PlacementPolicy, marks: Marks, wall: float
    ) -> tuple[Probes, dict[int, float]]:
        """What became of pods that try a tier, and when a pod last got a place in each: maybe one that was
        let in because it fits. Looked for only where a pod tries, or a mark may end.
        """
        tokens = {mark.probe for _, mark in marks if mark.probe}
        if not tokens and all(mark.cooling(wall) for _, mark in marks):
            return Probes(), {}
        index = {tier.name: at for at, tier in enumerate(policy.spec.tiers)}
        present: set[str] = set()
        placed: dict[str, int | None] = {}
        landings: dict[int, float] = {}
        for key, member, _ in self._groups.each():
            if key.policy != policy.name:
                continue
            if member.placed and (tier := index.get(member.tier)) is not None:
                landings[tier] = max(member.bound, landings.get(tier, 0.0))
            for token in tokens & {member.token, member.uid}:
                present.add(token)
                if member.placed:
                    placed[token] = index.get(member.tier)
        present |= tokens & self._state.waiting.keys()
        return Probes(frozenset(present), placed), landings

    async def _nudge(self, client: Client) -> None:
        now = self._clock.now()
        due: dict[str, tuple[Waiting, str]] = {}
        unavailable: dict[str, set[str]] = {}
        tried: dict[str, set[tuple[str, str]]] = {}
        for one in self._state.waiting.values():
            policy = self._policies.get(one.key.policy)
            if one.outdated and not one.told:
                due[one.uid] = one, one.outdated
            if policy is None or one.tier is None or one.tier >= len(policy.spec.tiers):
                continue
            if policy.name not in unavailable:
                unavailable[policy.name] = self._state.unavailable(policy.name)
                tried[policy.name] = {(tier, mark.probe) for tier, mark in self._marks.of(policy.name)}
            tier = policy.spec.tiers[one.tier].name
            # Who tries a tier is meant to wait for it although others leave that alone.
            trying = (tier, one.uid) in tried[policy.name]
            if one.due(now, () if trying else unavailable[policy.name], tier):
                due[one.uid] = one, tier
        await _in_turns([partial(self._nudge_one, client, one, why) for one, why in due.values()])

    async def _nudge_one(self, client: Client, one: Waiting, why: str) -> None:
        if self._state.waiting.get(one.uid) is not one:
            return  # it got its node meanwhile
        stamp = self._clock.wall().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        asked, outdated = one.last, one.outdated
        if await self._annotate(client, one.uid, one.name, {PASSED_ON_ANNOTATION: f"{why} {stamp}"}):
            if (asked, outdated) == (one.last, one.outdated):
                one.told = True  # unless it has asked already, or something else happened
            _log.info("passed_on", pod=one.name, policy=one.key.policy, tier=why)

    async def _write_slots(self, client: Client) -> None:
        """Write on pods that have a node which slot is theirs, and what removing them costs."""
        touched, self._touched = self._touched, set()
        writes: list[_Write] = []
        for key in touched:
            slots, some = self._state.groups.get(key), self._groups.some_pod(key)
            place = self._groups.place(some) if some is not None else None
            if slots is None or some is None or place is None or place.key != key:
                continue
            slots.settle(self._groups.tiers(place, some.metadata.labels))
            for uid, held in slots.placed():
                if held.marked != held.slot and not held.admitted:
                    writes.append(partial(self._write_slot, client, key, place.policy, uid, held))
        await _in_turns(writes)

    async def _write_slot(
        self, client: Client, key: GroupKey, policy: PlacementPolicy, uid: str, held: Held
    ) -> None:
        name = f"{key.namespace}/{held.name}"
        if held.costed is None:
            held.costed = await self._costed(client, key.namespace, held.name)
        index = next((at for at, tier in enumerate(policy.spec.tiers) if tier.name == held.tier), None)
        wanted = annotations_of(policy, Placing(held.slot, Choice(index, "rule")))
        if held.costed:
            del wanted[DELETION_COST]  # the user's word on which pod goes first
        slot = held.slot
        if await self._annotate(client, uid, name, wanted):
            held.marked = slot
        else:
            self._touched.add(key)

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
