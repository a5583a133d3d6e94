"""The default scheduler of the embedded cluster: kube-scheduler's rules, ranking and words.

It takes pods in kube-scheduler's order, highest priority and then oldest first. What fits nowhere is
marked Unschedulable, which is what autoscalers act on, and is looked at again when something changes
that could help. It does not preempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from fairlead.engine.classes import PodClass
from fairlead.engine.rules.verdicts import Verdicts
from fairlead.engine.rules.volume_matching import SELECTED_NODE
from fairlead.engine.snapshot.placed import Placed
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.errors import BadObject
from fairlead.kube.decode import convert
from fairlead.kube.pod import Pod
from fairlead.world.controllers.objects import (
    annotations_of,
    condition,
    finished,
    key_of,
    split_key,
    stamp,
    terminating,
    with_condition,
    with_status,
)
from fairlead.world.controllers.writes import Again, Bind, Emit, Obj, Patch, Update, View, Write

__all__ = ["NAME", "Scheduler", "unschedulable"]

NAME = "default-scheduler"

# Pods decided on in one go; the rest follows at once, but lets others on the loop take a turn.
_AT_ONCE = 256

_QUEUE = "queue"
_STORAGE = (
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
)


class Scheduler:
    """Binds pods of one scheduler name, by a snapshot that somebody keeps up to date (`Mirror`).

    A waiting pod is either in the queue or parked; invariant: a parked pod fitted nowhere when it was
    last looked at, and nothing that could help it has happened since.
    """

    name = NAME
    watches = ("Pod", "Node", "Namespace", "Service", *_STORAGE)

    def __init__(self, snapshot: Snapshot, scheduler_name: str = NAME) -> None:
        self._snapshot = snapshot
        self._scheduler_name = scheduler_name
        self._queue: dict[str, None] = {}
        self._parked: dict[str, bool] = {}  # key → whether other pods' arrival could help it
        self._unsaid: dict[str, None] = {}  # parked, but their condition was not yet seen to say so
        self.on_choice: Callable[[Obj, str, Verdicts], None] | None = None
        """Called with the pod, the chosen node and all verdicts, for those who want to know why."""

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """One queue: a new pod joins it, and what could help parked pods brings them back."""
        if kind != "Pod":
            # A node's heartbeat is no news; anything else about nodes or volumes may be.
            if kind == "Node" and old is not None and new is not None and _offer(old) == _offer(new):
                return []
            return self._wake()
        item = new or old
        assert item is not None
        key = key_of(item)
        if new is not None and _waits(new, self._scheduler_name):
            if unschedulable(new):
                self._unsaid.pop(key, None)
            if key in self._queue:
                return []
            if key in self._parked and old is not None and not _asks_anew(old, new):
                return []
            self._parked.pop(key, None)
            self._queue[key] = None
            return [_QUEUE]
        self._queue.pop(key, None)
        self._parked.pop(key, None)
        self._unsaid.pop(key, None)
        if new is None or finished(new) or terminating(new):
            return self._wake() if item["spec"].get("nodeName") else []
        if old is not None and not old["spec"].get("nodeName") and new["spec"].get("nodeName"):
            return self._wake(arrivals=True)
        return []

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Place as many of the queue as there is room for; say why the others wait.

        A pod leaves the queue when it is seen bound or parked, so a write that fails loses none.
        """
        for each in self._unsaid:
            self._parked.pop(each, None)
            self._queue[each] = None
        self._unsaid.clear()
        pods = [pod for each in self._queue if (pod := view.get("Pod", *split_key(each))) is not None]
        pods.sort(key=_urgency)
        writes: list[Write] = []
        hopeless: dict[PodClass, str] = {}
        with self._snapshot.trial():
            for pod in pods[:_AT_ONCE]:
                writes += self._decide(view, pod, now, hopeless)
        if len(pods) > _AT_ONCE:
            writes.append(Again(now))
        return writes

    def _decide(self, view: View, pod: Obj, now: datetime, hopeless: dict[PodClass, str]) -> list[Write]:
        """Where a pod goes. `hopeless`: classes that fit nowhere, as long as nothing was placed since."""
        key = key_of(pod)
        try:
            typed = convert(pod, Pod)
            cls = self._snapshot.class_of(typed)
            slot = -1 if cls in hopeless else self._snapshot.choose(cls)
        except BadObject as error:
            return self._park(pod, str(error), now, minds_others=False)
        if slot >= 0:
            node = self._snapshot.nodes.name(slot)
            if self.on_choice is not None:
                self.on_choice(pod, node, self._snapshot.verdicts(cls))
            placed = self._snapshot.assume(typed, slot, cls=cls)
            hopeless.clear()
            if placed.static or placed.provision:
                return self._order_volumes(view, pod, placed)
            said = f"Successfully assigned {key} to {node}"
            return [Bind(pod, node), Emit(pod, "Scheduled", said, NAME, action="Binding")]
        if cls not in hopeless:
            hopeless[cls] = self._snapshot.verdicts(cls).message() or ""
        message = hopeless[cls]
        return self._park(pod, message, now, minds_others=_minds_others(typed))

    def _order_volumes(self, view: View, pod: Obj, placed: Placed) -> list[Write]:
        """Say which volumes the pod gets or where they are to be made; it is bound when they are there."""
        key = key_of(pod)
        self._queue.pop(key, None)
        self._parked[key] = False
        writes: list[Write] = []
        for claim_key, volume_name in placed.static:
            claim = view.get("PersistentVolumeClaim", *split_key(claim_key))
            volume = view.get("PersistentVolume", "", volume_name)
            if claim is not None and volume is not None:
                meta = claim["metadata"]
                whose = {field: meta[field] for field in ("namespace", "name", "uid")}
                reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **whose}
                writes.append(Patch(volume, {"spec": {"claimRef": reference}}))
        for claim_key in placed.provision:
            claim = view.get("PersistentVolumeClaim", *split_key(claim_key))
            if claim is not None and annotations_of(claim).get(SELECTED_NODE) != placed.node:
                writes.append(Patch(claim, {"metadata": {"annotations": {SELECTED_NODE: placed.node}}}))
        return writes

    def _park(self, pod: Obj, message: str, now: datetime, *, minds_others: bool) -> list[Write]:
        key = key_of(pod)
        self._queue.pop(key, None)
        self._parked[key] = minds_others
        if not unschedulable(pod):
            self._unsaid[key] = None
        return _refuse(pod, message, now)

    def _wake(self, *, arrivals: bool = False) -> list[str]:
        woken = [key for key, minds in self._parked.items() if minds or not arrivals]
        for key in woken:
            del self._parked[key]
            self._queue[key] = None
        return [_QUEUE] if woken else []


