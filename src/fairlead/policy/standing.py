"""Groups as they stand: their pods, slots and tiers, what the rule wants, and whether they are at rest.

What fallback and rebalancing decide from. The subtle thing is the target: the rule's split of the pods
there are, except that pods of single-replica workloads have a tier of their own choosing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fairlead.kube.meta import OwnerReference
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import PodDisruptionBudget, UpdateStrategy
from fairlead.kube.workloads import Workload as Owner
from fairlead.policy.demands import alike, tiers_of_group
from fairlead.policy.groups import GroupKey, Member, group_of, member_of
from fairlead.policy.ledger import EXPIRY_S, Entry, Ledger
from fairlead.policy.matching import Policies
from fairlead.policy.model import PlacementPolicy
from fairlead.policy.placing import place
from fairlead.policy.rule import Tiers
from fairlead.policy.sharing import Sharing
from fairlead.policy.workloads import Owners, Workload, workload_of

__all__ = [
    "Governed",
    "Held",
    "Standing",
    "governed",
    "is_evicted",
    "is_ready",
    "rolls_out",
    "spared",
    "stand",
]

_NEW = "a pod to come"  # a token that no pod has: tokens and UIDs are hexadecimal


@dataclass(frozen=True, slots=True)
class Held:
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
class Governed:
    """A pod that a policy governs, and what follows from that."""

    pod: Pod
    policy: PlacementPolicy
    key: GroupKey
    workload: Workload
    member: Member


@dataclass(frozen=True, slots=True)
class Standing:
    """One group at one moment. `pods` are in the order of their slots."""

    key: GroupKey
    policy: PlacementPolicy
    tiers: Tiers
    pods: tuple[Held, ...]
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
        """How many pods the group's workloads want; None: nobody knows. Left out is who does not make pods
        anew: Jobs, bare pods, controllers without a scale.
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
        """When time alone changes it: a slot that nobody showed up for expires."""
        here = {held.token for held in self.pods}
        ages = (self.ledger.age(entry, now) for entry in self.ledger.entries if entry.token not in here)
        oldest = max(ages, default=None)
        return now - oldest + EXPIRY_S if oldest is not None else None

    @property
    def waits(self) -> bool:
        """Whether one of its pods has no node."""
        return any(not held.member.placed for held in self.pods)

    def landing(self, held: Held, unavailable: Collection[str] = ()) -> int | None:
        """The tier that a pod made anew in place of `held` would be sent to."""
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
        return placing.choice.tier


def governed(
    pod: Pod,
    policies: Policies,
    owners: Owners,
    node_labels: Callable[[str], Mapping[str, str] | None],
) -> Governed | None:
    """Under which policy and in which group a pod is. None: under none, or as a bare pod alone in its
    group, about which nothing can be done.
    """
    workload = workload_of(pod, owners)
    policy = policies.governing(workload, pod.metadata.labels)
    if policy is None:
        return None
    key = group_of(policy, workload, pod.metadata.labels)
    if key.alone:
        return None
    return Governed(pod, policy, key, workload, member_of(policy, pod, workload, node_labels))


def stand(
    pods: Sequence[Governed],
    ledger: Ledger | None,
    budgets: Iterable[PodDisruptionBudget],
    sharing: Sharing,
    now: float,
) -> Standing:
    """How a group stands, from all of its pods (at least one)."""
    key, policy = pods[0].key, pods[0].policy
    live = [one for one in pods if not one.member.leaving]
    like = alike((one.workload, one.pod.metadata.labels) for one in live)
    tiers = tiers_of_group(policy, key.namespace, like, budgets, sharing)
    ledger = _observed(key, pods, ledger, tiers, now)
    index_of = {tier.name: index for index, tier in enumerate(policy.spec.tiers)}
    entry_of = {entry.token: entry for entry in ledger.entries}
    held = []
    for one in live:
        entry = entry_of.get(one.member.token) or entry_of.get(one.member.uid)
        if entry is not None:
            tier = index_of.get(one.member.tier)
            held.append(Held(one.pod, one.workload, one.member, entry.slot, entry.token, tier))
    held.sort(key=lambda one: (one.slot, one.member.name))
    workloads = {(one.workload.kind, one.workload.name): one.workload for one in pods}
    found = Standing(key, policy, tiers, tuple(held), ledger, tuple(workloads.values()))
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
    """How many of so many pods a workload's rollout strategy lets be unavailable at once.

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


def _counts(standing: Standing) -> tuple[int, ...]:
    found = [0] * len(standing.tiers.tiers)
    for held in standing.pods:
        if held.tier is not None:
            found[held.tier] += 1
    return tuple(found)


def _target(standing: Standing) -> tuple[int, ...]:
    spec = standing.policy.spec
    one_workload = spec.group_by == "workload"
    if spec.single is None or not any(
        held.workload.is_single(held.slot if one_workload else None) for held in standing.pods
    ):
        return standing.tiers.split(len(standing.pods))
    wanted = [0] * len(standing.tiers.tiers)
    for held in standing.pods:
        tier = standing.landing(held)
        if tier is not None:
            wanted[tier] += 1
    return tuple(wanted)


def _observed(
    key: GroupKey, pods: Sequence[Governed], ledger: Ledger | None, tiers: Tiers, now: float
) -> Ledger:
    """The ledger with what its pods say taken in. Without one, as with our scheduler and the extender, who
    keep theirs in memory, it is what the pods are marked with.
    """
    members = [one.member for one in pods]
    if ledger is not None:
        here = {name for member in members for name in (member.token, member.uid)}
        # Somebody saw these pods and we do not: who keeps the ledger is about to free their slots.
        gone = [entry.token for entry in ledger.entries if entry.pod and entry.token not in here]
        return ledger.observe(members, tiers, now, gone=gone)
    entries: dict[int, Entry] = {}
    rest = []
    for member in sorted(members, key=lambda one: (not one.placed, one.created, one.name)):
        slot = member.slot if member.ordinal is None else member.ordinal + 1
        if member.leaving:
            continue
        if slot is None or slot in entries:
            rest.append(member)
        else:
            entries[slot] = Entry(slot, member.tier, member.uid, now, member.name)
    return Ledger(key, tuple(entries[slot] for slot in sorted(entries))).adopt(rest, tiers, now)
