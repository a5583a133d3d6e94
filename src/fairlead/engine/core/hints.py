"""Which held units an event can help, so that the others are left alone.

A node that appears or changes, or a pod that leaves one, helps units that fit there now (or would, with
lower pods gone). A pod that is placed helps only those that want company or evenness. What looks beyond
its node may be helped by any pod that leaves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fairlead.engine import rules
from fairlead.engine.core.queue import Line
from fairlead.engine.planning.preemption import Preemption, looks_beyond_node
from fairlead.engine.planning.room import Room
from fairlead.engine.snapshot.classes import PodClass

# Up to this many changed nodes are looked at one by one; for more, one attempt over all is cheaper.
_LOOK_AT = 8


@dataclass(slots=True)
class Hints:
    """What has happened since units were last woken.

    `eased`: slots of nodes that appeared or changed, or where something left or shrank. `placed`: a pod was
    placed somewhere. `storage`: a claim, volume or the like changed. `budgets`: a budget, a gang or a
    priority changed, so that others may be evicted now. `anything`: what changed may help any unit.
    """

    eased: dict[int, None] = field(default_factory=dict)
    placed: bool = False
    storage: bool = False
    budgets: bool = False
    anything: bool = False

    def ease(self, slot: int) -> None:
        """Note a slot; -1 is none."""
        if slot >= 0:
            self.eased[slot] = None

    def __bool__(self) -> bool:
        """Whether anything happened."""
        return self.frees or self.placed

    @property
    def frees(self) -> bool:
        """Whether anything but a placed pod happened: lower units must not take what it gave."""
        return bool(self.eased) or self.storage or self.budgets or self.anything

    def helps(self, line: Line, room: Room, preemption: Preemption) -> bool:
        """Whether what happened may have helped a held line."""
        unit = line.head
        if self.anything or not line.classes or (self.budgets and unit.may_preempt):
            return True
        for cls in line.classes:
            if not cls.live or (self.storage and cls.facts.volumes):
                return True
            if self.placed and wants_company(cls):
                return True
            if self.eased and looks_beyond_node(cls):
                return True
            if len(self.eased) > _LOOK_AT:
                return True
            for slot in self.eased:
                if _could_take(cls, slot, unit.priority if unit.may_preempt else None, room, preemption):
                    return True
        return False


def wants_company(cls: PodClass) -> bool:
    """Whether a pod that is placed somewhere may help a pod of the class: it wants company, or evenness."""
    return "require" in cls.demands or "spread" in cls.demands


def _could_take(cls: PodClass, slot: int, priority: int | None, room: Room, preemption: Preemption) -> bool:
    """Whether the class fits on the node, or (with a priority) would with lower pods and promises gone."""
    snapshot = room.snapshot
    if not snapshot.nodes.alive[slot]:
        return False
    if rules.fits(snapshot, cls, slot):
        return True
    with snapshot.trial():
        for placed in snapshot.pods_on(slot):
            if placed.key in room.nominations or (
                priority is not None and preemption.may_leave(placed, priority)
            ):
                snapshot.forget(placed.key)
        return rules.fits(snapshot, cls, slot)
