"""The cluster as the demo sees it: the last state of the few kinds that the story is about.

It is fed from an embedded cluster's store or from watches over HTTP, and cannot tell which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.kube.meta import Object, ObjectMeta

KINDS = ("Node", "Deployment", "Pod", "Event")


class Thing(Object, frozen=True, gc=False):
    """An object of any of these kinds, read as loosely as telling a story allows."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
    # An event's own fields.
    reason: str = ""
    message: str = ""
    involved_object: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """Its bare name."""
        return self.metadata.name

    @property
    def node(self) -> str:
        """Where a pod is bound, or ""."""
        return str(self.spec.get("nodeName") or "")

    @property
    def leaving(self) -> bool:
        """Whether it was deleted and is not gone yet."""
        return self.metadata.deletion_timestamp is not None

    @property
    def gang(self) -> str:
        """The gang that a pod says it is in, or ""."""
        return self.metadata.annotations.get("pod-group", "")

    def condition(self, kind: str) -> dict[str, Any]:
        """A condition of its status; empty when it has none of that type."""
        for each in self.status.get("conditions") or ():
            if each.get("type") == kind:
                return dict(each)
        return {}

    @property
    def ready(self) -> bool:
        """Whether it says that it is ready; of a node also that nothing keeps pods off it."""
        return self.condition("Ready").get("status") == "True" and not self.spec.get("taints")


# Kind, before, after; None for what is not there.
Change = Callable[[str, Thing | None, Thing | None], None]


class Observed:
    """See the module. `on_change` is called after each change was taken in."""

    def __init__(self) -> None:
        self._things: dict[str, dict[str, Thing]] = {kind: {} for kind in KINDS}
        self.on_change: list[Change] = []

    def put(self, kind: str, thing: Thing) -> None:
        """An object was added or changed."""
        old = self._things[kind].get(thing.metadata.key)
        self._things[kind][thing.metadata.key] = thing
        for tell in self.on_change:
            tell(kind, old, thing)

    def remove(self, kind: str, key: str) -> None:
        """An object is gone."""
        old = self._things[kind].pop(key, None)
        for tell in self.on_change:
            tell(kind, old, None)

    def nodes(self) -> list[Thing]:
        """All nodes, by name."""
        return self._all("Node")

    def pods(self, *, app: str = "", gang: str = "") -> list[Thing]:
        """Pods that stay, by name: of a workload, of a gang, or all."""
        return [
            pod
            for pod in self._all("Pod")
            if not pod.leaving
            and (not app or pod.metadata.labels.get("app") == app)
            and (not gang or pod.gang == gang)
        ]

    def _all(self, kind: str) -> list[Thing]:
        return [self._things[kind][key] for key in sorted(self._things[kind])]
