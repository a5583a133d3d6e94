"""What a pod is given at admission: its tier in the terms of Kubernetes, and the marks of its slot.

The pod is plain data, because all of it must survive; the answer is a JSON patch. Terms of required node
affinity are ORed, so a tier goes into every one of them. Applied to a pod that has it all, nothing
changes: a re-invoked admission answers with an empty patch.

A pod that is passed on from a tier that has nodes may go to both: where there is room after all when it is
placed, it goes where it belongs. Job pods and bare pods cannot be deleted to try another tier, so they may go
to all further tiers from the start, and prefer their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from fairlead.errors import BadObject
from fairlead.kube.decode import call_it, convert
from fairlead.kube.patch import JsonPatch, diff
from fairlead.kube.tolerations import Toleration
from fairlead.policy.groups.member import Place, read_mark
from fairlead.policy.names import (
    DELETION_COST,
    EXCLUSIVE_LABEL,
    POLICY_ANNOTATION,
    SLOT_ANNOTATION,
    TIER_ANNOTATION,
    TOKEN_ANNOTATION,
)
from fairlead.policy.rule.choice import Choice
from fairlead.policy.rule.model import PlacementPolicy, Tier
from fairlead.policy.rule.workloads import PER_POD, REVISIONS, TEMPLATE_HASH, Workload
from fairlead.policy.slots.placing import Placing
from fairlead.policy.tiers.marks import Marks
from fairlead.policy.tiers.nodes import Term, intersect, nowhere, terms_of_tier

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

# Different on each pod, or on each revision, of one workload.
_NOT_OF_THE_WORKLOAD = (*REVISIONS, *PER_POD)


def patch(
    pod: dict[str, Any],
    policy: PlacementPolicy,
    placing: Placing,
    workload: Workload,
    ours: Collection[str] = (),
) -> JsonPatch:
    """The JSON patch (RFC 6902) that gives the pod its place; empty when it has it already.

    `ours` are names of our own scheduler: its pods get all but the node affinity.
    """
    return diff(pod, patched(pod, policy, placing, workload, ours))


def patched(
    pod: dict[str, Any],
    policy: PlacementPolicy,
    placing: Placing,
    workload: Workload,
    ours: Collection[str] = (),
) -> dict[str, Any]:
    """The pod with its place; `pod` itself is not changed, though parts of it are shared."""
    called = call_it(pod, "Pod")
    found = dict(pod)
    metadata = found["metadata"] = _object(pod, "metadata", called)
    spec = _object(pod, "spec", called)
    _mark(metadata, policy, placing, called)
    if spec.get("nodeName"):
        return found  # it is where it is; its slot is all there is to say
    found["spec"] = spec
    own = placing.choice.tier
    spec_tiers = policy.spec.tiers
    allowed = [] if own is None else [own]
    if own is not None and not placing.choice.firm and (workload.job or not workload.recreated):
        allowed += _further(policy, placing, workload)
    also = placing.choice.also
    # A stuck pod is sent where it belongs, another somewhere else: where it belongs comes first for both.
    both = [*allowed, *also] if placing.choice.why == "stuck" else [*also, *allowed]
    allowed = list(dict.fromkeys(both))
    if spec.get("schedulerName", "default-scheduler") not in ours:
        _steer(spec, policy, allowed, called)
    tiers = [spec_tiers[index] for index in allowed]
    # Under `preferred` a pod never waits for a tier's sake: no tier's taints may keep it out.
    _tolerate(spec, tiers if policy.spec.enforce == "required" else [*tiers, *spec_tiers], called)
    if own is not None:
        _spread(spec, metadata, spec_tiers[own], called)
    if any(tier.exclusive for tier in tiers):
        have_alone(spec, metadata, called)
    return found


def _further(policy: PlacementPolicy, placing: Placing, workload: Workload) -> Iterable[int]:
    """The tiers that a pod may go to beside its own, when no other door can send it there later.

    A single replica's are those that its policy names for single replicas, and no others.
    """
    own, wish = placing.choice.tier, policy.spec.single
    assert own is not None
    by_workload = policy.spec.group_by == "workload"
    if wish is None or not workload.is_single(placing.slot if by_workload else None):
        return range(own + 1, len(policy.spec.tiers))
    named = (wish.tier, wish.otherwise)
    return [at for at, tier in enumerate(policy.spec.tiers) if tier.name in named and at != own]


def warnings_of(pod: dict[str, Any], policy: PlacementPolicy, placing: Placing) -> tuple[str, ...]:
    """What the pod's creator should know."""
    found = []
    tier = placing.choice.tier
    if tier is None:
        found.append(f"every tier of policy {policy.name} is at its max; the pod waits")
    elif placing.choice.why == "beyond":
        name = policy.spec.tiers[tier].name
        found.append(
            f"every tier of policy {policy.name} is at its max; the pod goes to tier {name} all the same, "
            "because nothing could send it to one later"
        )
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    # Of pods that are alone in their group there is no order.
    if placing.token and not cost_is_ours(annotations):
        found.append(
            f"the pod has a {DELETION_COST} of its own, so scale-in will not follow the slots of policy "
            f"{policy.name}"
        )
    return tuple(found)


