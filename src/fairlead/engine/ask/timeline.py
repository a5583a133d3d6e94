"""What happened to pods, nodes and policies, told from how their objects changed: one line for each change.

A watch shows objects, not decisions. Who made room for whom, and why, stands in conditions that a scheduler
writes before it evicts, and in events. The subtle thing is a first look: what is there already was decided
before, so it is told with the time that its conditions say, and only what can still be seen of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.engine.gangs.membership import gang_of, shown
from fairlead.engine.snapshot.evicted import CONDITION as EVICTED
from fairlead.engine.snapshot.evicted import is_preempted, is_released
from fairlead.kube.event import Event
from fairlead.kube.meta import Condition
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod

KINDS = {
    "chapter": "a part of a demonstration begins",
    "created": "a pod was created and waits for a node",
    "held": "a scheduler found no node for the pod",
    "waits": "a gang waits for more of its members",
    "placed": "a scheduler gave the pod a node",
    "runs": "the pod is ready on its node",
    "preempted": "the pod makes room for one that is more important",
    "moved": "the pod is recreated on nodes of the tier where it belongs",
    "evicted": "the pod was evicted by something else than a scheduler",
    "released": "a member of a gang that could not be completed gives its node back",
    "leaves": "the pod is being deleted",
    "ended": "the pod finished",
    "gone": "the pod is gone",
    "scale-up": "an autoscaler brings a node for the pod",
    "node-ready": "a node is there and ready",
    "node-lost": "a node is there and not ready",
    "node-gone": "a node was removed",
    "marked": "a policy leaves a tier alone for a while",
    "unmarked": "a policy uses a tier again",
}
"""Every kind of happening, and what it means."""

# Reason of an event → the kind of what it says. What pods and their conditions say as well is left out.
_EVENTS = {
    "WaitingForGang": "waits",
    "Preempted": "preempted",
    "GangIncomplete": "released",
    "Rebalanced": "moved",
    "TriggeredScaleUp": "scale-up",
    "Nominated": "scale-up",  # Karpenter's word for it
}
REASONS = tuple(_EVENTS)
"""The reasons of the events that tell something."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One line. `about` is ``namespace/name`` of a pod, or the bare name of a node or policy.

    `by` is the unit for which a pod makes room, as far as it is known.
    """

    at: float
    kind: str
    about: str
    text: str
    node: str = ""
    gang: str = ""
    by: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain data; what is empty is left out."""
        found = {"at": self.at, "kind": self.kind, "about": self.about, "text": self.text}
        more = {"node": self.node, "gang": self.gang, "by": self.by}
        return found | {name: value for name, value in more.items() if value}


def of_pod(old: Pod | None, new: Pod | None, now: float) -> Iterator[Happening]:
    """What happened between two states of a pod; None is one that is not there."""
    if new is None:
        if old is not None:
            yield _of(old, now, "gone", "is gone")
        return
    if old is None:
        yield _of(new, now, "created", "is created")
    yield from _decided(old, new, now)
    if _ready(new) and (old is None or not _ready(old)) and new.metadata.deletion_timestamp is None:
        yield _of(new, now, "runs", f"runs on {new.spec.node_name}")
    yield from _leaving(old, new, now)
    if new.terminal and (old is None or not old.terminal):
        yield _of(new, now, "ended", f"finished: {new.status.phase}")


def before(pod: Pod) -> Iterator[Happening]:
    """What a pod that is there already can still say of what happened to it."""
    for one in pod.status.conditions:
        at = one.last_transition_time.timestamp() if one.last_transition_time is not None else None
        if at is None:
            continue
        if one.type == "PodScheduled" and one.status == "True":
            yield _of(pod, at, "placed", f"placed on {pod.spec.node_name}")
        elif one.type == "PodScheduled" and one.reason == "Unschedulable":
            yield _of(pod, at, "held", one.message or "no node takes it")
        elif one.type in (EVICTED, "DisruptionTarget") and one.status == "True":
            yield _evicted(pod, one, at)


