"""What is wrong with a pod, or with a change to one, in the API server's words.

Only the rules that people and schedulers run into; the rest is the real cluster's to test.
"""

from __future__ import annotations

import re
from typing import Any

from fairlead.kube.quantity import QuantityError, nano
from fairlead.world.api_errors import (
    FieldError,
    duplicate,
    field_forbidden,
    invalid_value,
    not_supported,
    required,
)
from fairlead.world.schema import names
from fairlead.world.schema.pods import check_update

Object = dict[str, Any]

_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})


def validate_pod(pod: Object, old: Object | None) -> list[FieldError]:
    """Problems of a new pod, or of an update."""
    errors = _check_cost(pod) + validate_pod_spec(pod["spec"], "spec")
    if old is not None:
        errors += check_update(pod, old)
    return errors


_COST = "controller.kubernetes.io/pod-deletion-cost"


def _check_cost(pod: Object) -> list[FieldError]:
    cost = (pod["metadata"].get("annotations") or {}).get(_COST)
    if cost is None or (re.fullmatch(r"-?(0|[1-9][0-9]*)", cost) and -(2**31) <= int(cost) < 2**31):
        return []
    return [invalid_value(f"metadata.annotations[{_COST}]", cost, "must be a 32bit integer")]


def validate_pod_spec(spec: Object, path: str) -> list[FieldError]:
    """Problems of a pod's spec, wherever it stands."""
    errors = _check_volumes(spec, path) + _check_containers(spec, path) + _check_mounts(spec, path)
    errors += _one_of(spec, path, "restartPolicy", ("Always", "OnFailure", "Never"))
    errors += _one_of(spec, path, "dnsPolicy", ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"))
    errors += names.check_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    errors += _check_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    errors += _check_gates(spec.get("schedulingGates") or (), f"{path}.schedulingGates")
    errors += _check_spread(spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        why = "must be between 1 and 2147483647, inclusive"
        errors.append(invalid_value(f"{path}.activeDeadlineSeconds", deadline, why))
    errors += _check_tolerations(spec.get("tolerations") or (), f"{path}.tolerations")
    return errors


def _check_gates(gates: Any, path: str) -> list[FieldError]:
    held = [gate.get("name", "") for gate in gates]
    return [duplicate(f"{path}[{at}]", name) for at, name in enumerate(held) if name in held[:at]]


def _one_of(spec: Object, path: str, field: str, allowed: tuple[str, ...]) -> list[FieldError]:
    value = spec.get(field)
    if not value:
        return [required(f"{path}.{field}")]
    return [] if value in allowed else [not_supported(f"{path}.{field}", value, allowed)]


def _check_containers(spec: Object, path: str) -> list[FieldError]:
    if not spec.get("containers"):
        return [required(f"{path}.containers")]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            here = f"{path}.{group}[{index}]"
            name = container.get("name", "")
            errors += names.label_errors(f"{here}.name", name) if name else [required(f"{here}.name")]
            if name in seen:
                errors.append(duplicate(f"{here}.name", name))
            seen.add(name)
            if not container.get("image"):
                errors.append(required(f"{here}.image"))
            errors += _check_container(container, here)
    return errors


def _check_container(container: Object, path: str) -> list[FieldError]:
    errors = []
    for index, port in enumerate(container.get("ports") or ()):
        here = f"{path}.ports[{index}]"
        if not port.get("containerPort"):
            errors.append(required(f"{here}.containerPort"))
        for field in ("containerPort", "hostPort"):
            if (number := port.get(field, 0)) and not 1 <= number <= 65535:
                errors.append(
                    invalid_value(f"{here}.{field}", number, "must be between 1 and 65535, inclusive")
                )
        if port.get("protocol") not in ("SCTP", "TCP", "UDP"):
            errors.append(not_supported(f"{here}.protocol", port.get("protocol", ""), ("SCTP", "TCP", "UDP")))
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            errors.append(required(f"{path}.env[{index}].name"))
    return errors + _check_resources(container.get("resources") or {}, f"{path}.resources")


def _check_resources(resources: Object, path: str) -> list[FieldError]:
    errors = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name in sorted(amounts):
            here = f"{path}.{field}[{name}]"
            errors += _check_resource_name(name, here)
            if _negative(amounts[name]):
                errors.append(invalid_value(here, amounts[name], "must be greater than or equal to 0"))
            if field == "requests" and name in limits:
                if nano(amounts[name]) > nano(limits[name]):
                    why = f"must be less than or equal to {name} limit of {limits[name]}"
                    errors.append(invalid_value(f"{path}.requests", amounts[name], why))
                elif nano(amounts[name]) != nano(limits[name]) and _is_extended(name):
                    why = f"must be equal to {name} limit of {limits[name]}"
                    errors.append(invalid_value(f"{path}.requests", amounts[name], why))
            elif field == "requests" and _is_extended(name):
                errors.append(
                    required(f"{path}.limits", "Limit must be set for non overcommitable resources")
                )
    return sorted(errors, key=lambda error: error.field)


def _check_resource_name(name: str, path: str) -> list[FieldError]:
    if "/" in name or name in _STANDARD or name.startswith(("hugepages-", "attachable-volumes-")):
        return names.check_key(path, name)
    return [
        invalid_value(path, name, "must be a standard resource type or fully qualified"),
        invalid_value(path, name, "must be a standard resource for containers"),
    ]


def _is_extended(name: str) -> bool:
    return ("/" in name and not name.startswith("kubernetes.io/")) or name.startswith("hugepages-")


def _negative(amount: Any) -> bool:
    try:
        return nano(amount) < 0
    except QuantityError:
        return True


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _check_tolerations(tolerations: Any, path: str) -> list[FieldError]:
    errors = []
    for index, toleration in enumerate(tolerations):
        here = f"{path}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator") or "Equal"
        effect, value = toleration.get("effect", ""), toleration.get("value", "")
        if key:
            errors += names.check_key(f"{here}.key", key)
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid_value(f"{here}.operator", toleration.get("operator", ""), why))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid_value(f"{here}.effect", effect, why))
        if operator == "Exists":
            if value:
                why = "value must be empty when `operator` is 'Exists'"
                errors.append(invalid_value(f"{here}.operator", value, why))
        elif operator != "Equal":
            errors.append(not_supported(f"{here}.operator", operator, ("Equal", "Exists")))
        if effect and effect not in _EFFECTS:
            errors.append(not_supported(f"{here}.effect", effect, _EFFECTS))
    return errors