def tier_to_try(place: Place, choice: Choice, marks: Marks, closed: Collection[str], now: float) -> str:
    """The marked tier that a new pod tries if it can claim the probe; "": none.

    It would learn nothing of a tier that is `closed` to it, nor would one that may go to further tiers as it
    is.
    """
    workload = place.workload
    if workload.job or not workload.recreated:
        return ""
    return marks.to_try(choice, place.policy, now, closed)


def annotations_of(policy: PlacementPolicy, placing: Placing) -> dict[str, str]:
    """The marks of a slot, deletion cost included."""
    tier = placing.choice.tier
    found = {
        POLICY_ANNOTATION: policy.name,
        SLOT_ANNOTATION: str(placing.slot),
        DELETION_COST: str(-placing.slot),
    }
    if tier is not None:
        found[TIER_ANNOTATION] = policy.spec.tiers[tier].name
    if placing.token:
        found[TOKEN_ANNOTATION] = placing.token
    return found


def marks_for(annotations: Mapping[str, Any], policy: PlacementPolicy, placing: Placing) -> dict[str, str]:
    """The marks of a slot for a pod with these annotations: at admission, and on its Binding.

    A user who gave the pod a deletion cost of its own decides which pod goes first.
    """
    wanted = annotations_of(policy, placing)
    if not cost_is_ours(annotations):
        del wanted[DELETION_COST]
    return wanted


def _mark(metadata: dict[str, Any], policy: PlacementPolicy, placing: Placing, called: str) -> None:
    annotations = _object(metadata, "annotations", called)
    wanted = marks_for(annotations, policy, placing)
    for name in (TIER_ANNOTATION, TOKEN_ANNOTATION):
        annotations.pop(name, None)
    metadata["annotations"] = annotations | wanted


def cost_is_ours(annotations: Mapping[str, Any]) -> bool:
    """Whether the deletion cost is ours to write: there is none, or an earlier call wrote it."""
    cost, earlier = annotations.get(DELETION_COST), read_mark(annotations)
    return cost is None or (earlier is not None and cost == str(-earlier.slot))


