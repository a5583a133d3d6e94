"""From when each waiting pod's patience with its tier counts.

It begins when the pod is first held for its tier, or began when its status says so: a restart must not
begin it anew. Sent to another tier, or promised a node, a pod is patient again.
"""

from __future__ import annotations

__all__ = ["Patience"]


class Patience:
    """Times by the pods' UIDs."""

    __slots__ = ("_moved", "_promised", "_since")

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._moved: dict[str, None] = {}  # what their status says is of another tier
        self._promised: dict[str, float] = {}

    def begin(self, uid: str, now: float, since: float | None) -> float | None:
        """A pod is held; from when it counts, None when it has begun before."""
        if uid in self._since:
            return None
        began = now if since is None or uid in self._moved else min(since, now)
        self._since[uid] = began = max(began, self._promised.get(uid, began))
        return began

    def since(self, uid: str) -> float | None:
        """From when it counts; None: the pod is not held."""
        return self._since.get(uid)

    def moved(self, uid: str) -> None:
        """The pod is sent to another tier."""
        self._since.pop(uid, None)
        self._moved[uid] = None

    def promised(self, uid: str, at: float) -> None:
        """Somebody said that a node is on its way for the pod, or promised it one."""
        self._promised[uid] = at = max(at, self._promised.get(uid, at))
        if uid in self._since:
            self._since[uid] = max(at, self._since[uid])

    def forget(self, uid: str) -> None:
        """The pod does not wait any more."""
        self._since.pop(uid, None)
        self._moved.pop(uid, None)
        self._promised.pop(uid, None)
