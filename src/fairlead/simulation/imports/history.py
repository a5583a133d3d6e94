"""What a recording tells of a cluster's life: when its pods, nodes and workloads came, changed and went.

The subtle thing is that a recording has sessions, each of which begins by telling everything there is: what
was there before and is not told again has gone in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from fairlead.engine.core.events import Gone, MarksAre, PoliciesAre, Seen, Unread
from fairlead.engine.core.recording import Line
from fairlead.engine.gangs.membership import membership_of, object_minimum
from fairlead.engine.planning.settings import Settings
from fairlead.kube.meta import Object, OwnerReference
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import Namespace, PodDisruptionBudget, PodGroup, Workload
from fairlead.policy.rule.model import PlacementPolicy

SCALED = ("Deployment", "StatefulSet")
"""Kinds whose replicas a scenario keeps up itself."""


@dataclass(slots=True)
class PodLife:
    """A pod as it came, and when it came, got its node and ended; None: it did not."""

    pod: Pod
    came_s: float
    bound_s: float | None = None
    ended_s: float | None = None
    node: str = ""
    evicted: bool = False


@dataclass(slots=True)
class NodeLife:
    """A node as it was last seen, when it came and went, and when it was cordoned or uncordoned."""

    node: Node
    came_s: float
    gone_s: float | None = None
    cordons: list[tuple[float, bool]] = field(default_factory=list)


@dataclass(slots=True)
class WorkloadLife:
    """A Deployment or StatefulSet as it was last seen, and how many replicas it was to have from when on."""

    kind: str
    workload: Workload
    replicas: list[tuple[float, int]]


class History:
    """See the module. Times count from the first turn."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.pods: dict[str, PodLife] = {}
        self.nodes: dict[str, NodeLife] = {}
        self.workloads: dict[tuple[str, str, str], WorkloadLife] = {}
        self.owners: dict[str, OwnerReference | None] = {}
        """The controller of each ReplicaSet, by UID."""
        self.budgets: dict[str, PodDisruptionBudget] = {}
        self.minimums: dict[str, int] = {}
        """What each PodGroup says, by namespace/name."""
        self.namespaces: dict[str, Namespace] = {}
        self.policies: tuple[PlacementPolicy, ...] = ()
        self.policies_changed = 0
        self.unread: dict[str, None] = {}
        self.others: Counter[str] = Counter()
        self.ends_s = 0.0
        self._begin: float | None = None
        self._told: dict[tuple[str, str], None] | None = None

    def segment(self, lines: Iterable[tuple[int, Line]]) -> None:
        """Take in a segment; older ones come first."""
        first = True
        for _, line in lines:
            if line.settings is not None:
                self.settings, first = line.settings, True
            elif line.now is not None:
                if self._begin is None:
                    self._begin = line.now
                self._turn(line, max(0.0, line.now - self._begin), first=first)
                first = False

    def _turn(self, line: Line, now_s: float, *, first: bool) -> None:
        self.ends_s = max(self.ends_s, now_s)
        self._told = {} if first else None
        for event in line.received():
            match event:
                case Seen():
                    self._seen(event.kind, event.object, now_s)
                case Gone():
                    self._gone(event, now_s)
                case Unread():
                    self.unread[event.pod.metadata.key] = None
                case PoliciesAre():
                    self.policies_changed += bool(self.policies) and event.policies != self.policies
                    self.policies = event.policies or self.policies
                case MarksAre():
                    self.others["tier that was marked"] += 1
                case _:
                    pass  # what became of what the scheduler decided
        if self._told is not None:
            self._close(self._told, now_s)
        for action in msgspec.json.decode(line.actions or b"[]"):
            if action.get("action") in ("EvictPod", "ReleasePod") and action.get("uid") in self.pods:
                self.pods[action["uid"]].evicted = True

    def _seen(self, kind: str, thing: Object, now_s: float) -> None:
        match thing:
            case Pod():
                self._pod(thing, now_s)
            case Node():
                self._node(thing, now_s)
            case Workload() if kind in SCALED:
                self._workload(kind, thing, now_s)
            case Workload() if kind == "ReplicaSet":
                self.owners[thing.metadata.uid] = thing.metadata.controller
            case PodDisruptionBudget():
                self.budgets[thing.metadata.key] = thing
            case PodGroup():
                self.minimums[thing.metadata.key] = object_minimum(thing)
            case Namespace():
                self.namespaces[thing.metadata.name] = thing
            case _:
                if kind not in ("Job", "Service", "StorageClass", "CSINode", "CSIDriver"):
                    self.others[kind] += 1

    def _pod(self, pod: Pod, now_s: float) -> None:
        uid = pod.metadata.uid or pod.metadata.key
        if self._told is not None:
            self._told["Pod", uid] = None
        life = self.pods.get(uid)
        if life is None:
            if pod.terminal:
                return
            life = self.pods[uid] = PodLife(pod, now_s)
        if pod.spec.node_name and life.bound_s is None:
            life.bound_s, life.node = now_s, pod.spec.node_name
        if pod.terminal and life.ended_s is None:
            life.ended_s = now_s

    def _node(self, node: Node, now_s: float) -> None:
        name = node.metadata.name
        if self._told is not None:
            self._told["Node", name] = None
        life = self.nodes.get(name)
        if life is None:
            life = self.nodes[name] = NodeLife(node, now_s)
            if node.spec.unschedulable:
                life.cordons.append((now_s, True))
        elif life.node.spec.unschedulable != node.spec.unschedulable:
            life.cordons.append((now_s, node.spec.unschedulable))
        life.node, life.gone_s = node, None

    def _workload(self, kind: str, workload: Workload, now_s: float) -> None:
        key = (kind, workload.metadata.namespace, workload.metadata.name)
        if self._told is not None:
            self._told[kind, workload.metadata.key] = None
        life = self.workloads.get(key)
        if life is None:
            life = self.workloads[key] = WorkloadLife(kind, workload, [])
        life.workload = workload
        self._scaled(life, workload.desired, now_s)

    def _scaled(self, life: WorkloadLife, replicas: int, now_s: float) -> None:
        if not life.replicas or life.replicas[-1][1] != replicas:
            life.replicas.append((now_s, replicas))

    def _gone(self, event: Gone, now_s: float) -> None:
        if event.kind == "Pod":
            life = self.pods.get(event.uid) or self.pods.get(f"{event.namespace}/{event.name}")
            if life is not None and life.ended_s is None:
                life.ended_s = now_s
        elif event.kind == "Node" and event.name in self.nodes:
            self.nodes[event.name].gone_s = now_s
        elif (workload := self.workloads.get((event.kind, event.namespace, event.name))) is not None:
            self._scaled(workload, 0, now_s)
        elif event.kind == "PodDisruptionBudget":
            self.budgets.pop(f"{event.namespace}/{event.name}", None)

    def _close(self, told: dict[tuple[str, str], None], now_s: float) -> None:
        for uid, life in self.pods.items():
            if life.ended_s is None and ("Pod", uid) not in told:
                life.ended_s = now_s
        for name, node in self.nodes.items():
            if node.gone_s is None and ("Node", name) not in told:
                node.gone_s = now_s
        for (kind, namespace, name), workload in self.workloads.items():
            if (kind, f"{namespace}/{name}") not in told:
                self._scaled(workload, 0, now_s)

    # What belongs together

    def controller_of(self, pod: Pod) -> tuple[str, str, str] | None:
        """The Deployment or StatefulSet that keeps a pod up, if the recording has it."""
        owner = pod.metadata.controller
        if owner is not None and owner.kind == "ReplicaSet":
            owner = self.owners.get(owner.uid)
        if owner is None:
            return None
        key = (owner.kind, pod.metadata.namespace, owner.name)
        return key if key in self.workloads else None

    def gang_minimum(self, pod: Pod) -> int:
        """What the PodGroup of a pod's gang says, 0 for none."""
        membership = membership_of(pod.metadata, pod.spec)
        return self.minimums.get(f"{pod.metadata.namespace}/{membership.name}", 0) if membership else 0
