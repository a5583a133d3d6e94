"""The snapshot: the engine's picture of the cluster at one instant, as columns over node slots.

Events change only what they touch: a node's event its slot, a pod's event its node and the tallies that
count its class. Whatever tries something out does so in a `trial`, which takes back all placements made
in it, exactly. Questions (feasible, verdicts, fits, score, choose) change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import numpy as np

from fairlead.engine import ranking, rules
from fairlead.engine.classes import Classes, PodClass
from fairlead.engine.ranking import runs
from fairlead.engine.reasons import Rejection
from fairlead.engine.requests import Requests, usage_of
from fairlead.engine.rules import volume_binding
from fairlead.engine.rules.verdicts import Verdicts
from fairlead.engine.snapshot.counts import Tally
from fairlead.engine.snapshot.nodes import Bools, Ints, NodeColumns, Slots
from fairlead.engine.snapshot.owners import Owners
from fairlead.engine.snapshot.placed import Placed
from fairlead.engine.snapshot.sharing import shared
from fairlead.engine.snapshot.storage import Storage
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import Namespace

__all__ = ["Snapshot", "Trial"]

_BELOW_KEPT = 8


class Trial:
    """A stretch of placements that will be taken back at its end, unless `keep` is called."""

    __slots__ = ("kept", "mark")

    def __init__(self, mark: int) -> None:
        self.mark = mark
        self.kept = False

    def keep(self) -> None:
        """Let the placements stand (within an outer trial they remain that one's to take back)."""
        self.kept = True


class Snapshot:
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
        self.nodes = NodeColumns()
        self.namespaces: dict[str, dict[str, str]] = {}
        self.storage = Storage()
        # Extended resources that dynamic resource allocation stands behind, by the class that says so.
        self.device_classes: dict[str, str] = {}
        self.owners = Owners()
        self.classes = Classes(
            self.nodes,
            self.namespaces,
            exclusive=capacity == "exclusive",
            scheduler_names=frozenset(scheduler_names),
        )
        self.classes.on_split = self._reclass
        self.pack = ranking_mode == "pack"
        # Fairlead pods per slot, and those among them that want their node for themselves.
        self.ours = Tally(self.nodes)
        self.exclusive = Tally(self.nodes)
        self._placed: dict[str, Placed] = {}
        self._on: dict[int, dict[str, Placed]] = {}
        self._homeless: dict[str, dict[str, Placed]] = {}
        self._undo: list[tuple[bool, Placed]] = []
        self._trials = 0
        self._below: dict[int, Ints] = {}

    # Events

    def put_node(self, node: Node) -> int:
        """A node as it now is; returns its slot. Pods bound to its name before it came count from now on."""
        self._outside_trials()
        known = self.nodes.slot(node.metadata.name) >= 0
        slot = self.nodes.put(node)
        if not known:
            self._below.clear()
            for placed in self._homeless.pop(node.metadata.name, {}).values():
                placed.slot = slot
                self._count(placed, 1)
        return slot

    def remove_node(self, name: str) -> None:
        """A node is gone; pods bound to it are remembered in case it comes back."""
        self._outside_trials()
        slot = self.nodes.slot(name)
        if slot < 0:
            return
        for placed in list(self._on.get(slot, {}).values()):
            self._count(placed, -1)
            placed.slot = -1
            self._homeless.setdefault(name, {})[placed.key] = placed
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
        self.remove_pod(key)
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

    def assume_many(
        self, pods: Sequence[Pod], slots: Sequence[int], cls: PodClass, priority: int | None = None
    ) -> None:
        """`assume` for new pods of one class without volumes: what they share is counted once per node."""
        usage, rows = cls.requests, cls.row_amounts
        names: dict[int, str] = {}
        alike: dict[tuple[int, bool], dict[int, int]] = {}
        for pod, slot in zip(pods, slots, strict=True):
            name = names.get(slot)
            if name is None:
                name = names[slot] = self.nodes.name(slot)
            counts = priority if priority is not None else pod.spec.priority or 0
            placed = Placed(pod, cls, name, slot, counts, usage, rows)
            key = placed.key
            if key in self._placed:
                raise KeyError(f"pod {key} is placed already")
            self._placed[key] = placed
            here = self._on.get(slot)
            if here is None:
                here = self._on[slot] = {}
            here[key] = placed
            if self._trials:
                self._undo.append((True, placed))
            numbers = alike.setdefault((counts, placed.leaving), {})
            numbers[slot] = numbers.get(slot, 0) + 1
        for (counts, leaving), numbers in alike.items():
            where = np.fromiter(numbers, np.intp, len(numbers))
            many = np.fromiter(numbers.values(), np.int64, len(numbers))
            self._tally_columns(where, many, usage, rows, counts)
            for slot, number in numbers.items():
                self._tally(slot, cls, number, number if leaving else 0)

    def forget(self, key: str) -> Placed:
        """Take a placed pod away: an assumption undone, or a victim imagined gone."""
        placed = self._placed[key]
        self._unplace(placed)
        return placed

    def restore(self, placed: Placed) -> None:
        """Put back what `forget` returned (a victim reprieved)."""
        self._place(placed)

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

    # Questions

    def class_of(self, pod: Pod, *, exclusive: bool | None = None, pinned: bool = False) -> PodClass:
        """The pod's class; see `Classes.of`. Ask again when ``cls.live`` has become false."""
        return self.classes.of(pod, exclusive=exclusive, pinned=pinned)

    def feasible(self, cls: PodClass) -> Bools:
        """Per slot: whether a pod of the class may be placed there now."""
        return rules.feasible(self, cls)

    def rejection(self, cls: PodClass) -> Rejection | None:
        """Why the class is refused before any node is looked at, if it is."""
        return rules.rejection(self, cls)

    def verdicts(self, cls: PodClass) -> Verdicts:
        """Per node: the first rule that refuses and its reasons, as kube-scheduler reports them."""
        return rules.verdicts(self, cls)

    def fits(self, cls: PodClass, slot: int) -> bool:
        """Whether a pod of the class may be placed on one node now."""
        return rules.fits(self, cls, slot)

    def score(self, cls: PodClass, mask: Bools) -> Ints:
        """Per slot: how good a place it is, among those in the mask (what lies outside is meaningless)."""
        return ranking.score(self, cls, mask)

    def choose(self, cls: PodClass, mask: Bools | None = None) -> int:
        """The best feasible slot (within the mask), -1 when there is none.

        Ties go to the first by node name: reproducible, and a reader can check it by eye.
        """
        allowed = self.feasible(cls)
        if mask is not None:
            allowed = allowed & mask
        return ranking.best(self.nodes, self.score(cls, allowed), allowed)

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

    def placed(self, key: str) -> Placed | None:
        """A placed pod by ``namespace/name``."""
        return self._placed.get(key)

    def all_placed(self) -> Iterator[Placed]:
        """All placed pods, those on unknown nodes included."""
        return iter(list(self._placed.values()))

    def pods_on(self, slot: int) -> list[Placed]:
        """The pods on a node: highest priority first, then those that started first, then by name."""
        return sorted(self._on.get(slot, {}).values(), key=_importance)

    def count_on(self, slot: int) -> int:
        """How many pods are on a node."""
        return len(self._on.get(slot, ()))

    def used_below(self, priority: int) -> Ints:
        """Per row and slot: what pods of lower priority than this take. Kept up to date once asked for.

        ``alloc - used + used_below(p) >= request`` is "would fit, by resources, were all of them gone".
        """
        found = self._below.get(priority)
        if found is None or found.shape != self.nodes.used.shape:
            found = np.zeros_like(self.nodes.used)
            for placed in self._placed.values():
                if placed.slot >= 0 and placed.priority < priority:
                    for row, amount in placed.row_amounts:
                        found[row, placed.slot] += amount
            while len(self._below) >= _BELOW_KEPT:
                self._below.pop(next(iter(self._below)))
            self._below[priority] = found
        return found

    # Inner workings

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
        usage = usage_of(pod) if resized else cls.requests
        rows = cls.row_amounts if usage == cls.requests else self.classes.row_amounts(usage)
        if priority is None:
            priority = pod.spec.priority or 0
        slot = self.nodes.slot(node)
        return Placed(pod, cls, node, slot, priority, usage, rows)

    def _place(self, placed: Placed) -> None:
        if placed.key in self._placed:
            raise KeyError(f"pod {placed.key} is placed already")
        if self._trials:
            self._undo.append((True, placed))
        self._give(placed)

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
            homeless = self._homeless[placed.node]
            del homeless[placed.key]
            if not homeless:
                del self._homeless[placed.node]

    def _count(self, placed: Placed, sign: int) -> None:
        """Count a pod in or out, everywhere."""
        slot = placed.slot
        self._tally_columns(slot, sign, placed.usage, placed.row_amounts, placed.priority)
        self._tally(slot, placed.cls, sign, sign if placed.leaving else 0)
        if placed.cls.facts.volumes:
            self.storage.count(placed, sign)
        if sign > 0:
            self._on.setdefault(slot, {})[placed.key] = placed
        else:
            here = self._on[slot]
            del here[placed.key]
            if not here:
                del self._on[slot]

    # The one place that says what a pod touches, in two parts: columns and tallies.

    def _tally_columns(
        self,
        slots: int | Slots,
        numbers: int | Ints,
        usage: Requests,
        rows: tuple[tuple[int, int], ...],
        priority: int,
    ) -> None:
        """Count equal pods (negative numbers: taken away) in what is kept per slot; no slot twice."""
        nodes = self.nodes
        used = nodes.used
        for row, amount in rows:
            used[row, slots] += numbers * amount
        nodes.ranked[0, slots] += numbers * usage.ranked_cpu_milli
        nodes.ranked[1, slots] += numbers * usage.ranked_memory
        for threshold, below in self._below.items():
            if priority < threshold and below.shape == used.shape:
                for row, amount in rows:
                    below[row, slots] += numbers * amount

    def _tally(self, slot: int, cls: PodClass, number: int, leaving: int) -> None:
        """Count pods of a class in what is kept per class or selector, `leaving` of them being deleted."""
        _bump(cls.where, slot, number)
        if leaving:
            _bump(cls.leaving, slot, leaving)
        for tally in cls.counted_by:
            counted = number - leaving if tally.live_only else number
            if counted:
                tally.add(slot, counted)
        for carried in cls.carries:
            carried.add(slot, number)
        for port in cls.ports:
            port.add(slot, number)
        if cls.ours:
            self.ours.add(slot, number)
            if cls.exclusive:
                self.exclusive.add(slot, number)

    def _reclass(self) -> None:
        """Selectors began to read a label that classes had left out: find every pod's class again."""
        for placed in self._placed.values():
            if placed.slot >= 0:
                self._count(placed, -1)
            placed.cls = self.classes.of(placed.pod)
            if placed.slot >= 0:
                self._count(placed, 1)


def _importance(placed: Placed) -> tuple[int, bool, float, str]:
    start = placed.pod.status.start_time
    # Not started yet: as if it started last.
    return (-placed.priority, start is None, start.timestamp() if start else 0.0, placed.key)


def _bump(counts: dict[int, int], slot: int, sign: int) -> None:
    number = counts.get(slot, 0) + sign
    if number:
        counts[slot] = number
    else:
        del counts[slot]
