"""Node lifecycle: notices silent nodes and turns conditions into taints.

A node whose heartbeats stopped has unknown conditions after a grace period; unready and unreachable
nodes are tainted so that nothing new lands there (NoSchedule) and what is there is evicted in time
(NoExecute, see taint_eviction). Upstream's rate limits per zone are not modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from fairlead.world.controllers.objects import (
    condition,
    finished,
    is_ready,
    stamp,
    with_condition,
    with_status,
)
from fairlead.world.controllers.writes import Again, Emit, Obj, Patch, Update, View, Write

__all__ = ["NODE_GRACE", "NodeLifecycleController", "condition_taints"]

_COMPONENT = "node-controller"

# As kube-controller-manager's --node-monitor-grace-period.
NODE_GRACE = timedelta(seconds=50)

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

_TAINT_OF: dict[tuple[str, str], str] = {
    ("Ready", "False"): _NOT_READY,
    ("Ready", "Unknown"): _UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OURS = (*_TAINT_OF.values(), _UNSCHEDULABLE)


class NodeLifecycleController:
    """Keeps conditions and taints of nodes. `last_heartbeat` says since when a node is silent."""

    name = _COMPONENT
    watches = ("Node",)

    def __init__(
        self,
        last_heartbeat: Callable[[str], datetime | None] = lambda node: None,
        grace: timedelta = NODE_GRACE,
    ) -> None:
        self._last_heartbeat = last_heartbeat
        self._grace = grace

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """The node."""
        return [] if new is None else [new["metadata"]["name"]]

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Mark it unknown when silent for too long; then its taints; then its pods."""
        node = view.get("Node", "", key)
        if node is None:
            return []
        silent = self._last_heartbeat(key)
        if silent is not None:
            if now < silent + self._grace:
                return [*_taint(node, now), Again(silent + self._grace)]
            if (unknown := _unknown(node, now)) is not None:
                said = f"Node {key} status is now: NodeNotReady"
                return [Update(unknown, "status"), Emit(node, "NodeNotReady", said, _COMPONENT)]
        writes = _taint(node, now)
        if _ready(node) == "Unknown":
            writes += [write for pod in view.pods_on(key) for write in _unready_pod(pod, now)]
        return writes


def condition_taints(node: Obj, now: datetime) -> list[Obj]:
    """The node's taints as its conditions and cordon want them; others' taints stay where they are."""
    held = (node.get("spec") or {}).get("taints") or []
    wanted: list[tuple[str, str]] = []
    if (node.get("spec") or {}).get("unschedulable"):
        wanted.append((_UNSCHEDULABLE, "NoSchedule"))
    for each in (node.get("status") or {}).get("conditions") or ():
        key = _TAINT_OF.get((each["type"], each["status"]))
        if key is not None:
            wanted.append((key, "NoSchedule"))
            if each["type"] == "Ready":
                wanted.append((key, "NoExecute"))
    if condition(node, "Ready") is None:
        # Never heard of: the taint that the API server puts on new nodes stays.
        wanted += [(t["key"], t["effect"]) for t in held if t["key"] == _NOT_READY]
    kept = [t for t in held if t["key"] not in _OURS or (t["key"], t["effect"]) in wanted]
    have = [(t["key"], t["effect"]) for t in kept]
    return [
        *kept,
        *(
            {"key": key, "effect": effect, "timeAdded": stamp(now)}
            for key, effect in wanted
            if (key, effect) not in have
        ),
    ]


def _taint(node: Obj, now: datetime) -> list[Write]:
    held = (node.get("spec") or {}).get("taints") or []
    wanted = condition_taints(node, now)
    if wanted == held:
        return []
    # The version guards the list as a whole: somebody else's taint must not get lost.
    version = node["metadata"]["resourceVersion"]
    return [Patch(node, {"metadata": {"resourceVersion": version}, "spec": {"taints": wanted or None}})]


def _ready(node: Obj) -> str:
    said = condition(node, "Ready")
    return said["status"] if said is not None else ""


def _unknown(node: Obj, now: datetime) -> Obj | None:
    conditions = (node.get("status") or {}).get("conditions") or []
    before = conditions
    for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
        said = condition(node, kind)
        if said is not None and said["status"] == "Unknown":
            continue
        new = {
            "type": kind,
            "status": "Unknown",
            "lastHeartbeatTime": (said or {}).get("lastHeartbeatTime")
            or node["metadata"]["creationTimestamp"],
            "lastTransitionTime": stamp(now),
            "reason": "NodeStatusUnknown" if said is not None else "NodeStatusNeverUpdated",
            "message": "Kubelet stopped posting node status."
            if said is not None
            else "Kubelet never posted node status.",
        }
        conditions = with_condition(conditions, new)
    if conditions == before:
        return None
    return with_status(node, {**(node.get("status") or {}), "conditions": conditions})


def _unready_pod(pod: Obj, now: datetime) -> list[Write]:
    if not is_ready(pod) or finished(pod):
        return []
    said = {"type": "Ready", "status": "False", "lastProbeTime": None, "lastTransitionTime": stamp(now)}
    conditions = with_condition(pod["status"]["conditions"], said)
    return [Update(with_status(pod, {**pod["status"], "conditions": conditions}), "status")]
