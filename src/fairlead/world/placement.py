"""Placement policies inside the embedded cluster: admission, fallback and rebalancing, on the spot.

What webhook and rebalancer do over HTTP happens here as the store changes, with the very code that decides
on a real cluster, so in virtual time hours of it take seconds and always go the same way. Ledgers and
marks are in memory: there is only one process that could change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from fairlead.engine.rebalance.rebalance import Move, Wait
from fairlead.engine.rebalance.rebalancer import KINDS, Rebalancer
from fairlead.errors import ApiError, NotFound
from fairlead.kube.decode import convert
from fairlead.kube.meta import Object
from fairlead.kube.pod import Pod
from fairlead.policy.decide.admission import patched, tier_to_try
from fairlead.policy.groups.member import Place
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.slots.ledger import Ledger
from fairlead.policy.slots.placing import Placing, place, place_alone
from fairlead.policy.tiers.fallback import Deletion
from fairlead.policy.tiers.marks import Marks
from fairlead.world.admission import AdmissionRequest
from fairlead.world.api import DeleteOptions
from fairlead.world.controllers.writes import Obj
from fairlead.world.follower import Follower
from fairlead.world.schema.resources import PODS

_log = structlog.get_logger()

_OURS = ("fairlead",)  # pods of our own scheduler choose among the tiers there

_PAUSE = timedelta(seconds=1)  # between two looks: watches are not instant either


@dataclass(frozen=True, slots=True)
class Done:
    """Something that was done to a pod, and when."""

    at: float
    what: Move | Deletion


class Placement(Follower):
    """Give `admit` to the world as a hook, then `attach` it; `done` tells what it did."""

    kinds = KINDS
    pause = timedelta(seconds=1)  # watches are not instant either

    def __init__(
        self,
        policies: Iterable[PlacementPolicy],
        marks: Mapping[str, Marks] | None = None,
        ledgers: Iterable[Ledger] = (),
    ) -> None:
        """`marks`, by policy, and `ledgers` are those of a cluster that goes on here."""
        self.policies = tuple(policies)
        self.machine = Rebalancer(_OURS)
        self.machine.use(self.policies)
        known = marks or {}
        self.marks = {
            policy.name: known.get(policy.name) or Marks(policy.spec.fallback.cool_down_s)
            for policy in self.policies
        }
        self.done: list[Done] = []
        self.waits: tuple[Wait, ...] = ()
        self.active = True
        """Whether fallback and rebalancing take place; admission always does."""
        self.ledgers = {ledger.key: ledger for ledger in ledgers}
        for ledger in self.ledgers.values():
            self.machine.keep(ledger)
        self._numbers = 0

    @property
    def moves(self) -> list[Done]:
        """The moves among what was done."""
        return [one for one in self.done if isinstance(one.what, Move)]

    # Admission

    def admit(self, request: AdmissionRequest) -> Obj | None:
        """The hook: a new pod with its place."""
        if request.operation != "CREATE" or request.resource != PODS or request.subresource:
            return None
        if request.object is None or not self.attached:
            return None
        pod = convert(request.object, Pod)
        place = self.machine.index.place(pod.metadata, request.namespace)
        if place is None:
            return None
        return patched(request.object, place.policy, self._place(place, pod), place.workload, _OURS)

    def _place(self, where: Place, pod: Pod) -> Placing:
        policy, workload, key = where.policy, where.workload, where.key
        now, marks = self._now, self.marks[policy.name]
        skipped, crowded = self.machine.fits.steers(policy.name, pod, marks)
        tiers = self.machine.index.tiers(where, pod.metadata.labels, coming=True)
        if key.alone:
            return place_alone(policy, workload, tiers, unavailable=skipped, crowded=crowded)
        known = self.ledgers.get(key) or Ledger(key)
        ledger = known.observe(self.machine.index.members(key), tiers, now)
        token = self._token()
        while ledger.of_token(token) is not None:  # what goes on here may have begun in another such cluster
            token = self._token()

        def take(unavailable: frozenset[str]) -> tuple[Ledger, Placing]:
            return place(
                ledger,
                policy,
                workload,
                tiers,
                token=token,
                now=now,
                unavailable=unavailable,
                crowded=crowded,
            )

        after, placing = take(skipped)
        closed = self.machine.fits.closed_to(policy.name, pod)
        tried = tier_to_try(where, placing.choice, marks, closed, now) if skipped else ""
        claimed = marks.claim_probe(tried, token, now) if tried else None
        if claimed is not None:
            self.marks[policy.name] = claimed
            after, placing = take(skipped - {tried})
        self.ledgers[key] = after
        self.machine.keep(after)
        return placing

    def _token(self) -> str:
        self._numbers += 1
        return f"{self._numbers:016x}"

    # Following

    def _seen(self, kind: str, thing: Object) -> None:
        self.machine.seen(kind, thing, self._now)

    def _gone(self, kind: str, namespace: str, name: str, uid: str) -> None:
        pod = self.machine.index.get(f"{namespace}/{name}") if kind == "Pod" else None
        self.machine.gone(kind, namespace, name, uid)
        if pod is not None and (ledger := self.ledgers.get(pod.key)) is not None:
            self.ledgers[pod.key] = ledger.gone([pod.member.token, pod.member.uid])

    def _promised(self, uid: str) -> None:
        self.machine.promised(uid, self._now)

    def _turn(self) -> None:
        now = self._now
        if not self.active:
            return
        wakes: list[float | None] = []
        for policy in self.policies:
            decision = self.machine.fall_back(policy, self.marks[policy.name], now)
            self.marks[policy.name] = decision.marks
            self.machine.noted(policy, decision, now)
            wakes.append(decision.wake_at)
            for deletion in decision.deletions:
                self._delete(deletion, now)
        planned = self.machine.plan(self.marks, now)
        self.waits = planned.waits
        wakes.append(planned.wake_at)
        for move in planned.moves:
            self._evict(move, now)
        due = min((wake for wake in wakes if wake is not None), default=None)
        if due is not None:
            # Timestamps of the cluster have whole seconds: a moment later is certainly due.
            self._look_at(datetime.fromtimestamp(max(due, now) + 1.0, UTC))

    def _delete(self, deletion: Deletion, now: float) -> None:
        namespace, _, name = deletion.pod.partition("/")
        try:
            self._api.delete(PODS, name, namespace, DeleteOptions(uid=deletion.uid))
        except NotFound:
            return
        self.done.append(Done(now, deletion))

    def _evict(self, move: Move, now: float) -> None:
        namespace, _, name = move.pod.partition("/")
        # Recorded first: the store reports the eviction before it returns.
        self.machine.sent(move, now)
        try:
            self._api.evict(name, namespace, {"deleteOptions": {"preconditions": {"uid": move.uid}}})
        except ApiError as error:
            _log.info("not_evicted", pod=move.pod, error=str(error))
            self.machine.refused(move, now)
            return
        self.done.append(Done(now, move))
