"""Which group a pod is in, what the group's ledger is called, and a group's pods as its ledger sees them.

Under ``groupBy: workload`` each revision is a group of its own, but for StatefulSets, whose ordinals
number all revisions together and which may stay mixed for good; label and policy groups ignore revisions.
A group never spans namespaces. The subtle thing is a bare pod under ``groupBy: workload``: it is alone
in its group and always holds slot 1, so it needs no ledger (`GroupKey.alone`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from fairlead.kube.meta import Condition, ObjectMeta
from fairlead.kube.pod import Pod
from fairlead.policy.names import (
    POLICY_ANNOTATION,
    SLOT_ANNOTATION,
    TIER_ANNOTATION,
    TOKEN_ANNOTATION,
)
from fairlead.policy.rule.model import ByLabel, PlacementPolicy
from fairlead.policy.rule.split import FARTHEST
from fairlead.policy.rule.workloads import Workload, name_of
from fairlead.policy.tiers.nodes import tier_of_node


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """A group of pods that share slots."""

    policy: str
    namespace: str
    name: str
    """``Deployment/web``; ``app=web``, for pods without the label ``!app``; ``*`` for all of a policy."""
    revision: str = ""
    alone: bool = False
    """A bare pod that is its own workload: it holds slot 1 and has no ledger."""

    @property
    def ledger_name(self) -> str:
        """The name of its PlacementLedger: readable, a valid DNS name, different for different groups."""
        # JSON, because joined strings could be split in two ways.
        identity = msgspec.json.encode([self.policy, self.namespace, self.name, self.revision])
        digest = hashlib.sha256(identity).hexdigest()[:16]
        words = re.sub(r"[^a-z0-9]+", "-", f"{self.policy}-{self.name}".lower()).strip("-")
        return f"{words[:200].rstrip('-')}-{digest}" if words else f"ledger-{digest}"

    def __str__(self) -> str:
        """As messages call it."""
        said = f"{self.namespace} {self.name}" + (f" ({self.revision})" if self.revision else "")
        return f"{self.policy}: {said}"


@dataclass(frozen=True, slots=True)
class SlotMark:
    """What admission (or the Binding) wrote on a pod. The ledger decides whether it counts."""

    policy: str
    slot: int
    tier: str = ""
    token: str = ""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What policies read of a pod: as the API has it, or as the scheduler that places it knows better."""

    metadata: ObjectMeta
    node: str = ""
    """Where it runs or is about to; empty: nowhere. A finished pod runs nowhere."""
    leaving: bool = False
    """Terminating or finished: it holds no slot."""
    bound: float = 0.0
    """When it got its node, by its condition PodScheduled; 0: without a node, or not known."""
    waits: bool = False
    """Whether this process is to place it, now."""
    mark: SlotMark | None = None
    """What it is being bound with, where the API does not show that yet."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod belongs: the policy that governs it, its workload, and the group whose slots it shares."""

    policy: PlacementPolicy
    workload: Workload
    key: GroupKey


@dataclass(frozen=True, slots=True)
class Member:
    """A pod of a group as the ledger sees it."""

    name: str
    uid: str
    token: str = ""
    """The slot token that the pod is marked with, for this policy; empty: none."""
    slot: int | None = None
    """The slot that it is marked with: no claim to it, but a door sees which marks to mend."""
    tier: str = ""
    """The tier of its node, empty when that is in none; if not placed, the tier of its mark, if any."""
    placed: bool = False
    """Whether it has a node, and one that is known: then `tier` is a fact, else only where it was sent."""
    ordinal: int | None = None
    leaving: bool = False
    """Terminating or finished: it holds no slot."""
    created: float = 0.0
    bound: float = 0.0
    """When it got its node, by its condition PodScheduled; 0: without a node, or not known."""


def group_of(policy: PlacementPolicy, workload: Workload, labels: Mapping[str, str]) -> GroupKey:
    """The group that a pod of `workload`, governed by `policy`, is in; `labels` are the pod's."""
    by = policy.spec.group_by
    if isinstance(by, ByLabel):
        value = labels.get(by.label)
        name = f"!{by.label}" if value is None else f"{by.label}={value}"
        return GroupKey(policy.name, workload.namespace, name)
    if by == "policy":
        return GroupKey(policy.name, workload.namespace, "*")
    name = name_of(workload)
    revision = "" if workload.kind == "StatefulSet" else workload.revision
    return GroupKey(policy.name, workload.namespace, name, revision, alone=workload.bare)


def read_mark(annotations: Mapping[str, str]) -> SlotMark | None:
    """What a pod is marked with; None without a mark or with one that cannot be read, or is beyond all.

    >>> read_mark({"fairlead.dev/policy": "web", "fairlead.dev/slot": "3"}).slot
    3
    """
    # In a pod that is being admitted any annotation may be null.
    policy, slot = annotations.get(POLICY_ANNOTATION) or "", annotations.get(SLOT_ANNOTATION) or ""
    if not policy or re.fullmatch(r"[1-9]\d{0,8}", slot, re.ASCII) is None or int(slot) > FARTHEST:
        return None
    return SlotMark(
        policy, int(slot), annotations.get(TIER_ANNOTATION) or "", annotations.get(TOKEN_ANNOTATION) or ""
    )


def facts_of(pod: Pod) -> PodFacts:
    """What policies read of a pod as the API has it."""
    return PodFacts(
        pod.metadata,
        "" if pod.terminal else pod.spec.node_name,
        leaving=pod.terminal or pod.metadata.deletion_timestamp is not None,
        bound=bound_at(pod.status.conditions),
    )


def member_of(
    policy: PlacementPolicy,
    pod: PodFacts,
    workload: Workload,
    node_labels: Callable[[str], Mapping[str, str] | None],
) -> Member:
    """A pod as its group's ledger sees it; `node_labels` gives a node's labels, None when not known."""
    meta = pod.metadata
    mark = pod.mark or read_mark(meta.annotations)
    if mark is not None and mark.policy != policy.name:
        mark = None
    labels = node_labels(pod.node) if pod.node else None
    tier = ""
    if labels is not None:
        index = tier_of_node(policy, pod.node, labels)
        tier = policy.spec.tiers[index].name if index is not None else ""
    elif mark is not None and policy.spec.tier(mark.tier) is not None:
        tier = mark.tier
    created = meta.creation_timestamp
    return Member(
        name=meta.name,
        uid=meta.uid,
        token=mark.token if mark is not None else "",
        slot=mark.slot if mark is not None else None,
        tier=tier,
        placed=labels is not None,
        ordinal=ordinal_of(policy, workload),
        leaving=pod.leaving,
        created=created.timestamp() if created is not None else 0.0,
        bound=pod.bound,
    )


def bound_at(conditions: Iterable[Condition]) -> float:
    """When a pod got its node, to the second, by its condition PodScheduled; 0: it has none, or no time."""
    for condition in conditions:
        if condition.type == "PodScheduled" and condition.status == "True":
            time = condition.last_transition_time
            return time.timestamp() if time is not None else 0.0
    return 0.0


def ordinal_of(policy: PlacementPolicy, workload: Workload) -> int | None:
    """The ordinal that decides a pod's slot; None where the lowest free slot is taken.

    In a group of several workloads two StatefulSets would want the same slot.
    """
    return workload.ordinal if policy.spec.group_by == "workload" else None
