"""Taint eviction: pods leave nodes with NoExecute taints, at once or when their toleration runs out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from fairlead.kube.decode import convert
from fairlead.kube.tolerations import Taint, Toleration
from fairlead.world.controllers.objects import (
    finished,
    key_of,
    parse_time,
    split_key,
    stamp,
    terminating,
    with_condition,
    with_status,
)
from fairlead.world.controllers.writes import Again, Delete, Emit, Obj, Update, View, Write

__all__ = ["TaintEvictionController"]

_COMPONENT = "taint-eviction-controller"


class TaintEvictionController:
    """Deletes what does not tolerate its node's NoExecute taints.

    A toleration with seconds runs from when the taint came, or the pod, whichever is later. Taints
    that do not say when they came count from when they were first seen here.
    """

    name = _COMPONENT
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
        said = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": stamp(now),
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }
        status = pod.get("status") or {}
        marked = with_status(
            pod, {**status, "conditions": with_condition(status.get("conditions") or [], said)}
        )
        return [
            Emit(pod, "TaintManagerEviction", f"Marking for deletion Pod {key}", _COMPONENT),
            Update(marked, "status"),
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
