"""PodDisruptionBudget status: how many pods are well, how many must be, how many may go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from fairlead.world.controllers.writes import Obj, Update, View, Write, status_writes
from fairlead.world.objects import (
    condition,
    controller_of,
    is_ready,
    key_of,
    labels_of,
    namespace_of,
    new_condition,
    parse_time,
    scaled,
    selects,
    split_key,
    terminating,
    with_condition,
    with_status,
)

# An eviction that was allowed but not followed by the pod's deletion is forgotten after this.
_FORGET = timedelta(minutes=2)

_SCALED = ("ReplicaSet", "StatefulSet", "ReplicationController", "Deployment")


class DisruptionController:
    """Keeps each budget's status; the eviction API only reads it."""

    name = "disruption-controller"
    watches = ("PodDisruptionBudget", "Pod", *_SCALED)

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """The budget; of a pod, all budgets that select it; of a workload, all whose size it may set."""
        item = new or old
        assert item is not None
        if kind == "PodDisruptionBudget":
            return [key_of(item)]
        budgets = view.all("PodDisruptionBudget", namespace_of(item))
        if not budgets:
            return []
        if kind == "Pod":
            return [
                key_of(each)
                for each in budgets
                if any(
                    pod is not None and selects(each["spec"].get("selector"), labels_of(pod))
                    for pod in (new, old)
                )
            ]
        if new is not None and old is not None and new["spec"].get("replicas") == old["spec"].get("replicas"):
            return []
        template = ((item["spec"].get("template") or {}).get("metadata") or {}).get("labels") or {}
        return [key_of(each) for each in budgets if selects(each["spec"].get("selector"), template)]

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Count, and say so when it changed."""
        budget = view.get("PodDisruptionBudget", *split_key(key))
        if budget is None:
            return []
        namespace = namespace_of(budget)
        selector = budget["spec"].get("selector")
        pods = [pod for pod in view.all("Pod", namespace) if selects(selector, labels_of(pod))]
        old = budget.get("status") or {}
        try:
            expected, desired = _expected(view, budget, pods)
        except LookupError as error:
            return _failsafe(budget, str(error), now)
        going = _disrupted(old.get("disruptedPods") or {}, pods, now)
        healthy = sum(
            1
            for pod in pods
            if not terminating(pod) and pod["metadata"]["name"] not in going and is_ready(pod)
        )
        allowed = max(0, healthy - desired) if expected > 0 else 0
        status: Obj = {
            "observedGeneration": budget["metadata"].get("generation", 0),
            **({"disruptedPods": going} if going else {}),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": _conditions(budget, allowed, now),
        }
        forgotten = [parse_time(at) + _FORGET + timedelta(seconds=1) for at in going.values()]
        return status_writes(budget, status, forgotten)


def desired_healthy(spec: Obj, expected: int) -> int:
    """How many must be well. Percentages round up, of what must be and of what may be missing alike.

    >>> desired_healthy({"minAvailable": "50%"}, 3), desired_healthy({"maxUnavailable": "50%"}, 3)
    (2, 1)
    """
    if spec.get("maxUnavailable") is not None:
        return max(0, expected - scaled(spec["maxUnavailable"], expected, up=True))
    return scaled(spec.get("minAvailable"), expected, up=True)


def _expected(view: View, budget: Obj, pods: Sequence[Obj]) -> tuple[int, int]:
    spec = budget["spec"]
    if spec.get("maxUnavailable") is None and isinstance(spec.get("minAvailable"), int):
        return len(pods), spec["minAvailable"]
    if spec.get("maxUnavailable") is None and spec.get("minAvailable") is None:
        return 0, 0
    sizes: dict[str, int] = {}
    for pod in pods:
        held = controller_of(pod)
        if held is None or held["uid"] in sizes:
            continue
        uid, size = _size(view, pod, dict(held))
        sizes[uid] = size
    expected = sum(sizes.values())
    return expected, desired_healthy(spec, expected)


def _size(view: View, pod: Obj, held: Obj) -> tuple[str, int]:
    namespace = namespace_of(pod)
    owner = view.owner(namespace, held)
    if owner is not None and held["kind"] == "ReplicaSet":
        above = controller_of(owner)
        top = view.owner(namespace, above) if above is not None and above["kind"] == "Deployment" else None
        if top is not None:
            return top["metadata"]["uid"], int(top["spec"].get("replicas", 1))
    if owner is not None and isinstance((owner.get("spec") or {}).get("replicas"), int):
        return owner["metadata"]["uid"], int(owner["spec"]["replicas"])
    raise LookupError(f'found no controllers for pod "{pod["metadata"]["name"]}"')


def _disrupted(noted: Obj, pods: Sequence[Obj], now: datetime) -> dict[str, str]:
    return {
        name: noted[name]
        for pod in pods
        if (name := pod["metadata"]["name"]) in noted
        and not terminating(pod)
        and parse_time(noted[name]) + _FORGET >= now
    }


def _conditions(budget: Obj, allowed: int, now: datetime, problem: str = "") -> list[Obj]:
    if problem:
        value, reason = "False", "SyncFailed"
    else:
        value, reason = ("True", "SufficientPods") if allowed > 0 else ("False", "InsufficientPods")
    generation = budget["metadata"].get("generation", 0)
    new = new_condition("DisruptionAllowed", value, reason, problem, now, observedGeneration=generation)
    return with_condition((budget.get("status") or {}).get("conditions") or [], new)


def _failsafe(budget: Obj, problem: str, now: datetime) -> list[Write]:
    # What cannot be counted allows nothing.
    old = budget.get("status") or {}
    status = {**old, "disruptionsAllowed": 0, "conditions": _conditions(budget, 0, now, problem)}
    said = condition(budget, "DisruptionAllowed")
    if said is not None and said["reason"] == "SyncFailed" and said["message"] == problem:
        return []
    return [Update(with_status(budget, status), "status")]
