"""Custom resources for tests."""

from __future__ import annotations

import json
from typing import Any

from fairlead.kube.resources import Resource
from support.cluster import Cluster


def custom_resource(
    cluster: Cluster,
    *,
    namespaced: bool = True,
    subresources: dict[str, Any] | None = None,
    columns: list[dict[str, str]] | None = None,
    own: bool = False,
) -> Resource:
    """A kind Gadget that is served. Tests that ask for the same share it, unless it is to be their `own`:
    the real server makes the first creation of a new kind wait for two seconds.
    """
    if own:
        gadgets = _define(cluster, cluster.unique("gadgets"), namespaced, subresources, columns)
        cluster.owns(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.{gadgets.group}")
        return gadgets
    key = json.dumps([namespaced, subresources, columns])
    known = cluster.host.shared
    if key not in known:
        known[key] = _define(cluster, f"shared{len(known)}", namespaced, subresources, columns)
    return known[key]


def _define(
    cluster: Cluster,
    prefix: str,
    namespaced: bool,
    subresources: dict[str, Any] | None,
    columns: list[dict[str, str]] | None,
) -> Resource:
    group = f"{prefix}.example.com"
    version: dict[str, Any] = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    if subresources is not None:
        version["subresources"] = subresources
    if columns is not None:
        version["additionalPrinterColumns"] = columns
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [version],
        },
    }
    name = cluster.try_create(definition).ok()["metadata"]["name"]

    def established() -> bool:
        status = cluster.get("CustomResourceDefinition", name).get("status", {})
        return any(
            one["type"] == "Established" and one["status"] == "True" for one in status.get("conditions") or []
        )

    cluster.wait(established, "the custom resource to be established")
    gadgets = Resource(group, "v1", "gadgets", "Gadget", namespaced=namespaced)
    cluster.wait(
        lambda: cluster.wire.request("GET", cluster.path(gadgets)).status == 200,
        "the custom resource to be served",
    )
    return gadgets


def gadget(resource: Resource, name: str, **body: Any) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": "Gadget", "metadata": {"name": name}, **body}
