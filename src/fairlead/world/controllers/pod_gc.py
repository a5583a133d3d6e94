"""Pod garbage collection: pods whose node is gone for good, and pods that were told to go unbound."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from fairlead.world.controllers.objects import (
    condition,
    finished,
    key_of,
    split_key,
    stamp,
    terminating,
    with_condition,
    with_status,
)
from fairlead.world.controllers.writes import Again, Delete, Obj, Update, View, Write

__all__ = ["PodGCController"]

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
                self._missing.pop(home, None)  # whoever comes next is given the whole time again
            return []
        if not home:
            return [key_of(new)] if terminating(new) else []
        node = view.get("Node", "", home)
        if node is None:
            self._missing.setdefault(home, now)
            return [key_of(new)]
        return [key_of(new)] if terminating(new) and _out_of_service(node) else []

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Mark it failed and remove it, if it is certain that nobody runs it."""
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
    status = pod.get("status") or {}
    writes: list[Write] = []
    if not finished(pod):
        conditions = status.get("conditions") or []
        if gone:
            conditions = with_condition(
                conditions,
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": stamp(now),
                    "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists",
                },
            )
        failed = {**status, "phase": "Failed", **({"conditions": conditions} if conditions else {})}
        writes.append(Update(with_status(pod, failed), "status"))
    return [*writes, Delete(pod, grace_s=0)]
