"""DaemonSet: one pod per node that it may run on, pinned by node affinity and placed by the scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from fairlead.errors import ApiError
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.pod import Affinity, NodeSelectorTerm, Pod
from fairlead.kube.tolerations import Toleration, tolerated
from fairlead.world.controllers.claims import claim_pods, owners_of_pod
from fairlead.world.controllers.objects import (
    available_at,
    finished,
    is_ready,
    key_of,
    labels_of,
    pod_from_template,
    split_key,
    terminating,
    with_status,
)
from fairlead.world.controllers.replicaset import slow_start
from fairlead.world.controllers.revisions import REVISION_LABEL, revisions_of, settle, truncate
from fairlead.world.controllers.rollout import scaled
from fairlead.world.controllers.writes import Again, Create, Delete, Emit, Obj, Update, View, Write

__all__ = ["DaemonSetController", "daemon_pod"]

_COMPONENT = "daemonset-controller"

# What daemons put up with, whatever their template says.
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


class DaemonSetController:
    """Keeps each DaemonSet's pods."""

    name = _COMPONENT
    watches = ("DaemonSet", "Pod", "Node", "ControllerRevision")

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """The DaemonSet; of a pod or revision, its owner; of a node that came, went or changed, all."""
        if kind == "DaemonSet":
            item = new or old
            return [key_of(item)] if item else []
        if kind == "Node":
            if old is not None and new is not None and _face(old) == _face(new):
                return []
            return [key_of(each) for each in view.all("DaemonSet")]
        return [*owners_of_pod(view, "DaemonSet", new), *owners_of_pod(view, "DaemonSet", old)]

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
        wanted = [node.metadata.name for node in nodes if _may_run(owner, node)]
        kept = [node.metadata.name for node in nodes if _may_run(owner, node, only="NoExecute")]
        by_node: dict[str, list[Obj]] = {}
        for pod in pods:
            by_node.setdefault(_home(pod), []).append(pod)
        steps = []
        if not terminating(owner):
            steps = _place(owner, update, wanted, kept, by_node) or _roll(owner, update, wanted, by_node, now)
            steps = steps or truncate(owner, revisions, (update["metadata"]["name"],), pods)
        return [*steps, *_say(owner, update, wanted, by_node, now)]


def daemon_pod(owner: Obj, node: Node) -> Pod | None:
    """The pod that the DaemonSet would put on a node, as if it were there; None when it would not."""
    if not _may_run(owner, node):
        return None
    made = _pod(owner, "", node.metadata.name)
    name = f"{owner['metadata']['name']}-on-{node.metadata.name}"
    return convert({**made, "metadata": {**made["metadata"], "name": name}}, Pod)


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


def _may_run(owner: Obj, node: Node, *, only: str = "") -> bool:
    # A new pod needs all taints tolerated; one that is there may stay if only NoExecute ones are.
    spec = owner["spec"]["template"]["spec"]
    held = node.metadata.labels
    if any(held.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = convert(spec.get("affinity") or {}, Affinity).node_affinity
    if affinity is not None and affinity.required is not None:
        name = node.metadata.name
        if not any(_term_holds(term, held, name) for term in affinity.required.node_selector_terms):
            return False
    tolerations = [
        convert(each, Toleration) for each in (*(spec.get("tolerations") or ()), *_tolerations(spec))
    ]
    hard = [t for t in node.spec.taints if t.effect == only or (not only and t.effect != "PreferNoSchedule")]
    return all(tolerated(taint, tolerations) for taint in hard)


def _term_holds(term: NodeSelectorTerm, held: dict[str, str], name: str) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False  # an empty term selects nothing
    return all(each.admits(held) for each in term.match_expressions) and all(
        each.admits({"metadata.name": name}) for each in term.match_fields
    )


def _tolerations(spec: Obj) -> list[Obj]:
    wanted = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
    if spec.get("hostNetwork"):
        key = "node.kubernetes.io/network-unavailable"
        wanted.append({"key": key, "operator": "Exists", "effect": "NoSchedule"})
    return wanted


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
            missing.append(_creation(owner, update, node))
    for node, pods in by_node.items():
        if node not in kept:
            writes += [write for pod in pods if not terminating(pod) for write in _deletion(owner, pod)]

    def refused(error: ApiError) -> list[Write]:
        return [Emit(owner, "FailedCreate", f"Error creating: {error.message}", _COMPONENT, "Warning")]

    return [*writes, *slow_start(missing, refused)]


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


def _creation(owner: Obj, update: Obj, node: str) -> Create:
    def created(made: Obj) -> list[Write]:
        return [Emit(owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}", _COMPONENT)]

    return Create(_pod(owner, update["metadata"]["name"], node), created)


def _pod(owner: Obj, revision: str, node: str) -> Obj:
    pod = pod_from_template(owner["spec"]["template"], owner)
    pod["metadata"]["labels"][REVISION_LABEL] = revision
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pin]}}
    pod["spec"] = {
        **spec,
        "affinity": {**affinity, "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), **required}},
        "tolerations": [*(spec.get("tolerations") or ()), *_tolerations(spec)],
    }
    return pod


def _deletion(owner: Obj, pod: Obj) -> list[Write]:
    said = f"Deleted pod: {pod['metadata']['name']}"
    return [Delete(pod), Emit(owner, "SuccessfulDelete", said, _COMPONENT)]


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
    old = owner.get("status") or {}
    status: Obj = {
        "currentNumberScheduled": len(held),
        "numberMisscheduled": strays,
        "desiredNumberScheduled": len(wanted),
        "numberReady": ready,
        "observedGeneration": owner["metadata"].get("generation", 0),
        **{name: count for name, count in counts.items() if count},
    }
    writes: list[Write] = [] if status == old else [Update(with_status(owner, status), "status")]
    later = [at for at in times if at > now]
    return [*writes, Again(min(later))] if later else writes
