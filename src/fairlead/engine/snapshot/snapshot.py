"""The snapshot: the engine's picture of the cluster at one instant, as columns over node slots.

Events change only what they touch: a node's event its slot, a pod's event its node and the tallies that
count its class. Whatever tries something out does so in a `trial`, which takes back all placements made
in it, exactly. Questions (feasible, verdicts, fits, choose) change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from fairlead.engine import rules
from fairlead.engine.classes import PodClass
from fairlead.engine.ranking import choice, room, runs
from fairlead.engine.ranking.kept import Kept
from fairlead.engine.reasons import Rejection
from fairlead.engine.rules import volume_binding
from fairlead.engine.rules.verdicts import Verdicts
from fairlead.engine.snapshot.nodes import Bools, NodeColumns
from fairlead.engine.snapshot.owners import Owners
from fairlead.engine.snapshot.placed import Placed
from fairlead.engine.snapshot.placements import Placements
from fairlead.engine.snapshot.registry import Classes
from fairlead.engine.snapshot.sharing import shared
from fairlead.engine.snapshot.storage import STORAGE, Storage
from fairlead.kube.meta import Object
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import DeviceClass, Namespace, Service, Workload

__all__ = ["KINDS", "Snapshot"]

# Every kind that a snapshot is made of, and the type it comes as.
KINDS: dict[str, type[Object]] = {
    "Pod": Pod,
    "Node": Node,
    "Namespace": Namespace,
    "Service": Service,
    "ReplicaSet": Workload,
    "StatefulSet": Workload,
    "ReplicationController": Workload,
    "DeviceClass": DeviceClass,
    **STORAGE,
}

# What a pod that means a class of devices directly asks for.
_DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


class Snapshot(Placements):
    """See the module. `ranking_mode`: ``spread`` prefers empty nodes, ``pack`` full ones.

    `capacity` ``exclusive`` gives every Fairlead pod a node of its own; who is a Fairlead pod is told by
    `scheduler_names`.

    >>> from fairlead.kube.decode import convert
    >>> snapshot = Snapshot()
    >>> slot = snapshot.put_node(convert({"metadata": {"name": "n1"}, "status": {"allocatable":
    ...     {"cpu": "2", "memory": "4Gi", "pods": "10"}}}, Node))
    >>> pod = convert({"metadata": {"name": "a", "namespace": "shop"}, "spec": {"containers": [
    ...     {"resources": {"requests": {"cpu": "1500m"}}}]}}, Pod)
    >>> cls = snapshot.class_of(pod)
    >>> snapshot.nodes.name(snapshot.choose(cls))
    'n1'
    >>> with snapshot.trial():
    ...     placed = snapshot.assume(pod, slot)
    ...     snapshot.verdicts(cls).message()
    '0/1 nodes are available: 1 Insufficient cpu.'
    >>> snapshot.fits(cls, slot)
    True
    """

    def __init__(
        self,
        *,
        capacity: Literal["resources", "exclusive"] = "resources",
        ranking_mode: Literal["spread", "pack"] = "spread",
        scheduler_names: Iterable[str] = ("fairlead",),
    ) -> None:
        nodes = NodeColumns()
        self.namespaces: dict[str, dict[str, str]] = {}
        classes = Classes(
            nodes,
            self.namespaces,
            exclusive=capacity == "exclusive",
            scheduler_names=frozenset(scheduler_names),
        )
        super().__init__(nodes, classes, Storage())
        # Extended resources that dynamic resource allocation stands behind, by the class that says so.
        self.device_classes: dict[str, str] = {}
        self.owners = Owners()
        self.pack = ranking_mode == "pack"
        self.basis = room.Basis(nodes)
        self.kept = Kept(self)

    # Events

    def put(self, kind: str, thing: Object) -> None:
        """An object as it now is; kinds that are not in `KINDS` are passed over."""
        match thing:
            case Pod():
                self.put_pod(thing)
            case Node():
                self.put_node(thing)
            case Namespace():
                self.put_namespace(thing)
            case Service():
                self.owners.put_service(thing)
            case DeviceClass():
                self._device_class(thing.metadata.name, thing)
            case Workload() if kind in KINDS:
                self.owners.put_workload(kind, thing)
            case _ if kind in STORAGE:
                self.storage.put(thing)  # type: ignore[arg-type]  # one of STORAGE's types

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """An object is gone; unknown ones are no error."""
        key = f"{namespace}/{name}" if namespace else name
        match kind:
            case "Pod":
                self.remove_pod(key)
            case "Node":
                self.remove_node(name)
            case "Namespace":
                self.remove_namespace(name)
            case "Service":
                self.owners.remove_service(namespace, name)
            case "DeviceClass":
                self._device_class(name, None)
            case "ReplicaSet" | "StatefulSet" | "ReplicationController":
                self.owners.remove_workload(kind, namespace, name)
            case _ if kind in STORAGE:
                self.storage.remove(STORAGE[kind], key)

    def put_node(self, node: Node) -> int:
        """A node as it now is; returns its slot. Pods bound to its name before it came count from now on."""
        self._outside_trials()
        if self.nodes.lacks_rows(node):
            self._forget_resources(self.nodes.forget_resources())
        known = self.nodes.slot(node.metadata.name) >= 0
        resources = len(self.nodes.resources)
        slot = self.nodes.put(node)
        if len(self.nodes.resources) > resources:
            self.classes.resources_changed(frozenset(list(self.nodes.resources)[resources:]))
        if not known:
            self._house(node.metadata.name, slot)
        return slot

    def remove_node(self, name: str) -> None:
        """A node is gone; pods bound to it are remembered in case it comes back."""
        self._outside_trials()
        slot = self.nodes.slot(name)
        if slot < 0:
            return
        self._unhouse(name, slot)
        self.nodes.remove(name)

    def put_pod(self, pod: Pod, *, priority: int | None = None) -> Placed | None:
        """A pod as the API shows it: placed if it has a node and has not finished, else not there.

        `priority` is what counts in planning where that differs from ``spec.priority``.
        """
        self._outside_trials()
        key = pod.metadata.key
        if not pod.spec.node_name or pod.terminal:
            self.remove_pod(key)
            return None
        facts = self.classes.facts(pod)
        cls = self.classes.of(pod, facts=facts)
        slim = shared(pod, cls, facts.spec)
        placed = self._make(slim, pod.spec.node_name, cls, priority)
        before = self._placed.get(key)
        if before is not None:
            if before.counts_like(placed) and not facts.volumes:
                # Our own bind come true, mostly: nothing to count anew.
                before.pod = slim
                return before
            if before.node == placed.node:
                # The claims' own events may lag behind; until then what was reserved stays reserved.
                placed.static, placed.provision = before.static, before.provision
            self._unplace(before)
        self._place(placed)
        return placed

    def remove_pod(self, key: str) -> None:
        """A pod is gone (or not placed any more); unknown keys are no error."""
        self._outside_trials()
        placed = self._placed.get(key)
        if placed is not None:
            self._unplace(placed)

    def put_namespace(self, namespace: Namespace) -> None:
        """A namespace's labels, which affinity terms may select by."""
        name = namespace.metadata.name
        if self.namespaces.get(name) != namespace.metadata.labels:
            self.namespaces[name] = namespace.metadata.labels
            self.classes.namespace_changed(name)

    def remove_namespace(self, name: str) -> None:
        """A namespace is gone."""
        if self.namespaces.pop(name, None):
            self.classes.namespace_changed(name)

    def _device_class(self, name: str, thing: DeviceClass | None) -> None:
        backed = self.device_classes
        for known in [known for known, cls in backed.items() if cls == name]:
            del backed[known]
        if thing is not None:
            for resource in (thing.spec.extended_resource_name, _DEVICE_CLASS_PREFIX + name):
                if resource:
                    backed[resource] = name

    # Placing

    def assume(
        self, pod: Pod, slot: int, *, cls: PodClass | None = None, priority: int | None = None
    ) -> Placed:
        """Place a pod that the API does not yet show as placed. It must not be placed already.

        The result's `static` and `provision` say which of its claims are to be bound with it.
        """
        placed = self._make(pod, self.nodes.name(slot), cls, priority)
        if placed.cls.facts.volumes:
            found = volume_binding.bindings(self, placed.cls, slot)
            # A claim that another assumed pod already reserves for stays that one's to bind.
            placed.static = tuple(each for each in found.static if each[1] not in self.storage.reserved)
            placed.provision = tuple(each for each in found.provision if each not in self.storage.selected)
        self._place(placed)
        return placed

    # Questions

    def class_of(self, pod: Pod, *, exclusive: bool | None = None, pinned: bool = False) -> PodClass:
        """The pod's class; see `Classes.of`. Ask again when ``cls.live`` has become false."""
        return self.classes.of(pod, exclusive=exclusive, pinned=pinned)

    def feasible(self, cls: PodClass) -> Bools:
        """Per slot: whether a pod of the class may be placed there now."""
        return choice.feasible(self, cls)

    def rejection(self, cls: PodClass) -> Rejection | None:
        """Why the class is refused before any node is looked at, if it is."""
        return rules.rejection(self, cls)

    def verdicts(self, cls: PodClass) -> Verdicts:
        """Per node: the first rule that refuses and its reasons, as kube-scheduler reports them."""
        return rules.verdicts(self, cls)

    def fits(self, cls: PodClass, slot: int) -> bool:
        """Whether a pod of the class may be placed on one node now."""
        return rules.fits(self, cls, slot)

    def choose(self, cls: PodClass, mask: Bools | None = None) -> int:
        """The best feasible slot (within the mask), -1 when there is none.

        Ties go to the first by node name: reproducible, and a reader can check it by eye.
        """
        return choice.choose(self, cls, mask)

    def place_run(
        self,
        cls: PodClass,
        pods: Iterable[Pod],
        *,
        mask: Bools | None = None,
        priority: int | None = None,
    ) -> list[int]:
        """Place pods of one class one by one, each where `choose` would; -1 from the first that fails.

        Equal to choosing and assuming one by one, only faster. The pods must be new: none placed, none
        with a status that says it was resized.
        """
        return runs.place_run(self, cls, list(pods), mask, priority)

    def place_turns(self, turns: Sequence[tuple[PodClass, Pod]]) -> list[int]:
        """Place pods of several classes one by one, each where `choose` would; ends before who fails.

        Equal to choosing and assuming one by one, only faster; the pods must be new, as for `place_run`.
        """
        return runs.place_turns(self, turns)
