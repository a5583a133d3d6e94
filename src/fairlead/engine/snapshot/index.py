"""Indices that hold nothing empty: what is kept under a key, and how often.

`Index` finds what may match by what both share (a label, a namespace), without comparing everything.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, MutableMapping
from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")

_PRUNE_FROM = 4096


class Index(Generic[K, T]):
    """Weakly held things by a key: a label that they have or demand, or their namespace."""

    def __init__(self) -> None:
        self._by_key: dict[K, weakref.WeakValueDictionary[int, T]] = {}
        self._serial = 0
        self._prune_at = _PRUNE_FROM

    def add(self, key: K, item: T) -> None:
        """Keep an item under one key."""
        self._serial += 1
        held = self._by_key.get(key)
        if held is None:
            held = self._by_key[key] = weakref.WeakValueDictionary()
            if len(self._by_key) > self._prune_at:
                self._prune()
        held[self._serial] = item

    def of(self, key: K) -> list[T]:
        """What is kept under one key, oldest first."""
        held = self._by_key.get(key)
        return list(held.values()) if held is not None else []

    def of_any(self, keys: Iterable[K]) -> list[T]:
        """What is kept under any of these keys."""
        return [item for key in keys for item in self.of(key)]

    def _prune(self) -> None:
        # Template hashes come and go: without this, every one ever seen would keep an empty bucket.
        # The newest bucket is empty until its item is in.
        newest = next(reversed(self._by_key))
        kept = {key: held for key, held in self._by_key.items() if len(held) or key == newest}
        self._by_key = kept
        self._prune_at = max(_PRUNE_FROM, 2 * len(kept))


def bump(counts: dict[K, int], key: K, number: int) -> None:
    """Change a count in a dict that holds no zeros."""
    number += counts.get(key, 0)
    if number:
        counts[key] = number
    else:
        del counts[key]


def discard(index: dict[K, dict[T, V]], key: K, item: T) -> None:
    """Take an item out from under its key."""
    held = index[key]
    del held[item]
    if not held:
        del index[key]


def once(table: MutableMapping[K, T], key: K, make: Callable[[], T]) -> T:
    """What is kept under a key, made when there is nothing yet."""
    found = table.get(key)
    if found is None:
        found = table[key] = make()
    return found
