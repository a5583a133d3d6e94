"""Where a waiting pod stands: its unit, its place in the queue, who is ahead, what holds it back.

The pods that hold a unit back are found by asking preemption as if no pod were protected: no priority,
budget or scheduler name spares any but system pods. They are named, not evicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairlead.engine.budgets import Budgets
from fairlead.engine.membership import shown
from fairlead.engine.placement import group
from fairlead.engine.preemption import Preemption
from fairlead.engine.preemption_gangs import offer_to_gang
from fairlead.engine.priority import UNTOUCHABLE
from fairlead.engine.units import Unit

if TYPE_CHECKING:
    from fairlead.engine.core.service import Service

__all__ = ["Standing", "standing_of"]


@dataclass(frozen=True, slots=True)
class Standing:
    """`position` counts from 1; 0 while the unit is not in the queue. `ahead` are units' names, in order.

    `fitting` are the members (``namespace/name``) that would find room now if they went alone, `held_back_by`
    pods without which all would, and `waits_for` pods that were told to leave.
    """

    unit: str
    members: int
    position: int
    ahead: tuple[str, ...]
    message: str
    waits_for: tuple[str, ...] = ()
    fitting: tuple[str, ...] = ()
    held_back_by: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "unit": self.unit,
            "members": self.members,
            "position": self.position,
            "ahead": list(self.ahead),
            "message": self.message,
            "waitsFor": list(self.waits_for),
            "fitting": list(self.fitting),
            "heldBackBy": list(self.held_back_by),
        }


def standing_of(service: Service, pod: str) -> Standing | None:
    """The standing of a pod by ``namespace/name``, None when it does not wait."""
    state = service.state
    uid = state.uid_of(pod)
    if uid not in state.pending and uid not in state.gated:
        return None
    if uid in state.gated:
        gates = ", ".join(gate.name for gate in state.gated[uid].spec.scheduling_gates)
        return Standing(pod, 1, 0, (), f"waiting for scheduling gates: {gates}")
    gang = state.gangs.name_of(uid)
    for unit_id in (f"pod:{uid}", f"gang:{gang}"):
        wait = service.evictions.get(unit_id)
        if wait is not None:
            leaving = tuple(sorted(victim.key for victim in wait.victims.values()))
            message = "waiting for pods to leave"
            return Standing(wait.unit.name, len(wait.unit.members), 0, (), message, leaving)
        if unit_id in service.queue:
            units = service.queue.units()
            index = next(i for i, unit in enumerate(units) if unit.id == unit_id)
            ahead = tuple(unit.name for unit in units[:index])
            unit = units[index]
            return Standing(
                unit.name,
                len(unit.members),
                index + 1,
                ahead,
                service.holds.told(uid),
                fitting=_fitting(service, unit),
                held_back_by=_held_back_by(service, unit),
            )
    return Standing(shown(gang) or pod, 1, 0, (), service.holds.told(uid))


def _fitting(service: Service, unit: Unit) -> tuple[str, ...]:
    snapshot = service.state.snapshot
    found: list[str] = []
    with snapshot.trial():
        for each in group(service.state.room, unit.members):
            slots = snapshot.place_run(each.cls, each.pods)
            found += [pod.metadata.key for pod, slot in zip(each.pods, slots, strict=True) if slot >= 0]
    return tuple(sorted(found))


def _held_back_by(service: Service, unit: Unit) -> tuple[str, ...]:
    state = service.state
    search = Preemption(state.room, state.gangs, Budgets(), respect=False)
    groups = group(state.room, unit.members)
    with state.room.seen_by(unit.id, UNTOUCHABLE):
        offer = offer_to_gang(state.room, search, UNTOUCHABLE, groups, unit.needed, mask=None)
    return tuple(sorted(victim.key for victim in offer.victims)) if offer is not None else ()
