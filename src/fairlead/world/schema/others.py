"""Defaults of what is neither a pod nor a workload: nodes, namespaces, storage, services, webhooks."""

from __future__ import annotations

import base64
from typing import Any

__all__ = [
    "crd_on_create",
    "default_crd",
    "default_csi_driver",
    "default_namespace",
    "default_node",
    "default_persistent_volume",
    "default_persistent_volume_claim",
    "default_priority_class",
    "default_secret",
    "default_service",
    "default_storage_class",
    "default_webhooks",
    "namespace_on_create",
    "node_on_create",
    "volume_on_create",
]

Object = dict[str, Any]


def default_namespace(item: Object) -> None:
    """Every namespace can be selected by its name."""
    name = item["metadata"].get("name")
    if name:
        item["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def namespace_on_create(item: Object) -> None:
    """A new namespace is active and held by Kubernetes' own finalizer."""
    default_namespace(item)
    finalizers = item["spec"].setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    item["status"] = {"phase": "Active"}


def default_node(item: Object) -> None:
    """What can be allocated is the capacity, unless said otherwise."""
    status = item["status"]
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def node_on_create(item: Object) -> None:
    """A new node is not ready: the admission plugin TaintNodesByCondition says so with a taint."""
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    taints = item["spec"].setdefault("taints", [])
    if not any(held.get("key") == taint["key"] and held.get("effect") == taint["effect"] for held in taints):
        taints.append(taint)


def default_secret(item: Object) -> None:
    """``stringData`` is a convenience for writers: it is stored as ``data``."""
    item.setdefault("type", "Opaque")
    given = item.pop("stringData", None)
    if given:
        data = item.setdefault("data", {})
        for key, text in given.items():
            data[key] = base64.b64encode(text.encode()).decode()


def default_service(item: Object) -> None:
    """Fill a Service's defaults; addresses are given by `services`."""
    spec = item["spec"]
    spec.setdefault("sessionAffinity", "None")
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port["port"]
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def default_persistent_volume(item: Object) -> None:
    """Fill a PersistentVolume's defaults."""
    item["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
    item["spec"].setdefault("volumeMode", "Filesystem")
    if "hostPath" in item["spec"]:
        item["spec"]["hostPath"].setdefault("type", "")


def default_persistent_volume_claim(item: Object) -> None:
    """Fill a PersistentVolumeClaim's defaults."""
    item["spec"].setdefault("volumeMode", "Filesystem")


def volume_on_create(item: Object) -> None:
    """A new volume or claim is bound by nobody yet."""
    item["status"] = {"phase": "Pending"}
    if item["kind"] == "PersistentVolume":
        item["status"]["lastPhaseTransitionTime"] = item["metadata"]["creationTimestamp"]


def default_storage_class(item: Object) -> None:
    """Fill a StorageClass' defaults."""
    item.setdefault("reclaimPolicy", "Delete")
    item.setdefault("volumeBindingMode", "Immediate")


def default_csi_driver(item: Object) -> None:
    """Fill a CSIDriver's defaults."""
    spec = item["spec"]
    for field, value in (
        ("attachRequired", True),
        ("podInfoOnMount", False),
        ("storageCapacity", False),
        ("fsGroupPolicy", "ReadWriteOnceWithFSType"),
        ("requiresRepublish", False),
        ("seLinuxMount", False),
    ):
        spec.setdefault(field, value)
    spec.setdefault("volumeLifecycleModes", ["Persistent"])


def default_priority_class(item: Object) -> None:
    """Fill a PriorityClass' defaults."""
    item.setdefault("preemptionPolicy", "PreemptLowerPriority")


def default_webhooks(item: Object) -> None:
    """Fill the defaults of each webhook of a configuration."""
    mutating = item["kind"].startswith("Mutating")
    for hook in item.get("webhooks") or ():
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", 10)
        if mutating:
            hook.setdefault("reinvocationPolicy", "Never")
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = (hook.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)


def default_crd(item: Object) -> None:
    """Fill a CustomResourceDefinition's names and conversion."""
    spec = item["spec"]
    names = spec["names"]
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def crd_on_create(item: Object) -> None:
    """A new definition is established at once: nothing here takes time to set up."""
    spec, since = item["spec"], item["metadata"]["creationTimestamp"]

    def condition(kind: str, reason: str, message: str) -> Object:
        return {
            "type": kind,
            "status": "True",
            "lastTransitionTime": since,
            "reason": reason,
            "message": message,
        }

    item["status"] = {
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "acceptedNames": spec["names"],
        "storedVersions": [each["name"] for each in spec.get("versions") or () if each.get("storage")],
    }
