"""The pod as it is planned: with its tier's affinity, tolerations, spread and exclusivity added.

The same hands give a pod its place at admission, so the doors agree. Planned so, a policy needs no rule of
its own: classes, ranking, preemption and explanations see an ordinary pod. What was added is not in the
API; what must be there when the pod starts is carried by its bind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from fairlead.engine.snapshot.specs import encode
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod, PodSpec
from fairlead.kube.tolerations import Toleration, tolerated
from fairlead.policy.decide.admission import marks_for, patched
from fairlead.policy.names import CAPACITY_ANNOTATION, EXCLUSIVE_LABEL, TIER_ANNOTATION
from fairlead.policy.rule.choice import Choice
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.workloads import Workload
from fairlead.policy.slots.placing import Placing

_ROOM = 4096  # specs that are kept; templates in use are far fewer
_SOME = Workload("Pod", "v1", "", "")
_NOTHING: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Sent:
    """Where a waiting pod is sent, and why."""

    policy: PlacementPolicy
    slot: int
    choice: Choice

    def like(self, other: Sent | None) -> bool:
        """Whether planning and what is said of it would be the same; the slot's number is neither's."""
        if other is None:
            return False
        same = self.choice is other.choice or self.choice == other.choice
        return same and (self.policy is other.policy or self.policy == other.policy)


class PlannedPods:
    """Pods with their tiers. Invariant: equal specs in one tier are given one spec object."""

    __slots__ = ("_specs",)

    def __init__(self) -> None:
        self._specs: dict[object, PodSpec] = {}

    def clear(self) -> None:
        """Policies have changed."""
        self._specs.clear()

    def pod(self, pod: Pod, sent: Sent) -> Pod:
        """The pod as it is planned. Raises BadObject for one that makes no sense."""
        tier = sent.choice.tier
        spread = tier is not None and bool(sent.policy.spec.tiers[tier].spread)
        labels = pod.metadata.labels
        key = (sent.policy.name, tier, sent.choice.also, encode((pod.spec, labels if spread else None)))
        spec = self._specs.get(key)
        if spec is None:
            if len(self._specs) >= _ROOM:
                self._specs.clear()
            spec = self._specs[key] = _spec(pod, sent)
        metadata = pod.metadata
        if tier is not None and sent.policy.spec.tiers[tier].exclusive:
            metadata = msgspec.structs.replace(
                metadata,
                labels={EXCLUSIVE_LABEL: "true", **labels},
                annotations={**metadata.annotations, CAPACITY_ANNOTATION: "exclusive"},
            )
        return Pod(metadata, spec, pod.status)


def carried(
    pod: Pod, planned: Pod, sent: Sent, tier: int | None, node: Node
) -> tuple[dict[str, str], tuple[Toleration, ...]]:
    """What a pod's bind brings along: annotations, and all its tolerations if some must be added first.

    `pod` is as the API shows it, `planned` as it was planned, `tier` that of the node, which under
    ``enforce: preferred`` may be another than the pod was sent to, or none.
    """
    known = pod.metadata.annotations
    annotations = marks_for(known, sent.policy, Placing(sent.slot, replace(sent.choice, tier=tier)))
    if tier is None and TIER_ANNOTATION in known:
        annotations[TIER_ANNOTATION] = ""  # an annotation can be changed by a Binding, not removed
    if tier is not None and sent.policy.spec.tiers[tier].exclusive:
        annotations[CAPACITY_ANNOTATION] = "exclusive"
    # Whatever let it be planned there must let it stay there, whichever tier it is of.
    repelling = [taint for taint in node.spec.taints if not tolerated(taint, pod.spec.tolerations)]
    added = tuple(one for one in planned.spec.tolerations if any(one.covers(taint) for taint in repelling))
    return annotations, (*pod.spec.tolerations, *added) if added else ()


def _spec(pod: Pod, sent: Sent) -> PodSpec:
    plain: dict[str, Any] = {
        "metadata": {"name": pod.metadata.name, "labels": pod.metadata.labels, "annotations": _NOTHING},
        "spec": msgspec.json.decode(msgspec.json.encode(pod.spec)),
    }
    # Firm: a pod that is sent elsewhere later is planned again, so no further tier need be open to it now.
    placing = Placing(sent.slot, replace(sent.choice, firm=True))
    found = patched(plain, sent.policy, placing, _SOME)
    return convert(found["spec"], PodSpec)
