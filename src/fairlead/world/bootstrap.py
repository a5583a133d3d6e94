"""What every cluster has from its first moment, and how a namespace ends.

Namespaces, the system's priority classes and the API server's own Service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.world.deletion import DeleteOptions, Removal
from fairlead.world.schema.resources import NAMESPACES, PRIORITY_CLASSES, SERVICES

if TYPE_CHECKING:
    from fairlead.world.api import Api
    from fairlead.world.store import Object


IMMORTAL = frozenset({"default", "kube-public", "kube-system"})
"""Namespaces that may not be deleted."""

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_PRIORITIES = (
    (
        "system-cluster-critical",
        2_000_000_000,
        "For pods that the cluster cannot do without, but that may move to another node.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "For pods that must stay on the node they are on.",
    ),
)


def populate(api: Api) -> None:
    """Create what is missing of it."""
    for name in _NAMESPACES:
        if api.store.get(NAMESPACES, "", name) is None:
            api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for name, value, description in _PRIORITIES:
        if api.store.get(PRIORITY_CLASSES, "", name) is None:
            body = {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
                "description": description,
            }
            api.create(PRIORITY_CLASSES, body)
    if api.store.get(SERVICES, "default", "kubernetes") is None:
        api.create(SERVICES, _kubernetes_service(), "default")


def _kubernetes_service() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    }


def empty_namespace(api: Api, namespace: Object) -> Removal:
    """Delete all that a terminating namespace holds; it goes with the last of it."""
    name = namespace["metadata"]["name"]
    for resource in api.store.resources():
        if resource.namespaced:
            api.delete_collection(resource, name, DeleteOptions(propagation="Background"))
    finalize_namespace(api, name)
    left = api.store.get(NAMESPACES, "", name)
    return Removal(left or namespace, left is None)


def finalize_namespace(api: Api, name: str) -> None:
    """Remove a terminating namespace once it is empty and no finalizer holds it."""
    namespace = api.store.get(NAMESPACES, "", name)
    if namespace is None or namespace.get("status", {}).get("phase") != "Terminating":
        return
    for resource in api.store.resources():
        if resource.namespaced and api.store.has_any(resource, name):
            return
    held = [item for item in namespace.get("spec", {}).get("finalizers", []) if item != "kubernetes"]
    if not held and not namespace["metadata"].get("finalizers"):
        api.store.remove(NAMESPACES, "", name)
