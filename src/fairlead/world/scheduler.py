"""The default scheduler of the embedded cluster: kube-scheduler's rules and ranking, one pod at a time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from fairlead.engine.requests import PODS, allocatable, requests_of
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.tolerations import tolerated
from fairlead.world.controllers.objects import (
    condition,
    finished,
    key_of,
    stamp,
    terminating,
    with_condition,
    with_status,
)
from fairlead.world.controllers.writes import Bind, Emit, Obj, Update, View, Write

__all__ = ["Scheduler"]


class Scheduler:
    name = "default-scheduler"
    watches = ("Pod", "Node")

    def __init__(self) -> None:
        self._waiting: dict[str, None] = {}

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        if kind == "Pod":
            if new is None or new["spec"].get("nodeName") or finished(new) or terminating(new):
                self._waiting.pop(key_of(new or old), None)
                return list(self._waiting) if new is None or finished(new) else []
            if new["spec"].get("schedulerName", self.name) != self.name:
                return []
            key = key_of(new)
            known = key in self._waiting
            self._waiting[key] = None
            return [] if known else [key]
        return list(self._waiting)

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        pod = view.get("Pod", *key.split("/"))
        if pod is None or pod["spec"].get("nodeName") or finished(pod) or terminating(pod):
            return []
        typed = convert(pod, Pod)
        asked = dict(requests_of(typed).amounts)
        best: tuple[int, str] | None = None
        for node in view.all("Node"):
            fit = convert(node, Node)
            if fit.spec.unschedulable or any(
                t.effect != "PreferNoSchedule" and not tolerated(t, typed.spec.tolerations)
                for t in fit.spec.taints
            ):
                continue
            name = fit.metadata.name
            room = allocatable(name, fit.status.allocatable)
            pods = [p for p in view.pods_on(name) if not finished(p)]
            for p in pods:
                for r, a in requests_of(convert(p, Pod)).amounts:
                    room[r] = room.get(r, 0) - a
            if len(pods) + 1 > room.get(PODS, 0) or any(a > room.get(r, 0) for r, a in asked.items()):
                continue
            if best is None or (len(pods), name) < best:
                best = (len(pods), name)
        if best is not None:
            return [
                Bind(pod, best[1]),
                Emit(
                    pod, "Scheduled", f"Successfully assigned {key} to {best[1]}", self.name, action="Binding"
                ),
            ]
        message = f"0/{len(list(view.all('Node')))} nodes are available"
        said = condition(pod, "PodScheduled")
        if said is not None and said.get("message") == message:
            return []
        new = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": stamp(now),
            "reason": "Unschedulable",
            "message": message,
        }
        status = pod.get("status") or {}
        return [
            Update(
                with_status(
                    pod, {**status, "conditions": with_condition(status.get("conditions") or [], new)}
                ),
                "status",
            ),
            Emit(pod, "FailedScheduling", message, self.name, "Warning", "Scheduling"),
        ]
