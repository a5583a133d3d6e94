"""How far a tenant is: pending → node requested → node ready → scheduled → running, and why no further.

Pure: from what a cluster shows of the tenant's pods, their events and the nodes they may go to. A tenant is
as far as the least of its pods. An object that others depend on is ready when its kind says so, each in its
own way (`readiness`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

from fairlead.kube.decode import convert
from fairlead.kube.event import Event
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.node import Node
from fairlead.kube.tolerations import Toleration, tolerated
from fairlead.policy.tiers.fallback import PROMISES, is_schedulable

Object = dict[str, Any]

# Why a pod waits, as schedulers and autoscalers say it.
_NO_NODE = "NotTriggerScaleUp"
_REASONS = ("FailedScheduling", _NO_NODE, "FailedScaleUp")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Stage(IntEnum):
    """The stages in their order."""

    PENDING = 0
    NODE_REQUESTED = 1
    NODE_READY = 2
    SCHEDULED = 3
    RUNNING = 4

    @property
    def text(self) -> str:
        """As users read it.

        >>> Stage.NODE_REQUESTED.text
        'node requested'
        """
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class Progress:
    """A stage, why it goes no further, and the pods: ready of wanted, and on which nodes."""

    stage: Stage
    reason: str = ""
    ready: int = 0
    wanted: int = 0
    nodes: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """Whether all there should be is running."""
        return self.stage is Stage.RUNNING


@dataclass(frozen=True, slots=True)
class Seen:
    """What a cluster shows of one tenant."""

    deployment: Object | None
    pods: Sequence[Object] = ()
    events: Sequence[Event] = ()
    nodes: Sequence[Node] = ()
    """Those that the tenant's node selector admits."""
    claims: Sequence[Object] = ()
    """Karpenter's NodeClaims."""