def unschedulable(pod: Obj) -> bool:
    """Whether a pod says that no node has room for it: what autoscalers look for."""
    said = condition(pod, "PodScheduled")
    return bool(said is not None and said["status"] == "False" and said.get("reason") == "Unschedulable")


def _waits(pod: Obj, scheduler_name: str) -> bool:
    spec = pod["spec"]
    return bool(
        not spec.get("nodeName")
        and not finished(pod)
        and not terminating(pod)
        and not spec.get("schedulingGates")
        and (spec.get("schedulerName") or NAME) == scheduler_name
    )


def _asks_anew(old: Obj, new: Obj) -> bool:
    return bool(old["spec"] != new["spec"]) or old["metadata"].get("labels") != new["metadata"].get("labels")


def _urgency(pod: Obj) -> tuple[int, str, str]:
    return -(pod["spec"].get("priority") or 0), pod["metadata"].get("creationTimestamp") or "", key_of(pod)


def _offer(node: Obj) -> tuple[object, object, object]:
    status = node.get("status") or {}
    return node["metadata"].get("labels"), node.get("spec"), status.get("allocatable")


def _minds_others(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return bool(pod.spec.topology_spread_constraints) or (
        affinity is not None and affinity.pod_affinity is not None
    )


def _refuse(pod: Obj, message: str, now: datetime) -> list[Write]:
    said: Obj = {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": stamp(now),
        "reason": "Unschedulable",
        "message": message,
    }
    if generation := pod["metadata"].get("generation"):
        said["observedGeneration"] = generation
    before = condition(pod, "PodScheduled")
    # The event is said each time, as kube-scheduler does; the condition only when it changed.
    event = Emit(pod, "FailedScheduling", message, NAME, "Warning", "Scheduling")
    if before is not None and before["status"] == "False" and before.get("message") == message:
        return [event]
    status = pod.get("status") or {}
    conditions = with_condition(status.get("conditions") or [], said)
    return [Update(with_status(pod, {**status, "conditions": conditions}), "status"), event]
