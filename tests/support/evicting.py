"""A cluster in which every write of an eviction is a step, and the scheduler may end between any two.

The pods belong to controllers that recreate what leaves. What the scheduler's lanes do is played here write
by write, in the order in which they send: marks on all members of a gang, then its evictions one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fairlead.engine.core.actions import Action, BindPod, EvictPod, ReleasePod, SparePod
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import Event, EvictFailed, Gone, Seen
from fairlead.engine.planning.settings import Settings
from fairlead.engine.snapshot.evicted import CONDITION, GANG
from fairlead.kube.meta import Condition
from fairlead.kube.pod import Pod
from support.cluster_of import seen
from support.units import EPOCH, pod, typed

__all__ = ["Evicting"]


class Evicting:
    """See the module. `steps` are what may happen next; `restart` is always possible."""

    def __init__(self, *nodes: dict[str, Any], settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.now = 1000.0
        self.nodes = nodes
        self.pods: dict[str, Pod] = {}  # by uid
        self.log: list[Action] = []
        self.jobs: list[Iterator[None]] = []
        self.recreated: list[Pod] = []  # pods whose controllers have yet to react
        self.serial = 0
        self.core = Core(self.settings)
        self.tell(*map(seen, nodes))

    # What users do

    def create(
        self, number: int = 1, cpu: int = 1, *, of: str = "", minimum: int = 0, priority: int = 0
    ) -> None:
        """A controller creates pods, of a gang if that is named."""
        made = [self._made(cpu, of, minimum, priority) for _ in range(number)]
        self.tell(*(Seen("Pod", one) for one in made))

    # What happens by itself

    def steps(self) -> list[tuple[str, int]]:
        """What may happen next, by name and index."""
        leaving = sum(1 for one in self.pods.values() if one.metadata.deletion_timestamp)
        return [
            *(("write", index) for index in range(len(self.jobs))),
            *(("leave", index) for index in range(leaving)),
            *(("recreate", index) for index in range(len(self.recreated))),
        ]

    def take(self, name: str, index: int) -> None:
        """One of the steps happens."""
        match name:
            case "write":
                job = self.jobs[index]
                if next(job, self) is self:
                    self.jobs.remove(job)
            case "leave":
                leaving = [one for one in self.pods.values() if one.metadata.deletion_timestamp]
                one = self.pods.pop(leaving[index].metadata.uid)
                self.tell(Gone("Pod", one.metadata.namespace, one.metadata.name, one.metadata.uid))
            case "recreate":
                self._recreate(self.recreated.pop(index))

    def restart(self) -> None:
        """The scheduler ends, with all that it had in mind, and another one takes over."""
        self.jobs = []
        self.core = Core(self.settings)
        self.tell(*map(seen, self.nodes), *(Seen("Pod", one) for one in self.pods.values()))

    def quiet(self) -> None:
        """All that may happen happens, and time passes, until nothing changes any more."""
        for _ in range(40):
            while steps := self.steps():
                self.take(*steps[0])
            self.now += 20.0
            before = len(self.log)
            self.tell()
            if not self.steps() and len(self.log) == before and self.core.wake_at is None:
                return

    # What is there

    def members(self, gang: str) -> list[Pod]:
        """The members of a gang that are not on their way out."""
        return [
            one
            for one in self.pods.values()
            if one.metadata.annotations.get("pod-group") == gang and not one.metadata.deletion_timestamp
        ]

    def bound(self, gang: str) -> list[Pod]:
        """Those of them that have a node and were not told to leave with the rest."""
        return [one for one in self.members(gang) if one.spec.node_name and not _is_marked(one)]

    # How

    def tell(self, *events: Event) -> None:
        queue = list(events)
        while True:
            for event in queue:
                if isinstance(event, Seen) and isinstance(event.object, Pod):
                    self.pods[event.object.metadata.uid] = event.object
            actions = self.core.handle(queue, EPOCH.timestamp() + self.now)
            self.log += actions
            queue = [event for action in actions for event in self._bind(action)]
            self._carry(actions)
            if not queue:
                return

    def _carry(self, actions: Sequence[Action]) -> None:
        parts: dict[str, list[EvictPod | ReleasePod]] = {}
        for action in actions:
            if isinstance(action, EvictPod | ReleasePod):
                parts.setdefault(f"gang:{action.gang}" if action.gang else f"pod:{action.uid}", []).append(
                    action
                )
            elif isinstance(action, SparePod):
                self.jobs.append(self._spare(action))
        self.jobs += [self._evict(part) for part in parts.values()]

    def _bind(self, action: Action) -> list[Event]:
        if not isinstance(action, BindPod):
            return []
        one = self.pods[action.uid]
        assert not one.spec.node_name
        spec = msgspec.structs.replace(one.spec, node_name=action.node)
        annotations = one.metadata.annotations | action.annotations
        metadata = msgspec.structs.replace(one.metadata, annotations=annotations)
        return [Seen("Pod", msgspec.structs.replace(one, metadata=metadata, spec=spec))]

    def _evict(self, part: list[EvictPod | ReleasePod]) -> Iterator[None]:
        evictions = [action for action in part if isinstance(action, EvictPod)]
        if not all(self.core.confirms(evict) for evict in evictions):
            self.tell(*(EvictFailed(evict.pod, evict.uid) for evict in evictions))
            return
        for action in part:
            if action.uid in self.pods:
                self._mark(action.uid, "True", GANG if action.gang else "Pod")
            yield
        for action in part:
            if isinstance(action, EvictPod) and not self.core.confirms(action, sending=True):
                self.tell(EvictFailed(action.pod, action.uid))
                continue
            self._leave(action.uid)
            yield

    def _spare(self, spare: SparePod) -> Iterator[None]:
        yield
        if spare.uid in self.pods and self.core.spares(spare.uid):
            self._mark(spare.uid, "False", "Spared")

    def _mark(self, uid: str, status: str, reason: str) -> None:
        one = self.pods[uid]
        changed = msgspec.structs.replace(one.status, conditions=(Condition(CONDITION, status, reason),))
        self.tell(Seen("Pod", msgspec.structs.replace(one, status=changed)))

    def _leave(self, uid: str) -> None:
        one = self.pods.get(uid)
        if one is None or one.metadata.deletion_timestamp is not None:
            return
        metadata = msgspec.structs.replace(one.metadata, deletion_timestamp=EPOCH)
        self.recreated.append(one)
        self.tell(Seen("Pod", msgspec.structs.replace(one, metadata=metadata)))

    def delete(self, uid: str) -> None:
        """A user deletes a pod."""
        self._leave(uid)

    def _recreate(self, one: Pod) -> None:
        marks = one.metadata.annotations
        cpu = int(one.spec.containers[0].resources.requests["cpu"])
        made = self._made(
            cpu, marks.get("pod-group", ""), int(marks.get("pod-group-min-member", 0)), one.spec.priority or 0
        )
        self.tell(Seen("Pod", made))

    def _made(self, cpu: int, of: str, minimum: int, priority: int) -> Pod:
        self.serial += 1
        owner = {
            "kind": "ReplicaSet",
            "name": of or "crowd",
            "uid": f"uid-{of or 'crowd'}",
            "controller": True,
        }
        return typed(
            pod(
                f"p{self.serial:03}",
                cpu,
                gang=of,
                minimum=minimum,
                priority=priority,
                created=self.now + self.serial / 1000,
                owner=owner,
            )
        )


def _is_marked(one: Pod) -> bool:
    return any(c.type == CONDITION and c.status == "True" and c.reason == GANG for c in one.status.conditions)