def _steer(spec: dict[str, Any], policy: PlacementPolicy, allowed: list[int], called: str) -> None:
    """Node affinity to the first of the allowed tiers; to all of them, if there are several."""
    required = policy.spec.enforce == "required"
    if not allowed:
        if not required:
            return
        own = nowhere()
    else:
        own = terms_of_tier(policy, allowed[0])
    every: tuple[Term, ...] = own
    for index in allowed[1:]:
        more = terms_of_tier(policy, index)
        every = every + more if every and more else ()
    if not own and not every:
        return
    affinity = _object(spec, "affinity", called)
    nodes = _object(affinity, "nodeAffinity", called)
    if required and every:
        selector = nodes.get(_REQUIRED)
        if selector is None:
            nodes[_REQUIRED] = {"nodeSelectorTerms": list(every)}
        else:
            selector = _object(nodes, _REQUIRED, called)
            selector["nodeSelectorTerms"] = intersect(_list(selector, "nodeSelectorTerms", called), every)
            nodes[_REQUIRED] = selector
    if not required or len(allowed) > 1:
        preferred = _list(nodes, _PREFERRED, called)
        for term in own:
            wish = {"weight": 100, "preference": term}
            if wish not in preferred:
                preferred = [*preferred, wish]
        if preferred:
            nodes[_PREFERRED] = preferred
    affinity["nodeAffinity"] = nodes
    spec["affinity"] = affinity


def _tolerate(spec: dict[str, Any], tiers: list[Tier], called: str) -> None:
    have = _list(spec, "tolerations", called)
    known = [convert(one, Toleration) for one in have]
    for tier in tiers:
        for wanted in tier.tolerations:
            if not any(_includes(one, wanted) for one in known):
                known.append(wanted)
                have = [*have, wanted.to_plain()]
    if have:
        spec["tolerations"] = have


def _spread(spec: dict[str, Any], metadata: dict[str, Any], tier: Tier, called: str) -> None:
    labels = _object(metadata, "labels", called)
    chosen = {key: value for key, value in labels.items() if key not in _NOT_OF_THE_WORKLOAD}
    # Tenants' and tiers' own marks come and go with the pod's place.
    chosen.pop(EXCLUSIVE_LABEL, None)
    if not chosen:
        return
    have = _list(spec, "topologySpreadConstraints", called)
    for key in tier.spread:
        # What the user says of a key stands; a second one with the same effect is not even allowed.
        if any(one.get("topologyKey") == key for one in have):
            continue
        constraint: dict[str, Any] = {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": chosen},
        }
        if TEMPLATE_HASH in labels:
            constraint["matchLabelKeys"] = [TEMPLATE_HASH]
        have = [*have, constraint]
    if have:
        spec["topologySpreadConstraints"] = have


def have_alone(spec: dict[str, Any], metadata: dict[str, Any], called: str) -> None:
    """One pod per node, in terms that kube-scheduler and autoscalers understand."""
    metadata["labels"] = {EXCLUSIVE_LABEL: "true", **_object(metadata, "labels", called)}
    term = {
        "labelSelector": {"matchExpressions": [{"key": EXCLUSIVE_LABEL, "operator": "Exists"}]},
        "namespaceSelector": {},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = _object(spec, "affinity", called)
    others = _object(affinity, "podAntiAffinity", called)
    have = _list(others, _REQUIRED, called)
    if term not in have:
        others[_REQUIRED] = [*have, term]
        affinity["podAntiAffinity"] = others
        spec["affinity"] = affinity


def _includes(have: Toleration, wanted: Toleration) -> bool:
    """Whether whatever `wanted` tolerates, `have` does, and for as long."""
    if have.effect and have.effect != wanted.effect:
        return False
    if have.key and have.key != wanted.key:
        return False
    if have.toleration_seconds is not None and have.toleration_seconds != wanted.toleration_seconds:
        return False
    if have.operator == "Exists":
        return True
    return bool(have.key) and wanted.operator != "Exists" and have.value == wanted.value


def _object(parent: dict[str, Any], field: str, called: str) -> dict[str, Any]:
    """A copy of a member that is an object; empty when it is missing or null."""
    found = parent.get(field)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise BadObject(called, field, f"expected an object, got {type(found).__name__}")
    return dict(found)


def _list(parent: dict[str, Any], field: str, called: str) -> list[Any]:
    found = parent.get(field)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise BadObject(called, field, "expected a list of objects")
    return found
