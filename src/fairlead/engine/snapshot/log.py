"""What happened, in order, for whatever is kept from it: a reader catches up with what it has missed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")

Mark: TypeAlias = tuple[int, int]
"""How far a reader has come: in which epoch, and how many entries of it."""

UNREAD: Mark = (-1, 0)


class Log(Generic[T]):
    """Entries, up to a limit.

    Invariant: a reader that remembers a mark gets all that was noted since, or learns that it must start from
    scratch.
    """

    __slots__ = ("__weakref__", "_entries", "_epoch", "_limit")

    def __init__(self, limit: int) -> None:
        self._entries: list[T] = []
        self._epoch = 0
        self._limit = limit

    @property
    def mark(self) -> Mark:
        """Where the log ends."""
        return self._epoch, len(self._entries)

    def note(self, entry: T) -> None:
        """Something happened."""
        if len(self._entries) >= self._limit:
            self.start_over()
        self._entries.append(entry)

    def extend(self, entries: Iterable[T]) -> None:
        """Several things happened."""
        if len(self._entries) >= self._limit:
            self.start_over()
        self._entries.extend(entries)

    def start_over(self) -> None:
        """Something happened that no entry can tell: every reader starts from scratch."""
        self._entries.clear()
        self._epoch += 1

    def since(self, mark: Mark) -> list[T] | None:
        """What was noted since; None when that is not known any more."""
        epoch, read = mark
        return self._entries[read:] if epoch == self._epoch else None
