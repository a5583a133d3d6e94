"""What a delete request does to an object: removes it, or marks it and waits for others.

Pods leave gracefully: a bound pod only gets its deletionTimestamp, and the node that runs it deletes it
again with grace 0. Finalizers hold any object back; propagation policies are two of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from fairlead.world.api_errors import bad_request, conflict
from fairlead.world.objects import parse_time, stamp
from fairlead.world.schema.resources import NAMESPACES, PODS, Resource
from fairlead.world.store import Object

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_POLICY_FINALIZER = {"Orphan": ORPHAN, "Foreground": FOREGROUND}


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How an object is to go. `uid` and `rv` are preconditions; None leaves each to the object."""

    grace_s: int | None = None
    propagation: str | None = None
    uid: str | None = None
    rv: str | None = None
    dry_run: bool = False

    def check(self, resource: Resource, item: Object) -> None:
        """409 in the API server's words when a precondition does not hold."""
        metadata = item["metadata"]
        kind = resource._replace(plural=resource.kind)  # upstream says the kind where others say the plural
        if self.uid is not None and self.uid != metadata["uid"]:
            why = (
                f"the UID in the precondition ({self.uid}) does not match the UID in record "
                f"({metadata['uid']}). The object might have been deleted and then recreated"
            )
            raise conflict(kind, metadata["name"], why)
        if self.rv is not None and self.rv != metadata["resourceVersion"]:
            why = (
                f"the ResourceVersion in the precondition ({self.rv}) does not match the ResourceVersion "
                f"in record ({metadata['resourceVersion']}). The object might have been modified"
            )
            raise conflict(kind, metadata["name"], why)


class Removal(NamedTuple):
    """What a delete request came to: the object as it is left, and whether it is gone."""

    object: Object
    removed: bool


class Deletion(NamedTuple):
    """What to do: store `marked` (None: nothing to store), then remove it if `remove`."""

    marked: Object | None
    remove: bool


def plan_deletion(resource: Resource, item: Object, options: DeleteOptions, now: datetime) -> Deletion:
    """Decide what a delete request does to `item` at `now`."""
    grace_s, propagation = options.grace_s, options.propagation
    if propagation not in (None, "Background", *_POLICY_FINALIZER):
        raise bad_request(f"invalid propagation policy {propagation!r}")
    grace_s = 1 if grace_s is not None and grace_s < 0 else grace_s
    metadata = dict(item["metadata"])
    graceful = False
    if resource == PODS:
        held = metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") is None:
            grace_s = _grace_of(item, grace_s)
            metadata["deletionTimestamp"] = stamp(now + timedelta(seconds=grace_s))
            metadata["deletionGracePeriodSeconds"] = grace_s
            _bump(metadata)
            graceful = True
        elif held:
            if grace_s is None or grace_s >= held:
                return Deletion(None, False)  # only a shorter grace changes anything
            until = parse_time(metadata["deletionTimestamp"]) + timedelta(seconds=grace_s - held)
            if until < now:
                until, grace_s = now, min(grace_s, 1)
            metadata["deletionTimestamp"] = stamp(until)
            metadata["deletionGracePeriodSeconds"] = grace_s
            graceful = True
    before = metadata.get("finalizers", [])
    finalizers = _finalizers(before, propagation)
    _set_finalizers(metadata, finalizers)
    if not graceful and finalizers:
        if metadata.get("deletionTimestamp") is None:
            metadata["deletionTimestamp"] = stamp(now)
            _bump(metadata)
        metadata["deletionGracePeriodSeconds"] = 0
    marked: Object | None = {**item, "metadata": metadata} if graceful or finalizers else None
    if resource == NAMESPACES:
        return _plan_namespace(item, metadata, now)
    if marked is not None and marked == item:
        marked = None
    wait = bool(finalizers) or (graceful and bool(metadata["deletionGracePeriodSeconds"]))
    return Deletion(marked, not wait)


def is_finished(item: Object) -> bool:
    """Whether an object marked for deletion has nothing left to wait for."""
    metadata = item["metadata"]
    return (
        metadata.get("deletionTimestamp") is not None
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not item.get("spec", {}).get("finalizers")  # a namespace's own
    )


def _grace_of(pod: Object, asked_s: int | None) -> int:
    spec = pod["spec"]
    if not spec.get("nodeName") or pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
        return 0  # no kubelet runs it, so it needs no time
    grace = asked_s if asked_s is not None else spec.get("terminationGracePeriodSeconds", 30)
    return 1 if grace < 0 else int(grace)


def _finalizers(held: list[str], propagation: str | None) -> list[str]:
    if propagation is None:
        return held
    kept = [name for name in held if name not in (ORPHAN, FOREGROUND)]
    if propagation in _POLICY_FINALIZER:
        kept.append(_POLICY_FINALIZER[propagation])
    return kept


def _set_finalizers(metadata: Object, finalizers: list[str]) -> None:
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _plan_namespace(item: Object, metadata: Object, now: datetime) -> Deletion:
    if item.get("status", {}).get("phase") == "Terminating":
        return Deletion(None, is_finished(item))
    metadata.setdefault("deletionTimestamp", stamp(now))
    metadata.setdefault("deletionGracePeriodSeconds", 0)
    status = {**item.get("status", {}), "phase": "Terminating"}
    return Deletion({**item, "metadata": metadata, "status": status}, False)


def _bump(metadata: Object) -> None:
    if metadata.get("generation"):
        metadata["generation"] += 1