def progress_of(seen: Seen) -> Progress:
    """How far the tenant is."""
    if seen.deployment is None:
        return Progress(Stage.PENDING, "its Deployment is not there")
    spec, status = seen.deployment["spec"], seen.deployment.get("status") or {}
    wanted = spec.get("replicas", 1)
    pods = [pod for pod in seen.pods if is_living(pod)]
    nodes = sorted({pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")})
    ready = sum(_true(pod, "Ready") for pod in pods)

    def found(stage: Stage, reason: str = "") -> Progress:
        return Progress(stage, reason, ready, wanted, tuple(nodes))

    if status.get("observedGeneration", 0) < seen.deployment["metadata"].get("generation", 0):
        return found(Stage.PENDING, "its controller has not seen it yet")
    current = status.get("updatedReplicas", 0) >= wanted and status.get("replicas", 0) <= wanted
    if current and status.get("availableReplicas", 0) >= wanted and ready >= wanted:
        return found(Stage.RUNNING)
    least = min(((*_pod_stage(pod, seen), pod) for pod in pods), key=lambda one: one[0], default=None)
    if least is not None and least[0] < Stage.RUNNING:
        return found(least[0], least[1])
    if len(pods) < wanted:
        failure: Object = next(
            (one for one in status.get("conditions") or () if one.get("type") == "ReplicaFailure"), {}
        )
        return found(Stage.PENDING, failure.get("message") or f"{len(pods)} of {wanted} pods are there")
    return found(Stage.SCHEDULED, "its pods are being replaced")


def is_living(pod: Mapping[str, Any]) -> bool:
    """Whether a pod counts: neither finished nor on its way out."""
    finished = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not finished and not pod["metadata"].get("deletionTimestamp")


def _pod_stage(pod: Object, seen: Seen) -> tuple[Stage, str]:
    if _true(pod, "Ready"):
        return Stage.RUNNING, ""
    name = pod["metadata"]["name"]
    if node := pod["spec"].get("nodeName"):
        return Stage.SCHEDULED, f"pod {name} on {node}: {_container_reason(pod)}"
    events = sorted(
        (one for one in seen.events if one.involved_object.uid == pod["metadata"]["uid"]),
        key=lambda one: one.at or _LONG_AGO,
    )
    said = [one for one in events if _meant(one) in (*PROMISES, _NO_NODE, "FailedScaleUp")]
    if not said or said[-1].reason not in PROMISES:
        return Stage.PENDING, f"pod {name}: {_waiting_reason(pod, events)}"
    if node := _ready_node(pod, said[-1], seen.nodes):
        return Stage.NODE_READY, f"pod {name}: node {node} is ready"
    return Stage.NODE_REQUESTED, f"pod {name}: {_on_its_way(said[-1], seen.claims)}"


def _meant(event: Event) -> str:
    """An event's reason; Karpenter's own no has the scheduler's, and only its name tells them apart."""
    refused = event.reason == "FailedScheduling" and event.reporter == "karpenter"
    return _NO_NODE if refused else event.reason


def _ready_node(pod: Object, promise: Event, nodes: Iterable[Node]) -> str:
    """The node that came for the pod: the one that was named, or else a new one that it may go to."""
    made = convert(pod["metadata"], ObjectMeta).creation_timestamp
    tolerations = [convert(one, Toleration) for one in pod["spec"].get("tolerations") or ()]
    for node in nodes:
        if not is_schedulable(node, tolerations) or not node.ready:
            continue
        named = f"node/{node.metadata.name}" in promise.message.replace(",", " ").split()
        born = node.metadata.creation_timestamp
        new = made is not None and born is not None and born >= made
        repels = any(
            taint.effect != "PreferNoSchedule" and not tolerated(taint, tolerations)
            for taint in node.spec.taints
        )
        if named or (new and not repels):
            return node.metadata.name
    return ""


def _on_its_way(promise: Event, claims: Iterable[Object]) -> str:
    """What was promised, and what Karpenter's NodeClaim says of it."""
    for claim in claims:
        if f"nodeclaim/{claim['metadata']['name']}" not in promise.message.replace(",", " ").split():
            continue
        for condition in (claim.get("status") or {}).get("conditions") or ():
            if condition.get("status") != "True" and condition.get("type") in (
                "Launched",
                "Registered",
                "Initialized",
            ):
                return f"{promise.message}: not {condition['type']}: {condition.get('message', '')}"
    return promise.message


def _waiting_reason(pod: Object, events: Sequence[Event]) -> str:
    gates = [one["name"] for one in pod["spec"].get("schedulingGates") or ()]
    if gates:
        return f"held by scheduling gates: {', '.join(gates)}"
    latest = {_meant(one): one.message for one in events if _meant(one) in _REASONS}
    conditions = (pod.get("status") or {}).get("conditions") or ()
    scheduled: Object = next((one for one in conditions if one.get("type") == "PodScheduled"), {})
    if scheduled.get("status") == "False" and scheduled.get("message"):
        latest["FailedScheduling"] = scheduled["message"]  # written at every attempt; events are not
    said = [latest[reason] for reason in _REASONS if reason in latest]
    if said:
        return "; ".join(said)
    scheduler = pod["spec"].get("schedulerName", "default-scheduler")
    return f"no scheduler has looked at it (schedulerName {scheduler})"


def _container_reason(pod: Object) -> str:
    status = pod.get("status") or {}
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (one.get("state") or {}).get("waiting")
        if waiting:
            return ": ".join(part for part in (waiting.get("reason", ""), waiting.get("message", "")) if part)
    return (
        "started, not ready yet" if status.get("phase") == "Running" else "its containers are being started"
    )


def _true(item: Mapping[str, Any], kind: str) -> bool:
    conditions = (item.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == kind and one.get("status") == "True" for one in conditions)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Why an object is not ready yet, if it is not; `failed` when it never will be."""

    reason: str = ""
    failed: bool = False

    @property
    def ready(self) -> bool:
        """Whether what depends on it may be applied."""
        return not self.reason


def readiness(item: Mapping[str, Any]) -> Readiness:
    """Whether what depends on the object may be applied.

    >>> readiness({"kind": "ConfigMap"}).ready
    True
    >>> readiness({"kind": "Job", "status": {}}).reason
    'it has not completed'
    """
    status = item.get("status") or {}
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    match item["kind"]:
        case "Job":
            if _true(item, "Failed"):
                return Readiness(f"it failed: {conditions['Failed'].get('message', '')}", failed=True)
            return Readiness("" if _true(item, "Complete") else "it has not completed")
        case "Deployment" | "StatefulSet" | "ReplicaSet":
            return _replicas(item, status)
        case "DaemonSet":
            wanted = status.get("desiredNumberScheduled", 0)
            current = status.get("observedGeneration", 0) >= item["metadata"].get("generation", 0)
            ready = status.get("numberAvailable", 0)
            return Readiness("" if current and ready >= wanted else f"{ready} of {wanted} pods are available")
        case "Pod":
            done = status.get("phase") == "Succeeded" or _true(item, "Ready")
            return Readiness("" if done else f"it is {status.get('phase', 'Pending')}, not ready")
        case "Namespace":
            return Readiness("" if status.get("phase", "Active") == "Active" else "it is being removed")
    # Unknown kinds with a condition for readiness are ready when it is true, the others at once.
    for kind in ("Ready", "Available", "Established"):
        if kind in conditions and not _true(item, kind):
            return Readiness(conditions[kind].get("message") or f"it is not {kind}")
    return Readiness()


def _replicas(item: Mapping[str, Any], status: Mapping[str, Any]) -> Readiness:
    wanted = item["spec"].get("replicas", 1)
    if status.get("observedGeneration", 0) < item["metadata"].get("generation", 0):
        return Readiness("its controller has not seen it yet")
    updated = status.get("updatedReplicas", 0) if item["kind"] != "ReplicaSet" else wanted
    ready = min(status.get("availableReplicas", 0), updated)
    return Readiness("" if ready >= wanted else f"{ready} of {wanted} pods are available")
