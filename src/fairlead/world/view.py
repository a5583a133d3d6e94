"""The store as controllers read it, with the few indexes that only they need.

Kinds are named as in manifests; a custom kind is ``Kind.group``, because groups share kind names
(a Job may be Volcano's).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.errors import NotFound
from fairlead.world.schema.resources import BUILTIN, PODS, Registry, Resource
from fairlead.world.store import Change, Object, Store

_BUILT_IN = {served.resource: served.resource.kind for served in BUILTIN if served.group is None}


def kind_of(resource: Resource) -> str:
    """How controllers call a resource's kind."""
    return _BUILT_IN.get(resource) or f"{resource.kind}.{resource.group}"


class StoreView:
    """Reads the store; `observe` must see every change, in order, to keep the orphans' index true."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._resources = {kind: resource for resource, kind in _BUILT_IN.items()}
        self._orphans: dict[str, dict[str, Object]] = {}
        for pod in store.list(PODS):
            self._file(pod["metadata"]["namespace"], pod["metadata"]["name"], pod)

    def observe(self, change: Change) -> None:
        """Take note of a committed change."""
        self._resources.setdefault(kind_of(change.resource), change.resource)
        if change.resource is PODS or change.resource == PODS:
            metadata = change.object["metadata"]
            pod = None if change.type == "DELETED" else change.object
            self._file(metadata["namespace"], metadata["name"], pod)

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """An object by kind and name."""
        resource = self._resources.get(kind)
        return None if resource is None else self._store.get(resource, namespace, name)

    def all(self, kind: str, namespace: str = "") -> list[Object]:
        """All objects of a kind, in key order."""
        resource = self._resources.get(kind)
        return [] if resource is None else self._store.list(resource, namespace)

    def dependents(self, uid: str) -> Sequence[Object]:
        """Objects of any kind that name `uid` among their owners."""
        return [item for _, item in self._store.owned_by(uid)]

    def dependent_keys(self, uid: str) -> list[tuple[str, Object]]:
        """The same, each with its kind as controllers call it."""
        return [(kind_of(resource), item) for resource, item in self._store.owned_by(uid)]

    def kind(self, item: Object) -> str:
        """The kind of an object as `get` takes it."""
        return kind_of(self.resource(item))

    def orphan_pods(self, namespace: str) -> Sequence[Object]:
        """Pods that no controller owns."""
        held = self._orphans.get(namespace)
        return [held[name] for name in sorted(held)] if held else ()

    def pods_on(self, node: str) -> Sequence[Object]:
        """Pods bound to a node."""
        return self._store.pods_on(node)

    def owner(self, namespace: str, reference: Mapping[str, Any]) -> Object | None:
        """What an owner reference points at; None unless it exists with that uid."""
        resource = self._registry.of_kind(reference["apiVersion"], reference["kind"])
        if resource is None:
            return None
        item = self._store.get(resource, namespace if resource.namespaced else "", reference["name"])
        return item if item is not None and item["metadata"]["uid"] == reference["uid"] else None

    def resource_of(self, kind: str) -> Resource:
        """The resource of a kind that is built in or was seen (KeyError otherwise)."""
        return self._resources[kind]

    def resource(self, item: Object) -> Resource:
        """The resource of an object; 404 when it is not served (any more)."""
        found = self._registry.of_kind(item["apiVersion"], item["kind"])
        if found is None:
            kind = f"{item['apiVersion']} {item['kind']}"
            raise NotFound(404, "NotFound", f"the server could not find the requested resource: {kind}")
        return found

    def _file(self, namespace: str, name: str, pod: Object | None) -> None:
        if pod is not None and not any(
            o.get("controller") for o in pod["metadata"].get("ownerReferences") or ()
        ):
            self._orphans.setdefault(namespace, {})[name] = pod
        elif (held := self._orphans.get(namespace)) is not None:
            held.pop(name, None)
