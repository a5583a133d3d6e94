"""What a controller posts: a pod from its template, and the reference to itself that it puts on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def pod_from_template(
    template: Mapping[str, Any], owner: Mapping[str, Any], *, name: str = ""
) -> dict[str, Any]:
    """A pod as its controller posts it: named, or with the owner's name as prefix."""
    meta = template.get("metadata") or {}
    metadata: dict[str, Any] = {"namespace": owner["metadata"].get("namespace") or ""}
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = f"{owner['metadata']['name']}-"
    metadata["labels"] = dict(meta.get("labels") or {})
    metadata["annotations"] = dict(meta.get("annotations") or {})
    if meta.get("finalizers"):
        metadata["finalizers"] = list(meta["finalizers"])
    metadata["ownerReferences"] = [owner_reference(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def owner_reference(owner: Mapping[str, Any]) -> dict[str, Any]:
    """The reference a controller puts on what it makes."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
