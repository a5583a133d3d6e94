"""The snapshot: the engine's picture of the cluster at one instant, as columns over node slots.

Events change only what they touch: a node's event its slot, a pod's event its node and the tallies that
count its class. Whatever tries something out does so in a `trial`: every change made inside one is written
down and taken back in reverse, so that what preemption and gangs try out leaves no trace. Whether and how
well a pod fits somewhere is asked of the rooms above, `rules` and `ranking`.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.counts import Tally
from fairlead.engine.snapshot.index import bump, discard
from fairlead.engine.snapshot.kinds import KINDS, STORAGE
from fairlead.engine.snapshot.log import Log
from fairlead.engine.snapshot.nodes import Ints, NodeColumns, Slots
from fairlead.engine.snapshot.placed import Placed, shared
from fairlead.engine.snapshot.registry import Classes
from fairlead.engine.snapshot.requests import Requests, requests_of
from fairlead.engine.snapshot.spread_selectors import SpreadSelectors
from fairlead.engine.snapshot.storage import Storage
from fairlead.engine.snapshot.volume_matching import VolumeMatching
from fairlead.kube.meta import Object
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import DeviceClass, Namespace, Service, Workload

__all__ = ["KINDS", "LOWEST", "Levels", "Snapshot", "Trial"]

# What a pod that means a class of devices directly asks for.
_DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"

LOWEST = -(2**31)
"""No priority is below it."""

_BELOW_KEPT = 8
_FEW_LEVELS = 1024
_CHANGES_KEPT = 65536


@dataclass(slots=True)
class Trial:
    """A stretch of placements that will be taken back at its end, unless `keep` is called."""

    mark: int
    kept: bool = False

    def keep(self) -> None:
        """Let the placements stand (within an outer trial they remain that one's to take back)."""
        self.kept = True


class Levels:
    """Between which priorities pods are placed: thresholds that no placed pod's priority separates are one.

    Priorities of pods that are gone do no harm, they only tell thresholds apart that could be one. So they
    are swept out when there are many, not when a pod goes.

    Invariant: that of every pod that counts on a node is `known`; at most twice as many are as placed pods
    have, or a few.
    """

    def __init__(self) -> None:
        self.known: set[int] = set()
        self._ordered: list[int] = []
        self._limit = _FEW_LEVELS

    def add(self, priority: int, placed: Iterable[Placed]) -> None:
        """A pod of a priority that is not known counts from now on; `placed` are all that do, or might."""
        if len(self.known) >= self._limit:
            self.known = {one.priority for one in placed}
            self._ordered = sorted(self.known)
            self._limit = max(_FEW_LEVELS, 2 * len(self.known))
            if priority in self.known:
                return
        self.known.add(priority)
        bisect.insort(self._ordered, priority)

    def threshold(self, priority: int) -> int:
        """The lowest priority that is above the same known ones as this."""
        level = bisect.bisect_left(self._ordered, priority)
        return self._ordered[level - 1] + 1 if level else LOWEST


class Snapshot:
    """See the module. `capacity` ``exclusive`` gives every Fairlead pod a node of its own.

    Which pods are Fairlead's is told by `scheduler_names`.

    Invariant: every column and tally is the sum over the pods on nodes that are there. Pods on nodes that are
    not there (yet, or any more) are kept aside and count nowhere.

    >>> from fairlead.kube.decode import convert
    >>> snapshot = Snapshot()
    >>> slot = snapshot.put_node(convert({"metadata": {"name": "n1"}, "status": {"allocatable":
    ...     {"cpu": "2", "memory": "4Gi", "pods": "10"}}}, Node))
    >>> pod = convert({"metadata": {"name": "a", "namespace": "shop"}, "spec": {"containers": [
    ...     {"resources": {"requests": {"cpu": "1500m"}}}]}}, Pod)
    >>> with snapshot.trial():
    ...     placed = snapshot.assume(pod, slot)
    ...     placed.node, snapshot.class_of(pod).where
    ('n1', {0: 1})
    >>> snapshot.class_of(pod).where
    {}
    """

    def __init__(
        self,
        *,
        capacity: Literal["resources", "exclusive"] = "resources",
        scheduler_names: Iterable[str] = ("fairlead",),
    ) -> None:
        self.nodes = NodeColumns()
        names = frozenset(scheduler_names)
        self.classes = Classes(self.nodes, exclusive=capacity == "exclusive", scheduler_names=names)
        self.namespaces = self.classes.namespaces
        self.classes.on_split = self._reclass
        self.storage = Storage()
        self.volumes = VolumeMatching(self.nodes, self.classes, self.storage)
        self.spread_selectors = SpreadSelectors()
        # Extended resources that dynamic resource allocation stands behind, by the class that says so.
        self.device_classes: dict[str, str] = {}
        # Fairlead pods per slot, and those among them that want their node for themselves.
        self.ours = Tally(self.nodes)
        self.exclusive = Tally(self.nodes)
        self._placed: dict[str, Placed] = {}
        self._on: dict[int, dict[str, Placed]] = {}
        self._homeless: dict[str, dict[str, Placed]] = {}
        # The slots that pods came to or left.
        self.changes: Log[int] = Log(_CHANGES_KEPT)
        self._undo: list[tuple[bool, Placed]] = []
        self._trials = 0
        # By threshold and whether only our own pods count; see `used_below`.
        self._below: dict[tuple[int, bool], Ints] = {}
        self._levels = Levels()

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
            case DeviceClass():
                self._device_class(thing.metadata.name, thing)
            case Service() | Workload() if kind in KINDS:
                self.spread_selectors.put(kind, thing)
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
            case "DeviceClass":
                self._device_class(name, None)
            case "Service" | "ReplicaSet" | "StatefulSet" | "ReplicationController":
                self.spread_selectors.remove(kind, namespace, name)
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
                # Our own bind come true, mostly: nothing to count again.
                before.pod = slim
                return before
            if before.node == placed.node:
                # The claims' own events may lag behind; until then what was reserved stays reserved.
                placed.static, placed.provision = before.static, before.provision
            self._unplace(before)
        self.restore(placed)
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
            found = self.volumes.bindings(placed.cls, slot)
            # A claim that another assumed pod already reserves for stays that one's to bind.
            placed.static = tuple(each for each in found.static if each[1] not in self.storage.reserved)
            placed.provision = tuple(each for each in found.provision if each not in self.storage.selected)
        self.restore(placed)
        return placed

    def forget(self, key: str) -> Placed:
        """Take a placed pod away: an assumption undone, or a victim imagined gone."""
        placed = self._placed[key]
        self._unplace(placed)
        return placed

    def restore(self, placed: Placed) -> None:
        """Put back what `forget` returned (a victim reprieved)."""
        if placed.key in self._placed:
            raise KeyError(f"pod {placed.key} is placed already")
        if self._trials:
            self._undo.append((True, placed))
        self._give(placed)

    @contextmanager
    def trial(self) -> Iterator[Trial]:
        """Take back every `assume`, `forget` and `restore` made inside, unless the trial is kept.

        Trials nest. Nodes and other objects must not change inside one.
        """
        trial = Trial(len(self._undo))
        self._trials += 1
        try:
            yield trial
        finally:
            if not trial.kept:
                while len(self._undo) > trial.mark:
                    was_placed, placed = self._undo.pop()
                    if was_placed:
                        self._take(placed)
                    else:
                        self._give(placed)
            self._trials -= 1
            if not self._trials:
                self._undo.clear()

    def assume_many(
        self,
        pods: Sequence[Pod],
        slots: Sequence[int],
        classes: Sequence[PodClass],
        priority: int | None = None,
    ) -> None:
        """`assume` for new pods without volumes, of classes of one shape; equal ones are counted together."""
        nodes, everyone = self.nodes, self._placed
        columns: dict[tuple[int, bool], dict[int, int]] = {}
        tallies: dict[tuple[PodClass, bool], dict[int, int]] = {}
        for pod, slot, cls in zip(pods, slots, classes, strict=True):
            counts = priority if priority is not None else pod.spec.priority or 0
            key, leaving = pod.metadata.key, pod.metadata.deletion_timestamp is not None
            node, usage, rows = nodes.name(slot), cls.requests, cls.row_amounts
            placed = Placed(key, pod, cls, node, slot, counts, leaving, usage, rows)
            if key in everyone:
                raise KeyError(f"pod {key} is placed already")
            everyone[key] = placed
            here = self._on.get(slot)
            if here is None:
                here = self._on[slot] = {}
            here[key] = placed
            if self._trials:
                self._undo.append((True, placed))
            numbers = columns.setdefault((counts, cls.ours), {})
            numbers[slot] = numbers.get(slot, 0) + 1
            numbers = tallies.setdefault((cls, leaving), {})
            numbers[slot] = numbers.get(slot, 0) + 1
        for (counts, ours), numbers in columns.items():
            self.changes.extend(numbers)
            where = np.fromiter(numbers, np.intp, len(numbers))
            many = np.fromiter(numbers.values(), np.int64, len(numbers))
            self._tally_columns(where, many, classes[0].requests, classes[0].row_amounts, counts, ours=ours)
        for (cls, leaving), numbers in tallies.items():
            for slot, number in numbers.items():
                self._tally(slot, cls, number, number if leaving else 0)

    # Questions

    def class_of(self, pod: Pod, *, exclusive: bool | None = None, pinned: bool = False) -> PodClass:
        """The pod's class; see `Classes.of`. Ask again when ``cls.live`` has become false."""
        return self.classes.of(pod, exclusive=exclusive, pinned=pinned)

    def placed(self, key: str) -> Placed | None:
        """A placed pod by ``namespace/name``."""
        return self._placed.get(key)

    def all_placed(self) -> Iterator[Placed]:
        """All placed pods, those on unknown nodes included."""
        return iter(list(self._placed.values()))

    def pods_on(self, slot: int) -> list[Placed]:
        """The pods on a node: highest priority first, then those that started first, then by name."""
        return sorted(self._on.get(slot, {}).values(), key=_importance)

    def used_below(self, priority: int, *, ours: bool = False) -> Ints:
        """Per row and slot: what (`ours`: of our own) pods of lower priority than this take.

        ``alloc - used + used_below(p) >= request`` is "would fit, by resources, were all of them gone".
        Kept up to date once asked for. Thresholds with no placed pod's priority between them are one.
        """
        threshold = self._levels.threshold(priority)
        found = self._below.pop((threshold, ours), None)
        if found is None or found.shape != self.nodes.used.shape:
            found = np.zeros_like(self.nodes.used)
            for placed in self._placed.values():
                counts = placed.priority < threshold and (placed.cls.ours or not ours)
                if counts and placed.slot >= 0:
                    for row, amount in placed.row_amounts:
                        found[row, placed.slot] += amount
            while len(self._below) >= _BELOW_KEPT:
                self._below.pop(next(iter(self._below)))
        self._below[threshold, ours] = found
        return found

    # Inner workings

    def _house(self, name: str, slot: int) -> None:
        """A node has come: the pods that were bound to its name count from now on."""
        for placed in self._homeless.pop(name, {}).values():
            placed.slot = slot
            self._count(placed, 1)

    def _unhouse(self, name: str, slot: int) -> None:
        """A node is going: its pods count no longer."""
        for placed in list(self._on.get(slot, {}).values()):
            self._count(placed, -1)
            placed.slot = -1
            self._homeless.setdefault(name, {})[placed.key] = placed

    def _outside_trials(self) -> None:
        if self._trials:
            raise RuntimeError("the cluster's objects must not change inside a trial")

    def _make(self, pod: Pod, node: str, cls: PodClass | None, priority: int | None) -> Placed:
        if cls is None or not cls.live:
            cls = self.classes.of(pod)
        status = pod.status
        resized = status.resources is not None or any(
            each.resources is not None
            for each in (*status.container_statuses, *status.init_container_statuses)
        )
        usage = requests_of(pod, use_status=True) if resized else cls.requests
        rows = self._rows(cls, usage)
        if priority is None:
            priority = pod.spec.priority or 0
        key, leaving = pod.metadata.key, pod.metadata.deletion_timestamp is not None
        return Placed(key, pod, cls, node, self.nodes.slot(node), priority, leaving, usage, rows)

    def _rows(self, cls: PodClass, usage: Requests) -> tuple[tuple[int, int], ...]:
        return cls.row_amounts if usage == cls.requests else self.classes.row_amounts(usage)

    def _unplace(self, placed: Placed) -> None:
        if self._trials:
            self._undo.append((False, placed))
        self._take(placed)

    def _give(self, placed: Placed) -> None:
        if not placed.cls.live:
            placed.cls = self.classes.of(placed.pod)
        self._placed[placed.key] = placed
        if placed.slot >= 0:
            self._count(placed, 1)
        else:
            self._homeless.setdefault(placed.node, {})[placed.key] = placed

    def _take(self, placed: Placed) -> None:
        del self._placed[placed.key]
        if placed.slot >= 0:
            self._count(placed, -1)
        else:
            discard(self._homeless, placed.node, placed.key)

    def _count(self, placed: Placed, sign: int) -> None:
        """Count a pod in or out, everywhere."""
        slot = placed.slot
        self.changes.note(slot)
        self._tally_columns(
            slot, sign, placed.usage, placed.row_amounts, placed.priority, ours=placed.cls.ours
        )
        self._tally(slot, placed.cls, sign, sign if placed.leaving else 0)
        if placed.cls.facts.volumes:
            self.storage.count(placed, sign)
        if sign > 0:
            self._on.setdefault(slot, {})[placed.key] = placed
        else:
            discard(self._on, slot, placed.key)

    # The one place that says what a pod touches, in two parts: columns and tallies.

    def _tally_columns(
        self,
        slots: int | Slots,
        numbers: int | Ints,
        usage: Requests,
        rows: tuple[tuple[int, int], ...],
        priority: int,
        *,
        ours: bool,
    ) -> None:
        """Count equal pods (negative numbers: taken away) in what is kept per slot; no slot twice."""
        nodes = self.nodes
        used = nodes.used
        for row, amount in rows:
            used[row, slots] += numbers * amount
        nodes.ranked[0, slots] += numbers * usage.ranked_cpu_milli
        nodes.ranked[1, slots] += numbers * usage.ranked_memory
        if priority not in self._levels.known:
            self._levels.add(priority, self._placed.values())
        for (threshold, only_ours), below in self._below.items():
            if priority < threshold and (ours or not only_ours) and below.shape == used.shape:
                for row, amount in rows:
                    below[row, slots] += numbers * amount

    def _tally(self, slot: int, cls: PodClass, number: int, leaving: int) -> None:
        """Count pods of a class in what is kept per class or selector, `leaving` of them being deleted."""
        bump(cls.where, slot, number)
        if leaving:
            bump(cls.leaving, slot, leaving)
        for tally in cls.counted_by:
            counted = number - leaving if tally.live_only else number
            if counted:
                tally.add(slot, counted)
        for carried in cls.carries:
            carried.add(slot, number)
        if cls.carriers is not None:
            self.classes.placed_terms.count(cls.carriers, slot, number)
        self.classes.logs.note(cls, slot, number, leaving)
        for port in cls.ports:
            port.add(slot, number)
        if cls.ours:
            self.ours.add(slot, number)
            if cls.exclusive:
                self.exclusive.add(slot, number)

    def _forget_resources(self, gone: dict[str, int]) -> None:
        """No node has these any more (by row): a pod that takes of them takes of what is nowhere."""
        rows = frozenset(gone.values())
        used = any(row in rows for placed in self._placed.values() for row, _ in placed.row_amounts)
        self.classes.resources_changed(frozenset(gone), used=used)

    def _reclass(self) -> None:
        """What tells classes apart, or which rows they take, has changed: find every pod's class again."""
        for placed in self._placed.values():
            if placed.slot >= 0:
                self._count(placed, -1)
            placed.cls = self.classes.of(placed.pod)
            placed.row_amounts = self._rows(placed.cls, placed.usage)
            if placed.slot >= 0:
                self._count(placed, 1)


def _importance(placed: Placed) -> tuple[int, bool, float, str]:
    start = placed.pod.status.start_time
    # Not started yet: as if it started last.
    return (-placed.priority, start is None, start.timestamp() if start else 0.0, placed.key)
