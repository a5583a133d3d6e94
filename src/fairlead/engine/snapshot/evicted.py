"""What the API shows of evictions that a scheduler has decided: conditions on the victims.

The eviction API replaces ``DisruptionTarget`` by its own words, so a condition of our own stands beside it.
It says two things that outlive a restart: that a pod leaves because of preemption, and that its gang leaves
whole.
"""

from __future__ import annotations

from fairlead.kube.pod import Pod

CONDITION = "fairlead.dev/Evicted"

GANG = "Gang"
"""The reason in that condition where the pod's whole gang is evicted."""

RELEASE = "Release"
"""The reason where members of a gang that could not be completed are let go."""

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
    return _reason(pod) in (GANG, RELEASE)


def is_released(pod: Pod) -> bool:
    """Whether it leaves because its gang could not be completed."""
    return _reason(pod) == RELEASE


def _reason(pod: Pod) -> str:
    conditions = pod.status.conditions
    return next((one.reason for one in conditions if one.type == CONDITION and one.status == "True"), "")
