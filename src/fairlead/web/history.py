"""What changed on the board, kept for a while: a browser goes on where it was, and the past can be replayed.

Browsers have no queue each: every one of them is a place in the same history, so a slow one holds nothing.
The history is cut into two parts, each of which begins with the whole board; when the newer is full, the
older is forgotten. What can be replayed therefore always begins with something whole.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from fairlead.web.board import Delta

PART = 8 * 1024 * 1024
"""Bytes of changes in a part."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One change, encoded. `name` says of what: ``delta`` of the board, ``answers`` of what was asked."""

    number: int
    at: float
    name: str
    data: bytes


@dataclass(slots=True)
class _Part:
    base: Delta
    begins: int
    """The number that its first frame has, or will have."""
    frames: list[Frame] = field(default_factory=list)
    size: int = 0


class History:
    """See the module. Frames are numbered from 1; `number` is the newest.

    Invariant: the frames of all parts are numbered without a gap, and `base` of each part is the board as it
    was just before the part's first frame.
    """

    def __init__(self, *, part: int = PART) -> None:
        self.epoch = secrets.token_hex(6)
        """Tells this history from that of another process."""
        self.number = 0
        self._part = part
        self._parts: list[_Part] = []
        self.beginning = asyncio.Event()
        """Set once there is a whole board."""
        self._changed = asyncio.Event()
        self._closed = False

    def begin(self, base: Delta) -> None:
        """The board is whole for the first time."""
        self._parts = [_Part(base, self.number + 1)]
        self.beginning.set()

    def add(self, name: str, at: float, data: bytes, whole: Callable[[], Delta]) -> None:
        """Something changed; `whole` is the board with it, asked for only where a part is full."""
        assert self._parts, "a history begins before it goes on"
        self.number += 1
        last = self._parts[-1]
        last.frames.append(Frame(self.number, at, name, data))
        last.size += len(data)
        if last.size >= self._part:
            self._parts = [last, _Part(whole(), self.number + 1)]
        self._changed.set()
        self._changed = asyncio.Event()

    def after(self, number: int) -> list[Frame] | None:
        """The frames after one; None: they are no longer all there, or never were."""
        if not self._parts or not self._parts[0].begins - 1 <= number <= self.number:
            return None
        found: list[Frame] = []
        for part in self._parts:
            found += part.frames[max(0, number + 1 - part.begins) :]
        return found

    def replay(self) -> tuple[Delta, list[Frame]]:
        """The oldest board that is kept, and all that came after it; only after the `beginning`."""
        return self._parts[0].base, self.after(self._parts[0].begins - 1) or []

    async def more(self, number: int) -> bool:
        """Wait until there are frames after one; False: there will be none."""
        while self.number <= number and not self._closed:
            await self._changed.wait()
        return not self._closed

    def close(self) -> None:
        """Have everybody who waits for more stop."""
        self._closed = True
        self._changed.set()
