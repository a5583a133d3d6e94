"""Small builders for tests of planning: pods, nodes, gangs and owners as plain dicts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fairlead.kube.decode import convert
from fairlead.kube.pod import Pod

__all__ = ["EPOCH", "at", "budget", "node", "pod", "pod_group", "typed", "workload"]

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> str:
    """A timestamp that many seconds after the tests' epoch."""
    return (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name: str, cpu: str | int = 4, memory: str = "64Gi", pods: int = 110, **more: Any) -> dict[str, Any]:
    """A node; `labels`, `taints` and `unschedulable` go where they belong, `extended` are resources."""
    labels = {"kubernetes.io/hostname": name, **more.get("labels", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": more.get("taints", []), "unschedulable": more.get("unschedulable", False)},
        "status": {
            "allocatable": {"cpu": str(cpu), "memory": memory, "pods": str(pods), **more.get("extended", {})}
        },
    }


def pod(
    name: str,
    cpu: str | int = 1,
    *,
    namespace: str = "default",
    on: str = "",
    priority: int | None = None,
    gang: str = "",
    minimum: int = 0,
    created: float = 0.0,
    started: float | None = None,
    scheduler: str = "fairlead",
    owner: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    phase: str = "",
    nominated: str = "",
    terminating: bool = False,
    uid: str = "",
    memory: str = "",
    **spec: Any,
) -> dict[str, Any]:
    """A pod; `on` is its node, `gang` the annotation `pod-group`."""
    marks = dict(annotations or {})
    if gang:
        marks["pod-group"] = gang
    if minimum:
        marks["pod-group-min-member"] = str(minimum)
    requests = {"cpu": str(cpu), **({"memory": memory} if memory else {})}
    status: dict[str, Any] = {"phase": phase or ("Running" if on else "Pending")}
    if started is not None or on:
        status["startTime"] = at(created if started is None else started)
    if nominated:
        status["nominatedNodeName"] = nominated
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{namespace}-{name}",
            "creationTimestamp": at(created),
            "labels": labels or {},
            "annotations": marks,
            **({"ownerReferences": [owner]} if owner else {}),
            **({"deletionTimestamp": at(created + 1)} if terminating else {}),
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
            **({"nodeName": on} if on else {}),
            **({"priority": priority} if priority is not None else {}),
            **spec,
        },
        "status": status,
    }


def workload(
    kind: str,
    name: str,
    *,
    replicas: int = 1,
    gang: str = "",
    created: float = 0.0,
    namespace: str = "default",
    owner: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A Deployment, ReplicaSet, StatefulSet, Job or the like whose template names `gang`."""
    api = "batch/v1" if kind == "Job" else "apps/v1"
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{kind}-{name}",
            "creationTimestamp": at(created),
            **({"ownerReferences": [owner]} if owner else {}),
        },
        "spec": {
            **({} if kind == "Job" else {"replicas": replicas}),
            "template": {
                "metadata": {"annotations": {"pod-group": gang} if gang else {}},
                "spec": {"containers": []},
            },
            **spec,
        },
        "status": {},
    }


def pod_group(
    name: str,
    minimum: int,
    api: str = "scheduling.x-k8s.io/v1alpha1",
    *,
    namespace: str = "default",
    **spec: Any,
) -> dict[str, Any]:
    """A PodGroup of coscheduling, Volcano or Kubernetes itself (by `api`)."""
    size: dict[str, Any] = {"minMember": minimum}
    if api.startswith("scheduling.k8s.io/"):
        size = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    return {
        "apiVersion": api,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**size, **spec},
    }


def budget(
    name: str,
    labels: dict[str, str],
    allowed: int,
    *,
    namespace: str = "default",
    disrupted: tuple[str, ...] = (),
) -> dict[str, Any]:
    """A PodDisruptionBudget that allows that many to go."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": {key: at(0) for key in disrupted}},
    }


def typed(data: dict[str, Any]) -> Pod:
    """A pod as the engine sees it."""
    return convert(data, Pod)
