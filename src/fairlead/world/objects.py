"""Reading and rebuilding Kubernetes objects as plain data: owners, conditions, readiness, times."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from fairlead.kube.selectors import Requirement
from fairlead.world.ids import ALPHABET

Obj = dict[str, Any]
"""A Kubernetes object as plain data. Never changed in place: the store shares them."""


def labels_of(obj: Obj) -> dict[str, str]:
    """Its labels, never None."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Obj) -> dict[str, str]:
    """Its annotations, never None."""
    return obj["metadata"].get("annotations") or {}


def namespace_of(obj: Obj) -> str:
    """Its namespace, empty for cluster-scoped objects."""
    return obj["metadata"].get("namespace") or ""


def uid_of(obj: Obj) -> str:
    """Its uid."""
    return str(obj["metadata"].get("uid") or "")


def key_of(obj: Obj) -> str:
    """``namespace/name``; a cluster-scoped object's key is ``/name``."""
    return f"{namespace_of(obj)}/{obj['metadata']['name']}"


def split_key(key: str) -> tuple[str, str]:
    """Namespace and name of a key."""
    namespace, _, name = key.partition("/")
    return namespace, name


def terminating(obj: Obj) -> bool:
    """Whether its deletion was asked for."""
    return obj["metadata"].get("deletionTimestamp") is not None


def controller_of(obj: Obj) -> Mapping[str, Any] | None:
    """The owner reference of the controller that manages it, if any."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return reference  # type: ignore[no-any-return]  # plain data
    return None


def finished(pod: Obj) -> bool:
    """Whether a pod has run to its end, well or badly."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_active(pod: Obj) -> bool:
    """Whether a pod counts as one of its controller's: neither finished nor on its way out."""
    return not finished(pod) and not terminating(pod)


def condition(obj: Obj, kind: str) -> Obj | None:
    """The condition of that type in its status."""
    for entry in (obj.get("status") or {}).get("conditions") or ():
        if entry.get("type") == kind:
            return entry  # type: ignore[no-any-return]  # plain data
    return None


def condition_holds(obj: Obj, kind: str) -> bool:
    """Whether the condition of that type is True."""
    return (condition(obj, kind) or {}).get("status") == "True"


def is_ready(pod: Obj) -> bool:
    """Whether a pod's Ready condition is True."""
    return condition_holds(pod, "Ready")


def ready_since(pod: Obj) -> datetime | None:
    """Since when a ready pod is ready; None when it is not, or does not say."""
    since = (condition(pod, "Ready") or {}).get("lastTransitionTime") if is_ready(pod) else None
    return parse_time(since) if since else None


def available_at(pod: Obj, min_ready_s: int) -> datetime | None:
    """From when a pod counts as available; None while it is not ready."""
    if not is_ready(pod):
        return None
    since = ready_since(pod)
    if since is None:
        # Ready without a time is available only where no time is asked for.
        return None if min_ready_s else datetime.min.replace(tzinfo=UTC)
    return since + timedelta(seconds=min_ready_s)


def with_condition(conditions: Sequence[Obj], new: Obj) -> list[Obj]:
    """Conditions with `new` in place of its type's old one, keeping the place in the list.

    The transition time of the old one is kept when the status did not change.
    """
    result, placed = [], False
    for old in conditions:
        if old["type"] != new["type"]:
            result.append(old)
            continue
        if old["status"] == new["status"] and old.get("lastTransitionTime"):
            new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
        result.append(new)
        placed = True
    return result if placed else [*result, new]


def new_condition(kind: str, status: str, reason: str, message: str, now: datetime, **more: Any) -> Obj:
    """A condition as of now; `more` is what a kind's conditions have beyond the usual."""
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": stamp(now),
        "reason": reason,
        "message": message,
        **more,
    }


def with_status(obj: Obj, status: Obj) -> Obj:
    """The object with another status."""
    return {**obj, "status": status}


@lru_cache(maxsize=1024)
def stamp(at: datetime) -> str:
    """A ``metav1.Time``: whole seconds, in UTC. Remembered, because much happens at one moment.

    >>> stamp(datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC))
    '2026-01-02T03:04:05Z'
    """
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(at: datetime) -> str:
    """A ``metav1.MicroTime``: six digits."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@lru_cache(maxsize=8192)
def parse_time(text: str) -> datetime:
    """Either of the two, or any RFC 3339 time; remembered, because pods of a batch share theirs."""
    return datetime.fromisoformat(text)


def selects(selector: Mapping[str, Any] | None, have: Mapping[str, str]) -> bool:
    """Whether a selector (as plain data) selects labels. Absent: nothing; empty: everything."""
    if selector is None:
        return False
    for key, wanted in (selector.get("matchLabels") or {}).items():
        if have.get(key) != wanted:
            return False
    return all(
        Requirement(entry["key"], entry["operator"], tuple(entry.get("values") or ())).admits(have)
        for entry in selector.get("matchExpressions") or ()
    )


def replicas(workload: Obj) -> int:
    """How many are asked for."""
    return int(workload["spec"].get("replicas", 1))


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


def short_hash(data: Any, salt: int = 0) -> str:
    """A stable hash of plain data that can be part of a name. `salt` tells collisions apart.

    >>> short_hash({"a": 1, "b": 2}) == short_hash({"b": 2, "a": 1})
    True
    """
    encoded = msgspec.json.encode(data, order="deterministic") + (b"" if salt == 0 else str(salt).encode())
    number = int.from_bytes(hashlib.sha256(encoded).digest()[:8])
    digits = []
    for _ in range(10):
        number, digit = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(digits)
