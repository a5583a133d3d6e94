"""What every namespace gets: its default service account and the cluster's CA certificate."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from fairlead.world.controllers.writes import Create, Obj, View, Write
from fairlead.world.objects import namespace_of

_CA = "kube-root-ca.crt"


class NamespaceFurnisher:
    """Keeps ``default`` and ``kube-root-ca.crt`` in every namespace."""

    name = "namespace-furnisher"
    watches = ("Namespace", "ServiceAccount", "ConfigMap")

    def __init__(self, ca_certificate: str = "") -> None:
        self._ca = ca_certificate

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """The namespace; of the objects in it, only that they are gone."""
        item = new or old
        assert item is not None
        if kind == "Namespace":
            return [item["metadata"]["name"]] if old is None else []
        if new is None and item["metadata"]["name"] in ("default", _CA):
            return [namespace_of(item)]
        return []

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Create what is missing."""
        namespace = view.get("Namespace", "", key)
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return []
        writes: list[Write] = []
        if view.get("ServiceAccount", key, "default") is None:
            meta = {"name": "default", "namespace": key}
            writes.append(Create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}))
        if view.get("ConfigMap", key, _CA) is None:
            annotations = {
                "kubernetes.io/description": "Contains a CA bundle that can be used to verify the API server."
            }
            meta_ca = {"name": _CA, "namespace": key, "annotations": annotations}
            data = {"ca.crt": self._ca}
            writes.append(
                Create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta_ca, "data": data})
            )
        return writes
