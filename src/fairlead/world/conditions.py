"""Conditions of a status: replaced by type, with the time of the last real transition."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fairlead.world.timestamps import stamp

__all__ = ["condition_of", "is_ready", "with_condition"]

Object = dict[str, Any]


def condition_of(item: Object, kind: str) -> Object | None:
    """The condition of a type in an object's status."""
    for condition in item.get("status", {}).get("conditions") or ():
        if condition.get("type") == kind:
            return condition  # type: ignore[no-any-return]  # JSON
    return None


def is_ready(pod: Object) -> bool:
    """Whether a pod's Ready condition is True."""
    condition = condition_of(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def with_condition(status: Object, condition: Object, now: datetime) -> Object:
    """A copy of `status` with the condition set; its transition time moves only if the status did."""
    conditions = list(status.get("conditions") or ())
    for index, held in enumerate(conditions):
        if held.get("type") == condition["type"]:
            moved = held.get("status") != condition["status"]
            since = stamp(now) if moved else held.get("lastTransitionTime", stamp(now))
            conditions[index] = {"lastProbeTime": None, **condition, "lastTransitionTime": since}
            break
    else:
        conditions.append({"lastProbeTime": None, **condition, "lastTransitionTime": stamp(now)})
    return {**status, "conditions": conditions}
