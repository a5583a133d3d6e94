"""What a pod's tolerations mean for each distinct set of taints that nodes have."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fairlead.engine.snapshot.nodes import Bools, Ints, NodeColumns
from fairlead.kube.tolerations import Taint, Toleration, tolerated

__all__ = ["UNSCHEDULABLE", "Tolerance"]

# What a cordoned node would be tainted with; tolerating it means tolerating a cordon.
UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


class Tolerance:
    """A table over the sets of taints, extended as sets appear; nodes with equal taints are one row."""

    __slots__ = (
        "__weakref__",
        "_disliked",
        "_epoch",
        "_kept_out",
        "_nodes",
        "tolerates_cordon",
        "tolerations",
    )

    def __init__(self, nodes: NodeColumns, tolerations: tuple[Toleration, ...]) -> None:
        self.tolerations = tolerations
        self.tolerates_cordon = tolerated(UNSCHEDULABLE, tolerations)
        self._nodes = nodes
        self._epoch = nodes.taint_epoch
        self._kept_out: Bools = np.zeros(0, np.bool_)
        self._disliked: Ints = np.zeros(0, np.int64)

    def kept_out(self) -> Bools:
        """Per slot: whether a NoSchedule or NoExecute taint there is not tolerated."""
        self._extend()
        kept_out: Bools = self._kept_out[self._nodes.taint_set]
        return kept_out

    def disliked(self) -> Ints:
        """Per slot: how many PreferNoSchedule taints there are not tolerated."""
        self._extend()
        disliked: Ints = self._disliked[self._nodes.taint_set]
        return disliked

    def untolerated(self, taints: Iterable[Taint]) -> Taint | None:
        """The first taint that keeps the pod out, if any."""
        for taint in taints:
            if taint.effect in ("NoSchedule", "NoExecute") and not tolerated(taint, self.tolerations):
                return taint
        return None

    def _extend(self) -> None:
        if self._epoch != self._nodes.taint_epoch:
            self._epoch = self._nodes.taint_epoch
            self._kept_out, self._disliked = self._kept_out[:0], self._disliked[:0]
        sets = self._nodes.taint_sets
        for taints in sets[len(self._kept_out) :]:
            out = self.untolerated(taints) is not None
            soft = sum(t.effect == "PreferNoSchedule" and not tolerated(t, self.tolerations) for t in taints)
            self._kept_out = np.append(self._kept_out, out)
            self._disliked = np.append(self._disliked, np.int64(soft))
