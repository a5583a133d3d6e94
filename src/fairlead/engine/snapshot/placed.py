"""A pod that has a place, and what is kept of it.

What equal pods have in common is kept once, what no rule reads not at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.evicted import CONDITION as EVICTED
from fairlead.engine.snapshot.requests import Requests
from fairlead.kube.pod import Pod, PodSpec, PodStatus

# Whether a resize is refused, whether the pod is on its way out, whether it is ready.
_CONDITIONS = ("PodResizePending", "DisruptionTarget", EVICTED, "Ready")


@dataclass(slots=True, eq=False, repr=False)
class Placed:
    """A pod on a node, bound or assumed.

    `node` says where it is; ``pod.spec`` does not: of pods as the API shows them it is one object per
    template.
    `slot` is -1 while there is no such node; then the pod counts nowhere, but is not forgotten.
    `usage` is what it takes now, which in-place resize makes differ from what its class asks for.
    `static` and `provision` are the claims that are to be bound with it (see `volume_matching`).
    """

    key: str
    pod: Pod
    cls: PodClass
    node: str
    slot: int
    priority: int
    leaving: bool
    usage: Requests
    row_amounts: tuple[tuple[int, int], ...]
    static: tuple[tuple[str, str], ...] = ()
    provision: tuple[str, ...] = ()

    def counts_like(self, other: Placed) -> bool:
        """Whether it counts in nothing differently from another, volumes not looked at."""
        return (
            self.cls is other.cls
            and self.node == other.node
            and self.priority == other.priority
            and self.leaving == other.leaving
            and (self.usage is other.usage or self.usage == other.usage)
        )

    def __repr__(self) -> str:
        return f"Placed({self.key} on {self.node})"


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
