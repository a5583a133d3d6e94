"""Tallies that are counted when they are read, not when pods come and go.

What a selector without an equality label counts is nearly every pod of its namespaces: to keep a hundred such
tallies up to date would cost every pod event a hundred changes. Placements are written to a log instead, per
namespace that is looked at, and a tally catches up with it before it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

from fairlead.engine.snapshot.counts import PodSelector, Selected
from fairlead.engine.snapshot.nodes import NodeColumns

if TYPE_CHECKING:
    from fairlead.engine.classes import PodClass

__all__ = ["Deferred", "PlacementLog", "PlacementLogs"]

_KEPT = 1024


class PlacementLog:
    """What was placed and taken away: (class, slot, number, how many of them are being deleted), in order.

    Invariant: `epoch` is raised when `entries` is emptied.
    """

    __slots__ = ("__weakref__", "entries", "epoch")

    def __init__(self) -> None:
        self.entries: list[tuple[PodClass, int, int, int]] = []
        self.epoch = 0

    def start_over(self) -> None:
        """Let every reader count from scratch."""
        self.entries.clear()
        self.epoch += 1


class PlacementLogs:
    """One log per namespace that some tally looks at, and one of all namespaces; kept while they are read."""

    __slots__ = ("_logs",)

    def __init__(self) -> None:
        self._logs: WeakValueDictionary[str | None, PlacementLog] = WeakValueDictionary()

    def of(self, namespace: str | None) -> PlacementLog:
        """The log of a namespace, or (None) of all."""
        found = self._logs.get(namespace)
        if found is None:
            found = self._logs[namespace] = PlacementLog()
        return found

    def note(self, cls: PodClass, slot: int, number: int, leaving: int) -> None:
        """Pods of a class came to a slot, or left it."""
        if not self._logs:
            return
        for log in (self._logs.get(cls.namespace), self._logs.get(None)):
            if log is not None:
                if len(log.entries) >= _KEPT:
                    log.start_over()
                log.entries.append((cls, slot, number, leaving))

    def start_over(self) -> None:
        """A namespace's labels changed: who selects by them counts from scratch."""
        for log in list(self._logs.values()):
            log.start_over()


class Source(Protocol):
    """Where a deferred tally finds classes: `Classes`."""

    namespaces: dict[str, dict[str, str]]
    logs: PlacementLogs

    def in_namespace(self, namespace: str) -> Iterable[PodClass]:
        """The classes of a namespace."""

    def all(self) -> Iterator[PodClass]:
        """All classes."""


class Deferred(Selected):
    """Pods that all of the selectors match, as of the last `catch_up`.

    Invariant: after it, the counts are the sums of `where` (less `leaving` for a tally of live pods) over the
    classes that it matches.
    """

    __slots__ = ("_epoch", "_log", "_matched", "_name", "_read", "_source")

    def __init__(
        self, nodes: NodeColumns, selectors: tuple[PodSelector, ...], *, live_only: bool, source: Source
    ) -> None:
        super().__init__(nodes, selectors, live_only=live_only)
        self._source = source
        self._name = _only_name(selectors)
        self._log = source.logs.of(self._name)
        self._epoch = -1
        self._read = 0
        self._matched: dict[int, bool] = {}  # by the classes' serials

    def counts_class(self, cls: PodClass) -> bool:
        """Whether it counts the pods of a class."""
        found = self._matched.get(cls.serial)
        if found is None:
            labels = self._source.namespaces.get(cls.namespace, {})
            found = self._matched[cls.serial] = self.matches(cls.namespace, labels, cls.labels)
        return found

    def catch_up(self) -> None:
        """Count what happened since this was last read."""
        log = self._log
        if self._epoch != log.epoch:
            self._count_all()
        elif self._read < len(log.entries):
            for cls, slot, number, leaving in log.entries[self._read :]:
                counted = number - leaving if self.live_only else number
                if counted and self.counts_class(cls):
                    self.add(slot, counted)
        else:
            return
        self._epoch, self._read = log.epoch, len(log.entries)

    def _count_all(self) -> None:
        self._matched.clear()
        self.clear()
        source = self._source
        counts = self.counts
        for cls in source.in_namespace(self._name) if self._name is not None else source.all():
            if cls.where and self.counts_class(cls):
                for slot, number in cls.where.items():
                    counted = number - (cls.leaving.get(slot, 0) if self.live_only else 0)
                    counts[slot] += counted
                    self.total += counted


def _only_name(selectors: tuple[PodSelector, ...]) -> str | None:
    """The one namespace that can hold what all selectors match, None where there may be several."""
    for each in selectors:
        if each.scope.selector is None and len(each.scope.names) == 1:
            return next(iter(each.scope.names))
    return None
