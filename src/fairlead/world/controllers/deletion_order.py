"""Which of its pods a ReplicaSet or Job gives up first, exactly as upstream orders them.

Ages are compared on a logarithmic scale and ties broken by uid: upstream wants scale-in to be a bit
random among equals, and uids are random on a real cluster (in virtual time they are counted).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cmp_to_key

from fairlead.world.controllers.objects import (
    annotations_of,
    is_active,
    is_ready,
    parse_time,
    ready_since,
    uid_of,
)
from fairlead.world.controllers.writes import Obj

__all__ = ["COST", "by_deletion_order", "by_startup_order", "deletion_cost"]

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
