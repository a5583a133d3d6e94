"""A scheduler core on a cluster that does what it is told, or does not: for tests of the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from fairlead.engine.ask.objects import read
from fairlead.engine.core.actions import (
    Action,
    BindPod,
    EvictPod,
    HoldPod,
    MarkTiers,
    NominatePod,
    ReleasePod,
    Say,
)
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import BindFailed, Event, EvictFailed, Gone, Seen
from fairlead.engine.core.kinds import KINDS
from fairlead.engine.planning.settings import Settings
from fairlead.kube.decode import convert
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import Workload
from support.units import EPOCH

__all__ = ["Running", "running", "seen"]


def seen(thing: dict[str, Any]) -> Seen:
    """An object as an event."""
    found = read(thing)
    if found is None:
        return Seen(thing["kind"], convert(thing, KINDS.get(thing["kind"], Workload)))
    return Seen(*found)


class Running:
    """A core and the pods that the API has. Times are seconds after the tests' epoch."""

    def __init__(self, settings: Settings) -> None:
        self.core = Core(settings)
        self.now = 100.0
        self.pods: dict[str, Pod] = {}
        self.actions: list[Action] = []
        self.log: list[Action] = []
        self.leaves_at_once = True
        self.binds_fail: Callable[[BindPod], bool] = lambda bind: False
        self.refused: dict[str, bool] = {}  # pod → whether the refusal to evict it is final

    def tell(self, *events: Event) -> list[Action]:
        """One call of the core, without anything being done about what it says."""
        for event in events:
            if isinstance(event, Seen) and isinstance(event.object, Pod):
                self.pods[event.object.metadata.key] = event.object
            elif isinstance(event, Gone) and event.kind == "Pod":
                self.pods.pop(f"{event.namespace}/{event.name}", None)
        self.actions = self.core.handle(events, EPOCH.timestamp() + self.now)
        self.log += self.actions
        return self.actions

    def add(self, *things: dict[str, Any]) -> Running:
        """Objects appear, and all that follows happens."""
        self.settle(self.tell(*(seen(thing) for thing in things)))
        return self

    def remove(self, *names: str) -> Running:
        """Pods (of namespace default, by name) are gone, and all that follows happens."""
        self.settle(self.tell(*(self.gone(f"default/{name}") for name in names)))
        return self

    def after(self, seconds: float) -> Running:
        """Time passes, and all that follows happens."""
        end = self.now + seconds
        while True:
            wake = self.core.wake_at
            due = wake - EPOCH.timestamp() if wake is not None else None
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            self.settle(self.tell())
        self.now = end
        self.settle(self.tell())
        return self

    def settle(self, actions: list[Action]) -> None:
        """Do what the core asks for, and tell it, until it asks for nothing more."""
        while actions:
            events = [event for action in actions for event in self.happens(action)]
            actions = self.tell(*events) if events else []

    def happens(self, action: Action) -> list[Event]:
        """What the API server says to one action."""
        if isinstance(action, MarkTiers):
            return []
        pod = self.pods.get(action.pod)
        if pod is None or pod.metadata.uid != action.uid:
            return []
        match action:
            case BindPod():
                if self.binds_fail(action):
                    return [BindFailed(action.pod, action.uid, action.node, "refused")]
                tolerations = action.tolerations or pod.spec.tolerations
                spec = msgspec.structs.replace(pod.spec, node_name=action.node, tolerations=tolerations)
                annotations = {**pod.metadata.annotations, **action.annotations}
                metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
                return [Seen("Pod", msgspec.structs.replace(pod, metadata=metadata, spec=spec))]
            case EvictPod():
                if not self.core.confirms(action, sending=True):
                    return [EvictFailed(action.pod, action.uid, "not wanted any more")]
                if action.pod in self.refused:
                    final = self.refused[action.pod]
                    return [EvictFailed(action.pod, action.uid, "no", final=final)]
                if self.leaves_at_once:
                    return [self.gone(action.pod)]
                metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=EPOCH)
                return [Seen("Pod", msgspec.structs.replace(pod, metadata=metadata))]
            case ReleasePod():
                return [self.gone(action.pod)]
            case NominatePod():
                status = msgspec.structs.replace(pod.status, nominated_node_name=action.node)
                return [Seen("Pod", msgspec.structs.replace(pod, status=status))]
        return []

    def gone(self, key: str) -> Gone:
        """The event of a pod's end."""
        namespace, _, name = key.partition("/")
        return Gone("Pod", namespace, name, self.pods[key].metadata.uid)

    @property
    def bound(self) -> dict[str, str]:
        """Pods that have a node, and which."""
        return {
            key: pod.spec.node_name
            for key, pod in sorted(self.pods.items())
            if pod.spec.node_name and not pod.terminal
        }

    @property
    def evicted(self) -> list[str]:
        """Pods whose eviction was asked for, in order."""
        return [action.pod for action in self.log if isinstance(action, EvictPod)]

    @property
    def released(self) -> list[str]:
        """Members that were let go because their gang could not be completed."""
        return sorted(action.pod for action in self.log if isinstance(action, ReleasePod))

    def holds(self) -> dict[str, HoldPod]:
        """The last word on each pod that was ever held."""
        return {action.pod: action for action in self.log if isinstance(action, HoldPod)}

    def said(self) -> list[Say]:
        """Everything that was said for people to read."""
        return [action for action in self.log if isinstance(action, Say)]


def running(settings: Settings | None = None, *things: dict[str, Any]) -> Running:
    """A core that has seen these objects, with all that follows done."""
    return Running(settings or Settings()).add(*things)
