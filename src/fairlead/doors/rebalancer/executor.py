"""The rebalancer's hands: one pass from what is known to what is written.

Marks first, because a pod that is deleted before its tier is marked would be sent there again; then the
pending pods that wait without success; then moves. Everything is decided again in each pass, so whatever a
pass could not do the next one does, or no longer wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from fairlead.client.api import Client
from fairlead.client.clock import Clock
from fairlead.client.events import About, EventLane
from fairlead.client.retry import is_budget_refusal
from fairlead.doors.rebalancer.metrics import Metrics
from fairlead.doors.rebalancer.tier_events import TierEvents
from fairlead.engine.rebalance.rebalance import Move, Rebalancing
from fairlead.engine.rebalance.rebalancer import Rebalancer
from fairlead.errors import ApiError, Conflict, FairleadError, LeaseLost, NotFound, Unreachable
from fairlead.feed.marks import LiveMarks
from fairlead.kube.resources import known
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.fallback import Decision, Deletion
from fairlead.policy.tiers.marks import Marks

_log = structlog.get_logger(__name__)

_POD = known("Pod")
_RETRY_S = 2.0  # a policy whose marks could not be written


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pass decided, and when the next is due at the latest."""

    marks: dict[str, Marks]
    deletions: tuple[Deletion, ...]
    planned: Rebalancing
    wake_at: float | None


class Executor:
    """Carries out what the machine says. Cancelled half-way, the next pass finds what is left to do."""

    def __init__(
        self, machine: Rebalancer, marks: LiveMarks, metrics: Metrics, clock: Clock, telling: TierEvents
    ) -> None:
        self._machine = machine
        self._marks = marks
        self._metrics = metrics
        self._clock = clock
        self._telling = telling

    def look(self) -> Outcome:
        """What a pass would do; writes nothing."""
        now = self._now()
        return self._outcome(
            [
                (policy, self._machine.fall_back(policy, self._marks.of(policy.name), now))
                for policy in self._machine.policies
            ]
        )

    async def pass_once(self, client: Client, events: EventLane) -> Outcome:
        """Decide and do, writing with `client`; `events` informs users who look at the pods."""
        made: list[tuple[PlacementPolicy, Decision]] = []
        retry_at: float | None = None
        now = self._now()
        for policy in self._machine.policies:
            try:
                made.append((policy, await self._fall_back(policy, now, client, events)))
            except LeaseLost:
                raise
            except FairleadError as error:
                # The trouble of one policy is not that of the others; none of its pods is moved meanwhile.
                _log.warning("policy_not_served", policy=policy.name, reason=str(error))
                retry_at = now + _RETRY_S
        outcome = self._outcome(made, retry_at)
        self._metrics.waiting.set(len(outcome.planned.waits))
        for move in outcome.planned.moves:
            if move.policy in outcome.marks and self.holds(move, outcome.marks[move.policy]):
                await self._move(move, client, events)
        # Last: a full lane of events must not keep others waiting.
        seen = [(policy, decision.nodes) for policy, decision in made]
        besides = {one.uid for one in outcome.deletions}
        await self._telling.tell(seen, self._now(), events, besides=besides)
        return outcome

    def _outcome(
        self, made: Sequence[tuple[PlacementPolicy, Decision]], retry_at: float | None = None
    ) -> Outcome:
        """What was decided of marks, and the moves that are planned after it."""
        marks = {policy.name: decision.marks for policy, decision in made}
        planned = self._machine.plan(marks, self._now())
        wakes = [retry_at, planned.wake_at, *(decision.wake_at for _, decision in made)]
        return Outcome(
            marks,
            tuple(deletion for _, decision in made for deletion in decision.deletions),
            planned,
            min((wake for wake in wakes if wake is not None), default=None),
        )

    async def _fall_back(
        self, policy: PlacementPolicy, now: float, client: Client, events: EventLane
    ) -> Decision:
        machine = self._machine
        made: list[Decision] = []

        def change(found: Marks) -> Marks:
            made.append(machine.fall_back(policy, found, now))
            return made[-1].marks

        await self._marks.change(policy.name, change, client=client)
        decision = made[-1]  # the one whose marks were written, or were there
        machine.noted(policy, decision, now)
        for deletion in decision.deletions:
            if await self._delete(policy, deletion, client):
                about = _pod(deletion.pod, deletion.uid)
                said = f"Deleted to be recreated: {deletion.why}"
                await events.record(about, "PassedOn", said, action="Fallback")
        return decision

    async def _delete(self, policy: PlacementPolicy, deletion: Deletion, client: Client) -> bool:
        # Others went before it: meanwhile it may have got its place, or its tier have come back.
        pod = self._machine.pending(deletion.uid, deletion.pod)
        if pod is None or self._marks.of(policy.name).get(deletion.tier) is None:
            return False
        namespace, _, name = deletion.pod.partition("/")
        version = pod.metadata.resource_version
        try:
            # No budget protects from a DELETE, so it must not meet a pod that was bound since.
            await client.delete(_POD, name, namespace, uid=deletion.uid, resource_version=version)
        except (NotFound, Conflict):
            return False  # gone, or not as we know it: the next pass decides again
        except (ApiError, Unreachable) as error:
            _log.warning("not_passed_on", pod=deletion.pod, tier=deletion.tier, reason=str(error))
            return False
        self._metrics.passed_on.labels(policy.name, deletion.tier).inc()
        _log.info("passed_on", pod=deletion.pod, tier=deletion.tier, reason=deletion.why)
        return True

    def holds(self, move: Move, marks: Marks) -> bool:
        """Whether nothing came in between while other moves were being sent."""
        tier = move.to_tier
        if self._marks.of(move.policy).get(tier) != marks.get(tier):
            return False
        return self._machine.at_rest(move, self._now())

    async def _move(self, move: Move, client: Client, events: EventLane) -> None:
        if not self._machine.still_there(move.uid, move.pod):
            return
        namespace, _, name = move.pod.partition("/")
        # Before it is sent: the watch may show the pod leaving before the answer is here.
        self._machine.sent(move, self._now())
        try:
            await client.evict(name, namespace, uid=move.uid)
        except (NotFound, Conflict):
            self._machine.refused(move, self._now())
            return
        except Unreachable as error:
            # It may have been applied: the flight stays open until the watch has shown it.
            _log.warning("move_unanswered", pod=move.pod, reason=str(error))
            return
        except ApiError as error:
            self._machine.refused(move, self._now())
            self._metrics.refused.labels(move.policy).inc()
            level = _log.info if is_budget_refusal(error) else _log.warning
            level("move_refused", pod=move.pod, to=move.to_tier, reason=error.message)
            return
        self._metrics.moves.labels(move.policy, move.from_tier, move.to_tier).inc()
        _log.info(
            "moved",
            pod=move.pod,
            group=move.group,
            tier=move.from_tier,
            to=move.to_tier,
            probe=move.probe,
            reason=move.why,
        )
        said = f"Evicted to be recreated in tier {move.to_tier}: {move.why}"
        await events.record(_pod(move.pod, move.uid), "Rebalanced", said, action="Rebalancing")

    def _now(self) -> float:
        return self._clock.wall().timestamp()


def _pod(key: str, uid: str) -> About:
    namespace, _, name = key.partition("/")
    return About(_POD, name, namespace, uid)
