"""Why preemption does not help a pod, node by node, as kube-scheduler says it behind its sentence.

For each node the first of: nothing that leaves could help; nobody may leave; with all gone who may,
this still refuses; and, what only we know, those who would have to leave are protected. The subtle
thing is cost: this is said of every pod that is held, so what resources decide is counted for all nodes
at once.
"""

from __future__ import annotations

import numpy as np

from fairlead.engine import rules
from fairlead.engine.classes import PodClass
from fairlead.engine.preemption import Preemption
from fairlead.engine.reasons import (
    KeptForAnother,
    NotEnoughForAll,
    NotHelpful,
    NoVictims,
    Reason,
    Unhelped,
    VictimsProtected,
)
from fairlead.engine.room import Room
from fairlead.engine.rules.verdicts import Verdicts
from fairlead.engine.snapshot.nodes import PODS_ROW, Bools

__all__ = ["unhelped"]


def unhelped(
    room: Room,
    preemption: Preemption,
    cls: PodClass,
    priority: int,
    verdicts: Verdicts,
    *,
    open_to: Bools | None,
    whole: bool = False,
) -> Unhelped:
    """Why no eviction helps a pod of the class, which `verdicts` refuse everywhere.

    `open_to`: the nodes that are not kept for others, None when all are. `whole`: it is a member of a
    gang, for which as a whole evictions do not suffice.
    """
    nodes = room.snapshot.nodes
    below = preemption.below(priority)
    candidates = nodes.alive & ~verdicts.unresolvable
    counts: dict[Reason, int] = {NotHelpful(): _number(nodes.alive & verdicts.unresolvable)}
    if open_to is not None:
        counts[KeptForAnother()] = _number(candidates & ~open_to)
        candidates &= open_to
    crowded = candidates & (below[PODS_ROW] > 0)
    counts[NoVictims()] = _number(candidates & ~crowded)
    if not cls.ports:
        # Of what leaving pods can change, only ports are asked about before resources.
        short = np.zeros_like(crowded)
        for finding in rules.resources.find_without(room.snapshot, cls, below):
            found = crowded & finding.slots
            counts[finding.reason] = _number(found)
            short |= found
        crowded &= ~short
    # Where nothing refuses with all gone who may go, there is another reason why they do not.
    enough: Reason = NotEnoughForAll() if whole else VictimsProtected()
    if preemption.only_amounts(cls):
        counts[enough] = _number(crowded)
    else:
        for slot in np.flatnonzero(crowded).tolist():
            for reason in _without_lower(room, preemption, cls, priority, slot) or (enough,):
                counts[reason] = counts.get(reason, 0) + 1
    return Unhelped(nodes.count, tuple((reason, number) for reason, number in counts.items() if number))


def _without_lower(
    room: Room, preemption: Preemption, cls: PodClass, priority: int, slot: int
) -> tuple[Reason, ...]:
    snapshot = room.snapshot
    leaving = [placed for placed in snapshot.pods_on(slot) if preemption.may_leave(placed, priority)]
    if not leaving:
        return (NoVictims(),)
    with snapshot.trial():
        for placed in leaving:
            snapshot.forget(placed.key)
        return rules.reasons(snapshot, cls, slot)


def _number(mask: Bools) -> int:
    return int(np.count_nonzero(mask))
