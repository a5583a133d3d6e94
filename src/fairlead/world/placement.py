"""Placement policies inside the embedded cluster: admission, fallback and rebalancing, on the spot.

What webhook and rebalancer do over HTTP happens here as the store changes, with the very code that decides
on a real cluster, so in virtual time hours of it take seconds and always go the same way. Ledgers and
marks are in memory: there is only one process that could change them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from fairlead.engine.rebalance import Move, Wait
from fairlead.engine.rebalancer import KINDS, Rebalancer
from fairlead.errors import ApiError, BadObject, NotFound
from fairlead.kube.decode import convert
from fairlead.kube.pod import Pod
from fairlead.policy.admission import patched
from fairlead.policy.demands import alike
from fairlead.policy.fallback import Deletion
from fairlead.policy.groups import GroupKey, group_of, member_of
from fairlead.policy.ledger import Ledger
from fairlead.policy.marks import Marks
from fairlead.policy.model import PlacementPolicy
from fairlead.policy.placing import Placing, place, place_alone
from fairlead.policy.rule import Tiers
from fairlead.policy.workloads import Workload, workload_of
from fairlead.world.admission import AdmissionRequest
from fairlead.world.api import Api, DeleteOptions
from fairlead.world.clock import Clock, Timer
from fairlead.world.controllers.writes import Obj
from fairlead.world.events import promised
from fairlead.world.schema.resources import PODS, Resource
from fairlead.world.store import Change
from fairlead.world.view import kind_of

__all__ = ["Done", "Placement"]

_log = structlog.get_logger()

_PAUSE = timedelta(seconds=1)  # between two looks: watches are not instant either


@dataclass(frozen=True, slots=True)
class Done:
    """Something that was done to a pod, and when."""

    at: float
    what: Move | Deletion


class Placement:
    """Give `admit` to the world as a hook, then `attach` it; `done` tells what it did.

    Invariant: after `attach`, whatever the store has told the machine knows.
    """

    def __init__(self, policies: Iterable[PlacementPolicy]) -> None:
        self.policies = tuple(policies)
        self.machine = Rebalancer()
        self.machine.use(self.policies)
        self.marks = {policy.name: Marks(policy.spec.fallback.cool_down_s) for policy in self.policies}
        self.done: list[Done] = []
        self.waits: tuple[Wait, ...] = ()
        self.active = True
        """Whether fallback and rebalancing take place; admission always does."""
        self._ledgers: dict[GroupKey, Ledger] = {}
        self._numbers = 0
        self._api: Api | None = None
        self._clock: Clock | None = None
        self._timer: Timer | None = None

    def attach(self, api: Api, clock: Clock) -> None:
        """Follow a cluster from now on."""
        self._api, self._clock = api, clock
        for resource in api.store.resources():
            for item in api.store.list(resource):
                self._seen(resource, item)
        api.store.subscribe(self._changed)
        self._look_at(clock.now())

    @property
    def moves(self) -> list[Done]:
        """The moves among what was done."""
        return [one for one in self.done if isinstance(one.what, Move)]

    # Admission

    def admit(self, request: AdmissionRequest) -> Obj | None:
        """The hook: a new pod with its place."""
        if request.operation != "CREATE" or request.resource != PODS or request.subresource:
            return None
        if request.object is None or self._clock is None:
            return None
        pod = convert(request.object, Pod)
        workload = workload_of(pod, self.machine, request.namespace)
        policy = self.machine.policies.governing(workload, pod.metadata.labels)
        if policy is None:
            return None
        return patched(request.object, policy, self._place(policy, workload, pod), workload)

    def _place(self, policy: PlacementPolicy, workload: Workload, pod: Pod) -> Placing:
        now, marks = self._now(), self.marks[policy.name]
        key = group_of(policy, workload, pod.metadata.labels)
        skipped, crowded = self.machine.fits.steers(policy.name, pod, marks)
        # Who may go to further tiers as it is tells nothing of its own.
        steered = workload.recreated and not workload.job
        tried = frozenset(tier for tier, _ in marks if steered and marks.may_probe(tier, now))
        tried -= self.machine.fits.closed_to(policy.name, pod)
        if key.alone:
            return place_alone(policy, workload, Tiers(policy.spec.tiers), unavailable=skipped)
        self._numbers += 1
        token = f"{self._numbers:016x}"
        tiers, ledger = self._ledger(policy, workload, key, pod, now)
        after, placing = place(
            ledger,
            policy,
            workload,
            tiers,
            token=token,
            now=now,
            unavailable=skipped - tried,
            crowded=crowded,
        )
        name = policy.spec.tiers[placing.choice.tier].name if placing.choice.tier is not None else ""
        if name in tried:
            self.marks[policy.name] = marks.claim_probe(name, token, now) or marks
        self._ledgers[key] = after
        self.machine.keep(after)
        return placing

    def _ledger(
        self, policy: PlacementPolicy, workload: Workload, key: GroupKey, pod: Pod, now: float
    ) -> tuple[Tiers, Ledger]:
        """The group's ledger as its pods have it now."""
        members = []
        live = [(workload, pod.metadata.labels)]
        for other in self.machine.pods():
            of = workload_of(other, self.machine)
            if of.namespace == key.namespace and group_of(policy, of, other.metadata.labels) == key:
                members.append(member_of(policy, other, of, self.machine.labels_of_node))
                if not members[-1].leaving:
                    live.append((of, other.metadata.labels))
        tiers = self.machine.tiers_for(policy, key.namespace, alike(live))
        held = {name for member in members for name in (member.token, member.uid)}
        known = self._ledgers.get(key) or Ledger(key)
        gone = [entry.token for entry in known.entries if entry.pod and entry.token not in held]
        return tiers, known.observe(members, tiers, now, gone=gone)

    # Following

    def _changed(self, change: Change) -> None:
        kind = kind_of(change.resource)
        if kind == "Event" and change.type != "DELETED":
            self._heard(change.object)
        if kind not in KINDS:
            return
        meta = change.object["metadata"]
        if change.type == "DELETED":
            self.machine.gone(kind, meta.get("namespace", ""), meta["name"], meta["uid"])
        else:
            self._seen(change.resource, change.object)
        assert self._clock is not None
        self._look_at(self._clock.now() + _PAUSE)

    def _seen(self, resource: Resource, item: Obj) -> None:
        kind = kind_of(resource)
        if kind not in KINDS:
            return
        try:
            self.machine.seen(kind, convert(item, KINDS[kind]), self._now())
        except BadObject as error:
            _log.warning("object cannot be used", error=str(error))

    def _heard(self, event: Obj) -> None:
        if uid := promised(event):
            self.machine.promised(uid, self._now())

    def _look_at(self, at: datetime) -> None:
        assert self._clock is not None
        if self._timer is not None and self._timer.pending:
            if self._timer.at <= at:
                return
            self._timer.cancel()
        self._timer = self._clock.call_at(at, self._turn)

    def _turn(self) -> None:
        now = self._now()
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
        assert self._api is not None
        namespace, _, name = deletion.pod.partition("/")
        try:
            self._api.delete(PODS, name, namespace, DeleteOptions(uid=deletion.uid))
        except NotFound:
            return
        self.done.append(Done(now, deletion))

    def _evict(self, move: Move, now: float) -> None:
        assert self._api is not None
        namespace, _, name = move.pod.partition("/")
        # Told first: the store tells of the eviction before it returns.
        self.machine.sent(move, now)
        try:
            self._api.evict(name, namespace, {"deleteOptions": {"preconditions": {"uid": move.uid}}})
        except ApiError as error:
            _log.info("not evicted", pod=move.pod, error=str(error))
            self.machine.refused(move, now)
            return
        self.done.append(Done(now, move))

    def _now(self) -> float:
        return self._clock.now().timestamp() if self._clock is not None else 0.0
