"""Where a waiting pod stands: its unit, its place in the queue, who is ahead, what holds it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead.engine.core.service import Service

__all__ = ["Standing", "standing_of"]


@dataclass(frozen=True, slots=True)
class Standing:
    """`position` counts from 1; 0 while the unit is not in the queue. `ahead` are units' names, in order.

    `waits_for` are pods (``namespace/name``) that must leave first.
    """

    unit: str
    members: int
    position: int
    ahead: tuple[str, ...]
    message: str
    waits_for: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "unit": self.unit,
            "members": self.members,
            "position": self.position,
            "ahead": list(self.ahead),
            "message": self.message,
            "waitsFor": list(self.waits_for),
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
            return Standing(unit.name, len(unit.members), index + 1, ahead, service.holds.told(uid))
    return Standing(gang or pod, 1, 0, (), service.holds.told(uid))
