"""What a pod's creator may not choose, and what later writers may not change."""

from __future__ import annotations

from typing import Any

from fairlead.kube.quantity import nano
from fairlead.world.api_errors import FieldError, field_forbidden, invalid_value

Object = dict[str, Any]

_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def on_create(pod: Object) -> None:
    """A new pod is pending, whatever its creator says."""
    spec = pod["spec"]
    _merge_match_label_keys(pod)
    status: Object = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [{"lastProbeTime": None, "lastTransitionTime": None, **_GATED}]
    pod["status"] = status


def on_update(new: Object, old: Object) -> None:
    """A pod whose last gate was removed is ready to be scheduled: its condition no longer says Gated."""
    if old["spec"].get("schedulingGates") and not new["spec"].get("schedulingGates"):
        status = dict(new["status"])
        conditions = [
            held
            for held in status.get("conditions") or ()
            if not (held["type"] == "PodScheduled" and held.get("reason") == "SchedulingGated")
        ]
        if conditions:
            status["conditions"] = conditions
        else:
            status.pop("conditions", None)
        new["status"] = status


def resized(new: Object, old: Object) -> Object:
    """The spec `old` with the container resources of `new`: all that a resize may change."""
    spec = dict(old)
    for group in ("containers", "initContainers"):
        wanted = {container["name"]: container for container in new.get(group) or ()}
        if group in old:
            spec[group] = [
                {**held, "resources": wanted.get(held["name"], held)["resources"]} for held in old[group]
            ]
    return spec


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, from cpu and memory of all containers."""
    guaranteed, any_set = True, False
    scopes = [spec["resources"]] if spec.get("resources") else []
    scopes += [] if scopes else [item.get("resources") or {} for item in _containers(spec)]
    for resources in scopes:
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            request, limit = nano(requests.get(name, 0)), nano(limits.get(name, 0))
            any_set = any_set or request > 0 or limit > 0
            if limit == 0 or (request or limit) != limit:
                guaranteed = False
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed and scopes else "Burstable"


def _containers(spec: Object) -> list[Object]:
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _merge_match_label_keys(pod: Object) -> None:
    """``matchLabelKeys`` of (anti-)affinity terms become selector expressions when a pod is created."""
    labels = pod["metadata"].get("labels") or {}
    affinity = pod["spec"].get("affinity") or {}
    for side in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(side) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            terms.append(weighted["podAffinityTerm"])
        for term in terms:
            _merge_keys(term, labels)
    for constraint in pod["spec"].get("topologySpreadConstraints") or ():
        _merge_keys(constraint, labels)


def _merge_keys(term: Object, labels: dict[str, str]) -> None:
    if term.get("labelSelector") is None:
        return
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field) or ():
            if key in labels:
                expression = {"key": key, "operator": operator, "values": [labels[key]]}
                expressions = term["labelSelector"].setdefault("matchExpressions", [])
                if expression not in expressions:
                    expressions.append(expression)


# What may change in a pod that exists: very little, and the API server says which

_MUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_update(new: Object, old: Object) -> list[FieldError]:
    """Problems of replacing `old` by `new`."""
    spec, before = new["spec"], old["spec"]
    if spec == before:
        return []
    if len(spec.get("containers") or ()) != len(before.get("containers") or ()):
        return [field_forbidden("spec.containers", "pod updates may not add or remove containers")]
    if len(spec.get("initContainers") or ()) != len(before.get("initContainers") or ()):
        return [field_forbidden("spec.initContainers", "pod updates may not add or remove containers")]
    errors = _check_deadline(spec, before) + _check_tolerations(spec, before) + _check_gates(spec, before)
    # What is left must be equal once everything that may change is taken over.
    same = {**spec}
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _take(same, before, field)
    for group in ("containers", "initContainers"):
        if group in spec:
            same[group] = [
                {**item, "image": held.get("image", "")} | {"resources": item["resources"]}
                for item, held in zip(spec[group], before[group], strict=True)
            ]
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        _take(same, before, "terminationGracePeriodSeconds")
    if before.get("schedulingGates"):
        # A gated pod's node selection may still be narrowed: no scheduler has looked at it yet.
        held = before.get("nodeSelector") or {}
        if held.items() <= (spec.get("nodeSelector") or {}).items():
            _take(same, before, "nodeSelector")
        if _narrows(spec.get("affinity") or {}, before.get("affinity") or {}):
            _take(same, before, "affinity")
    if same != before:
        errors.append(field_forbidden("spec", _MUTABLE))
    return errors


def _take(spec: Object, before: Object, field: str) -> None:
    if field in before:
        spec[field] = before[field]
    else:
        spec.pop(field, None)


def _check_deadline(spec: Object, before: Object) -> list[FieldError]:
    new, old = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    path = "spec.activeDeadlineSeconds"
    if old is not None and new is None:
        return [invalid_value(path, new, "must not update from a positive integer to nil value")]
    if old is not None and new is not None and new > old:
        return [invalid_value(path, new, "must be less than or equal to previous value")]
    return []


def _check_tolerations(spec: Object, before: Object) -> list[FieldError]:
    def key(toleration: Object) -> tuple[tuple[str, Any], ...]:
        return tuple(
            sorted((name, value) for name, value in toleration.items() if name != "tolerationSeconds")
        )

    held = {key(toleration) for toleration in spec.get("tolerations") or ()}
    if all(key(toleration) in held for toleration in before.get("tolerations") or ()):
        return []
    why = "existing toleration can not be modified except its tolerationSeconds"
    return [field_forbidden("spec.tolerations", why)]


def _check_gates(spec: Object, before: Object) -> list[FieldError]:
    held = {gate["name"] for gate in before.get("schedulingGates") or ()}
    return [
        field_forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(spec.get("schedulingGates") or ())
        if gate["name"] not in held
    ]


def _narrows(affinity: Object, before: Object) -> bool:
    rest, held = dict(affinity), dict(before)
    node, was = rest.pop("nodeAffinity", None) or {}, held.pop("nodeAffinity", None) or {}
    if rest != held:
        return False
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = (was.get(field) or {}).get("nodeSelectorTerms")
    if terms is None:
        return True
    now = (node.get(field) or {}).get("nodeSelectorTerms") or []
    return len(now) == len(terms) and all(
        all(item in (new.get(part) or []) for item in old.get(part) or ())
        for new, old in zip(now, terms, strict=True)
        for part in ("matchExpressions", "matchFields")
    )
