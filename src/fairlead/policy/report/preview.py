"""What policies would do to the workloads of a state: which pods get which slots, in which tiers.

Nothing is predicted of timing: every workload's pods take their slots at once, in the order of names,
from ledgers that hold nothing yet, with the same step that the doors take. Beside it stands where the
state's pods are now. Of a group beyond what a ledger holds only the rule's numbers are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from fairlead.kube.meta import Object, ObjectMeta, OwnerReference
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import Job, PodDisruptionBudget
from fairlead.kube.workloads import Workload as Owner
from fairlead.policy.groups.member import GroupKey, facts_of, group_of, member_of
from fairlead.policy.report.status import GroupCount, count_group
from fairlead.policy.rule.choice import Choice
from fairlead.policy.rule.demands import Alike, Sharing, demand_of_group, tiers_of_group
from fairlead.policy.rule.matching import Policies
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Demand, Tiers
from fairlead.policy.rule.workloads import Workload, workload_of
from fairlead.policy.slots.ledger import MOST_SLOTS, Ledger
from fairlead.policy.slots.placing import Placing, place, place_alone


@dataclass(frozen=True, slots=True)
class Subject:
    """A workload of the state: its pods' labels, how many are wanted, how it is rolled out."""

    workload: Workload
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pods: int
    spec: Mapping[str, Any] = field(default_factory=dict)
    """The workload's own spec, as it is written."""

    @property
    def alike(self) -> Alike:
        """Its pods, as budgets see them."""
        return Alike(self.workload, self.labels, self.pods)


