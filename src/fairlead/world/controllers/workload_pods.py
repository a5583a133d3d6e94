"""The pods of a workload: which belong to it, how they are made, and which it gives up first.

A controller owns what carries its reference *and* matches its selector. Orphans that match are
adopted; what no longer matches is released. What another controller owns is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cmp_to_key
from typing import Any

from fairlead.errors import ApiError
from fairlead.kube.template import owner_reference
from fairlead.world.controllers.writes import Batch, Create, Emit, Obj, Patch, View, Write
from fairlead.world.objects import (
    annotations_of,
    controller_of,
    finished,
    is_active,
    is_ready,
    key_of,
    labels_of,
    parse_time,
    ready_since,
    selects,
    terminating,
    uid_of,
)


def claim(
    owner: Obj,
    selector: Mapping[str, Any] | None,
    candidates: Iterable[Obj],
    *,
    finalizer: str = "",
    fits: Callable[[Obj], bool] = lambda item: True,
) -> tuple[list[Obj], list[Write]]:
    """What belongs to `owner` among `candidates`, and the adoptions and releases that make it so.

    An adopted object is listed as its own already: the writes come first in the caller's list. `fits`
    is what the owner demands beyond its selector; adoption adds `finalizer`.
    """
    claimed: list[Obj] = []
    writes: list[Write] = []
    leaving = terminating(owner)
    for item in candidates:
        held = controller_of(item)
        if held is not None:
            if held["uid"] != uid_of(owner):
                continue
            if selects(selector, labels_of(item)):
                claimed.append(item)
            elif not leaving:
                writes.append(release(item, uid_of(owner)))
        elif (
            not leaving
            and not terminating(item)
            and not finished(item)
            and selects(selector, labels_of(item))
            and fits(item)
        ):
            writes.append(_adopt(item, owner, finalizer))
            claimed.append(item)
    return claimed, writes


def claim_pods(
    view: View, owner: Obj, *, finalizer: str = "", fits: Callable[[Obj], bool] = lambda item: True
) -> tuple[list[Obj], list[Write]]:
    """`claim` for the pods of a workload, finished and terminating ones of its own included."""
    own = [item for item in view.dependents(uid_of(owner)) if item["kind"] == "Pod"]
    orphans = view.orphan_pods(owner["metadata"]["namespace"])
    selector = owner["spec"].get("selector")
    return claim(owner, selector, [*own, *orphans], finalizer=finalizer, fits=fits)


def release(item: Obj, owner_uid: str) -> Patch:
    """Take one owner off an object."""
    left = [ref for ref in item["metadata"].get("ownerReferences") or () if ref["uid"] != owner_uid]
    return Patch(item, {"metadata": {"ownerReferences": left or None}})


def owners_of_pod(view: View, kind: str, pod: Obj | None) -> list[str]:
    """Keys of the workloads of a kind that a pod concerns: its controller, or all that may adopt it."""
    if pod is None:
        return []
    namespace = pod["metadata"]["namespace"]
    held = controller_of(pod)
    if held is not None:
        return [f"{namespace}/{held['name']}"] if held["kind"] == kind else []
    have = labels_of(pod)
    if not have:
        return []
    return [
        f"{namespace}/{owner['metadata']['name']}"
        for owner in view.all(kind, namespace)
        if selects(owner["spec"].get("selector"), have)
    ]


def _adopt(item: Obj, owner: Obj, finalizer: str) -> Patch:
    metadata: Obj = {
        "ownerReferences": [*(item["metadata"].get("ownerReferences") or ()), owner_reference(owner)],
        # Another controller may adopt at the same moment: only one of the two patches may hold.
        "resourceVersion": item["metadata"]["resourceVersion"],
    }
    if finalizer:
        metadata["finalizers"] = [*(item["metadata"].get("finalizers") or ()), finalizer]
    return Patch(item, {"metadata": metadata})


def keys_of(view: View, workload: str, kind: str, old: Obj | None, new: Obj | None) -> list[str]:
    """The workloads of a kind that a change concerns: itself; of its pods, their owners."""
    if kind == workload:
        return [key_of(each) for each in (new or old,) if each is not None]
    return [*owners_of_pod(view, workload, new), *owners_of_pod(view, workload, old)]


def creation(owner: Obj, pod: Obj, component: str) -> Create:
    """The creation of a pod, and the event that says so."""

    def created(made: Obj) -> list[Write]:
        return [Emit(owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}", component)]

    return Create(pod, created)


def refusal(owner: Obj, error: ApiError, component: str) -> Emit:
    """The event about a pod that could not be created."""
    return Emit(owner, "FailedCreate", f"Error creating: {error.message}", component, "Warning")


def deleted(owner: Obj, pod: Obj, component: str) -> Emit:
    """The event about a pod that the controller gave up."""
    return Emit(owner, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}", component)


def slow_start(creations: Sequence[Create], otherwise: Callable[[ApiError], Sequence[Write]]) -> list[Batch]:
    """The creations in batches of 1, 2, 4, …, each reporting failure as `otherwise` says.

    >>> [len(batch.writes) for batch in slow_start([Create({})] * 10, lambda error: [])]
    [1, 2, 4, 3]
    """
    batches = []
    done, size = 0, 1
    while done < len(creations):
        batches.append(Batch(creations[done : done + size], otherwise))
        done += size
        size *= 2
    return batches


# Which pods go first. Ages are compared on a logarithmic scale and ties broken by uid: upstream wants
# scale-in to be a bit random among equals, and uids are random on a real cluster (in virtual time counted).

COST = "controller.kubernetes.io/pod-deletion-cost"

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def by_deletion_order(pods: Sequence[Obj], related: Sequence[Obj], now: datetime) -> list[Obj]:
    """`pods`, first to go first. `related` are the pods of all ReplicaSets of the same owner."""
    together: dict[str, int] = {}
    for pod in related:
        if is_active(pod):
            node = _node(pod)
            together[node] = together.get(node, 0) + 1

    def compare(a: Obj, b: Obj) -> int:
        return _compare(a, b, together, now)

    return sorted(pods, key=cmp_to_key(compare))


def by_startup_order(pods: Sequence[Obj]) -> list[Obj]:
    """`pods`, those in the earliest stage of their lives first, the newest first among equals.

    What a Job uses: no deletion cost, no neighbours, no logarithms.
    """

    def compare(a: Obj, b: Obj) -> int:
        return _stage(a, b) or _ready_time(a, b) or _age(a, b)

    return sorted(pods, key=cmp_to_key(compare))


def deletion_cost(pod: Obj) -> int:
    """What the pod says its deletion costs; what cannot be read costs nothing.

    >>> deletion_cost({"metadata": {"annotations": {COST: "-3"}}})
    -3
    """
    text = annotations_of(pod).get(COST, "")
    # The API accepts an optional minus sign and digits without leading zeros, within int32.
    unsigned = text.removeprefix("-")
    if not unsigned.isascii() or not unsigned.isdigit() or (unsigned.startswith("0") and text != "0"):
        return 0
    cost = int(text)
    return cost if -(2**31) <= cost < 2**31 else 0


def _compare(a: Obj, b: Obj, together: Mapping[str, int], now: datetime) -> int:
    if (stage := _stage(a, b)) != 0:
        return stage
    if (cost := deletion_cost(a) - deletion_cost(b)) != 0:
        return cost
    # Crowded nodes are thinned out first.
    if (crowd := together.get(_node(b), 0) - together.get(_node(a), 0)) != 0:
        return crowd
    if is_ready(a) and is_ready(b):
        since_a, since_b = ready_since(a), ready_since(b)
        if since_a != since_b:
            return _newer_first(since_a, since_b, a, b, now)
    if (restarts := _compare_restarts(a, b)) != 0:
        return restarts
    born_a, born_b = _born(a), _born(b)
    if born_a != born_b:
        return _newer_first(born_a, born_b, a, b, now)
    return 0


def _stage(a: Obj, b: Obj) -> int:
    assigned_a, assigned_b = bool(_node(a)), bool(_node(b))
    if assigned_a != assigned_b:
        return 1 if assigned_a else -1
    phase_a, phase_b = _phase(a), _phase(b)
    if phase_a != phase_b:
        return phase_a - phase_b
    ready_a, ready_b = is_ready(a), is_ready(b)
    if ready_a != ready_b:
        return 1 if ready_a else -1
    return 0


def _ready_time(a: Obj, b: Obj) -> int:
    if is_ready(a) and is_ready(b):
        since_a, since_b = ready_since(a), ready_since(b)
        if since_a != since_b:
            return _after(since_a, since_b)
    return 0


def _age(a: Obj, b: Obj) -> int:
    return _compare_restarts(a, b) or (_after(_born(a), _born(b)) if _born(a) != _born(b) else 0)


def _newer_first(at_a: datetime | None, at_b: datetime | None, a: Obj, b: Obj, now: datetime) -> int:
    if at_a is None or at_b is None:
        return _after(at_a, at_b)
    ranks = _rank(now - at_a) - _rank(now - at_b)
    if ranks != 0:
        return ranks
    return -1 if uid_of(a) < uid_of(b) else 1


def _after(a: datetime | None, b: datetime | None) -> int:
    # A missing time counts as the latest.
    if a is None or b is None:
        return -1 if a is None else 1
    return -1 if a > b else 1


def _rank(age: timedelta) -> int:
    nanoseconds = (age // timedelta(microseconds=1)) * 1000
    return int(math.log2(nanoseconds)) if nanoseconds > 0 else -1


def _compare_restarts(a: Obj, b: Obj) -> int:
    regular_a, sidecar_a = _restarts(a)
    regular_b, sidecar_b = _restarts(b)
    return regular_b - regular_a or sidecar_b - sidecar_a


def _restarts(pod: Obj) -> tuple[int, int]:
    status = pod.get("status") or {}
    regular = max(
        (entry.get("restartCount", 0) for entry in status.get("containerStatuses") or ()), default=0
    )
    sidecars = [
        c["name"] for c in pod["spec"].get("initContainers") or () if c.get("restartPolicy") == "Always"
    ]
    sidecar = max(
        (
            entry.get("restartCount", 0)
            for entry in status.get("initContainerStatuses") or ()
            if entry["name"] in sidecars
        ),
        default=0,
    )
    return regular, sidecar


def _node(pod: Obj) -> str:
    return pod["spec"].get("nodeName") or ""


def _phase(pod: Obj) -> int:
    return _PHASES.get((pod.get("status") or {}).get("phase") or "", 0)


def _born(pod: Obj) -> datetime | None:
    at = pod["metadata"].get("creationTimestamp")
    return parse_time(at) if at else None
