"""The arithmetic of a Deployment's rollout: how far over and under, and who grows or shrinks by how much.

Percentages of surge round up and of unavailability down; when both end at zero, one may be
unavailable, because otherwise nothing could ever move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairlead.world.controllers.objects import annotations_of
from fairlead.world.controllers.writes import Obj

__all__ = [
    "DESIRED",
    "MAX",
    "REVISION",
    "Bounds",
    "bounds",
    "new_size",
    "old_sizes",
    "proportional_sizes",
    "replicas",
    "scaled",
]

REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX = "deployment.kubernetes.io/max-replicas"


def scaled(value: int | str | None, total: int, *, up: bool) -> int:
    """A number, or a percentage of `total` rounded up or down.

    >>> scaled("30%", 10, up=True), scaled("25%", 3, up=True), scaled("25%", 3, up=False), scaled(2, 9, up=1)
    (3, 1, 0, 2)
    """
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%"))
    return -(-percent * total // 100) if up else percent * total // 100


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many pods above the desired number may exist, and how many of it may be missing."""

    surge: int
    unavailable: int


def bounds(deployment: Obj) -> Bounds:
    """The bounds of a rolling update; a Recreate strategy has none of either."""
    strategy = deployment["spec"].get("strategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return Bounds(0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    desired = replicas(deployment)
    surge = scaled(rolling.get("maxSurge", "25%"), desired, up=True)
    unavailable = scaled(rolling.get("maxUnavailable", "25%"), desired, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Bounds(surge, min(unavailable, desired))


def replicas(workload: Obj) -> int:
    """How many are asked for."""
    return int(workload["spec"].get("replicas", 1))


def new_size(deployment: Obj, every: Sequence[Obj], new: Obj | None) -> int:
    """How large the new ReplicaSet may be now."""
    desired, held = replicas(deployment), 0 if new is None else replicas(new)
    strategy = (deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate")
    if strategy == "Recreate" or held >= desired:
        return desired
    room = desired + bounds(deployment).surge - sum(replicas(each) for each in every)
    return held + max(0, min(room, desired - held))


def old_sizes(deployment: Obj, old: Sequence[Obj], new: Obj) -> dict[str, int]:
    """New sizes of old ReplicaSets (oldest first), by uid: only those that shrink.

    Pods that are not available go first, wherever they are: that costs no availability. Then as
    many available ones as there are beyond the minimum.
    """
    sizes = {each["metadata"]["uid"]: replicas(each) for each in old}
    before = dict(sizes)
    minimum = replicas(deployment) - bounds(deployment).unavailable
    new_unavailable = replicas(new) - _available(new)
    budget = sum(sizes.values()) + replicas(new) - minimum - new_unavailable
    if budget <= 0:
        return {}
    for each in old:
        uid = each["metadata"]["uid"]
        unhealthy = min(budget, sizes[uid] - _available(each))
        if unhealthy > 0:
            sizes[uid] -= unhealthy
            budget -= unhealthy
    spare = sum(_available(each) for each in (*old, new)) - minimum
    for each in old:
        uid = each["metadata"]["uid"]
        shrink = min(sizes[uid], spare)
        if shrink > 0:
            sizes[uid] -= shrink
            spare -= shrink
    return {uid: size for uid, size in sizes.items() if size != before[uid]}


def proportional_sizes(deployment: Obj, active: Sequence[Obj]) -> dict[str, int]:
    """Sizes by uid when a Deployment is resized in mid-rollout: all ReplicaSets in proportion.

    Growing prefers larger and then newer ones, shrinking larger and then older ones; what rounding
    leaves over goes to the largest.
    """
    desired = replicas(deployment)
    allowed = desired + bounds(deployment).surge if desired > 0 else 0
    change = allowed - sum(replicas(each) for each in active)
    ordered = sorted(active, key=_age, reverse=change > 0)
    ordered.sort(key=replicas, reverse=True)
    sizes, changed = {}, 0
    for each in ordered:
        part = _part(deployment, each, change, changed)
        sizes[each["metadata"]["uid"]] = replicas(each) + part
        changed += part
    if ordered and change != 0:
        largest = ordered[0]["metadata"]["uid"]
        sizes[largest] = max(0, sizes[largest] + change - changed)
    return sizes


def _part(deployment: Obj, each: Obj, change: int, changed: int) -> int:
    size = replicas(each)
    if size == 0 or change in (0, changed):
        return 0
    if replicas(deployment) == 0:
        wish = -size
    else:
        now = replicas(deployment) + bounds(deployment).surge
        before = annotations_of(each).get(MAX, "")
        base = int(before) if before.isdigit() and int(before) > 0 else _total(deployment)
        # Half a replica is rounded away from zero.
        wish = 0 if base == 0 else (2 * size * now + base) // (2 * base) - size
    left = change - changed
    return min(wish, left) if change > 0 else max(wish, left)


def _total(deployment: Obj) -> int:
    return int((deployment.get("status") or {}).get("replicas", 0))


def _available(each: Obj) -> int:
    return int((each.get("status") or {}).get("availableReplicas", 0))


def _age(each: Obj) -> tuple[str, str]:
    return each["metadata"].get("creationTimestamp") or "", each["metadata"]["name"]
