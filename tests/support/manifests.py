"""Small builders of Kubernetes objects as plain data, as one would write them in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.cluster import Cluster

Manifest = dict[str, Any]

UNSCHEDULED = "nobody"
"""The name of a scheduler that does not exist: its pods stay where they are."""


def config_map(name: str = "", *, data: dict[str, str] | None = None, **metadata: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(name, metadata),
        "data": {"key": "value"} if data is None else data,
    }


def pod(name: str = "", *, spec: dict[str, Any] | None = None, **metadata: Any) -> Manifest:
    """A pod that nobody schedules unless `spec` says otherwise."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(name, metadata),
        "spec": {"schedulerName": UNSCHEDULED, "containers": [{"name": "main", "image": "image"}]}
        | (spec or {}),
    }


def scheduled_pod(name: str = "", *, spec: dict[str, Any] | None = None, **metadata: Any) -> Manifest:
    """A pod that the cluster's own scheduler takes care of."""
    return pod(name, spec={"schedulerName": "default-scheduler"} | (spec or {}), **metadata)


def template(labels: dict[str, str], spec: dict[str, Any] | None = None, **metadata: Any) -> Manifest:
    return {"metadata": {"labels": labels, **metadata}, "spec": pod(spec=spec)["spec"]}


def deployment(
    name: str, replicas: int = 1, *, spec: dict[str, Any] | None = None, pods: dict[str, Any] | None = None
) -> Manifest:
    """A Deployment; `spec` is merged into its own, `pods` into its template's."""
    return _workload("Deployment", name, replicas, spec, pods)


def replica_set(
    name: str, replicas: int = 1, *, spec: dict[str, Any] | None = None, pods: dict[str, Any] | None = None
) -> Manifest:
    return _workload("ReplicaSet", name, replicas, spec, pods)


def stateful_set(
    name: str, replicas: int = 1, *, spec: dict[str, Any] | None = None, pods: dict[str, Any] | None = None
) -> Manifest:
    return _workload("StatefulSet", name, replicas, {"serviceName": name} | (spec or {}), pods)


def job(name: str, *, spec: dict[str, Any] | None = None, pods: dict[str, Any] | None = None) -> Manifest:
    body = {"template": {"spec": pod(spec={"restartPolicy": "Never"} | (pods or {}))["spec"]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": body | (spec or {}),
    }


def budget(name: str, labels: dict[str, str], **spec: Any) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, **spec},
    }


def event(cluster: Cluster, name: str, **more: Any) -> Manifest:
    """An event about a pod ``a`` of the test's namespace, as an old client writes it."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": cluster.namespace, "name": "a"},
        "type": "Normal",
        "reason": "Tested",
        "message": "it was",
        "source": {"component": "conformance"},
        **more,
    }


def owned_by(owner: Manifest, **more: Any) -> dict[str, Any]:
    """An entry for ``ownerReferences``."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }


def _workload(
    kind: str, name: str, replicas: int, spec: dict[str, Any] | None, pods: dict[str, Any] | None
) -> Manifest:
    labels = {"app": name}
    own = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": template(labels, {"schedulerName": "default-scheduler"} | (pods or {})),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": own | (spec or {}),
    }


def _metadata(name: str, more: dict[str, Any]) -> dict[str, Any]:
    return ({"name": name} if name else {}) | more
