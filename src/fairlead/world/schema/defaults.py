"""What the API server fills in where a writer is silent, kind by kind.

Most of it is data: a tree of fields with their values, laid over an object by `fill`. What depends on
another field is a function. Both run after every change, so they leave alone what is there.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

Object = dict[str, Any]
Tree = Mapping[str, Any]


def fill(item: Object, defaults: Tree) -> None:
    """Lay defaults over an object, in place: a field that is there keeps its value.

    A tree within the tree is laid over the member, which is made where it is missing; over one that may
    be missing if its name ends in ``?``, and over each item of a list if it ends in ``[]``.

    >>> service = {"ports": [{"port": 80}]}
    >>> fill(service, {"type": "ClusterIP", "ports[]": {"protocol": "TCP"}, "probe?": {"path": "/"}})
    >>> service
    {'ports': [{'port': 80, 'protocol': 'TCP'}], 'type': 'ClusterIP'}
    """
    filled(defaults)(item)


def filled(defaults: Tree) -> Callable[[Object], None]:
    """Defaults that are no more than a tree, read once: pods are filled very often."""
    steps: list[tuple[str, str, Any]] = []
    for name, value in defaults.items():
        if name.endswith("[]"):
            steps.append(("each", name[:-2], filled(value)))
        elif name.endswith("?"):
            steps.append(("if there", name[:-1], filled(value)))
        elif isinstance(value, Mapping):
            steps.append(("made", name, filled(value)))
        else:
            steps.append(("set", name, value))

    def lay_over(item: Object) -> None:
        for how, name, value in steps:
            held = item.get(name)
            if how == "set":
                if held is None:
                    item[name] = [*value] if isinstance(value, list) else value
            elif how == "each":
                for each in held or ():
                    value(each)
            elif held is not None:
                value(held)
            elif how == "made":
                value(item.setdefault(name, {}))

    return lay_over


# Pods and what contains them

_FIELD_REF: Tree = {"fieldRef?": {"apiVersion": "v1"}}
_HTTP: Tree = {"httpGet?": {"path": "/", "scheme": "HTTP"}}
_PROBE: Tree = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
    **_HTTP,
    "grpc?": {"service": ""},
}
_CONTAINER: Tree = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "ports[]": {"protocol": "TCP"},
    "livenessProbe?": _PROBE,
    "readinessProbe?": _PROBE,
    "startupProbe?": _PROBE,
    "lifecycle?": {"postStart?": _HTTP, "preStop?": _HTTP},
    "env[]": {"valueFrom?": _FIELD_REF},
}
_MODE: Tree = {"defaultMode": 0o644}
_POD_SPEC: Tree = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "securityContext": {},
    "containers[]": _CONTAINER,
    "initContainers[]": _CONTAINER,
    "volumes[]": {
        "secret?": _MODE,
        "configMap?": _MODE,
        "hostPath?": {"type": ""},
        "downwardAPI?": {**_MODE, "items[]": _FIELD_REF},
        "projected?": {
            **_MODE,
            "sources[]": {
                "serviceAccountToken?": {"expirationSeconds": 3600},
                "downwardAPI?": {"items[]": _FIELD_REF},
            },
        },
        "ephemeral?": {"volumeClaimTemplate?": {"spec?": {"volumeMode": "Filesystem"}}},
    },
}


_fill_pod_spec = filled(_POD_SPEC)
_fill_pod = filled({"enableServiceLinks": True, "serviceAccountName": "default"})


def pod(item: Object) -> None:
    """A pod; requests from limits, host ports and service links are a pod's alone."""
    spec = item["spec"]
    pod_spec(spec)
    # The service account admission plugin's part; tokens are not mounted here, nothing would read them.
    _fill_pod(spec)
    spec["serviceAccount"] = spec["serviceAccountName"]
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        _requests_from_limits(container["resources"])
        for port in container.get("ports") or () if spec.get("hostNetwork") else ():
            port.setdefault("hostPort", port["containerPort"])
    if "resources" in spec:
        _requests_from_limits(spec["resources"])


def pod_spec(spec: Object) -> None:
    """What pods and pod templates share."""
    _fill_pod_spec(spec)
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if "imagePullPolicy" not in container:
            container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    for volume in spec.get("volumes") or ():
        if not any(key != "name" for key in volume):
            volume["emptyDir"] = {}


def _pull_policy(image: str) -> str:
    name = image.rpartition("/")[2]
    if "@" in name:
        return "IfNotPresent"
    tag = name.partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _requests_from_limits(resources: Object) -> None:
    limits = resources.get("limits")
    if limits:
        resources["requests"] = {**limits, **resources.get("requests", {})}


def template(holder: Object) -> None:
    """The pod template that something holds."""
    if "template" in holder:
        pod_spec(holder["template"].setdefault("spec", {}))


# Workloads

CLAIM: Tree = {"spec": {"volumeMode": "Filesystem"}}


