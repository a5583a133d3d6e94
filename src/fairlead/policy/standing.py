"""Groups as they stand: their pods, slots and tiers, what the rule wants, and whether they are at rest.

What fallback and rebalancing decide from. The subtle thing is the target: the rule's split of the pods
there are, except that pods of single-replica workloads have a tier of their own choosing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fairlead.kube.meta import OwnerReference
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import PodDisruptionBudget
from fairlead.kube.workloads import Workload as Owner
from fairlead.policy.groups import GroupKey, Member, group_of, member_of
from fairlead.policy.ledger import Entry, Ledger
from fairlead.policy.matching import Policies
from fairlead.policy.model import PlacementPolicy
from fairlead.policy.placing import place
from fairlead.policy.rule import Demand, Tiers
from fairlead.policy.workloads import Owners, Workload, demand_of, workload_of

__all__ = ["Held", "Standing", "is_ready", "standings"]

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
class Standing:
    """One group at one moment. `pods` are in the order of their slots."""

    key: GroupKey
    policy: PlacementPolicy
    tiers: Tiers
    pods: tuple[Held, ...]
    ledger: Ledger
    desired: int | None
    """How many pods the group's workloads want, Jobs and bare pods left out; None: nobody knows."""
    rolling: str = ""
    """The workload that is being rolled out; empty: none."""

    @property
    def called(self) -> str:
        """What history knows it by: a rollout makes a new group, but not a new workload."""
        return f"{self.key.policy}/{self.key.namespace}/{self.key.name}"

    def counts(self) -> list[int]:
        """Pods per tier."""
        found = [0] * len(self.tiers.tiers)
        for held in self.pods:
            if held.tier is not None:
                found[held.tier] += 1
        return found

    def target(self) -> tuple[int, ...]:
        """Pods per tier as they should be."""
        wish = self.policy.spec.single
        singles = [held for held in self.pods if wish is not None and self._single(held)]
        if not singles or wish is None:
            return self.tiers.split(len(self.pods))
        wanted = [0] * len(self.tiers.tiers)
        for held in self.pods:
            tier = self.landing(held)
            if tier is not None:
                wanted[tier] += 1
        return tuple(wanted)

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

    def _single(self, held: Held) -> bool:
        return held.workload.is_single(held.slot if self.policy.spec.group_by == "workload" else None)


def standings(
    policies: Policies,
    pods: Iterable[Pod],
    owners: Owners,
    *,
    budgets: Sequence[PodDisruptionBudget],
    node_labels: Callable[[str], Mapping[str, str] | None],
    ledger_of: Callable[[GroupKey], Ledger | None],
    now: float,
) -> list[Standing]:
    """All groups that have pods, in the order of their keys. Bare pods that are their own group are left
    out: nothing can be done about them.
    """
    found: dict[GroupKey, list[tuple[Pod, Workload, Member]]] = {}
    revisions: dict[tuple[str, str, str], set[str]] = {}
    for pod in pods:
        workload = workload_of(pod, owners)
        policy = policies.governing(workload, pod.metadata.labels)
        if policy is None:
            continue
        key = group_of(policy, workload, pod.metadata.labels)
        if key.alone:
            continue
        member = member_of(policy, pod, workload, node_labels)
        found.setdefault(key, []).append((pod, workload, member))
        if not member.leaving:
            name = (workload.kind, workload.namespace, workload.name)
            revisions.setdefault(name, set()).add(workload.revision)
    rolling = {name for name, seen in revisions.items() if len(seen) > 1}
    standing = []
    for key in sorted(found):
        policy = policies.get(key.policy)
        if policy is not None:
            group = _Group(key, policy, found[key], ledger_of(key))
            standing.append(group.standing(owners, budgets, rolling, now))
    return standing


def is_ready(pod: Pod) -> bool:
    """Whether a pod's condition Ready is True."""
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)


@dataclass(frozen=True, slots=True)
class _Group:
    key: GroupKey
    policy: PlacementPolicy
    pods: list[tuple[Pod, Workload, Member]]
    ledger: Ledger | None

    def standing(
        self,
        owners: Owners,
        budgets: Sequence[PodDisruptionBudget],
        rolling: Collection[tuple[str, str, str]],
        now: float,
    ) -> Standing:
        live = [one for one in self.pods if not one[2].leaving]
        tiers = Tiers(self.policy.spec.tiers, self._demand(budgets, len(live)))
        ledger = self._observed(tiers, now)
        index_of = {tier.name: index for index, tier in enumerate(self.policy.spec.tiers)}
        held = []
        for pod, workload, member in live:
            entry = ledger.of_token(member.token) or ledger.of_token(member.uid)
            if entry is not None:
                tier = index_of.get(member.tier)
                held.append(Held(pod, workload, member, entry.slot, entry.token, tier))
        held.sort(key=lambda one: (one.slot, one.member.name))
        return Standing(
            self.key,
            self.policy,
            tiers,
            tuple(held),
            ledger,
            self._desired(),
            self._rolling(owners, rolling),
        )

    def _observed(self, tiers: Tiers, now: float) -> Ledger:
        """The ledger with what its pods say taken in. Without one, as with our scheduler and the extender,
        who keep theirs in memory, it is what the pods are marked with.
        """
        members = [member for *_, member in self.pods]
        if self.ledger is not None:
            return self.ledger.observe(members, tiers, now)
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
        return Ledger(self.key, tuple(entries[slot] for slot in sorted(entries))).adopt(rest, tiers, now)

    def _demand(self, budgets: Sequence[PodDisruptionBudget], pods: int) -> Demand:
        if all(tier.min != "pdb" for tier in self.policy.spec.tiers):
            return Demand()  # nobody asks
        labels = self.pods[0][0].metadata.labels
        return demand_of(budgets, self.key.namespace, labels, pods)

    def _workloads(self) -> dict[tuple[str, str], Workload]:
        return {(workload.kind, workload.name): workload for _, workload, _ in self.pods}

    def _desired(self) -> int | None:
        wanted = 0
        for workload in self._workloads().values():
            if workload.job or workload.bare:
                continue
            if workload.replicas is None:
                return None
            wanted += workload.replicas
        return wanted

    def _rolling(self, owners: Owners, rolling: Collection[tuple[str, str, str]]) -> str:
        for workload in self._workloads().values():
            called = f"{workload.kind} {workload.namespace}/{workload.name}"
            if (workload.kind, workload.namespace, workload.name) in rolling:
                return called
            if workload.kind == "Deployment":
                reference = OwnerReference("Deployment", workload.name, workload.uid, workload.api_version)
                owner = owners.owner(reference, workload.namespace)
                if isinstance(owner, Owner) and _unfinished(owner):
                    return called
        return ""


def _unfinished(deployment: Owner) -> bool:
    """Whether the controller has yet to see the template, or to make pods of it."""
    status = deployment.status
    return (
        status.observed_generation < deployment.metadata.generation
        or status.updated_replicas < deployment.spec.replicas
    )
