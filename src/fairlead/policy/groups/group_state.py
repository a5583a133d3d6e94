"""Groups as they stand: their pods, slots and tiers, what the rule wants, and whether they are at rest.

What fallback and rebalancing decide from. The subtle thing is the target: the rule's split of the pods
there are, except that pods of single-replica workloads have a tier of their own choosing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from fairlead.kube.meta import OwnerReference
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import UpdateStrategy
from fairlead.kube.workloads import Workload as Owner
from fairlead.policy.groups.index import GroupedPod, GroupIndex
from fairlead.policy.groups.member import GroupKey, Member, PodFacts, facts_of
from fairlead.policy.groups.owners import KnownOwners
from fairlead.policy.rule.choice import Choice
from fairlead.policy.rule.matching import Policies
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Tiers
from fairlead.policy.rule.workloads import Owners, Workload
from fairlead.policy.slots.ledger import EXPIRY_S, Ledger, Sightings
from fairlead.policy.slots.placing import place

_NEW = "a pod to come"  # a token that no pod has: tokens and UIDs are hexadecimal


@dataclass(frozen=True, slots=True)
class SlotHolder:
    """A pod that holds a slot of its group: neither finished nor on its way out."""

    pod: Pod
    workload: Workload
    member: Member
    slot: int
    token: str
    """What the ledger knows it by."""
    tier: int | None
    """Where it is or, without a node, was sent; None: on no tier's node."""

    @property
    def ready(self) -> bool:
        """Whether it serves."""
        return is_ready(self.pod)


@dataclass(frozen=True, slots=True)
class GroupState:
    """One group at one moment. `pods` are in the order of their slots."""

    key: GroupKey
    policy: PlacementPolicy
    tiers: Tiers
    pods: tuple[SlotHolder, ...]
    ledger: Ledger
    workloads: tuple[Workload, ...]
    counts: tuple[int, ...] = ()
    """Pods per tier."""
    target: tuple[int, ...] = ()
    """Pods per tier as they should be."""
    rolling: str = ""
    """The workload that is being rolled out; empty: none."""

    @property
    def called(self) -> str:
        """What history knows it by: a rollout makes a new group, but not a new workload."""
        return f"{self.key.policy}/{self.key.namespace}/{self.key.name}"

    @property
    def desired(self) -> int | None:
        """How many pods the group's workloads want; None: unknown. Workloads that do not recreate pods are
        left out: Jobs, bare pods, controllers without a scale.
        """
        wanted = 0
        for workload in self.workloads:
            if workload.job or not workload.recreated:
                continue
            if workload.replicas is None:
                return None
            wanted += workload.replicas
        return wanted

    def stale_at(self, now: float) -> float | None:
        """When time alone changes it: a slot that no pod showed up for expires."""
        here = {held.token for held in self.pods}
        ages = (self.ledger.age(entry, now) for entry in self.ledger.entries if entry.token not in here)
        oldest = max(ages, default=None)
        return now - oldest + EXPIRY_S if oldest is not None else None

    @property
    def waits(self) -> bool:
        """Whether one of its pods has no node."""
        return any(not held.member.placed for held in self.pods)

    def landing(self, held: SlotHolder, unavailable: Collection[str] = ()) -> int | None:
        """The tier that a pod recreated in place of `held` would be sent to."""
        return self.landing_choice(held, unavailable).tier

    def landing_choice(self, held: SlotHolder, unavailable: Collection[str] = ()) -> Choice:
        """The tier that a pod recreated in place of `held` would be sent to, and why."""
        without = self.ledger.gone((held.token,))
        _, placing = place(
            without,
            self.policy,
            held.workload,
            self.tiers,
            token=_NEW,
            now=0.0,
            unavailable=unavailable,
        )
        return placing.choice


