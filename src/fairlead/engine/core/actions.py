"""What the core asks for. Each names the pod and its UID; who carries it out sends the UID along."""

from __future__ import annotations

import msgspec

__all__ = ["Action", "BindPod", "EvictPod", "HoldPod", "NominatePod", "ReleasePod", "Say"]


class BindPod(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """Bind a pod to a node. `unit` is the pod or gang it belongs to."""

    pod: str
    uid: str
    node: str
    unit: str


class EvictPod(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """Evict a pod for `unit`, which the core knows by `unit_id`. Ask `Core.confirms` just before sending."""

    pod: str
    uid: str
    node: str
    unit: str
    unit_id: str
    message: str


class HoldPod(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """A pod stays without a node. `unschedulable`: write ``PodScheduled=False, Unschedulable``.

    Without it the pod only waits (an incomplete gang, say) and autoscalers must not act on it.
    """

    pod: str
    uid: str
    message: str
    unschedulable: bool
    unit: str


class NominatePod(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """Write ``status.nominatedNodeName``; an empty node clears it."""

    pod: str
    uid: str
    node: str


class ReleasePod(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """Delete a bound member of a gang that could not be completed; its controller recreates it."""

    pod: str
    uid: str
    unit: str
    message: str


class Say(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """An event about a pod for people to read."""

    pod: str
    uid: str
    type: str
    reason: str
    message: str


Action = BindPod | EvictPod | HoldPod | NominatePod | ReleasePod | Say
