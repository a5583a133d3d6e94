"""The objects of a cluster, read and kept: what every question about it is answered from."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Self

import msgspec

from fairlead.engine.ask import objects as reading
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import Seen
from fairlead.engine.core.state import State
from fairlead.engine.planning.priority import ANNOTATION, Priority, priority_of
from fairlead.engine.planning.settings import Settings
from fairlead.errors import BadInput, BadObject
from fairlead.kube.meta import Object
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import PodDisruptionBudget, PriorityClass


class Inventory:
    """A cluster's objects at one instant, made by `from_objects`.

    `state` is what a scheduler would know of them before it decides anything, with every pod that waits as
    its own, whichever scheduler that names, and no node promised to any; `snapshot` is its columns.

    Invariant: every pod in `pods` can be made sense of; the others are in `broken`, with what is wrong. No
    answer leaves a trace in `state`.
    """

    def __init__(self, settings: Settings) -> None:
        """An empty cluster; use `from_objects`."""
        self.settings = settings
        self.state = State(msgspec.structs.replace(settings, namespaces=()), any_scheduler=True)
        self.snapshot = self.state.snapshot
        # All pods by namespace/name, in the order they came, those without a node and the finished too.
        self.pods: dict[str, Pod] = {}
        # Pods that cannot be made sense of: they are held, everything else goes on.
        self.broken: dict[str, BadObject] = {}
        # What can be told of them all the same (their names and gangs), and what is wrong with them.
        self.remains: list[tuple[Pod, str]] = []
        self.budgets: list[PodDisruptionBudget] = []
        self.priority_classes: dict[str, PriorityClass] = {}
        # Everything but pods and policies, as (kind, object), in the order it came.
        self.objects: list[tuple[str, Object]] = []
        # PlacementPolicies as they came.
        self.policies: list[dict[str, Any]] = []
        # What the engine does not read, as it came: leases, events, DaemonSets.
        self.others: list[dict[str, Any]] = []
        # Kinds of which something could not be read or used, and why: nothing is certain that rests on them.
        self.unread: dict[str, str] = {}
        # When it was so, in seconds since the epoch; None for files of some day.
        self.read_at: float | None = None
        # The lease that our own scheduler is elected by.
        self.scheduler_lease = "fairlead-scheduler"
        self._whole = False
        # What is to plan, while it has decided nothing, and the UIDs of the pods that it knows.
        self._core: Core | None = None
        self._noted: dict[str, None] = {}
        # Pods that the state knows, by key; those of files with UIDs that were made up for them.
        self._taken: dict[str, None] = {}
        self._uids: dict[str, None] = {}
        self._unnamed: list[Pod] = []

    @classmethod
    def from_objects(
        cls,
        objects: Iterable[Mapping[str, Any]],
        *,
        pdb: str | None = None,
        capacity: str | None = None,
        settings: Settings | None = None,
    ) -> Self:
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

    @classmethod
    def begin(cls, settings: Settings | None = None, *, read_at: float | None = None) -> Self:
        """A cluster to be filled with objects as an API server has them: `take` each, then `complete` it.

        What is not in it does not exist there. What cannot be used spoils nothing else: pods are held, the
        rest is found in `unread`.
        """
        cluster = cls(settings or Settings())
        cluster.read_at, cluster._whole = read_at, True
        cluster._core = Core(planning_settings(cluster.settings, cluster.settings.scheduler_names))
        return cluster

    def take(self, kind: str, thing: Object) -> None:
        """Take in an object of a kind that the engine reads; kinds may come in any order.

        The core that will plan takes note of it, too: while a cluster is read there is time for that.
        """
        try:
            self._put(kind, thing)
            if isinstance(thing, Pod):
                # Of what waits, and of priorities that depend on a namespace, more must be known first.
                if not thing.spec.node_name or ANNOTATION in thing.metadata.annotations:
                    return
                self._place(thing.metadata.key, thing)
                if thing.metadata.key not in self.pods:
                    return  # it makes no sense
                self._noted[thing.metadata.uid] = None
        except BadObject as error:
            self.unread.setdefault(kind, f"one cannot be used: {error}")
            return
        if self._core is not None:
            self._core.note(Seen(kind, thing), self.read_at or 0.0)

    def take_core(self, settings: Settings) -> tuple[Core, dict[str, None]] | None:
        """A core that has taken note of all objects and of the pods with these UIDs, once.

        None: there is none, or none with such settings.
        """
        core, self._core = self._core, None
        return None if core is None or core.settings != settings else (core, self._noted)

    def complete(
        self,
        plain: Iterable[dict[str, Any]] = (),
        spoiled: Iterable[tuple[dict[str, Any], BadObject]] = (),
        unread: Mapping[str, str] | None = None,
    ) -> None:
        """That was all: with it come PlacementPolicies and others as plain data, what could not be decoded,
        and the kinds that could not be read.
        """
        self.unread = {**(unread or {}), **self.unread}
        for remains, bad in spoiled:
            if remains["kind"] == "Pod":
                self._break(reading.remains(remains), bad)
            else:
                self.unread.setdefault(remains["kind"], f"one cannot be used: {bad}")
        for each in plain:
            if not reading.is_policy(each):
                self.others.append(each)
            elif problem := reading.policy_problem(each):
                self.unread.setdefault("PlacementPolicy", f"one is left out: {problem}")
            else:
                self.policies.append(each)
        self._fill()

    def lacks(self, kind: str) -> str:
        """Why it cannot be known which objects of a kind there are; "" where it can.

        Files that have none of a kind may have been made without it.
        """
        if kind in self.unread:
            return self.unread[kind]
        if self._whole or self._has(kind):
            return ""
        return "the state that was given has none"

    def each_node(self) -> Iterator[Node]:
        """Every node, in the order of the snapshot's slots."""
        nodes = self.snapshot.nodes
        return (nodes.node(slot) for slot in nodes.slots())

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """What the engine does not read of that kind, as it came."""
        return [thing for thing in self.others if thing.get("kind") == kind]

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
            problem = self.priority(pod).problem
            if settings.priority_annotation.namespace_selector and namespace not in self.snapshot.namespaces:
                problem = (
                    f"annotation {ANNOTATION}: the state has no Namespace {namespace}, whose labels count"
                )
            if problem:
                found.setdefault(problem, key)
        return [f"{key}: {problem}" for problem, key in found.items()]

    def _has(self, kind: str) -> bool:
        if kind == "Pod":
            return bool(self.pods or self.broken)
        return any(known == kind for known, _ in self.objects)

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
        namespace, _, name = key.rpartition("/")
        known = (*self.pods, *self.broken)
        found = sorted(other for other in known if other.rpartition("/")[2] == name)
        if not found:
            beside = {each.rpartition("/")[2]: each for each in known if each.startswith(f"{namespace}/")}
            found = [beside[each] for each in get_close_matches(name, beside, 3)]
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
            self.others.append(thing)
        else:
            self._put(*found)

    def _put(self, kind: str, typed: Object) -> None:
        if isinstance(typed, Pod):
            if typed.metadata.name:
                self.pods[typed.metadata.key] = typed
            else:
                self._unnamed.append(typed)
            return
        if isinstance(typed, Node):
            self.state.room.put_node(typed)  # which raises, where `seen` would only take note
        else:
            self.state.seen(kind, typed)
        self.objects.append((kind, typed))
        if isinstance(typed, PodDisruptionBudget):
            self.budgets.append(typed)
        elif isinstance(typed, PriorityClass):
            self.priority_classes[typed.metadata.name] = typed

    def _fill(self) -> None:
        """Take in the pods that are left, now that everything they may refer to is there."""
        for pod in self._unnamed:
            named = reading.with_name(pod, self.pods)
            self.pods[named.metadata.key] = named
        for key, pod in list(self.pods.items()):
            if key not in self._taken:
                self._place(key, pod)

    def _place(self, key: str, given: Pod) -> None:
        """Let the state know of a pod, or break it."""
        pod = reading.with_priority(given, self.priority_classes)
        known = pod
        if not self._whole:
            known = reading.identified(pod, self._uids)
            self._uids[known.metadata.uid] = None
        self._taken[key] = None
        try:
            if not pod.spec.node_name or pod.terminal:
                # A state reads these only when it plans them, and no later step may meet a broken one.
                self.snapshot.class_of(pod)
            self.state.pod_seen(reading.unpromised(known))
            if f"Pod {key}" in self.state.unusable:
                self.snapshot.class_of(pod)  # which raises what is wrong
        except BadObject as error:
            del self.pods[key]
            self.state.pod_gone(key, known.metadata.uid)
            self._break(given, error)
        else:
            self.pods[key] = known

    def _break(self, remains: Pod, error: BadObject) -> None:
        key = f"{remains.metadata.namespace}/{remains.metadata.name or remains.metadata.generate_name}"
        spellings = itertools.chain([key], (f"{key} ({number})" for number in itertools.count(2)))
        self.broken[next(spelling for spelling in spellings if spelling not in self.broken)] = error
        self.remains.append((remains, str(error)))
        self.state.pod_unread(remains, str(error))

    def priority(self, pod: Pod) -> Priority:
        """The priority that counts."""
        labels = self.snapshot.namespaces.get(pod.metadata.namespace)
        return priority_of(pod, self.settings.priority_annotation, labels)


def planning_settings(settings: Settings, scheduler_names: tuple[str, ...]) -> Settings:
    """Those of a core that plans: nothing fails in a plan, so no unit waits before it is tried again."""
    return msgspec.structs.replace(settings, scheduler_names=scheduler_names, backoff_s=0.0)


def _settings(settings: Settings, pdb: str | None, capacity: str | None) -> Settings:
    if pdb not in (None, "respect", "best-effort"):
        raise BadInput(f"pdb: {pdb!r} is neither 'respect' nor 'best-effort'")
    if capacity not in (None, "resources", "exclusive"):
        raise BadInput(f"capacity: {capacity!r} is neither 'resources' nor 'exclusive'")
    return msgspec.structs.replace(settings, pdb=pdb or settings.pdb, capacity=capacity or settings.capacity)
