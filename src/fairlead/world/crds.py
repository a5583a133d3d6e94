"""CustomResourceDefinitions: stored like anything else, served from the moment they are, and gone with all
objects of their kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairlead.world.api_errors import forbidden
from fairlead.world.deletion import DeleteOptions, Removal
from fairlead.world.schema.resources import CRDS, Registry, Resource, Served
from fairlead.world.store import Change, Object, Store

if TYPE_CHECKING:
    from fairlead.world.api import Api


_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


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


def held_by_its_objects(definition: Object) -> Object:
    """The definition as a request to delete it finds it: it stays until its objects are gone."""
    metadata = definition["metadata"]
    held = metadata.get("finalizers") or []
    if _CLEANUP in held or metadata.get("deletionTimestamp") is not None:
        return definition
    return {**definition, "metadata": {**metadata, "finalizers": [*held, _CLEANUP]}}


def empty_definition(api: Api, definition: Object) -> Removal:
    """Delete all objects of a terminating definition; it goes with the last of them."""
    resource = served_by(definition).resource
    api.delete_collection(resource, options=DeleteOptions(propagation="Background"))
    finalize_definition(api, resource)
    left = api.store.get(CRDS, "", definition["metadata"]["name"])
    return Removal(left or definition, left is None)


def check_definition(store: Store, resource: Resource, name: str) -> None:
    """403 while the definition waits for its last objects to go: there must be no new ones."""
    definition = store.get(CRDS, "", f"{resource.plural}.{resource.group}")
    if definition is not None and definition["metadata"].get("deletionTimestamp") is not None:
        why = "create not allowed while custom resource definition is terminating"
        raise forbidden(resource, name, why)


def finalize_definition(api: Api, resource: Resource) -> None:
    """Take the cleanup off a terminating definition once it has no objects, and so remove it."""
    definition = api.store.get(CRDS, "", f"{resource.plural}.{resource.group}")
    if definition is None or definition["metadata"].get("deletionTimestamp") is None:
        return
    held = definition["metadata"].get("finalizers") or []
    if _CLEANUP in held and not api.store.count(resource):
        left = {**definition["metadata"], "finalizers": [one for one in held if one != _CLEANUP]}
        api.update(CRDS, {**definition, "metadata": left})


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
