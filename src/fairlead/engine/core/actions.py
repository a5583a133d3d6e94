"""What the core asks for. Each names the pod and its UID; who carries it out sends the UID along."""

from __future__ import annotations

import msgspec

from fairlead.kube.tolerations import Toleration
from fairlead.policy.marks import Mark

__all__ = [
    "Action",
    "BindPod",
    "EvictPod",
    "HoldPod",
    "MarkTiers",
    "NominatePod",
    "ReleasePod",
    "Say",
    "SparePod",
]


class BindPod(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """Bind a pod to a node. `unit` is the pod or gang it belongs to.

    `annotations` are merged into the pod as it is bound. `tolerations`, if there are any, are all that the
    pod must have before it is bound: its own, and those that its tier needs.
    """

    pod: str
    uid: str
    node: str
    unit: str
    annotations: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class EvictPod(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """Evict a pod for `unit`, which the core knows by `unit_id`. Ask `Core.confirms` just before sending.

    `gang`: the pod's gang leaves whole. Then all of its members are to be marked before the first is evicted,
    so that another scheduler finishes what this one began. `unit_id` is empty where that has happened.
    """

    pod: str
    uid: str
    node: str
    unit: str
    unit_id: str
    message: str
    gang: str = ""


class HoldPod(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """A pod stays without a node. `unschedulable`: write ``PodScheduled=False, Unschedulable``.

    Without it the pod only waits (an incomplete gang, say) and autoscalers must not act on it.
    """

    pod: str
    uid: str
    message: str
    unschedulable: bool
    unit: str

    @property
    def condition_reason(self) -> str:
        """The reason of the condition ``PodScheduled``; a pod that only waits may do so for its gang."""
        if self.unschedulable:
            return "Unschedulable"
        return "WaitingForGang" if self.unit != self.pod else "Waiting"

    @property
    def event_reason(self) -> str:
        """The reason of the event that says why."""
        return "WaitingForGang" if self.condition_reason == "WaitingForGang" else "FailedScheduling"


class NominatePod(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """Write ``status.nominatedNodeName``; an empty node clears it."""

    pod: str
    uid: str
    node: str


class ReleasePod(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """Delete a bound member of a gang that could not be completed; its controller recreates it.

    All that are released of a `gang` are to be marked before the first is deleted, as for an eviction.
    """

    pod: str
    uid: str
    unit: str
    message: str
    gang: str


class SparePod(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """Take back the mark on a pod that its gang leaves whole: it stays."""

    pod: str
    uid: str


class Say(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """An event about a pod for people to read."""

    pod: str
    uid: str
    type: str
    reason: str
    message: str


class MarkTiers(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """Tiers of a policy are to be left alone, or not any more: marks by tier, as they were and as they are.

    Others write them too, so only what differs between the two is to be changed.
    """

    policy: str
    before: dict[str, Mark]
    after: dict[str, Mark]


Action = BindPod | EvictPod | HoldPod | NominatePod | ReleasePod | Say | SparePod | MarkTiers
