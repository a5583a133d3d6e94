"""Placing many pods of one class in a row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fairlead.engine.snapshot.nodes import Bools
from fairlead.kube.pod import Pod

if TYPE_CHECKING:
    from fairlead.engine.classes import PodClass
    from fairlead.engine.snapshot.snapshot import Snapshot

__all__ = ["place_run"]


def place_run(snapshot: Snapshot, cls: PodClass, pods: Iterable[Pod], mask: Bools | None) -> list[int]:
    """See `Snapshot.place_run`."""
    slots = []
    full = False
    for pod in pods:
        slot = -1 if full else snapshot.choose(cls, mask)
        full = slot < 0
        if not full:
            snapshot.assume(pod, slot, cls=cls)
        slots.append(slot)
    return slots
