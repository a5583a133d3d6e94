"""Which held units an event can help, so that the others are left alone.

A node that appears or changes, or a pod that leaves one, helps units that fit there now (or would, with
lower pods gone). A pod that is placed helps only those who want company or evenness. What looks beyond
its node may be helped by any pod that leaves.
"""

from __future__ import annotations

from fairlead.engine.classes import PodClass
from fairlead.engine.core.queue import Line
from fairlead.engine.preemption import Preemption, looks_beyond_node
from fairlead.engine.room import Room

__all__ = ["Hints", "wants_company"]

# Up to this many changed nodes are looked at one by one; for more, one attempt over all is cheaper.
_LOOK_AT = 8


class Hints:
    """What has happened since it was last emptied."""

    __slots__ = ("_anything", "_budgets", "_eased", "_placed", "_storage")

    def __init__(self) -> None:
        self._eased: dict[int, None] = {}
        self._placed = False
        self._storage = False
        self._budgets = False
        self._anything = False

    def eased(self, slot: int) -> None:
        """A node appeared or changed, or something on it left or shrank."""
        if slot >= 0:
            self._eased[slot] = None

    def placed(self) -> None:
        """A pod was placed somewhere."""
        self._placed = True

    def storage(self) -> None:
        """A claim, volume or the like changed."""
        self._storage = True

    def budgets(self) -> None:
        """A budget, a gang or a priority changed: others may be evicted now."""
        self._budgets = True

    def anything(self) -> None:
        """Something changed that may help any unit."""
        self._anything = True

    def __bool__(self) -> bool:
        """Whether anything happened."""
        return self.frees or self._placed

    @property
    def frees(self) -> bool:
        """Whether anything but a placed pod happened: lower units must not take what it gave."""
        return bool(self._eased) or self._storage or self._budgets or self._anything

    def clear(self) -> None:
        """Start over."""
        self._eased.clear()
        self._placed = self._storage = self._budgets = self._anything = False

    def helps(self, line: Line, room: Room, preemption: Preemption) -> bool:
        """Whether what happened may have helped a held line."""
        unit = line.head
        if self._anything or not line.classes or (self._budgets and unit.may_preempt):
            return True
        for cls in line.classes:
            if not cls.live or (self._storage and cls.facts.volumes):
                return True
            if self._placed and wants_company(cls):
                return True
            if self._eased and looks_beyond_node(cls):
                return True
            if len(self._eased) > _LOOK_AT:
                return True
            for slot in self._eased:
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
    if snapshot.fits(cls, slot):
        return True
    with snapshot.trial():
        for placed in snapshot.pods_on(slot):
            if placed.key in room.nominations or (
                priority is not None and preemption.may_leave(placed, priority)
            ):
                snapshot.forget(placed.key)
        return snapshot.fits(cls, slot)
