"""What the autoscaler logs, in Cluster Autoscaler's words: evidence for whoever wonders why no node comes.

Cluster Autoscaler says the same again on every look; here a line is kept when it says something new. The
oldest lines go when there are too many.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime

from fairlead.nodegroups.aws import AutoScalingGroup

__all__ = ["AutoscalerLog"]

_KEPT = 10_000


class AutoscalerLog:
    """The lines so far, oldest first."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self._last: dict[tuple[str, str], str] = {}

    @property
    def text(self) -> str:
        """All of it, as ``kubectl logs`` would give it."""
        return "".join(f"{line}\n" for line in self._lines)

    def refused(self, pod: str, group: str, rule: str, reasons: tuple[str, ...], now: datetime) -> None:
        """A pod does not fit on the node that a group is expected to bring."""
        why = ", ".join(reasons)
        said = (
            f"Pod {pod} can't be scheduled on {group}, predicate checking error: {why}; "
            f"predicateName={rule}; reasons: {why}; debugInfo="
        )
        self._say((pod, group), "I", "orchestrator.go:594", said, now)

    def skipped(self, group: str, why: str, now: datetime) -> None:
        """A group is not looked at for new nodes."""
        self._say(("", group), "I", "orchestrator.go:533", why, now)

    def about_template(self, asg: AutoScalingGroup, problem: str, now: datetime) -> None:
        """Something went wrong while a group's next node was imagined; of most of that nobody is told."""
        asked, _, why = problem.partition("eks:DescribeNodegroup: ")
        if why and not asked:
            said = (
                f"Failed to get labels from EKS DescribeNodegroup API for nodegroup {asg.nodegroup} "
                f"in cluster {asg.cluster} because {why}."
            )
            self._say(("eks", asg.name), "E", "aws_manager.go:326", said, now)

    def forget(self, pod: str) -> None:
        """A pod waits no more; should it come back, it is told again."""
        for about in [each for each in self._last if each[0] == pod]:
            del self._last[about]

    def _say(self, about: tuple[str, str], level: str, where: str, said: str, now: datetime) -> None:
        if self._last.get(about) == said:
            return
        self._last[about] = said
        self._lines.append(f"{level}{now:%m%d %H:%M:%S.%f} {1:>7} {where}] {said}")
