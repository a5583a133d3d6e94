"""What is wrong with objects other than pods, in the API server's words."""

from __future__ import annotations

import re
from typing import Any

from fairlead.kube.decode import convert
from fairlead.kube.selectors import LabelSelector, matches
from fairlead.world.api_errors import (
    FieldError,
    duplicate,
    field_forbidden,
    invalid_value,
    not_supported,
    required,
)
from fairlead.world.schema import names
from fairlead.world.schema.pod_validation import validate_pod_spec

Object = dict[str, Any]


def deployment(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of a Deployment."""
    spec = new["spec"]
    errors = _immutable(new, old, "selector")
    errors += _negatives(spec, "replicas")
    errors += _selects_template(new, "Always")
    strategy = spec.get("strategy") or {}
    if strategy.get("type") not in ("Recreate", "RollingUpdate"):
        shown = {"Type": strategy.get("type", ""), "RollingUpdate": None}
        errors.append(not_supported("spec.strategy", shown, ("Recreate", "RollingUpdate")))
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") == "Recreate" and rolling is not None:
        why = "may not be specified when strategy `type` is 'Recreate'"
        errors.append(field_forbidden("spec.strategy.rollingUpdate", why))
    elif rolling is not None:
        path = "spec.strategy.rollingUpdate"
        for field in ("maxUnavailable", "maxSurge"):
            errors += _int_or_percent(f"{path}.{field}", rolling.get(field, 0))
        if rolling.get("maxUnavailable") in (0, "0%") and rolling.get("maxSurge") in (0, "0%"):
            errors.append(invalid_value(f"{path}.maxUnavailable", 0, "may not be 0 when `maxSurge` is 0"))
    errors += _negatives(spec, "minReadySeconds", "revisionHistoryLimit")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        why = "must be greater than minReadySeconds"
        errors.append(invalid_value("spec.progressDeadlineSeconds", deadline, why))
    return errors


def replica_set(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of a ReplicaSet."""
    errors = _immutable(new, old, "selector")
    errors += _negatives(new["spec"], "replicas", "minReadySeconds")
    return errors + _selects_template(new, "Always")


_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def stateful_set(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of a StatefulSet."""
    errors = _negatives(new["spec"], "replicas", "minReadySeconds") + _selects_template(new, "Always")
    if old is not None:
        fixed = [
            {key: item["spec"][key] for key in item["spec"] if key not in _MUTABLE} for item in (new, old)
        ]
        if fixed[0] != fixed[1]:
            *most, last = (f"'{field}'" for field in _MUTABLE)
            allowed = f"{', '.join(most)} and {last}"
            why = f"updates to statefulset spec for fields other than {allowed} are forbidden"
            errors.append(field_forbidden("spec", why))
    return errors


def daemon_set(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of a DaemonSet."""
    return _immutable(new, old, "selector") + _selects_template(new, "Always")


def pod_template(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of a PodTemplate."""
    return validate_pod_spec(new["template"]["spec"], "template.spec")


def job(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of a Job."""
    spec = new["spec"]
    errors = _negatives(spec, "parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished")
    template = spec.get("template", {}).get("spec", {})
    policy = template.get("restartPolicy")
    if policy == "Always":
        errors.append(required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        errors.append(not_supported("spec.template.spec.restartPolicy", policy, ("OnFailure", "Never")))
    errors += validate_pod_spec(template, "spec.template.spec")
    if old is not None:
        before = old["spec"]
        for field in ("completions", "selector", "completionMode", "podFailurePolicy"):
            if field == "completions" and spec.get("completionMode") == "Indexed":
                continue
            errors += _immutable(new, old, field)
        if not before.get("suspend"):
            errors += _immutable(new, old, "template")
    return errors


def pdb(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of a PodDisruptionBudget."""
    spec = new["spec"]
    errors = []
    low, high = spec.get("minAvailable"), spec.get("maxUnavailable")
    if low is not None and high is not None:
        shown = {
            "MinAvailable": low,
            "Selector": spec.get("selector"),
            "MaxUnavailable": high,
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        errors.append(invalid_value("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for field, value in (("minAvailable", low), ("maxUnavailable", high)):
        if value is not None:
            errors += _int_or_percent(f"spec.{field}", value)
    errors += names.check_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        errors.append(
            not_supported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))
        )
    return errors


def node(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of a Node."""
    errors = []
    seen = set()
    effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
    for index, taint in enumerate(new["spec"].get("taints") or ()):
        path = f"metadata.taints[{index}]"  # upstream's path, though the field is in the spec
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        errors += names.check_key(f"{path}.key", key)
        errors += [
            invalid_value(f"{path}.value", value, error.text.partition(": ")[2])
            for error in names.check_labels({"k": value}, path)
        ]
        if not effect:
            errors.append(required(f"{path}.effect"))
        elif effect not in effects:
            errors.append(not_supported(f"{path}.effect", effect, effects))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            problem = duplicate(path, shown)
            text = f"{problem.text}: taints must be unique by key and effect pair"
            errors.append(FieldError(path, problem.reason, text))
        seen.add((key, effect))
    provider = old["spec"].get("providerID") if old is not None else ""
    if provider and new["spec"].get("providerID") != provider:
        why = 'node updates may not change providerID except from "" to valid'
        errors.append(field_forbidden("spec.providerID", why))
    return errors


def service(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of a Service."""
    spec = new["spec"]
    headless = spec.get("clusterIP") == "None"
    if not spec.get("ports") and not headless and spec.get("type") != "ExternalName":
        return [required("spec.ports")]
    errors = []
    for index, port in enumerate(spec.get("ports") or ()):
        if len(spec["ports"]) > 1 and not port.get("name"):
            errors.append(required(f"spec.ports[{index}].name"))
        if not 1 <= port.get("port", 0) <= 65535:
            why = "must be between 1 and 65535, inclusive"
            errors.append(invalid_value(f"spec.ports[{index}].port", port.get("port", 0), why))
    if old is not None and old["spec"].get("clusterIP") and spec.get("clusterIP") != old["spec"]["clusterIP"]:
        errors.append(invalid_value("spec.clusterIPs[0]", spec.get("clusterIPs"), "may not change once set"))
    return errors


_MAX_USER_PRIORITY = 1_000_000_000
_SYSTEM = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def priority_class(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of a PriorityClass."""
    name, value = new["metadata"]["name"], new["value"]
    errors = []
    if name.startswith("system-"):
        if name not in _SYSTEM:
            why = (
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class"
            )
            errors.append(field_forbidden("metadata.name", why))
    elif value > _MAX_USER_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}"
        errors.append(field_forbidden("value", why))
    if old is not None:
        if value != old["value"]:
            errors.append(field_forbidden("value", "may not be changed in an update."))
        policy = new.get("preemptionPolicy")
        if policy != old.get("preemptionPolicy"):
            errors.append(invalid_value("preemptionPolicy", policy, "field is immutable"))
    return errors


_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def config_map(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of a ConfigMap or Secret."""
    errors = []
    for field in ("data", "binaryData"):
        for key in new.get(field) or ():
            if _CONFIG_KEY.fullmatch(key) is None:
                errors.append(invalid_value(f"{field}[{key}]", key, _CONFIG_KEY_RULE))
    if old is not None and old.get("immutable"):
        why = "field is immutable when `immutable` is set"
        if new.get("data") != old.get("data") or new.get("binaryData") != old.get("binaryData"):
            errors.append(field_forbidden("data", why))
        if not new.get("immutable"):
            errors.append(field_forbidden("immutable", why))
    return errors


def lease(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of a Lease."""
    spec, errors = new["spec"], []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        errors.append(invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    return errors + _negatives(spec, "leaseTransitions")


def claim(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of a PersistentVolumeClaim."""
    spec, errors = new["spec"], []
    if not spec.get("accessModes"):
        errors.append(required("spec.accessModes", "at least 1 access mode is required"))
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        errors.append(required("spec.resources[storage]"))
    return errors


def event(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of an Event; what has an eventTime is of the new kind and must say more."""
    involved = (new.get("involvedObject") or {}).get("namespace", "")
    namespace = new["metadata"]["namespace"]
    mismatch = [invalid_value("involvedObject.namespace", involved, "does not match event.namespace")]
    if not new.get("eventTime"):
        return [] if involved == namespace or (not involved and namespace == "default") else mismatch
    errors = list(mismatch) if not involved and namespace not in ("default", "kube-system") else []
    if not new.get("reportingComponent"):
        errors.append(required("reportingController"))
    for field, limit in (("reportingInstance", 128), ("action", 128), ("reason", 128)):
        if not new.get(field):
            errors.append(required(field))
        elif len(new[field]) > limit:
            errors.append(invalid_value(field, "", f"can have at most {limit} characters"))
    if len(new.get("message") or "") > 1024:
        errors.append(invalid_value("message", "", "can have at most 1024 characters"))
    return errors


def webhooks(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of a webhook configuration."""
    errors = []
    for index, hook in enumerate(new.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        if hook.get("name", "").count(".") < 2:
            why = "should be a domain with at least three segments separated by dots"
            errors.append(invalid_value(f"{path}.name", hook.get("name", ""), why))
        if hook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            errors.append(required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
        client = hook.get("clientConfig") or {}
        if ("url" in client) == ("service" in client):
            errors.append(required(f"{path}.clientConfig", "exactly one of url or service is required"))
        if not hook.get("admissionReviewVersions"):
            errors.append(required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1"))
        if not 1 <= hook.get("timeoutSeconds", 10) <= 30:
            why = "the timeout value must be between 1 and 30 seconds"
            errors.append(invalid_value(f"{path}.timeoutSeconds", hook["timeoutSeconds"], why))
    return errors


def crd(new: Object, old: Object | None) -> list[FieldError]:
    """Problems of a CustomResourceDefinition (schemas are not looked at)."""
    spec, errors = new["spec"], []
    wanted = f"{spec['names'].get('plural', '')}.{spec.get('group', '')}"
    if new["metadata"]["name"] != wanted:
        why = 'must be spec.names.plural+"."+spec.group'
        errors.append(invalid_value("metadata.name", new["metadata"]["name"], why))
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        errors.append(not_supported("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced")))
    versions = spec.get("versions")
    if sum(1 for version in versions or () if version.get("storage")) != 1:
        why = "must have exactly one version marked as storage version"
        errors.append(invalid_value("spec.versions", versions, why))
    if not (new.get("status") or {}).get("storedVersions"):
        why = "must have at least one stored version"
        errors.append(invalid_value("status.storedVersions", None, why))
    return errors


def _selects_template(item: Object, restart_policy: str) -> list[FieldError]:
    spec, errors = item["spec"], []
    selector = spec.get("selector")
    kind = item["kind"]
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += names.check_selector(selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            why = f"empty selector is invalid for {_SPOKEN.get(kind, kind.lower())}"
            errors.append(invalid_value("spec.selector", selector, why))
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    # A selector that is itself wrong is not held against the labels as well; a missing one is.
    if selector is None or (not errors and not matches(convert(selector, LabelSelector), labels or {})):
        why = "`selector` does not match template `labels`"
        errors.append(invalid_value("spec.template.metadata.labels", labels, why))
    pod = template.get("spec") or {}
    policy = pod.get("restartPolicy")
    wrong = validate_pod_spec(pod, "spec.template.spec")
    errors += [error for error in wrong if not error.field.endswith("restartPolicy")]
    if policy != restart_policy:
        errors.append(not_supported("spec.template.spec.restartPolicy", policy, (restart_policy,)))
    return errors


_SPOKEN = {"ReplicaSet": "deployment", "StatefulSet": "statefulset", "DaemonSet": "daemonset"}


def _immutable(new: Object, old: Object | None, field: str) -> list[FieldError]:
    if old is None or new["spec"].get(field) == old["spec"].get(field):
        return []
    return [invalid_value(f"spec.{field}", new["spec"].get(field), "field is immutable")]


def _negatives(spec: Object, *fields: str) -> list[FieldError]:
    why = "must be greater than or equal to 0"
    return [
        invalid_value(f"spec.{field}", spec[field], why) for field in fields if (spec.get(field) or 0) < 0
    ]


def _int_or_percent(path: str, value: Any) -> list[FieldError]:
    if isinstance(value, int):
        return [invalid_value(path, value, "must be greater than or equal to 0")] if value < 0 else []
    if re.fullmatch(r"[0-9]+%", str(value)) is None:
        why = (
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
            "'93%', regex used for validation is '[0-9]+%')"
        )
        return [invalid_value(path, value, why)]
    if int(str(value)[:-1]) <= 100 or "Surge" in path:
        return []
    return [invalid_value(path, value, "must not be greater than 100%")]
