"""Which pods are where, and everything that is counted from that.

A pod coming or going changes its node's columns, the tallies that count its class, and nothing else.
The subtle thing is the trial: every change made inside one is written down and taken back in reverse,
so that what preemption and gangs try out leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from fairlead.engine.classes import PodClass
from fairlead.engine.requests import Requests, usage_of
from fairlead.engine.snapshot.changes import Changes
from fairlead.engine.snapshot.counts import Tally, bump
from fairlead.engine.snapshot.levels import Levels
from fairlead.engine.snapshot.nodes import Ints, NodeColumns, Slots
from fairlead.engine.snapshot.placed import Placed
from fairlead.engine.snapshot.registry import Classes
from fairlead.engine.snapshot.storage import Storage
from fairlead.kube.pod import Pod

__all__ = ["Placements", "Trial"]

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


class Placements:
    """The placed pods. Invariant: every column and tally is the sum over the pods on nodes that are there.

    Pods on nodes that are not there (yet, or any more) are kept aside and count nowhere.
    """

    def __init__(self, nodes: NodeColumns, classes: Classes, storage: Storage) -> None:
        self.nodes = nodes
        self.classes = classes
        self.classes.on_split = self._reclass
        self.storage = storage
        # Fairlead pods per slot, and those among them that want their node for themselves.
        self.ours = Tally(nodes)
        self.exclusive = Tally(nodes)
        self._placed: dict[str, Placed] = {}
        self._on: dict[int, dict[str, Placed]] = {}
        self._homeless: dict[str, dict[str, Placed]] = {}
        self.changes = Changes()
        self._undo: list[tuple[bool, Placed]] = []
        self._trials = 0
        # By threshold and whether only our own pods count; see `used_below`.
        self._below: dict[tuple[int, bool], Ints] = {}
        self._levels = Levels()

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
            placed = Placed(pod, cls, nodes.name(slot), slot, counts, cls.requests, cls.row_amounts)
            key = placed.key
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
            numbers = tallies.setdefault((cls, placed.leaving), {})
            numbers[slot] = numbers.get(slot, 0) + 1
        for (counts, ours), numbers in columns.items():
            where = np.fromiter(numbers, np.intp, len(numbers))
            many = np.fromiter(numbers.values(), np.int64, len(numbers))
            self._tally_columns(where, many, classes[0].requests, classes[0].row_amounts, counts, ours=ours)
        for (cls, leaving), numbers in tallies.items():
            for slot, number in numbers.items():
                self._tally(slot, cls, number, number if leaving else 0)

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
        usage = usage_of(pod) if resized else cls.requests
        rows = self._rows(cls, usage)
        if priority is None:
            priority = pod.spec.priority or 0
        slot = self.nodes.slot(node)
        return Placed(pod, cls, node, slot, priority, usage, rows)

    def _rows(self, cls: PodClass, usage: Requests) -> tuple[tuple[int, int], ...]:
        return cls.row_amounts if usage == cls.requests else self.classes.row_amounts(usage)

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
        self._tally_columns(
            slot, sign, placed.usage, placed.row_amounts, placed.priority, ours=placed.cls.ours
        )
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
        *,
        ours: bool,
    ) -> None:
        """Count equal pods (negative numbers: taken away) in what is kept per slot; no slot twice."""
        nodes = self.nodes
        used = nodes.used
        self.changes.note(slots)
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
        """No node has these any more (by row): who takes of them takes of what is nowhere."""
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