def deployment(item: Object) -> None:
    """A Deployment."""
    template(item["spec"])
    fill(item["spec"], {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    _rolling(item["spec"], "strategy", {"maxUnavailable": "25%", "maxSurge": "25%"})


def replica_set(item: Object) -> None:
    """A ReplicaSet."""
    template(item["spec"])
    fill(item["spec"], {"replicas": 1})


def replication_controller(item: Object) -> None:
    """A ReplicationController: its labels and selector are its template's."""
    replica_set(item)
    labels = item["spec"].get("template", {}).get("metadata", {}).get("labels")
    if labels:
        item["spec"].setdefault("selector", dict(labels))
        item["metadata"].setdefault("labels", dict(labels))


def stateful_set(item: Object) -> None:
    """A StatefulSet."""
    spec = item["spec"]
    template(spec)
    retention = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    fill(
        spec,
        {
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "podManagementPolicy": "OrderedReady",
            "persistentVolumeClaimRetentionPolicy": retention,
        },
    )
    _rolling(spec, "updateStrategy", {"partition": 0})
    for claim in spec.get("volumeClaimTemplates") or ():
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}
        fill(claim, CLAIM)


def daemon_set(item: Object) -> None:
    """A DaemonSet."""
    template(item["spec"])
    fill(item["spec"], {"revisionHistoryLimit": 10})
    _rolling(item["spec"], "updateStrategy", {"maxUnavailable": 1, "maxSurge": 0})


def _rolling(spec: Object, field: str, rolling: Tree) -> None:
    strategy = spec.setdefault(field, {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        fill(strategy, {"rollingUpdate": rolling})


def job(item: Object) -> None:
    """A Job."""
    _job_spec(item["spec"])
    labels = item["spec"]["template"].get("metadata", {}).get("labels")
    if labels:
        item["metadata"].setdefault("labels", dict(labels))


def cron_job(item: Object) -> None:
    """A CronJob."""
    fill(
        item["spec"],
        {
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
        },
    )
    template(item["spec"].get("jobTemplate", {}).get("spec", {}))


def _job_spec(spec: Object) -> None:
    template(spec)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    defaults = {
        "parallelism": 1,
        "backoffLimit": 2**31 - 1 if "backoffLimitPerIndex" in spec else 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed",
        "podFailurePolicy?": {"rules[]": {"onPodConditions[]": {"status": "True"}}},
    }
    fill(spec, defaults)


# What is left


def namespace(item: Object) -> None:
    """Every namespace can be selected by its name."""
    name = item["metadata"].get("name")
    if name:
        item["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def node(item: Object) -> None:
    """What can be allocated is the capacity, unless said otherwise."""
    status = item["status"]
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def secret(item: Object) -> None:
    """``stringData`` is a convenience for writers: it is stored as ``data``."""
    item.setdefault("type", "Opaque")
    given = item.pop("stringData", None)
    if given:
        data = item.setdefault("data", {})
        for key, text in given.items():
            data[key] = base64.b64encode(text.encode()).decode()


def service(item: Object) -> None:
    """A Service; addresses are given by `services`."""
    spec = item["spec"]
    fill(spec, {"sessionAffinity": "None", "type": "ClusterIP", "ports[]": {"protocol": "TCP"}})
    kind = spec["type"]
    for port in spec.get("ports") or ():
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port["port"]
    if kind != "ExternalName":
        inside = {"internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
        fill(spec, inside)
    if kind in ("NodePort", "LoadBalancer"):
        fill(spec, {"externalTrafficPolicy": "Cluster"})
    if kind == "LoadBalancer":
        fill(spec, {"allocateLoadBalancerNodePorts": True})


def definition(item: Object) -> None:
    """A CustomResourceDefinition's names and conversion."""
    names = item["spec"]["names"]
    if names.get("kind"):
        fill(names, {"singular": names["kind"].lower(), "listKind": f"{names['kind']}List"})
    item["spec"].setdefault("conversion", {"strategy": "None"})


def network_policy(item: Object) -> None:
    """A NetworkPolicy's ports, and which directions it is about."""
    spec = item["spec"]
    rules = {"ports[]": {"protocol": "TCP"}}
    directions = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    fill(spec, {"ingress[]": rules, "egress[]": rules, "policyTypes": directions})


def role_binding(item: Object) -> None:
    """Users and groups belong to the API group of roles."""
    for subject in item.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def limit_range(item: Object) -> None:
    """What a container may have at most is what it gets, and that what it asks for."""
    for limit in item["spec"].get("limits") or ():
        if limit.get("type") == "Container":
            given = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            if given:
                limit["default"] = given
                asked = {**given, **(limit.get("min") or {}), **(limit.get("defaultRequest") or {})}
                limit["defaultRequest"] = asked


def resource_claim(item: Object) -> None:
    """A claim, or a template of one, asks for one device unless it says otherwise."""
    spec = item["spec"].get("spec", item["spec"])
    for request in (spec.get("devices") or {}).get("requests") or ():
        exactly = request.get("exactly")
        if exactly is not None and exactly.setdefault("allocationMode", "ExactCount") == "ExactCount":
            exactly.setdefault("count", 1)
