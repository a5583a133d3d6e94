"""What the autoscaler logs, in Cluster Autoscaler's words: evidence of why no node comes.

As there, the same is said again on every look. The oldest lines go when there are too many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime

from fairlead.nodegroups.aws import AutoScalingGroup

_KEPT = 10_000


class AutoscalerLog:
    """The last lines, oldest first."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_KEPT)

    @property
    def text(self) -> str:
        """All of it, as ``kubectl logs`` would give it."""
        return "".join(f"{line}\n" for line in self._lines)

    def refused(self, pod: str, group: str, rule: str, reasons: Sequence[str], now: datetime) -> None:
        """A pod does not fit on the node that a group is expected to bring."""
        why = ", ".join(reasons)
        said = (
            f"Pod {pod} can't be scheduled on {group}, predicate checking error: {why}; "
            f"predicateName={rule}; reasons: {why}; debugInfo="
        )
        self._say("I", "orchestrator.go:594", said, now)

    def full(self, group: str, now: datetime) -> None:
        """A group may not grow."""
        self._say("I", "orchestrator.go:533", f"Skipping node group {group} - max size reached", now)

    def resting(self, group: str, now: datetime) -> None:
        """A group did not bring a node in time, and is left alone for a while."""
        said = f"Node group {group} is not ready for scaleup - backoff"
        self._say("W", "orchestrator.go:541", said, now)

    def not_told(self, asg: AutoScalingGroup, why: str, now: datetime) -> None:
        """EKS did not say what nodes of a managed group are like."""
        said = (
            f"Failed to get labels from EKS DescribeNodegroup API for nodegroup {asg.nodegroup} "
            f"in cluster {asg.cluster} because {why}."
        )
        self._say("E", "aws_manager.go:326", said, now)

    def _say(self, level: str, where: str, said: str, now: datetime) -> None:
        self._lines.append(f"{level}{now:%m%d %H:%M:%S.%f} {1:>7} {where}] {said}")
