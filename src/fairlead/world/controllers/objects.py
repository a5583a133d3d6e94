"""Reading and rebuilding Kubernetes objects as plain data: owners, conditions, readiness, times."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from fairlead.kube.selectors import Requirement
from fairlead.world import timestamps
from fairlead.world.controllers.writes import Obj

__all__ = [
    "annotations_of",
    "available_at",
    "condition",
    "controller_of",
    "finished",
    "is_active",
    "is_ready",
    "key_of",
    "labels_of",
    "namespace_of",
    "owner_reference",
    "parse_time",
    "pod_from_template",
    "ready_since",
    "selects",
    "short_hash",
    "split_key",
    "stamp",
    "terminating",
    "uid_of",
    "with_condition",
    "with_status",
]


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


def owner_reference(owner: Obj) -> Obj:
    """The reference a controller puts on what it makes."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def finished(pod: Obj) -> bool:
    """Whether a pod has run to its end, well or badly."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_active(pod: Obj) -> bool:
    """Whether a pod counts as one of its controller's: neither finished nor on its way out."""
    return not finished(pod) and not terminating(pod)


def condition(obj: Obj, kind: str) -> Obj | None:
    """The condition of that type in its status."""
    for entry in (obj.get("status") or {}).get("conditions") or ():
        if entry["type"] == kind:
            return entry  # type: ignore[no-any-return]  # plain data
    return None


def is_ready(pod: Obj) -> bool:
    """Whether a pod's Ready condition is True."""
    ready = condition(pod, "Ready")
    return ready is not None and ready["status"] == "True"


def ready_since(pod: Obj) -> datetime | None:
    """Since when a ready pod is ready; None when it is not, or does not say."""
    ready = condition(pod, "Ready")
    if ready is None or ready["status"] != "True" or not ready.get("lastTransitionTime"):
        return None
    return parse_time(ready["lastTransitionTime"])


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


def with_status(obj: Obj, status: Obj) -> Obj:
    """The object with another status."""
    return {**obj, "status": status}


@lru_cache(maxsize=1024)
def stamp(at: datetime) -> str:
    """A time as Kubernetes writes it; remembered, because much happens at one moment."""
    return timestamps.stamp(at)


@lru_cache(maxsize=8192)
def parse_time(text: str) -> datetime:
    """A time as Kubernetes writes it, read; remembered, because pods of a batch share theirs."""
    return timestamps.parse(text)


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


def pod_from_template(template: Mapping[str, Any], owner: Obj, *, name: str = "") -> Obj:
    """A pod as its controller posts it: named, or with the owner's name as prefix."""
    meta = template.get("metadata") or {}
    metadata: Obj = {"namespace": namespace_of(owner)}
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = f"{owner['metadata']['name']}-"
    metadata["labels"] = dict(meta.get("labels") or {})
    metadata["annotations"] = dict(meta.get("annotations") or {})
    if meta.get("finalizers"):
        metadata["finalizers"] = list(meta["finalizers"])
    metadata["ownerReferences"] = [owner_reference(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


# Letters that form no words and no numbers, as Kubernetes' own generated names use.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


def short_hash(data: Any, salt: int = 0) -> str:
    """A stable hash of plain data that can be part of a name. `salt` tells collisions apart.

    >>> short_hash({"a": 1, "b": 2}) == short_hash({"b": 2, "a": 1})
    True
    """
    encoded = msgspec.json.encode(data, order="deterministic") + (b"" if salt == 0 else str(salt).encode())
    number = int.from_bytes(hashlib.sha256(encoded).digest()[:8])
    digits = []
    for _ in range(10):
        number, digit = divmod(number, len(_SAFE))
        digits.append(_SAFE[digit])
    return "".join(digits)
