"""What befalls nodes, and the pods on them: three controllers.

Node lifecycle notices silent nodes and turns conditions into taints: a node whose heartbeats stopped has
unknown conditions after a grace period; unready and unreachable nodes are tainted so that nothing new lands
there (NoSchedule) and what is there is evicted in time (NoExecute). Taint eviction does that, and pod
garbage collection ends pods whose node is gone for good. Upstream's rate limits per zone are not modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from fairlead.kube.decode import convert
from fairlead.kube.tolerations import Taint, Toleration
from fairlead.world.controllers.writes import (
    Again,
    Delete,
    Emit,
    Obj,
    Patch,
    Update,
    View,
    Write,
    status_writes,
)
from fairlead.world.objects import (
    condition,
    finished,
    is_ready,
    key_of,
    new_condition,
    parse_time,
    split_key,
    stamp,
    terminating,
    with_condition,
    with_status,
)

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


def _condition_taints(node: Obj, now: datetime) -> list[Obj]:
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
        # No heartbeat yet: the taint that the API server puts on new nodes stays.
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
    wanted = _condition_taints(node, now)
    if wanted == held:
        return []
    # The version guards the list as a whole: a taint of another writer must not get lost.
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
        heartbeat = (said or {}).get("lastHeartbeatTime") or node["metadata"]["creationTimestamp"]
        reason, message = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
        if said is None:
            reason, message = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
        new = new_condition(kind, "Unknown", reason, message, now, lastHeartbeatTime=heartbeat)
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


class TaintEvictionController:
    """Deletes what does not tolerate its node's NoExecute taints.

    A toleration with seconds runs from when the taint came, or the pod, whichever is later. Taints
    that do not say when they came count from when they were first seen here.
    """

    name = "taint-eviction-controller"
    watches = ("Node", "Pod")

    def __init__(self) -> None:
        self._since: dict[tuple[str, str, str], datetime] = {}
        self._arrived: dict[str, datetime] = {}

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """Pods that came to a node, and all pods of a node whose taints changed."""
        if kind == "Pod":
            if new is None:
                if old is not None:
                    self._arrived.pop(old["metadata"]["uid"], None)
                return []
            home = new["spec"].get("nodeName")
            if not home:
                return []
            moved = old is None or not old["spec"].get("nodeName")
            if moved:
                self._arrived[new["metadata"]["uid"]] = now
            if (
                not moved
                and old is not None
                and old["spec"].get("tolerations") == new["spec"].get("tolerations")
            ):
                return []
            node = view.get("Node", "", home)
            return [key_of(new)] if node is not None and _evicting(node) else []
        item = new or old
        assert item is not None
        name = item["metadata"]["name"]
        before = _evicting(old) if old is not None else []
        after = _evicting(new) if new is not None else []
        if before == after:
            return []
        for taint in before:
            if taint not in after:
                self._since.pop((name, taint.key, taint.value), None)
        for taint in after:
            self._since.setdefault((name, taint.key, taint.value), now)
        return [key_of(pod) for pod in view.pods_on(name)] if after else []

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Delete the pod if its time on the node is over."""
        pod = view.get("Pod", *split_key(key))
        if pod is None or terminating(pod) or finished(pod) or not pod["spec"].get("nodeName"):
            return []
        node = view.get("Node", "", pod["spec"]["nodeName"])
        if node is None:
            return []
        taints = _evicting(node)
        due = self._due(pod, node, taints, now) if taints else None
        if due is None:
            return []
        if now < due:
            return [Again(due)]
        reason, message = "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
        status = {**(pod.get("status") or {}), "conditions": _disrupted(pod, reason, message, now)}
        return [
            Emit(pod, "TaintManagerEviction", f"Marking for deletion Pod {key}", self.name),
            *status_writes(pod, status),
            Delete(pod),
        ]

    def _due(self, pod: Obj, node: Obj, taints: Sequence[Taint], now: datetime) -> datetime | None:
        # None: never. The earliest end among the tolerations used counts, from one common start.
        tolerations = [convert(each, Toleration) for each in pod["spec"].get("tolerations") or ()]
        limits_s = []
        for taint in taints:
            used = next((each for each in tolerations if each.covers(taint)), None)
            if used is None:
                return now
            if used.toleration_seconds is not None:
                limits_s.append(max(0, used.toleration_seconds))
        if not limits_s:
            return None
        start = max(
            min(self._start(node, taint, now) for taint in taints),
            self._arrived.get(pod["metadata"]["uid"], datetime.min.replace(tzinfo=now.tzinfo)),
        )
        return start + timedelta(seconds=min(limits_s))

    def _start(self, node: Obj, taint: Taint, now: datetime) -> datetime:
        for each in (node.get("spec") or {}).get("taints") or ():
            if each["key"] == taint.key and each.get("effect") == taint.effect and each.get("timeAdded"):
                return parse_time(each["timeAdded"])
        return self._since.get((node["metadata"]["name"], taint.key, taint.value), now)


