"""Why a workload or a gang has fewer pods on nodes than it should: its pods' causes, summed up.

The subtle thing is pods that are not there at all. A quota or an admission webhook refuses them when they are
created, so nothing pending tells of it; only their controller's events do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from fairlead.engine.ask.inventory import Inventory
from fairlead.engine.ask.survey import Waiting, summed_up
from fairlead.engine.gangs.membership import shown
from fairlead.errors import BadInput
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import Job, Workload

if TYPE_CHECKING:
    from fairlead.engine.ask.diagnosis import Diagnostician, GangView

KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController")


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """A workload or a gang, and what its pods wait for. `desired` None: not known."""

    kind: str
    key: str
    desired: int | None
    placed: int
    pending: int
    waiting: tuple[Waiting, ...]
    not_created: str = ""
    """Why its controller could not create pods, the last time that it said so."""
    gang: GangView | None = None

    @property
    def headline(self) -> str:
        """The most important thing, in one line."""
        wanted = self.desired if self.desired is not None else self.placed + self.pending
        missing = max(0, wanted - self.placed - self.pending)
        so_far = f"{self.kind} {self.key}: {self.placed} of {wanted} pods have a node"
        if self.gang is not None and self.gang.waits_for:
            return f"{so_far}: {self.gang.waits_for}"
        if missing and self.not_created:
            return f"{so_far}: {missing} could not be created: {self.not_created}"
        if self.waiting:
            first = self.waiting[0]
            who = first.examples[0].partition("/")[2]
            others = f" and {first.pods - 1} more" if first.pods > 1 else ""
            return f"{so_far}: {who}{others}: {first.text}"
        return so_far + (f": {missing} are yet to be created" if missing else "")

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "kind": self.kind,
            "name": self.key,
            "headline": self.headline,
            "desired": self.desired,
            "placed": self.placed,
            "pending": self.pending,
            "notCreated": self.not_created,
            "waiting": [one.to_dict() for one in self.waiting],
            "gang": self.gang.to_dict() if self.gang is not None else None,
        }


def workload_view(asked: Diagnostician, kind: str, key: str) -> WorkloadView:
    """A workload of one of `KINDS` by ``namespace/name``; BadInput names those that are near."""
    cluster = asked.cluster
    owner = _owner(cluster, kind, key)
    sets = _sets(cluster, key) if kind == "Deployment" else {}
    pods = [pod for pod in cluster.pods.values() if _made_by(pod, kind, key, sets)]
    if owner is None and not pods:
        raise BadInput(f"{kind} {key} is not in the cluster{_similar(cluster, kind, key)}")
    makers = {("ReplicaSet", name) for name in sets} | {(kind, key)}
    view = _view(asked, kind, key, pods)
    return replace(view, desired=_desired(owner), not_created=_not_created(cluster, makers))


def gang_view(asked: Diagnostician, key: str) -> WorkloadView:
    """A gang by ``namespace/name``; BadInput names those that are near."""
    known = {shown(name): name for name in asked.state.gangs.names()}
    gang = asked.state.gangs.get(known[key]) if key in known else None
    if gang is None:
        near = get_close_matches(key, known, 3)
        hint = f"; there is {', '.join(near)}" if near else ""
        raise BadInput(f"gang {key} is not in the cluster{hint}")
    pods = [*gang.running, *gang.pending, *gang.outdated]
    return replace(_view(asked, "gang", key, pods), desired=gang.minimum, gang=asked.gang_view(gang))


def _view(asked: Diagnostician, kind: str, key: str, pods: list[Pod]) -> WorkloadView:
    there = [pod for pod in pods if not pod.terminal and pod.metadata.deletion_timestamp is None]
    waits = [pod for pod in there if not pod.spec.node_name]
    listed = [(pod, asked.shared_cause(pod)) for pod in waits]
    placed = len(there) - len(waits)
    return WorkloadView(kind, key, None, placed, len(waits), tuple(summed_up(listed)))


def _owner(cluster: Inventory, kind: str, key: str) -> Workload | Job | None:
    for known, thing in cluster.objects:
        if known == kind and isinstance(thing, Workload | Job) and thing.metadata.key == key:
            return thing
    return None


def _desired(owner: Workload | Job | None) -> int | None:
    return owner.desired if owner is not None else None


def _sets(cluster: Inventory, deployment: str) -> dict[str, None]:
    """The ReplicaSets of a Deployment, by key."""
    namespace, _, name = deployment.rpartition("/")
    found: dict[str, None] = {}
    for kind, thing in cluster.objects:
        if kind == "ReplicaSet" and isinstance(thing, Workload) and thing.metadata.namespace == namespace:
            controller = thing.metadata.controller
            if controller is not None and (controller.kind, controller.name) == ("Deployment", name):
                found[thing.metadata.key] = None
    return found


def _made_by(pod: Pod, kind: str, key: str, sets: dict[str, None]) -> bool:
    controller = pod.metadata.controller
    if controller is None:
        return False
    maker = f"{pod.metadata.namespace}/{controller.name}"
    return (controller.kind == kind and maker == key) or (controller.kind == "ReplicaSet" and maker in sets)


def _not_created(cluster: Inventory, makers: set[tuple[str, str]]) -> str:
    latest, why = "", ""
    for event in cluster.of_kind("Event"):
        about = event.get("involvedObject") or event.get("regarding") or {}
        maker = (about.get("kind"), f"{about.get('namespace')}/{about.get('name')}")
        if event.get("reason") != "FailedCreate" or maker not in makers:
            continue
        when = str(event.get("lastTimestamp") or event.get("eventTime") or "")
        if when >= latest:
            latest, why = when, str(event.get("message") or event.get("note") or "")
    return why.removeprefix("Error creating: ")


def _similar(cluster: Inventory, kind: str, key: str) -> str:
    names = [
        thing.metadata.key
        for known, thing in cluster.objects
        if known == kind and isinstance(thing, Workload | Job)
    ]
    near = get_close_matches(key, names, 3)
    return f"; there is {', '.join(near)}" if near else ""
