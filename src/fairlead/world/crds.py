"""CustomResourceDefinitions: stored like anything else, and served from the moment they are."""

from __future__ import annotations

from typing import Any

from fairlead.world.schema.resources import CRDS, Registry, Resource, Served
from fairlead.world.store import Change, Object, Store

__all__ = ["follow_crds", "served_by"]


def follow_crds(store: Store, registry: Registry) -> None:
    """Serve what the CustomResourceDefinitions of the store define, now and from now on."""
    for definition in store.list(CRDS):
        registry.add(served_by(definition))

    def on_change(change: Change) -> None:
        if change.resource == CRDS:
            if change.old is not None and change.type == "DELETED":
                registry.remove(served_by(change.old))
            else:
                registry.add(served_by(change.object))

    store.subscribe(on_change)


def served_by(definition: Object) -> Served:
    """What one definition asks to be served."""
    spec: dict[str, Any] = definition["spec"]
    names = spec["names"]
    resource = Resource(spec["group"], names["plural"], names["kind"], spec["scope"] == "Namespaced")
    versions = [version for version in spec["versions"] if version.get("served")]
    stored = next((version for version in spec["versions"] if version.get("storage")), spec["versions"][0])
    subresources = stored.get("subresources") or {}
    return Served(
        resource,
        versions=tuple(version["name"] for version in versions),
        storage=stored["name"],
        singular=names.get("singular", names["kind"].lower()),
        short=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(name for name in ("status", "scale") if name in subresources),
        list_kind=names.get("listKind", ""),
        custom=True,
        scale_paths=dict(subresources.get("scale") or {}),
        columns={
            version["name"]: tuple(version.get("additionalPrinterColumns") or ()) for version in versions
        },
        schema=(stored.get("schema") or {}).get("openAPIV3Schema") or {},
    )
