"""Whose pods belong together: the selectors of services and controllers, by which ranking spreads."""

from __future__ import annotations

from typing import Any

from fairlead.kube.selectors import LabelSelector, Requirement
from fairlead.kube.workloads import Service, Workload


class SpreadSelectors:
    """Services and controllers. `version` counts changes, for caches of what follows from them."""

    def __init__(self) -> None:
        self.version = 0
        # By kind and namespace, then by name: labels for services, a LabelSelector for controllers.
        self._selectors: dict[tuple[str, str], dict[str, Any]] = {}

    def put(self, kind: str, thing: Service | Workload) -> None:
        """A Service, ReplicaSet, StatefulSet or ReplicationController as it now is."""
        namespace, name, selector = thing.metadata.namespace, thing.metadata.name, thing.spec.selector
        held = self._selectors.setdefault((kind, namespace), {})
        if selector is None:
            self.remove(kind, namespace, name)
        elif held.get(name) != selector:
            held[name] = selector
            self.version += 1

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """One of these is gone."""
        if self._selectors.get((kind, namespace), {}).pop(name, None) is not None:
            self.version += 1

    def selector(
        self, namespace: str, labels: dict[str, str], owner: tuple[str, str, str] | None
    ) -> LabelSelector:
        """What selects a pod's like: the selectors of its services and of its owner together; may be empty.

        `owner` is (apiVersion, kind, name).
        """
        wanted: dict[str, str] = {}
        for _, selector in sorted(self._selectors.get(("Service", namespace), {}).items()):
            if all(labels.get(key) == value for key, value in selector.items()):
                wanted.update(selector)
        found = self._selectors.get((owner[1], namespace), {}).get(owner[2]) if owner else None
        more: tuple[Requirement, ...] = ()
        if found is not None:
            more = (
                *(Requirement(key, "In", (value,)) for key, value in found.match_labels.items()),
                *found.match_expressions,
            )
        return LabelSelector(wanted, more)
