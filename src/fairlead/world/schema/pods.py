"""Pods: what is filled in, and what a creator may not choose.

`default_pod_spec` also serves the pod templates of workloads; requests from limits, host
ports and service links are a pod's alone.
"""

from __future__ import annotations

from typing import Any

from fairlead.kube.quantity import nano

__all__ = ["default_pod", "default_pod_spec", "on_create", "on_update", "qos_class", "resized"]

Object = dict[str, Any]

_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def default_pod(pod: Object) -> None:
    """Fill a pod's defaults."""
    spec = pod["spec"]
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in _containers(spec):
        _requests_from_limits(container["resources"])
        for port in container.get("ports") or () if spec.get("hostNetwork") else ():
            port.setdefault("hostPort", port["containerPort"])
    if "resources" in spec:
        _requests_from_limits(spec["resources"])
    # The service account admission plugin's part; tokens are not mounted here, nothing would read them.
    account = spec.setdefault("serviceAccountName", "default")
    spec["serviceAccount"] = account


def default_pod_spec(spec: Object) -> None:
    """Fill the defaults that pods and pod templates share."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("securityContext", {})
    for container in _containers(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def on_create(pod: Object) -> None:
    """A new pod is pending, whatever its creator says."""
    spec = pod["spec"]
    _merge_match_label_keys(pod)
    status: Object = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [{"lastProbeTime": None, "lastTransitionTime": None, **_GATED}]
    pod["status"] = status


def on_update(new: Object, old: Object) -> None:
    """A pod whose last gate was removed is ready to be scheduled: nobody says Gated any more."""
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


def _default_container(container: Object) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            _default_probe(container[probe])
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict) and "httpGet" in handler:
            _default_http(handler["httpGet"])
    for variable in container.get("env") or ():
        field = (variable.get("valueFrom") or {}).get("fieldRef")
        if field is not None:
            field.setdefault("apiVersion", "v1")


def _pull_policy(image: str) -> str:
    name = image.rpartition("/")[2]
    if "@" in name:
        return "IfNotPresent"
    tag = name.partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _default_probe(probe: Object) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if "httpGet" in probe:
        _default_http(probe["httpGet"])
    if "grpc" in probe and probe["grpc"].get("service") is None:
        probe["grpc"]["service"] = ""


def _default_http(action: Object) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")


def _default_volume(volume: Object) -> None:
    if not any(key != "name" for key in volume):
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if source in volume:
            volume[source].setdefault("defaultMode", 0o644)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")
    for part in (volume.get("projected") or {}).get("sources") or ():
        if "serviceAccountToken" in part:
            part["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in (part.get("downwardAPI") or {}).get("items") or ():
            if "fieldRef" in item:
                item["fieldRef"].setdefault("apiVersion", "v1")
    if "ephemeral" in volume:
        volume["ephemeral"].get("volumeClaimTemplate", {}).get("spec", {}).setdefault(
            "volumeMode", "Filesystem"
        )


def _requests_from_limits(resources: Object) -> None:
    limits = resources.get("limits")
    if limits:
        resources["requests"] = {**limits, **resources.get("requests", {})}


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
