"""The objects of a cluster, read and kept: what every question about it is answered from."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Self

import msgspec

from fairlead.engine.ask import objects as reading
from fairlead.engine.planning.priority import Priority, priority_of
from fairlead.engine.planning.settings import Settings
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.errors import BadInput, BadObject
from fairlead.kube.meta import Object
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import PodDisruptionBudget, PriorityClass


class Inventory:
    """A cluster's objects at one instant, made by `from_objects`.

    Invariant: every pod in `pods` can be made sense of; the others are in `broken`, with what is wrong.
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
        self.budgets: list[PodDisruptionBudget] = []
        self.priority_classes: dict[str, PriorityClass] = {}
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
        if isinstance(typed, PodDisruptionBudget):
            self.budgets.append(typed)
        elif isinstance(typed, PriorityClass):
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
                # Reads pods without a node too, so that no later step meets a broken one.
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


def _settings(settings: Settings, pdb: str | None, capacity: str | None) -> Settings:
    if pdb not in (None, "respect", "best-effort"):
        raise BadInput(f"pdb: {pdb!r} is neither 'respect' nor 'best-effort'")
    if capacity not in (None, "resources", "exclusive"):
        raise BadInput(f"capacity: {capacity!r} is neither 'resources' nor 'exclusive'")
    return msgspec.structs.replace(settings, pdb=pdb or settings.pdb, capacity=capacity or settings.capacity)