def _evicting(node: Obj) -> list[Taint]:
    return [
        Taint(each["key"], "NoExecute", each.get("value") or "")
        for each in (node.get("spec") or {}).get("taints") or ()
        if each.get("effect") == "NoExecute"
    ]


# A node that was only re-registered comes back within this time.
_QUARANTINE = timedelta(seconds=40)

_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class PodGCController:
    """Force-deletes pods that no kubelet will ever end."""

    name = "pod-garbage-collector"
    watches = ("Node", "Pod")

    def __init__(self, quarantine: timedelta = _QUARANTINE) -> None:
        self._quarantine = quarantine
        self._missing: dict[str, datetime] = {}

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """Pods of nodes that are missing or out of service, and terminating pods without a node."""
        if kind == "Node":
            item = new or old
            assert item is not None
            name = item["metadata"]["name"]
            if new is not None:
                self._missing.pop(name, None)
                return [key_of(pod) for pod in view.pods_on(name)] if _out_of_service(new) else []
            pods = view.pods_on(name)
            if pods:
                self._missing.setdefault(name, now)
            return [key_of(pod) for pod in pods]
        item = new or old
        assert item is not None
        home = item["spec"].get("nodeName")
        if new is None:
            if home and not view.pods_on(home):
                self._missing.pop(home, None)  # the next node of this name gets the whole time again
            return []
        if not home:
            return [key_of(new)] if terminating(new) else []
        node = view.get("Node", "", home)
        if node is None:
            self._missing.setdefault(home, now)
            return [key_of(new)]
        return [key_of(new)] if terminating(new) and _out_of_service(node) else []

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Mark it failed and remove it, if it is certain that no kubelet runs it."""
        pod = view.get("Pod", *split_key(key))
        if pod is None:
            return []
        home = pod["spec"].get("nodeName")
        if not home:
            return _force(pod, now, gone=False) if terminating(pod) else []
        node = view.get("Node", "", home)
        if node is not None:
            return _force(pod, now, gone=False) if terminating(pod) and _out_of_service(node) else []
        since = self._missing.get(home, now)
        if now < since + self._quarantine:
            return [Again(since + self._quarantine)]
        return _force(pod, now, gone=True)


def _out_of_service(node: Obj) -> bool:
    ready = condition(node, "Ready")
    marked = any(t["key"] == _OUT_OF_SERVICE for t in (node.get("spec") or {}).get("taints") or ())
    return marked and (ready is None or ready["status"] != "True")


def _force(pod: Obj, now: datetime, *, gone: bool) -> list[Write]:
    meta = pod["metadata"]
    if (
        terminating(pod)
        and meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and finished(pod)
    ):
        return []  # all that can be done was done: its finalizers hold it
    if finished(pod):
        return [Delete(pod, grace_s=0)]
    failed = {**(pod.get("status") or {}), "phase": "Failed"}
    if gone:
        failed["conditions"] = _disrupted(pod, "DeletionByPodGC", "PodGC: node no longer exists", now)
    return [*status_writes(pod, failed), Delete(pod, grace_s=0)]


def _disrupted(pod: Obj, reason: str, message: str, now: datetime) -> list[Obj]:
    said = new_condition("DisruptionTarget", "True", reason, message, now, lastProbeTime=None)
    return with_condition((pod.get("status") or {}).get("conditions") or [], said)
