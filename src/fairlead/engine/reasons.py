"""Why a node, or a whole pod, was refused: values first, words last.

The words are kube-scheduler's own, because people, dashboards and autoscalers read them. What only
Fairlead knows has words of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

__all__ = [
    "AffinityUnmet",
    "AntiAffinityUnmet",
    "ClaimInUse",
    "DiskConflict",
    "FeatureMissing",
    "Insufficient",
    "NodeAffinityMismatch",
    "NodeNameMismatch",
    "NodeReserved",
    "NodeShared",
    "NotAmongNames",
    "PortTaken",
    "Reason",
    "Rejection",
    "Repelled",
    "SpreadKeyMissing",
    "SpreadTooUneven",
    "TooManyPods",
    "TooManyVolumes",
    "Unschedulable",
    "UntoleratedTaint",
    "VolumeElsewhere",
    "VolumeNoMatch",
    "VolumeNoSpace",
    "VolumeZoneMismatch",
    "available_message",
]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one node was refused; ``str()`` gives the words, without the count."""

    text: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why the pod was refused everywhere at once, before any node was looked at.

    `resolvable`: whether evicting pods could change it. `sentence`: what is said instead of kube-scheduler's
    sentence about nodes, where it would not even have begun to look for one.
    """

    rule: str
    words: str
    resolvable: bool = False
    sentence: str = ""

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class Unschedulable(Reason):
    """The node is cordoned."""

    text: ClassVar[str] = "node(s) were unschedulable"


@dataclass(frozen=True, slots=True)
class NodeNameMismatch(Reason):
    """The pod names another node."""

    text: ClassVar[str] = "node(s) didn't match the requested node name"


@dataclass(frozen=True, slots=True)
class UntoleratedTaint(Reason):
    """A taint that the pod does not tolerate."""

    text: ClassVar[str] = "node(s) had untolerated taint(s)"


@dataclass(frozen=True, slots=True)
class NodeAffinityMismatch(Reason):
    """nodeSelector or required node affinity."""

    text: ClassVar[str] = "node(s) didn't match Pod's node affinity/selector"


@dataclass(frozen=True, slots=True)
class NotAmongNames(Reason):
    """Node affinity names nodes, and this is not one of them."""

    text: ClassVar[str] = "node(s) didn't satisfy plugin(s) [NodeAffinity]"


@dataclass(frozen=True, slots=True)
class PortTaken(Reason):
    """A host port is in use."""

    text: ClassVar[str] = "node(s) didn't have free ports for the requested pod ports"


@dataclass(frozen=True, slots=True)
class TooManyPods(Reason):
    """The node runs as many pods as it may."""

    text: ClassVar[str] = "Too many pods"


@dataclass(frozen=True, slots=True)
class Insufficient(Reason):
    """Not enough of a resource is free."""

    resource: str

    def __str__(self) -> str:
        return f"Insufficient {self.resource}"


@dataclass(frozen=True, slots=True)
class DiskConflict(Reason):
    """A disk of the pod is mounted there by another pod."""

    text: ClassVar[str] = "node(s) had no available disk"


@dataclass(frozen=True, slots=True)
class ClaimInUse(Reason):
    """A claim that only one pod may use is used by another."""

    text: ClassVar[str] = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod"
    )


@dataclass(frozen=True, slots=True)
class TooManyVolumes(Reason):
    """A CSI driver can attach no more volumes there."""

    text: ClassVar[str] = "node(s) exceed max volume count"


@dataclass(frozen=True, slots=True)
class VolumeElsewhere(Reason):
    """A bound volume cannot be reached from there."""

    text: ClassVar[str] = "node(s) didn't match PersistentVolume's node affinity"


@dataclass(frozen=True, slots=True)
class VolumeNoMatch(Reason):
    """No volume there can be bound to a claim, nor be made."""

    text: ClassVar[str] = "node(s) didn't find available persistent volumes to bind"


@dataclass(frozen=True, slots=True)
class VolumeNoSpace(Reason):
    """The storage reachable from there has too little room for a claim."""

    text: ClassVar[str] = "node(s) did not have enough free storage"


@dataclass(frozen=True, slots=True)
class VolumeZoneMismatch(Reason):
    """A bound volume is in another zone or region."""

    text: ClassVar[str] = "node(s) had no available volume zone"


@dataclass(frozen=True, slots=True)
class SpreadKeyMissing(Reason):
    """The node lacks a label that the pod is spread by."""

    text: ClassVar[str] = "node(s) didn't match pod topology spread constraints (missing required label)"


@dataclass(frozen=True, slots=True)
class SpreadTooUneven(Reason):
    """One more pod there would be too uneven."""

    text: ClassVar[str] = "node(s) didn't match pod topology spread constraints"


@dataclass(frozen=True, slots=True)
class AffinityUnmet(Reason):
    """The pods that it must be with are not there."""

    text: ClassVar[str] = "node(s) didn't match pod affinity rules"


@dataclass(frozen=True, slots=True)
class AntiAffinityUnmet(Reason):
    """Pods that it must not be with are there."""

    text: ClassVar[str] = "node(s) didn't match pod anti-affinity rules"


@dataclass(frozen=True, slots=True)
class Repelled(Reason):
    """A pod there must not be with it."""

    text: ClassVar[str] = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass(frozen=True, slots=True)
class FeatureMissing(Reason):
    """The node does not declare a feature that the pod needs."""

    text: ClassVar[str] = "node(s) didn't match Pod's required features"


@dataclass(frozen=True, slots=True)
class NodeReserved(Reason):
    """A Fairlead pod there has the node for itself."""

    text: ClassVar[str] = "node(s) were taken by a pod that has its node to itself"


@dataclass(frozen=True, slots=True)
class NodeShared(Reason):
    """The pod wants a node for itself and a Fairlead pod is there."""

    text: ClassVar[str] = "node(s) were in use while the pod needs a node to itself"


def available_message(nodes: int, counts: dict[str, int]) -> str:
    """kube-scheduler's sentence; the parts are sorted as strings, so "10 x" comes before "2 y".

    >>> available_message(5, {"Insufficient cpu": 2, "node(s) had untolerated taint(s)": 3})
    '0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s).'
    """
    parts = sorted(f"{count} {text}" for text, count in counts.items() if count)
    return f"0/{nodes} nodes are available:" + (f" {', '.join(parts)}." if parts else "")
