"""What the core asks for. Each names the pod and its UID; the lane that carries it out sends the UID along.

An action brings all that its lane has to know of the cluster as it was when the core decided, so that no
lane looks into the core. What it brings follows from the events: `decision` leaves it out, and only that is
recorded.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from fairlead.engine.policies.policy_tiers import MarkTiers
from fairlead.kube.pod import Pod
from fairlead.kube.storage import PersistentVolume, PersistentVolumeClaim
from fairlead.kube.tolerations import Toleration

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
    "VolumesToBind",
    "decision",
]


class VolumesToBind(msgspec.Struct, frozen=True, gc=False):
    """What a bind waits for: all claims of the pod, with those objects that are there, by name.

    `static` are claims that get a chosen volume, `provision` those whose volume is to be made for the node.
    """

    claims: tuple[str, ...]
    static: tuple[tuple[str, str], ...]
    provision: tuple[str, ...]
    known_claims: dict[str, PersistentVolumeClaim]
    known_volumes: dict[str, PersistentVolume]


class _AboutPod(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """What to do about a pod, ``namespace/name``."""

    pod: str
    uid: str

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.pod.partition("/")[0]

    @property
    def name(self) -> str:
        """The pod's name in it."""
        return self.pod.partition("/")[2]


class BindPod(_AboutPod, frozen=True):
    """Bind a pod to a node. `unit` is the pod or gang it belongs to.

    `annotations` are merged into the pod as it is bound. `tolerations`, if there are any, are all that the
    pod must have before it is bound: its own, and those that its tier needs. `volumes`, if set, must be bound
    before it.
    """

    node: str
    unit: str
    annotations: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    volumes: VolumesToBind | UnsetType = UNSET


class EvictPod(_AboutPod, frozen=True):
    """Evict a pod for `unit`, which the core knows by `unit_id`. Ask `Core.confirms` just before sending.

    `gang`: the pod's gang leaves whole. Then all of its members are to be marked before the first is evicted,
    so that another scheduler finishes what this one began. `unit_id` is empty where that has happened.
    `waiting` are the pods of the unit, each with its UID.
    """

    node: str
    unit: str
    unit_id: str
    message: str
    gang: str = ""
    waiting: tuple[tuple[str, str], ...] | UnsetType = UNSET


class HoldPod(_AboutPod, frozen=True):
    """A pod stays without a node. `unschedulable`: write ``PodScheduled=False, Unschedulable``.

    Without it the pod only waits (an incomplete gang, say) and autoscalers must not act on it. `waiting` is
    the pod as the API last showed it, if it waits.
    """

    message: str
    unschedulable: bool
    unit: str
    waiting: Pod | UnsetType = UNSET

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


class NominatePod(_AboutPod, frozen=True):
    """Write ``status.nominatedNodeName``; an empty node clears it.

    `waiting` is the pod as the API last showed it, if it waits.
    """

    node: str
    waiting: Pod | UnsetType = UNSET


class ReleasePod(_AboutPod, frozen=True):
    """Delete a bound member of a gang that could not be completed; its controller recreates it.

    All that are released of a `gang` are to be marked before the first is deleted, as for an eviction.
    """

    unit: str
    message: str
    gang: str


class SparePod(_AboutPod, frozen=True):
    """Take back the mark on a pod that its gang leaves whole: it stays."""


class Say(_AboutPod, frozen=True):
    """An event about a pod for people to read."""

    type: str
    reason: str
    message: str


Action = BindPod | EvictPod | HoldPod | NominatePod | ReleasePod | Say | SparePod | MarkTiers


def decision(action: Action) -> Action:
    """The action without what it brings along for its lane.

    >>> decision(NominatePod("default/a", "uid", "n", Pod())) == NominatePod("default/a", "uid", "n")
    True
    """
    match action:
        case BindPod(volumes=VolumesToBind()):
            return msgspec.structs.replace(action, volumes=UNSET)
        case HoldPod() | NominatePod() | EvictPod() if action.waiting is not UNSET:
            return msgspec.structs.replace(action, waiting=UNSET)
        case _:
            return action
