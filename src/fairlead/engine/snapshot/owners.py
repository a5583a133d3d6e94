"""Whose pods belong together: the selectors of services and controllers, by which ranking spreads."""

from __future__ import annotations

from fairlead.kube.selectors import LabelSelector, Requirement
from fairlead.kube.workloads import Service, Workload

__all__ = ["Owners"]


class Owners:
    """Services and controllers. `version` counts changes, for who caches what follows from them."""

    def __init__(self) -> None:
        self.version = 0
        self._services: dict[str, dict[str, dict[str, str]]] = {}
        self._selectors: dict[tuple[str, str, str], LabelSelector] = {}

    def put_service(self, service: Service) -> None:
        """A service as it now is."""
        services = self._services.setdefault(service.metadata.namespace, {})
        selector = service.spec.selector
        if selector is None:
            self.remove_service(service.metadata.namespace, service.metadata.name)
        elif services.get(service.metadata.name) != selector:
            services[service.metadata.name] = selector
            self.version += 1

    def remove_service(self, namespace: str, name: str) -> None:
        """A service is gone."""
        if self._services.get(namespace, {}).pop(name, None) is not None:
            self.version += 1

    def put_workload(self, kind: str, workload: Workload) -> None:
        """A ReplicaSet, StatefulSet or ReplicationController as it now is."""
        key = (kind, workload.metadata.namespace, workload.metadata.name)
        selector = workload.spec.selector
        if selector is None:
            self.remove_workload(*key)
        elif self._selectors.get(key) != selector:
            self._selectors[key] = selector
            self.version += 1

    def remove_workload(self, kind: str, namespace: str, name: str) -> None:
        """A controller is gone."""
        if self._selectors.pop((kind, namespace, name), None) is not None:
            self.version += 1

    def selector(
        self, namespace: str, labels: dict[str, str], owner: tuple[str, str, str] | None
    ) -> LabelSelector:
        """What selects a pod's like: the selectors of its services and of its owner together; may be empty.

        `owner` is (apiVersion, kind, name).
        """
        wanted: dict[str, str] = {}
        for _, selector in sorted(self._services.get(namespace, {}).items()):
            if all(labels.get(key) == value for key, value in selector.items()):
                wanted.update(selector)
        found = self._selectors.get((owner[1], namespace, owner[2])) if owner else None
        more: tuple[Requirement, ...] = ()
        if found is not None:
            more = (
                *(Requirement(key, "In", (value,)) for key, value in found.match_labels.items()),
                *found.match_expressions,
            )
        return LabelSelector(wanted, more)