def _check_affinity(affinity: Object, path: str) -> list[FieldError]:
    errors = []
    required_key = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred_key = "preferredDuringSchedulingIgnoredDuringExecution"
    node = affinity.get("nodeAffinity") or {}
    if node.get(required_key) is not None:
        here = f"{path}.nodeAffinity.{required_key}.nodeSelectorTerms"
        terms = node[required_key].get("nodeSelectorTerms") or ()
        if not terms:
            errors.append(required(here, "must have at least one node selector term"))
        for index, term in enumerate(terms):
            errors += _check_node_term(term, f"{here}[{index}]")
    for index, preferred in enumerate(node.get(preferred_key) or ()):
        here = f"{path}.nodeAffinity.{preferred_key}[{index}]"
        errors += _check_weight(preferred, here)
        errors += _check_node_term(preferred.get("preference") or {}, f"{here}.preference")
    for side in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(side) or {}
        for index, term in enumerate(rules.get(required_key) or ()):
            errors += _check_pod_term(term, f"{path}.{side}.{required_key}[{index}]")
        for index, weighted in enumerate(rules.get(preferred_key) or ()):
            here = f"{path}.{side}.{preferred_key}[{index}]"
            errors += _check_weight(weighted, here)
            errors += _check_pod_term(weighted.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm")
    return errors


def _check_weight(preferred: Object, path: str) -> list[FieldError]:
    weight = preferred.get("weight", 0)
    if 1 <= weight <= 100:
        return []
    return [invalid_value(f"{path}.weight", weight, "must be in the range 1-100")]


def _check_node_term(term: Object, path: str) -> list[FieldError]:
    expressions = term.get("matchExpressions") or ()
    errors = names.check_expressions(expressions, f"{path}.matchExpressions", compared=True)
    for index, field in enumerate(term.get("matchFields") or ()):
        here = f"{path}.matchFields[{index}]"
        if field.get("operator") not in ("In", "NotIn"):
            errors.append(
                invalid_value(f"{here}.operator", field.get("operator", ""), "not a valid selector operator")
            )
        elif len(field.get("values") or ()) != 1:
            why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errors.append(required(f"{here}.values", why))
        if field.get("key") != "metadata.name":
            errors.append(
                invalid_value(f"{here}.key", field.get("key", ""), "not a valid field selector key")
            )
    return errors


def _check_pod_term(term: Object, path: str) -> list[FieldError]:
    errors = names.check_selector(term.get("labelSelector"), f"{path}.labelSelector")
    errors += names.check_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    return errors + names.check_key(f"{path}.topologyKey", key)


def _check_spread(constraints: Any, path: str) -> list[FieldError]:
    errors = []
    pairs = [(item.get("topologyKey", ""), item.get("whenUnsatisfiable", "")) for item in constraints]
    for index, constraint in enumerate(constraints):
        here = f"{path}[{index}]"
        skew, key, when = constraint.get("maxSkew", 0), *pairs[index]
        if skew <= 0:
            errors.append(invalid_value(f"{here}.maxSkew", skew, "must be greater than zero"))
        if not key:
            errors.append(required(f"{here}.topologyKey", "can not be empty"))
        if when not in ("DoNotSchedule", "ScheduleAnyway"):
            errors.append(
                not_supported(f"{here}.whenUnsatisfiable", when, ("DoNotSchedule", "ScheduleAnyway"))
            )
        if pairs[index] in pairs[index + 1 :]:
            errors.append(duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {when}}}"))
        domains = constraint.get("minDomains")
        if domains is not None:
            if domains <= 0:
                errors.append(invalid_value(f"{here}.minDomains", domains, "must be greater than zero"))
            if when != "DoNotSchedule":
                why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
                errors.append(invalid_value(f"{here}.minDomains", domains, why))
        errors += names.check_selector(constraint.get("labelSelector"), f"{here}.labelSelector")
    return errors


# In the order in which the API server looks at them.
_SOURCE_ORDER = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
_SOURCES = {name: order for order, name in enumerate(_SOURCE_ORDER)}


def _check_volumes(spec: Object, path: str) -> list[FieldError]:
    errors = []
    seen: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        name = volume.get("name", "")
        if not name:
            errors.append(required(f"{path}.volumes[{index}].name"))
        elif name in seen:
            errors.append(duplicate(f"{path}.volumes[{index}].name", name))
        seen.add(name)
        for extra in sorted(volume.keys() & _SOURCES, key=_SOURCES.__getitem__)[1:]:
            why = "may not specify more than 1 volume type"
            errors.append(field_forbidden(f"{path}.volumes[{index}].{extra}", why))
    return errors


def _check_mounts(spec: Object, path: str) -> list[FieldError]:
    errors = []
    seen = {volume.get("name", "") for volume in spec.get("volumes") or ()}
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            for at, mount in enumerate(container.get("volumeMounts") or ()):
                if mount.get("name") not in seen:
                    here = f"{path}.{group}[{index}].volumeMounts[{at}].name"
                    text = f'Not found: "{mount.get("name", "")}"'
                    errors.append(FieldError(here, "FieldValueNotFound", text))
    return errors
