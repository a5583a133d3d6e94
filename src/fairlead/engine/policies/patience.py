"""From when each waiting pod's patience with its tier counts.

It begins when the pod is first held for its tier, or began when its status says so: a restart must not
begin it anew. Sent to another tier, or promised a node, a pod is patient again; how often a promise may do
that is the same for every door (`fairlead.policy.fallback.patient_since`).
"""

from __future__ import annotations

from fairlead.policy.fallback import patient_since
from fairlead.policy.model import PlacementPolicy

__all__ = ["Patience"]


class Patience:
    """Times by the pods' UIDs."""

    __slots__ = ("_began", "_moved", "_promised")

    def __init__(self) -> None:
        self._began: dict[str, float] = {}
        self._moved: dict[str, None] = {}  # what their status says is of another tier
        self._promised: dict[str, float] = {}

    def begin(self, uid: str, now: float, since: float | None) -> bool:
        """A pod is held; whether it had not begun before."""
        if uid in self._began:
            return False
        self._began[uid] = now if since is None or uid in self._moved else min(since, now)
        return True

    def since(self, uid: str, policy: PlacementPolicy) -> float | None:
        """From when it counts; None: the pod is not held."""
        began = self._began.get(uid)
        return None if began is None else patient_since(began, self._promised.get(uid), policy)

    def moved(self, uid: str) -> None:
        """The pod is sent to another tier."""
        self._began.pop(uid, None)
        self._moved[uid] = None

    def promised(self, uid: str, at: float) -> None:
        """Somebody said that a node is on its way for the pod, or promised it one."""
        self._promised[uid] = max(at, self._promised.get(uid, at))

    def forget(self, uid: str) -> None:
        """The pod does not wait any more."""
        self._began.pop(uid, None)
        self._moved.pop(uid, None)
        self._promised.pop(uid, None)