def of_node(old: Node | None, new: Node | None, name: str, now: float) -> Happening | None:
    """What happened between two states of a node."""
    if new is None:
        return Happening(now, "node-gone", name, "was removed", name)
    if new.ready and (old is None or not old.ready):
        return Happening(now, "node-ready", name, "is ready", name)
    if not new.ready and old is not None and old.ready:
        return Happening(now, "node-lost", name, "is not ready", name)
    return None


def of_event(event: Event) -> Happening | None:
    """What an event tells that no object shows."""
    kind = _EVENTS.get(event.reason)
    about = event.involved_object
    if kind is None or about.kind != "Pod" or event.at is None:
        return None
    key = f"{about.namespace}/{about.name}"
    by = _preemptor(event.message) if kind == "preempted" else ""
    return Happening(event.at.timestamp(), kind, key, event.message, by=by)


def of_marks(policy: str, old: Mapping[str, str], new: Mapping[str, str], now: float) -> Iterator[Happening]:
    """Tiers of a policy that are left alone from now on, each with why, and those that are used again."""
    for tier in sorted(new.keys() - old.keys()):
        why = f": {new[tier]}" if new[tier] else ""
        yield Happening(now, "marked", policy, f"leaves tier {tier} alone{why}")
    for tier in sorted(old.keys() - new.keys()):
        yield Happening(now, "unmarked", policy, f"uses tier {tier} again")


def _decided(old: Pod | None, new: Pod, now: float) -> Iterator[Happening]:
    if new.spec.node_name:
        if old is None or not old.spec.node_name:
            yield _of(new, now, "placed", f"placed on {new.spec.node_name}")
        return
    refused = _condition(new, "PodScheduled")
    if refused is None or refused.reason != "Unschedulable":
        return
    known = _condition(old, "PodScheduled") if old is not None else None
    if known is None or (known.reason, known.message) != (refused.reason, refused.message):
        yield _of(new, now, "held", refused.message or "no node takes it")


def _leaving(old: Pod | None, new: Pod, now: float) -> Iterator[Happening]:
    """Why a pod leaves, once: conditions that say so come before the deletion."""
    why = _disruption(new)
    if why is not None and (old is None or _disruption(old) is None):
        yield _evicted(new, why, now)
    leaves = new.metadata.deletion_timestamp is not None
    left = old is not None and old.metadata.deletion_timestamp is not None
    # What was evicted has been told already, and needs no second line.
    if leaves and not left and why is None:
        where = f" {new.spec.node_name}" if new.spec.node_name else ""
        yield _of(new, now, "leaves", f"leaves{where}: it is being deleted")


def _evicted(pod: Pod, why: Condition, at: float) -> Happening:
    words = why.message or why.reason
    if is_released(pod):
        return _of(pod, at, "released", words)
    if is_preempted(pod):
        return _of(pod, at, "preempted", words, _preemptor(words))
    return _of(pod, at, "evicted", f"leaves {pod.spec.node_name}: {words}")


def _disruption(pod: Pod) -> Condition | None:
    """What says that a pod is being evicted: a scheduler's own condition before Kubernetes'."""
    for kind in (EVICTED, "DisruptionTarget"):
        found = _condition(pod, kind)
        if found is not None and found.status == "True":
            return found
    return None


def _preemptor(message: str) -> str:
    """The unit for which a pod makes room, of the sentence that says so.

    >>> _preemptor("Preempted by shop/high on node n1"), _preemptor("Preempted by gang ml/train on node n1")
    ('shop/high', 'gang ml/train')
    """
    _, by, rest = message.partition("Preempted by ")
    return rest.partition(" on node ")[0].removeprefix("pod ") if by else ""


def _of(pod: Pod, at: float, kind: str, text: str, by: str = "") -> Happening:
    gang = shown(gang_of(pod.metadata, pod.spec))
    return Happening(at, kind, pod.metadata.key, text, pod.spec.node_name, gang, by)


def _ready(pod: Pod) -> bool:
    found = _condition(pod, "Ready")
    return found is not None and found.status == "True"


def _condition(pod: Pod, kind: str) -> Condition | None:
    return next((one for one in pod.status.conditions if one.type == kind), None)
