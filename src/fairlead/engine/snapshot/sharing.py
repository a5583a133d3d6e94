"""Less memory per running pod: what equal pods have in common is kept once, what no rule reads not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fairlead.engine.evicted import CONDITION as EVICTED
from fairlead.kube.pod import Pod, PodSpec, PodStatus

if TYPE_CHECKING:
    from fairlead.engine.classes import PodClass

__all__ = ["shared"]

# Whether a resize is refused, whether the pod is on its way out, whether it is ready.
_CONDITIONS = ("PodResizePending", "DisruptionTarget", EVICTED, "Ready")


def shared(pod: Pod, cls: PodClass, spec: PodSpec) -> Pod:
    """The same pod with its template's `spec`, its class's labels and a sibling's owner, where equal.

    Of its status remain phase, start, nomination, what was allocated, and the conditions that matter.
    """
    metadata, status = pod.metadata, pod.status
    changes: dict[str, object] = {}
    if metadata.labels is not cls.labels and metadata.labels == cls.labels:
        changes["labels"] = cls.labels
    if metadata.owner_references:
        if metadata.owner_references == cls.owner_references:
            changes["owner_references"] = cls.owner_references
        else:
            cls.owner_references = metadata.owner_references
    return Pod(
        metadata=msgspec.structs.replace(metadata, **changes) if changes else metadata,
        spec=spec,
        status=PodStatus(
            phase=status.phase,
            reason=status.reason,
            nominated_node_name=status.nominated_node_name,
            start_time=status.start_time,
            conditions=tuple(each for each in status.conditions if each.type in _CONDITIONS),
            container_statuses=tuple(one for one in status.container_statuses if one.resources),
            init_container_statuses=tuple(one for one in status.init_container_statuses if one.resources),
            allocated_resources=status.allocated_resources,
            resources=status.resources,
        ),
    )
