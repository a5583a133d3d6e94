"""What a Deployment says of itself: counts, Available, Progressing; what `kubectl rollout status` reads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from fairlead.world.controllers.objects import condition, parse_time, stamp, with_status
from fairlead.world.controllers.rollout import bounds, replicas
from fairlead.world.controllers.writes import Again, Obj, Update, Write

__all__ = ["complete", "has_deadline", "progressing", "status_writes"]

# progressDeadlineSeconds with this value means: never give up.
_NEVER = 2**31 - 1


def has_deadline(deployment: Obj) -> bool:
    """Whether the rollout is watched for progress at all."""
    return deployment["spec"].get("progressDeadlineSeconds") not in (None, _NEVER)


def complete(deployment: Obj, status: Obj) -> bool:
    """Whether all pods are of the newest template and available, and no other is left."""
    wanted = replicas(deployment)
    return bool(
        status.get("updatedReplicas", 0) == wanted
        and status.get("replicas", 0) == wanted
        and status.get("availableReplicas", 0) == wanted
        and status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    )


def progressing(status: str, reason: str, message: str, now: datetime) -> Obj:
    """A Progressing condition as of now."""
    return _condition("Progressing", status, reason, message, now)


def status_writes(
    deployment: Obj,
    every: Sequence[Obj],
    new: Obj | None,
    now: datetime,
    *,
    rolling: bool,
    found: Obj | None = None,
) -> list[Write]:
    """The status update, if anything changed, and when to look for missing progress again.

    `rolling` is whether progress is judged (not while paused or resized); `found` is a Progressing
    condition to start from, when the rollout has only just begun.
    """
    old = deployment.get("status") or {}
    status = _counts(deployment, every, new, now)
    if found is not None:
        status["conditions"] = _set(status["conditions"], found)
    if rolling:
        status["conditions"] = _judge(deployment, status, new, now)
        status["conditions"] = _failures(status["conditions"], every, new)
    if not status["conditions"]:
        del status["conditions"]
    if status != old:
        return [Update(with_status(deployment, status), "status")]
    if rolling and (at := _deadline(deployment, status)) is not None:
        return [Again(max(at, now + timedelta(seconds=1)))]
    return []


def _counts(deployment: Obj, every: Sequence[Obj], new: Obj | None, now: datetime) -> Obj:
    statuses = [each.get("status") or {} for each in every]
    available = sum(status.get("availableReplicas", 0) for status in statuses)
    asked = sum(replicas(each) for each in every)
    counts = {
        "replicas": sum(status.get("replicas", 0) for status in statuses),
        "updatedReplicas": (new.get("status") or {}).get("replicas", 0) if new is not None else 0,
        "readyReplicas": sum(status.get("readyReplicas", 0) for status in statuses),
        "availableReplicas": available,
        "unavailableReplicas": max(0, asked - available),
    }
    old = deployment.get("status") or {}
    status: Obj = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        **{name: count for name, count in counts.items() if count},
        "terminatingReplicas": sum(status.get("terminatingReplicas", 0) for status in statuses),
    }
    if old.get("collisionCount"):
        status["collisionCount"] = old["collisionCount"]
    enough = available >= replicas(deployment) - bounds(deployment).unavailable
    status["conditions"] = _set(
        old.get("conditions") or [],
        _condition(
            "Available",
            "True" if enough else "False",
            "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            f"Deployment {'has' if enough else 'does not have'} minimum availability.",
            now,
        ),
    )
    return status


def _judge(deployment: Obj, status: Obj, new: Obj | None, now: datetime) -> list[Obj]:
    conditions: list[Obj] = status["conditions"]
    if not has_deadline(deployment):
        return [each for each in conditions if each["type"] != "Progressing"]
    current = condition(deployment, "Progressing")
    settled = current is not None and current["reason"] == "NewReplicaSetAvailable"
    if settled and status.get("replicas", 0) == status.get("updatedReplicas", 0):
        return conditions
    name = deployment["metadata"]["name"]
    who = f'Deployment "{name}"' if new is None else f'ReplicaSet "{new["metadata"]["name"]}"'
    if complete(deployment, status):
        said = progressing("True", "NewReplicaSetAvailable", f"{who} has successfully progressed.", now)
        return _set(conditions, said)
    if _moved(deployment.get("status") or {}, status):
        said = progressing("True", "ReplicaSetUpdated", f"{who} is progressing.", now)
        if current is not None and current["status"] == "True":
            said["lastTransitionTime"] = current["lastTransitionTime"]
        # Unlike other conditions it is renewed with the same reason: its time is the proof of progress.
        return [*(each for each in conditions if each["type"] != "Progressing"), said]
    at = _deadline(deployment, status)
    if at is not None and at < now:
        said = progressing("False", "ProgressDeadlineExceeded", f"{who} has timed out progressing.", now)
        return _set(conditions, said)
    return conditions


def _moved(old: Obj, new: Obj) -> bool:
    def stale(status: Obj) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    return stale(new) < stale(old) or any(
        new.get(name, 0) > old.get(name, 0)
        for name in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )


def _deadline(deployment: Obj, status: Obj) -> datetime | None:
    # When the rollout counts as stuck unless something moves; None: not watched, done, or stuck already.
    if not has_deadline(deployment) or complete(deployment, status):
        return None
    said = next((each for each in status.get("conditions") or () if each["type"] == "Progressing"), None)
    if said is None or said["reason"] in ("NewReplicaSetAvailable", "ProgressDeadlineExceeded"):
        return None
    return parse_time(said["lastUpdateTime"]) + timedelta(
        seconds=deployment["spec"]["progressDeadlineSeconds"]
    )


def _failures(conditions: list[Obj], every: Sequence[Obj], new: Obj | None) -> list[Obj]:
    for each in (*([new] if new is not None else []), *every):
        failure = condition(each, "ReplicaFailure")
        if failure is not None:
            return _set(conditions, {**failure, "lastUpdateTime": failure["lastTransitionTime"]})
    return [each for each in conditions if each["type"] != "ReplicaFailure"]


def _condition(kind: str, status: str, reason: str, message: str, now: datetime) -> Obj:
    at = stamp(now)
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": at,
        "lastTransitionTime": at,
        "reason": reason,
        "message": message,
    }


def _set(conditions: Sequence[Obj], new: Obj) -> list[Obj]:
    # Same status and reason: the old one stays as it is. A changed one moves to the end.
    for old in conditions:
        if old["type"] == new["type"]:
            if old["status"] == new["status"] and old["reason"] == new["reason"]:
                return list(conditions)
            if old["status"] == new["status"]:
                new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
    return [*(each for each in conditions if each["type"] != new["type"]), new]
