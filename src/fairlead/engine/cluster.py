"""The public way in: a cluster from any Kubernetes objects, to be asked what would happen.

Here objects are only read and kept; the answers are made in `explain`, and in `whole` for what looks at
all pods at once (plans, preemption).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from fairlead.engine import objects as reading
from fairlead.engine.budgets import Budgets
from fairlead.engine.explain import Explanation, Nominated, explain
from fairlead.engine.priority import ANNOTATION, Priority, priority_of
from fairlead.engine.settings import Settings
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.errors import BadInput, BadObject
from fairlead.kube.meta import Object
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import (
    Job,
    Namespace,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Workload,
)

if TYPE_CHECKING:
    from fairlead.engine.core.standing import Standing
    from fairlead.engine.plan import Plan, Preemption

__all__ = ["Cluster"]


class Cluster:
    """A cluster at one instant, made by `from_objects`.

    >>> node = {"kind": "Node", "metadata": {"name": "n1"},
    ...         "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}
    >>> big = {"kind": "Pod", "metadata": {"name": "big"},
    ...        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}}
    >>> cluster = Cluster.from_objects([node])
    >>> found = cluster.explain(big)
    >>> found.message
    '0/1 nodes are available: 1 Insufficient cpu.'
    >>> found.suggestions
    ['1 more CPU on n1']
    >>> big["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1500m"
    >>> cluster.explain(big).feasible
    ['n1']
    """

    def __init__(self, settings: Settings) -> None:
        """An empty cluster; use `from_objects`."""
        self.settings = settings
        self.snapshot = Snapshot(capacity=settings.capacity, scheduler_names=settings.scheduler_names)
        # All pods by namespace/name, in the order they came, those without a node and the finished too.
        self.pods: dict[str, Pod] = {}
        # Pods that cannot be made sense of: they are held, everything else goes on.
        self.broken: dict[str, BadObject] = {}
        # What can be told of them all the same (their names and gangs), and what is wrong with them.
        self.remains: list[tuple[Pod, str]] = []
        self.nodes: dict[str, Node] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.budgets: list[PodDisruptionBudget] = []
        self.pod_groups: list[PodGroup] = []
        self.priority_classes: dict[str, PriorityClass] = {}
        # Owners as (kind, object): Deployments, ReplicaSets, StatefulSets, ReplicationControllers, Jobs.
        self.owners: list[tuple[str, Workload | Job]] = []
        # Everything but pods and policies, as (kind, object), in the order it came.
        self.objects: list[tuple[str, Object]] = []
        # PlacementPolicies as they came.
        self.policies: list[dict[str, Any]] = []
        self._unnamed: list[Pod] = []

    @classmethod
    def from_objects(
        cls,
        objects: Iterable[Mapping[str, Any]],
        *,
        pdb: str | None = None,
        capacity: str | None = None,
        settings: Settings | None = None,
    ) -> Cluster:
        """A cluster from Kubernetes objects as dicts, in any order, lists of any kind among them.

        Read are Nodes, Pods, PersistentVolumeClaims, PersistentVolumes, StorageClasses, CSINodes,
        CSIDrivers, CSIStorageCapacities, VolumeAttachments, Namespaces, Services, DeviceClasses,
        PriorityClasses, PodDisruptionBudgets, PodGroups, PlacementPolicies and the pods' owners; other
        kinds are passed over. `objects` is read once. Raises BadObject for an object that is not usable.

        `pdb`: whether preemption must respect PodDisruptionBudgets or only tries to. `capacity`
        ``exclusive``: one Fairlead pod per node. `settings` are those of the scheduler to agree with; where
        they are given, `pdb` and `capacity` win over theirs.
        """
        cluster = cls(_settings(settings or Settings(), pdb, capacity))
        for thing in reading.opened(objects):
            cluster._keep(thing)
        cluster._fill()
        return cluster

    def explain(self, pod: str | Mapping[str, Any]) -> Explanation:
        """Why a pod fits, or not, on each node: ``namespace/name`` of a pod here, or a pod not yet here.

        A pod that is here and has a node is explained as if it were to be placed now. Which scheduler
        the pod asks for is not looked at.
        """
        typed, known = self.find(pod)
        if self.policies:
            from fairlead.engine import whole

            pinned = not known and bool(typed.spec.node_name)
            typed = typed if pinned else whole.sent(self, typed)
        nominated = [
            Nominated(each, each.status.nominated_node_name, self._priority(each).value)
            for each in self.pods.values()
            if each.status.nominated_node_name and not each.spec.node_name and not each.terminal
        ]
        with self.snapshot.trial():
            if self.snapshot.placed(typed.metadata.key) is not None:
                self.snapshot.forget(typed.metadata.key)
            return explain(
                self.snapshot,
                typed,
                priority=self._priority(typed).value,
                nominated=nominated,
                budgets=Budgets(self.budgets) if self.settings.pdb == "respect" else None,
                pinned=not known and bool(typed.spec.node_name),
            )

    def preempt(self, pod: str | Mapping[str, Any]) -> Preemption:
        """Where a pod could go if others left, and who: never worse than what kube-scheduler would choose.

        Which scheduler the pod asks for is not looked at. `node` is None when nothing helps, when the
        pod fits as it is, and when it may not preempt.

        >>> node = {"kind": "Node", "metadata": {"name": "n1"},
        ...         "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}
        >>> def pod(name, priority, **spec):
        ...     container = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
        ...     return {"kind": "Pod", "metadata": {"name": name},
        ...             "spec": {"priority": priority, "containers": [container], **spec}}
        >>> found = Cluster.from_objects([node, pod("low", 1, nodeName="n1")]).preempt(pod("high", 2))
        >>> found.node, found.victims, found.pdb_violations
        ('n1', ['default/low'], 0)
        """
        from fairlead.engine import whole

        return whole.preempt(self, self.find(pod)[0])

    def plan(self, *, scheduler_names: Iterable[str] = (), now: float | None = None) -> Plan:
        """What Fairlead would do now: bind, evict, hold, until nothing is left to do.

        Pods of other schedulers than `scheduler_names` (none: those of the settings, ``fairlead``) are
        counted, never touched. `now` (seconds since the epoch) is, when not given, a moment after the newest
        object was created.

        >>> node = {"kind": "Node", "metadata": {"name": "n1"},
        ...         "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}
        >>> def member(name):
        ...     container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
        ...     marks = {"pod-group": "train", "pod-group-min-member": "2"}
        ...     return {"kind": "Pod", "metadata": {"name": name, "annotations": marks},
        ...             "spec": {"schedulerName": "fairlead", "containers": [container]}}
        >>> dict(Cluster.from_objects([node, member("a"), member("b")]).plan().binds)
        {'default/a': 'n1', 'default/b': 'n1'}
        >>> Cluster.from_objects([node, member("a")]).plan().holds[0].reason
        'gang default/train: 1 of 2 members are there'
        """
        from fairlead.engine import whole

        return whole.plan(self, scheduler_names=self._names(scheduler_names), now=_time(now))

    def standing(
        self, pod: str, *, scheduler_names: Iterable[str] = (), now: float | None = None
    ) -> Standing | None:
        """Where a pod that the plan holds stands in the queue, who is ahead, and what holds it back.

        None for a pod that does not wait once the plan is done.
        """
        from fairlead.engine import whole

        typed, _ = self.find(pod)
        core = whole.planned(self, scheduler_names=self._names(scheduler_names), now=_time(now))
        return core.standing(typed.metadata.key)

    def warnings(self) -> list[str]:
        """Where the annotation ``priority`` of our pods is not taken as it stands, each reason once."""
        found: dict[str, str] = {}
        settings = self.settings
        for key, pod in sorted(self.pods.items()):
            namespace = pod.metadata.namespace
            if (
                ANNOTATION not in pod.metadata.annotations
                or pod.spec.scheduler_name not in settings.scheduler_names
                or (settings.namespaces and namespace not in settings.namespaces)
            ):
                continue
            problem = self._priority(pod).problem
            if settings.priority_annotation.namespace_selector and namespace not in self.namespaces:
                problem = (
                    f"annotation {ANNOTATION}: the state has no Namespace {namespace}, whose labels count"
                )
            if problem:
                found.setdefault(problem, key)
        return [f"{key}: {problem}" for problem, key in found.items()]

    def find(self, pod: str | Mapping[str, Any]) -> tuple[Pod, bool]:
        """The typed pod, and whether it is one of the cluster's."""
        if isinstance(pod, str):
            key = pod if "/" in pod else f"default/{pod}"
            if key in self.broken:
                raise self.broken[key]
            if key not in self.pods:
                raise BadInput(f"pod {key} is not in the cluster{self._similar(key)}")
            return self.pods[key], True
        return reading.with_priority(reading.read_pod(pod), self.priority_classes), False

    def _similar(self, key: str) -> str:
        name = key.rsplit("/", 1)[-1]
        found = sorted(other for other in (*self.pods, *self.broken) if other.rsplit("/", 1)[-1] == name)
        return f"; there is {', '.join(found[:3])}" if found else ""

    def _keep(self, thing: dict[str, Any]) -> None:
        try:
            if reading.is_policy(thing):
                self.policies.append(thing)
                return
            found = reading.read(thing)
        except BadObject as error:
            if thing["kind"] != "Pod":
                raise
            self._break(reading.remains(thing), error)
            return
        if found is None:
            return
        kind, typed = found
        if isinstance(typed, Pod):
            if typed.metadata.name:
                self.pods[typed.metadata.key] = typed
            else:
                self._unnamed.append(typed)
            return
        self.objects.append((kind, typed))
        self.snapshot.put(kind, typed)
        match typed:
            case Node():
                self.nodes[typed.metadata.name] = typed
            case Namespace():
                self.namespaces[typed.metadata.name] = typed
            case Workload() | Job():
                self.owners.append((kind, typed))
            case PodDisruptionBudget():
                self.budgets.append(typed)
            case PodGroup():
                self.pod_groups.append(typed)
            case PriorityClass():
                self.priority_classes[typed.metadata.name] = typed

    def _fill(self) -> None:
        """Place the pods, now that everything they may refer to is there."""
        for pod in self._unnamed:
            named = reading.with_name(pod, self.pods)
            self.pods[named.metadata.key] = named
        for key, given in list(self.pods.items()):
            try:
                pod = reading.with_priority(given, self.priority_classes)
                self.snapshot.put_pod(pod, priority=self._priority(pod).value)
                # Makes sense of those without a node too, so that nobody later meets a broken one.
                self.snapshot.class_of(pod)
            except BadObject as error:
                del self.pods[key]
                self._break(given, error)
            else:
                self.pods[key] = pod

    def _break(self, remains: Pod, error: BadObject) -> None:
        key = f"{remains.metadata.namespace}/{remains.metadata.name or remains.metadata.generate_name}"
        spellings = itertools.chain([key], (f"{key} ({number})" for number in itertools.count(2)))
        self.broken[next(spelling for spelling in spellings if spelling not in self.broken)] = error
        self.remains.append((remains, str(error)))

    def _priority(self, pod: Pod) -> Priority:
        """The priority that counts."""
        labels = self.snapshot.namespaces.get(pod.metadata.namespace)
        return priority_of(pod, self.settings.priority_annotation, labels)

    def _names(self, given: Iterable[str]) -> tuple[str, ...]:
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise BadInput(f"scheduler_names: {given!r} is not a list of names")
        names = tuple(given)
        if not all(isinstance(name, str) for name in names):
            raise BadInput(f"scheduler_names: {names!r} holds something that is not a name")
        return names or self.settings.scheduler_names


def _settings(settings: Settings, pdb: str | None, capacity: str | None) -> Settings:
    if pdb not in (None, "respect", "best-effort"):
        raise BadInput(f"pdb: {pdb!r} is neither 'respect' nor 'best-effort'")
    if capacity not in (None, "resources", "exclusive"):
        raise BadInput(f"capacity: {capacity!r} is neither 'resources' nor 'exclusive'")
    return msgspec.structs.replace(settings, pdb=pdb or settings.pdb, capacity=capacity or settings.capacity)


def _time(given: float | None) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise BadInput(f"now: {given!r} is not a number of seconds")
    return float(given)
