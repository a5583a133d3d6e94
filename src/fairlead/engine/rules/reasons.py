"""Why a node, or a whole pod, was refused: values first, words last.

The words are kube-scheduler's own, because people, dashboards and autoscalers read them. What only
Fairlead knows has words of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one node was refused; ``str()`` gives the words, without the count.

    A reason with nothing to tell but its words is a class of its own; all of one class are equal.
    """

    text: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why the pod was refused everywhere at once, before any node was looked at.

    `resolvable`: whether evicting pods could change it. `sentence`: what is said instead of kube-scheduler's
    sentence about nodes, where it would not even have begun to look for one. `own`: it is Fairlead that
    refuses, kube-scheduler would not.
    """

    rule: str
    words: str
    resolvable: bool = False
    sentence: str = ""
    own: bool = False

    def __str__(self) -> str:
        return self.words


class Unschedulable(Reason):
    """The node is cordoned."""

    text = "node(s) were unschedulable"


class NodeNameMismatch(Reason):
    """The pod names another node."""

    text = "node(s) didn't match the requested node name"


class UntoleratedTaint(Reason):
    """A taint that the pod does not tolerate."""

    text = "node(s) had untolerated taint(s)"


class NodeAffinityMismatch(Reason):
    """nodeSelector or required node affinity."""

    text = "node(s) didn't match Pod's node affinity/selector"


class NotAmongNames(Reason):
    """Node affinity names nodes, and this is not one of them."""

    text = "node(s) didn't satisfy plugin(s) [NodeAffinity]"


class PortTaken(Reason):
    """A host port is in use."""

    text = "node(s) didn't have free ports for the requested pod ports"


class TooManyPods(Reason):
    """The node runs as many pods as it may."""

    text = "Too many pods"


@dataclass(frozen=True, slots=True)
class Insufficient(Reason):
    """Not enough of a resource is free."""

    resource: str

    def __str__(self) -> str:
        return f"Insufficient {self.resource}"


class DiskConflict(Reason):
    """A disk of the pod is mounted there by another pod."""

    text = "node(s) had no available disk"


class ClaimInUse(Reason):
    """A claim that only one pod may use is used by another."""

    text = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod"
    )


class TooManyVolumes(Reason):
    """A CSI driver can attach no more volumes there."""

    text = "node(s) exceed max volume count"


class VolumeElsewhere(Reason):
    """A bound volume cannot be reached from there."""

    text = "node(s) didn't match PersistentVolume's node affinity"


class VolumeNoMatch(Reason):
    """No volume there can be bound to a claim, nor be made."""

    text = "node(s) didn't find available persistent volumes to bind"


class VolumeNoSpace(Reason):
    """The storage reachable from there has too little room for a claim."""

    text = "node(s) did not have enough free storage"


class VolumeZoneMismatch(Reason):
    """A bound volume is in another zone or region."""

    text = "node(s) had no available volume zone"


class SpreadKeyMissing(Reason):
    """The node lacks a label that the pod is spread by."""

    text = "node(s) didn't match pod topology spread constraints (missing required label)"


class SpreadTooUneven(Reason):
    """One more pod there would be too uneven."""

    text = "node(s) didn't match pod topology spread constraints"


class AffinityUnmet(Reason):
    """The pods that it must be with are not there."""

    text = "node(s) didn't match pod affinity rules"


class AntiAffinityUnmet(Reason):
    """Pods that it must not be with are there."""

    text = "node(s) didn't match pod anti-affinity rules"


class Repelled(Reason):
    """A pod there must not be with it."""

    text = "node(s) didn't satisfy existing pods anti-affinity rules"


class FeatureMissing(Reason):
    """The node does not declare a feature that the pod needs."""

    text = "node(s) didn't match Pod's required features"


class NodeReserved(Reason):
    """A Fairlead pod there has the node for itself."""

    text = "node(s) were taken by a pod that has its node to itself"


class NodeShared(Reason):
    """The pod wants a node for itself and a Fairlead pod is there."""

    text = "node(s) were in use while the pod needs a node to itself"


class NotHelpful(Reason):
    """What keeps the pod from the node, no eviction can change."""

    text = "Preemption is not helpful for scheduling"


class NoVictims(Reason):
    """No pod there may be evicted for this one."""

    text = "No preemption victims found for incoming pod"


class VictimsProtected(Reason):
    """Evictions would make room, but not without breaking a budget or a gang that must stay."""

    text = "node(s) had victims that a disruption budget or their gang protects"


class KeptForAnother(Reason):
    """The node is reserved for a unit that has waited longer."""

    text = "node(s) were kept for a unit that has waited longer"


class NotEnoughForAll(Reason):
    """Evictions there would make room for a member, but there is not room for all of its gang."""

    text = "node(s) could be freed, but not enough for all members"


class Ineligible(Enum):
    """Why no other is evicted for a pod, whatever its nodes look like."""

    NEVER = "not eligible due to preemptionPolicy=Never."
    VICTIMS_LEAVING = "not eligible due to a terminating pod on the nominated node."


@dataclass(frozen=True, slots=True)
class Unhelped:
    """Why evictions do not help a pod: by node, how many for each reason, or for the pod as a whole.

    ``str()`` is what kube-scheduler puts behind its sentence. Its plugin for dynamic resources speaks
    first, also of pods that have no claims.
    """

    nodes: int
    counts: tuple[tuple[Reason, int], ...] = ()
    ineligible: Ineligible | None = None

    def __str__(self) -> str:
        if self.ineligible is not None:
            why = self.ineligible.value
        else:
            counts: dict[str, int] = {}
            for reason, number in self.counts:
                counts[str(reason)] = counts.get(str(reason), 0) + number
            why = available_message(self.nodes, counts)
        return f"no new claims to deallocate, preemption: {why}"


@dataclass(frozen=True, slots=True)
class NotAsked:
    """The pod was refused before any node was looked at, so that preemption was not even asked.

    kube-scheduler's plugin for dynamic resources then misses its own notes on the pod, and says so.
    """

    def __str__(self) -> str:
        return "not found"


def available_message(nodes: int, counts: dict[str, int]) -> str:
    """kube-scheduler's sentence; the parts are sorted as strings, so "10 x" comes before "2 y".

    >>> available_message(5, {"Insufficient cpu": 2, "node(s) had untolerated taint(s)": 3})
    '0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s).'
    """
    parts = sorted(f"{count} {text}" for text, count in counts.items() if count)
    return f"0/{nodes} nodes are available:" + (f" {', '.join(parts)}." if parts else "")
