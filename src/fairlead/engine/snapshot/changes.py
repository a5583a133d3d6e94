"""Which slots' pods changed, in order, for who keeps what follows from them."""

from __future__ import annotations

from fairlead.engine.snapshot.nodes import Slots

__all__ = ["Changes"]

_KEPT = 65536


class Changes:
    """A log. Invariant: `epoch` is raised when `slots` is emptied.

    So whoever remembers (epoch, len(slots)) can catch up by looking at slots[remembered:].
    """

    __slots__ = ("epoch", "slots")

    def __init__(self) -> None:
        self.epoch = 0
        self.slots: list[int] = []

    def note(self, slots: int | Slots) -> None:
        """Pods came to these slots, or left them."""
        if len(self.slots) >= _KEPT:
            self.slots.clear()
            self.epoch += 1
        if isinstance(slots, int):
            self.slots.append(slots)
        else:
            self.slots.extend(slots.tolist())
