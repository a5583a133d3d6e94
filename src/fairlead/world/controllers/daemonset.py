"""DaemonSet: one pod per node that it may run on, pinned by node affinity and placed by the scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from fairlead.engine.ask.daemons import may_run, pod_on
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.workloads import REVISION_LABEL
from fairlead.world.controllers.revisions import revisions_of, settle, truncate
from fairlead.world.controllers.workload_pods import (
    claim_pods,
    creation,
    deleted,
    keys_of,
    refusal,
    slow_start,
)
from fairlead.world.controllers.writes import Delete, Obj, View, Write, status_writes
from fairlead.world.objects import (
    available_at,
    finished,
    is_ready,
    key_of,
    labels_of,
    scaled,
    split_key,
    terminating,
)

_COMPONENT = "daemonset-controller"


class DaemonSetController:
    """Keeps each DaemonSet's pods."""

    name = _COMPONENT
    watches = ("DaemonSet", "Pod", "Node", "ControllerRevision")

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """The DaemonSet; of a pod or revision, its owner; of a node that came, went or changed, all."""
        if kind == "Node":
            if old is not None and new is not None and _face(old) == _face(new):
                return []
            return [key_of(each) for each in view.all("DaemonSet")]
        return keys_of(view, "DaemonSet", kind, old, new)

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """One pod on each node that wants one, then the update, then the status."""
        owner = view.get("DaemonSet", *split_key(key))
        if owner is None:
            return []
        pods, writes = claim_pods(view, owner)
        revisions = revisions_of(view, owner)
        update, steps = settle(owner, revisions, (owner.get("status") or {}).get("collisionCount", 0))
        if writes or update is None:
            return [*writes, *steps]
        nodes = [convert(node, Node) for node in view.all("Node")]
        wanted = [node.metadata.name for node in nodes if may_run(owner, node)]
        kept = [node.metadata.name for node in nodes if may_run(owner, node, only="NoExecute")]
        by_node: dict[str, list[Obj]] = {}
        for pod in pods:
            by_node.setdefault(_home(pod), []).append(pod)
        steps = []
        if not terminating(owner):
            steps = _place(owner, update, wanted, kept, by_node) or _roll(owner, update, wanted, by_node, now)
            steps = steps or truncate(owner, revisions, (update["metadata"]["name"],), pods)
        return [*steps, *_say(owner, update, wanted, by_node, now)]


def _face(node: Obj) -> tuple[object, object, object]:
    spec = node.get("spec") or {}
    return labels_of(node), spec.get("taints"), spec.get("unschedulable")


def _home(pod: Obj) -> str:
    # Not bound yet: the node that its affinity pins it to.
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""


def _place(
    owner: Obj, update: Obj, wanted: Sequence[str], kept: Sequence[str], by_node: dict[str, list[Obj]]
) -> list[Write]:
    missing, writes = [], []
    for node in wanted:
        held = [pod for pod in by_node.get(node, ()) if not terminating(pod)]
        over = [pod for pod in held if finished(pod)]
        writes += [write for pod in over for write in _deletion(owner, pod)]
        alive = sorted((pod for pod in held if not finished(pod)), key=_age)
        writes += [write for pod in alive[1:] for write in _deletion(owner, pod)]
        if not by_node.get(node):
            pod = pod_on(owner, update["metadata"]["name"], node)
            missing.append(creation(owner, pod, _COMPONENT))
    for node, pods in by_node.items():
        if node not in kept:
            writes += [write for pod in pods if not terminating(pod) for write in _deletion(owner, pod)]

    return [*writes, *slow_start(missing, lambda error: [refusal(owner, error, _COMPONENT)])]


def _roll(
    owner: Obj, update: Obj, wanted: Sequence[str], by_node: dict[str, list[Obj]], now: datetime
) -> list[Write]:
    strategy = owner["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return []
    allowed = scaled((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1), len(wanted), up=True)
    old, unavailable = [], 0
    for node in wanted:
        pods = [pod for pod in by_node.get(node, ()) if not terminating(pod)]
        if not pods or not _available(owner, pods[0], now):
            unavailable += 1
        if pods and labels_of(pods[0]).get(REVISION_LABEL) != update["metadata"]["name"]:
            old.append(pods[0])
    unwell = [pod for pod in old if not _available(owner, pod, now)]
    well = [pod for pod in old if pod not in unwell]
    chosen = [*unwell, *well[: max(0, max(1, allowed) - unavailable)]]
    return [write for pod in chosen for write in _deletion(owner, pod)]


def _deletion(owner: Obj, pod: Obj) -> list[Write]:
    return [Delete(pod), deleted(owner, pod, _COMPONENT)]


def _available(owner: Obj, pod: Obj, now: datetime) -> bool:
    at = available_at(pod, owner["spec"].get("minReadySeconds", 0))
    return at is not None and at <= now


def _age(pod: Obj) -> tuple[bool, str, str]:
    bound = bool(pod["spec"].get("nodeName"))
    return not bound, pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]


def _say(
    owner: Obj, update: Obj, wanted: Sequence[str], by_node: dict[str, list[Obj]], now: datetime
) -> list[Write]:
    held = [pods[0] for node in wanted if (pods := [p for p in by_node.get(node, ()) if not terminating(p)])]
    ready = sum(1 for pod in held if is_ready(pod))
    times = [at for pod in held if (at := available_at(pod, owner["spec"].get("minReadySeconds", 0)))]
    available = sum(1 for at in times if at <= now)
    updated = sum(1 for pod in held if labels_of(pod).get(REVISION_LABEL) == update["metadata"]["name"])
    strays = sum(1 for node, pods in by_node.items() if node not in wanted and pods)
    counts = {
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
        "numberUnavailable": len(wanted) - available,
    }
    status: Obj = {
        "currentNumberScheduled": len(held),
        "numberMisscheduled": strays,
        "desiredNumberScheduled": len(wanted),
        "numberReady": ready,
        "observedGeneration": owner["metadata"].get("generation", 0),
        **{name: count for name, count in counts.items() if count},
    }
    return status_writes(owner, status, [at for at in times if at > now])
