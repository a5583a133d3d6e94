"""Ranking: which of the feasible nodes is best. Integers only; equal scores go by node name.

Every part gives 0 to `FULL` and is weighted as in kube-scheduler's defaults. What is relative upstream
(preferred terms, soft spreading) is relative to the nodes under consideration here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.engine.ranking import preferences, room
from fairlead.engine.ranking.choice import best
from fairlead.engine.snapshot.nodes import Bools, Ints

if TYPE_CHECKING:
    from fairlead.engine.classes import PodClass
    from fairlead.engine.snapshot.snapshot import Snapshot

__all__ = ["best", "score"]


def score(snapshot: Snapshot, cls: PodClass, mask: Bools) -> Ints:
    """The weighted sum of all parts, per slot; meaningless outside the mask."""
    total = room.score(snapshot, cls)
    for part in preferences.PARTS:
        if part.concerns(snapshot, cls):
            total = total + part.weight * part.score(snapshot, cls, mask)
    return total