class GroupStates:
    """The states of all groups, kept up to date change by change: a change costs its group, not the cluster.

    Nodes, owners and budgets are reported to `index`, pods and ledgers here. The subtle thing is rollouts:
    another revision is another group, but both must know of each other, so whether a workload is being rolled
    out is worked out when a state is queried.

    Invariant: a group whose state is not in `_states` is worked out when its state is queried next.
    """

    def __init__(self) -> None:
        self.index = GroupIndex(KnownOwners(whole=True), changed=self._changed, stirred=self._stirred)
        self.pods: dict[str, Pod] = {}
        self._schedulers: Collection[str] | None = None
        self._states: dict[GroupKey, GroupState] = {}
        self._stale_at: dict[GroupKey, float] = {}
        self._ledgers: dict[str, Ledger] = {}
        self._sightings = Sightings()

    # Events

    def use(self, policies: Policies, *, schedulers: Collection[str] | None = None) -> None:
        """These policies hold from now on; with `schedulers`, only for pods of one of them."""
        if schedulers != self._schedulers:
            self._schedulers = schedulers
            self.index.use(Policies(), self._facts)
        self.index.use(policies, self._facts)

    def pod(self, pod: Pod) -> None:
        """A pod as it now is."""
        key = pod.metadata.key
        before = self.pods.get(key)
        if before is not None and before.metadata.uid != pod.metadata.uid:
            self.index.pod_gone(key)
        self.pods[key] = pod
        if self._counts(pod):
            self.index.pod(key, facts_of(pod))
        else:
            self.index.pod_gone(key)
        if (grouped := self.index.get(key)) is not None:
            self._states.pop(grouped.key, None)  # it has the pod, of which anything may have changed

    def pod_gone(self, key: str) -> None:
        """A pod is gone."""
        if self.pods.pop(key, None) is not None:
            self.index.pod_gone(key)

    def ledger(self, ledger: Ledger) -> None:
        """A group's ledger as it now is."""
        self._ledgers[f"{ledger.key.namespace}/{ledger.key.ledger_name}"] = ledger
        self._states.pop(ledger.key, None)

    def ledger_gone(self, name: str) -> None:
        """A group's ledger, by ``namespace/name``, is gone."""
        ledger = self._ledgers.pop(name, None)
        if ledger is not None:
            self._sightings.forget(ledger.key)
            self._states.pop(ledger.key, None)

    # Answers

    def states(self, now: float) -> list[GroupState]:
        """All groups that have pods, in the order of their keys. A bare pod that is alone in its group is
        left out: nothing can be done about it.
        """
        for key, at in list(self._stale_at.items()):
            if now > at:
                self._states.pop(key, None)
        return [self._state_of(key, now) for key in sorted(self.index.groups) if not key.alone]

    def of_pod(self, pod: str, now: float) -> GroupState | None:
        """The group of a pod; None: it is in none."""
        found = self.index.get(pod)
        return self._state_of(found.key, now) if found is not None and not found.key.alone else None

    def stranded(self, policy: str) -> set[str]:
        """Names of a policy's tiers to which pods were sent that are on nodes that are not known any more."""
        return {
            one.member.tier
            for key, group in self.index.groups.items()
            if key.policy == policy and not key.alone
            for one in group.values()
            if one.facts.node and not one.member.placed
        }

    def _facts(self) -> Iterator[tuple[str, PodFacts]]:
        return ((key, facts_of(pod)) for key, pod in self.pods.items() if self._counts(pod))

    def _counts(self, pod: Pod) -> bool:
        return self._schedulers is None or pod.spec.scheduler_name in self._schedulers

    def _changed(self, before: GroupedPod | None, after: GroupedPod | None) -> None:
        for one in (before, after):
            if one is not None:
                self._states.pop(one.key, None)
                self._stale_at.pop(one.key, None)

    def _stirred(self, key: GroupKey) -> None:
        self._states.pop(key, None)

    def _state_of(self, key: GroupKey, now: float) -> GroupState:
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = self._work_out(key, now)
        rolling = self._rolling(state)
        return state if rolling == state.rolling else replace(state, rolling=rolling)

    def _work_out(self, key: GroupKey, now: float) -> GroupState:
        pods = [(self.pods[one.id], one) for one in self.index.groups[key].values()]
        ledger = self._ledgers.get(f"{key.namespace}/{key.ledger_name}")
        if ledger is not None:
            ledger = self._sightings.of(ledger, now)
        some, one = pods[0]
        tiers = self.index.tiers(one.place, some.metadata.labels)
        state = group_state(pods, ledger, tiers, now)
        if (at := state.stale_at(now)) is not None:
            self._stale_at[key] = at
        else:
            self._stale_at.pop(key, None)
        return state

    def _rolling(self, state: GroupState) -> str:
        for workload in state.workloads:
            # A StatefulSet with several revisions may stay like that; its status tells.
            several = workload.kind != "StatefulSet" and len(self.index.revisions(workload)) > 1
            if several or rolls_out(workload, self.index.owners):
                return f"{workload.kind} {workload.namespace}/{workload.name}"
        return ""