class State:
    """Typed objects of a cluster, as far as policies look at them. Add them in any order."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._labels: dict[str, Mapping[str, str]] = {}
        self.pods: list[Pod] = []
        self.budgets: list[PodDisruptionBudget] = []
        self.sharing = Sharing()
        self._owners: dict[tuple[str, str, str], Owner | Job] = {}
        self._specs: dict[tuple[str, str, str], tuple[str, Mapping[str, Any]]] = {}  # and versions

    def add(self, kind: str, thing: Object, plain: Mapping[str, Any]) -> None:
        """Take note of an object of `kind` (``Rollout.argoproj.io`` for others' kinds), typed and plain."""
        match thing:
            case Node():
                self.nodes.append(thing)
                self._labels[thing.metadata.name] = thing.metadata.labels
            case Pod():
                self.pods.append(thing)
            case PodDisruptionBudget():
                self.budgets.append(thing)
            case Owner() | Job():
                key = _kind(kind), thing.metadata.namespace, thing.metadata.name
                self._owners[key] = thing
                spec, version = plain.get("spec"), str(plain.get("apiVersion") or "")
                self._specs[key] = version, spec if isinstance(spec, Mapping) else {}
                self.sharing.seen(key[0], thing, version)

    def owner(self, reference: OwnerReference, namespace: str) -> Owner | Job | None:
        """See `fairlead.policy.rule.workloads.Owners`."""
        return self._owners.get((reference.kind, namespace, reference.name))

    def node_labels(self, name: str) -> Mapping[str, str] | None:
        """The labels of a node; None when it is not in the state."""
        return self._labels.get(name)

    def subjects(self) -> list[Subject]:
        """All workloads, those of which only pods are known too, in the order of namespace, kind and name."""
        found: dict[tuple[str, str, str], Subject] = {}
        for (kind, namespace, name), owner in self._owners.items():
            if owner.metadata.controller is not None and kind == "ReplicaSet":
                continue  # its Deployment speaks for it
            api_version, spec = self._specs[kind, namespace, name]
            template = owner.spec.template
            reference = OwnerReference(kind, name, owner.metadata.uid, api_version, controller=True)
            labels, annotations = template.metadata.labels, template.metadata.annotations
            one = ObjectMeta(
                name=f"{name}-0", namespace=namespace, labels=labels, owner_references=(reference,)
            )
            # The pod shown hangs on its Deployment directly; the template's owner recreates it.
            workload = replace(workload_of(one, self), ordinal=None, recreated=True)
            found[namespace, kind, name] = Subject(workload, labels, annotations, owner.desired, spec)
        for pod in self.pods:
            if pod.terminal or pod.metadata.deletion_timestamp is not None:
                continue
            workload = replace(workload_of(pod.metadata, self), ordinal=None, revision="")
            key = workload.namespace, workload.kind, workload.name
            if workload.skip or (workload.kind, workload.namespace, workload.name) in self._owners:
                continue
            pods = found[key].pods + 1 if key in found else 1
            found[key] = Subject(workload, pod.metadata.labels, pod.metadata.annotations, pods)
        return [found[key] for key in sorted(found)]


@dataclass(frozen=True, slots=True)
class Preview:
    """What would happen to one workload."""

    subject: Subject
    policy: PlacementPolicy | None
    """None: no policy governs it."""
    others: tuple[str, ...] = ()
    """Policies that match it too and lose."""
    key: GroupKey | None = None
    demand: Demand = field(default_factory=Demand)
    """What budgets demand of its own pods, not of its group's."""
    placings: tuple[Placing, ...] = ()
    """Empty where there are too many pods to number them."""
    split: Mapping[str, int] | None = None
    """Pods per tier by the rule alone, where they are not numbered."""
    now: GroupCount | None = None
    """Its pods of the state, where they are."""

    @property
    def counts(self) -> dict[str, int]:
        """Pods per tier, by the tier's name; those that wait for want of room under the name ""."""
        if self.policy is None:
            return {}
        if self.split is not None:
            return dict(self.split)
        none = {tier.name: 0 for tier in self.policy.spec.tiers}
        return none | {tier: len(slots) for tier, slots in self.slots().items()}

    def slots(self) -> dict[str, list[int]]:
        """Slots by tier, as `counts` has them."""
        found: dict[str, list[int]] = {}
        for placing in self.placings:
            found.setdefault(self.tier(placing.choice), []).append(placing.slot)
        return found

    def tier(self, choice: Choice) -> str:
        """The name of a choice's tier, "" for none."""
        if choice.tier is None or self.policy is None:
            return ""
        return self.policy.spec.tiers[choice.tier].name


def preview(policies: Policies, state: State) -> list[Preview]:
    """What would happen to every workload of the state."""
    ledgers: dict[GroupKey, Ledger] = {}
    there = _by_workload(state)
    like = _by_group(policies, state)
    found = []
    for subject in state.subjects():
        matching = policies.matching(subject.workload, subject.labels)
        if not matching:
            found.append(Preview(subject, None))
            continue
        policy, *others = matching
        key = group_of(policy, subject.workload, subject.labels)
        tiers = tiers_of_group(policy, key.namespace, like[key], state.budgets, state.sharing)
        ledger = ledgers.get(key, Ledger(key))
        placings: list[Placing] = []
        split = None
        if len(ledger.entries) + subject.pods > MOST_SLOTS:
            split = _by_rule(policy, tiers, subject.pods)
        for number in range(subject.pods if split is None else 0):
            if key.alone:
                placings.append(place_alone(policy, subject.workload, tiers))
                continue
            one = subject.workload
            if one.kind == "StatefulSet":
                one = replace(one, ordinal=number)
            token = f"{subject.workload.kind}/{subject.workload.name}/{number}"
            ledger, placing = place(ledger, policy, one, tiers, token=token, now=0.0)
            placings.append(placing)
        ledgers[key] = ledger
        members = [
            member_of(policy, facts_of(pod), workload, state.node_labels)
            for pod, workload in there.get(_id(subject.workload), ())
        ]
        found.append(
            Preview(
                subject,
                policy,
                tuple(other.name for other in others),
                key,
                _asked_for(policy, subject, state),
                tuple(placings),
                split,
                count_group(policy, key, members, tiers, subject.workload),
            )
        )
    return found


def _by_rule(policy: PlacementPolicy, tiers: Tiers, pods: int) -> dict[str, int]:
    counts = tiers.split(pods)
    found = {tier.name: number for tier, number in zip(policy.spec.tiers, counts, strict=True)}
    return found | ({"": pods - sum(counts)} if sum(counts) < pods else {})


def _asked_for(policy: PlacementPolicy, subject: Subject, state: State) -> Demand:
    """What budgets demand of a workload's own pods, whether or not a tier asks for it."""
    # As if by itself: of a group of several a number is demanded even where there is no budget.
    alone = structs.replace(policy, spec=structs.replace(policy.spec, group_by="workload"))
    return demand_of_group(alone, subject.workload.namespace, [subject.alike], state.budgets, state.sharing)


def _by_group(policies: Policies, state: State) -> dict[GroupKey, list[Alike]]:
    found: dict[GroupKey, list[Alike]] = {}
    for subject in state.subjects():
        policy = policies.governing(subject.workload, subject.labels)
        if policy is not None:
            key = group_of(policy, subject.workload, subject.labels)
            found.setdefault(key, []).append(subject.alike)
    return found


def _by_workload(state: State) -> dict[tuple[str, str, str], list[tuple[Pod, Workload]]]:
    found: dict[tuple[str, str, str], list[tuple[Pod, Workload]]] = {}
    for pod in state.pods:
        workload = workload_of(pod.metadata, state)
        found.setdefault(_id(workload), []).append((pod, workload))
    return found


def _id(workload: Workload) -> tuple[str, str, str]:
    return workload.kind, workload.namespace, workload.name


def _kind(kind: str) -> str:
    return kind.partition(".")[0]
