"""What the API shows of evictions that a scheduler has decided: conditions on the victims.

The eviction API replaces ``DisruptionTarget`` by its own words, so a condition of our own stands beside it.
It says two things that outlive a restart: that a pod leaves because of preemption, and that its gang leaves
whole.
"""

from __future__ import annotations

from fairlead.kube.pod import Pod

__all__ = ["CONDITION", "GANG", "POD", "is_preempted", "with_its_gang"]

CONDITION = "fairlead.dev/Evicted"

GANG = "Gang"
"""The reason in that condition where the pod's whole gang is evicted."""

POD = "Pod"
"""The reason where the pod is evicted by itself."""

_DISRUPTION = "DisruptionTarget"
_BY_SCHEDULER = "PreemptionByScheduler"


def is_preempted(pod: Pod) -> bool:
    """Whether a scheduler, kube-scheduler or this one, has decided that the pod makes room for another."""
    return any(
        one.status == "True"
        and (one.type == CONDITION or (one.type == _DISRUPTION and one.reason == _BY_SCHEDULER))
        for one in pod.status.conditions
    )


def with_its_gang(pod: Pod) -> bool:
    """Whether the API shows that the pod's whole gang is to leave."""
    return any(
        one.type == CONDITION and one.status == "True" and one.reason == GANG for one in pod.status.conditions
    )