def group_state(
    pods: Sequence[tuple[Pod, GroupedPod]], ledger: Ledger | None, tiers: Tiers, now: float
) -> GroupState:
    """The state of a group, from all of its pods (at least one); `tiers` know what budgets demand of it."""
    key, policy = pods[0][1].key, pods[0][1].policy
    ledger = _observed(key, [one.member for _, one in pods], ledger, tiers, now)
    index_of = {tier.name: index for index, tier in enumerate(policy.spec.tiers)}
    entry_of = {entry.token: entry for entry in ledger.entries}
    held = []
    for pod, one in pods:
        entry = entry_of.get(one.member.token) or entry_of.get(one.member.uid)
        if entry is not None and not one.member.leaving:
            tier = index_of.get(one.member.tier)
            held.append(SlotHolder(pod, one.workload, one.member, entry.slot, entry.token, tier))
    held.sort(key=lambda one: (one.slot, one.member.name))
    workloads = {(one.template.workload.kind, one.template.workload.name): one.workload for _, one in pods}
    found = GroupState(key, policy, tiers, tuple(held), ledger, tuple(workloads.values()))
    return replace(found, counts=_counts(found), target=_target(found))


def is_ready(pod: Pod) -> bool:
    """Whether a pod's condition Ready is True."""
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)


def is_evicted(pod: Pod) -> bool:
    """Whether the eviction API was asked to take a pod away, and did."""
    return any(
        c.type == "DisruptionTarget" and c.status == "True" and c.reason == "EvictionByEvictionAPI"
        for c in pod.status.conditions
    )


def rolls_out(workload: Workload, owners: Owners) -> bool:
    """Whether a Deployment's or StatefulSet's controller has yet to see its template, or to make pods of it.

    A partition of a StatefulSet, and all of one that is updated on deletion, keeps its revision for good.
    """
    if workload.kind not in ("Deployment", "StatefulSet"):
        return False
    reference = OwnerReference(workload.kind, workload.name, workload.uid, workload.api_version)
    found = owners.owner(reference, workload.namespace)
    if not isinstance(found, Owner):
        return False
    status, wanted = found.status, found.spec.replicas
    if status.observed_generation < found.metadata.generation:
        return True
    if workload.kind == "Deployment":
        return status.updated_replicas < wanted
    strategy = found.spec.update_strategy or UpdateStrategy()
    if strategy.type == "OnDelete" or status.update_revision == status.current_revision:
        return False
    kept = strategy.rolling_update.partition if strategy.rolling_update is not None else 0
    return status.updated_replicas < wanted - kept


def spared(owner: Owner | None, kind: str, pods: int) -> int:
    """How many of N pods a workload's rollout strategy lets be unavailable at once.

    A percentage is rounded down, as the Deployment controller does. A StatefulSet's default is one pod; of
    what has no strategy, a Deployment's default is taken.

    >>> spared(None, "Deployment", 10), spared(None, "Deployment", 3), spared(None, "StatefulSet", 3)
    (2, 0, 1)
    """
    strategy = None
    if owner is not None:
        strategy = owner.spec.update_strategy if kind == "StatefulSet" else owner.spec.strategy
    if strategy is not None and strategy.type == "Recreate":
        return pods
    rolling = strategy.rolling_update if strategy is not None else None
    said = rolling.max_unavailable if rolling is not None else None
    if said is None:
        said = 1 if kind == "StatefulSet" else "25%"
    if isinstance(said, int):
        return said
    percent = said.removesuffix("%")
    return int(percent) * pods // 100 if percent.isdecimal() else 0


def _counts(state: GroupState) -> tuple[int, ...]:
    found = [0] * len(state.tiers.tiers)
    for held in state.pods:
        if held.tier is not None:
            found[held.tier] += 1
    return tuple(found)


def _target(state: GroupState) -> tuple[int, ...]:
    spec = state.policy.spec
    one_workload = spec.group_by == "workload"
    if spec.single is None or not any(
        held.workload.is_single(held.slot if one_workload else None) for held in state.pods
    ):
        return state.tiers.split(len(state.pods))
    wanted = [0] * len(state.tiers.tiers)
    for held in state.pods:
        tier = state.landing(held)
        if tier is not None:
            wanted[tier] += 1
    return tuple(wanted)


def _observed(
    key: GroupKey, members: Sequence[Member], ledger: Ledger | None, tiers: Tiers, now: float
) -> Ledger:
    """The ledger with what its pods say taken in; without one, what they are marked with."""
    if ledger is None:
        return Ledger.of_marks(key, members, tiers, now)
    here = {name for member in members for name in (member.token, member.uid)}
    # Another component saw these pods and we do not: the ledger's writer is about to free their slots.
    gone = [entry.token for entry in ledger.entries if entry.pod and entry.token not in here]
    return ledger.observe(members, tiers, now, gone=gone)
