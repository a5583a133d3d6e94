"""Finds who may match whom by one label they share, without asking everybody."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Generic, TypeVar

__all__ = ["LabelIndex"]

T = TypeVar("T")

_PRUNE_FROM = 4096


class LabelIndex(Generic[T]):
    """Weakly held things by a label that they have or demand. None stands for all of them, or no demand."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str] | None, weakref.WeakValueDictionary[int, T]] = {}
        self._serial = 0
        self._prune_at = _PRUNE_FROM

    def add(self, label: tuple[str, str] | None, item: T) -> None:
        """Keep an item under one label."""
        self._serial += 1
        held = self._by_label.get(label)
        if held is None:
            held = self._by_label[label] = weakref.WeakValueDictionary()
            if len(self._by_label) > self._prune_at:
                self._prune()
        held[self._serial] = item

    def of(self, label: tuple[str, str] | None) -> list[T]:
        """What is kept under one label, oldest first."""
        held = self._by_label.get(label)
        return list(held.values()) if held is not None else []

    def touching(self, labels: Iterable[tuple[str, str]]) -> list[T]:
        """What demands no label, or one of these."""
        found = self.of(None)
        for label in labels:
            found += self.of(label)
        return found

    def _prune(self) -> None:
        # Template hashes come and go: without this, every one ever seen would keep an empty bucket.
        # The newest bucket is empty until its item is in.
        newest = next(reversed(self._by_label))
        kept = {label: held for label, held in self._by_label.items() if len(held) or label == newest}
        self._by_label = kept
        self._prune_at = max(_PRUNE_FROM, 2 * len(kept))
