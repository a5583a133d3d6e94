"""Split a watch stream into lines, whatever the chunks and however long the line.

The usual readers refuse lines beyond some limit, and an object is one line: 1.5 MiB is normal, more
is possible. Memory is bounded all the same: a line beyond `limit` is thrown away as it arrives, only
its start is kept, so that the object can be named.
"""

from __future__ import annotations

from dataclasses import dataclass

_KEPT = 16 * 1024  # enough to hold type, kind and the first metadata members


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for a line that was longer than the limit."""

    start: bytes
    size: int


class Lines:
    r"""Feed chunks, get complete lines. Invariant: what is held is at most one line's start, ≤ `limit`.

    >>> lines = Lines()
    >>> lines.feed(b'{"a":1}\n{"b"'), lines.feed(b":2}\n")
    ([b'{"a":1}'], [b'{"b":2}'])
    """

    __slots__ = ("_held", "_limit", "_size")

    def __init__(self, limit: int = 64 * 1024 * 1024) -> None:
        self._limit = limit
        self._held: list[bytes] = []
        self._size = 0  # of the line so far, thrown away or not

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """The lines that this chunk completes, without their newline; empty lines are left out."""
        first, newline, rest = chunk.partition(b"\n")
        if not newline:
            self._hold(first)
            return []
        lines: list[bytes | TooLong] = []
        if self._size or first:
            lines.append(self._complete(first))
        *whole, tail = rest.split(b"\n")
        lines.extend(line for line in whole if line)
        if tail:
            self._hold(tail)
        return lines

    @property
    def pending(self) -> int:
        """Bytes of an incomplete line; not zero at the end of a stream means that it broke off."""
        return self._size

    def _hold(self, part: bytes) -> None:
        self._size += len(part)
        self._held.append(part)
        if self._size > self._limit:
            self._held = [b"".join(self._held)[:_KEPT]]

    def _complete(self, end: bytes) -> bytes | TooLong:
        self._hold(end)
        held, size = b"".join(self._held), self._size
        self._held, self._size = [], 0
        return held if size <= self._limit else TooLong(held[:_KEPT], size)
