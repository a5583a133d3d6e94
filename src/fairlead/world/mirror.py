"""The store as the engine sees it: one snapshot, kept up to date change by change.

The default scheduler and the autoscaler share it. It knows kube-scheduler's rules only: no scheduler
name counts as Fairlead's, so one-pod-per-node and other rules of our own do not exist here.
"""

from __future__ import annotations

from fairlead.engine.planning.room import Room
from fairlead.engine.snapshot.snapshot import KINDS, Snapshot
from fairlead.errors import BadObject
from fairlead.world.store import Change, Object, Store
from fairlead.world.view import kind_of


class Mirror:
    """Feeds a `Snapshot` from a store. Objects that the engine cannot use are left out, and listed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.snapshot = Snapshot(scheduler_names=())
        self.room = Room(self.snapshot)
        self.ranking = self.room.ranking
        self.refused: dict[tuple[str, str], BadObject] = {}
        for resource in store.resources():
            for item in store.list(resource):
                self._put(kind_of(resource), item)
        self._stop = store.subscribe(self.observe)

    def close(self) -> None:
        """Stop following the store."""
        self._stop()

    def observe(self, change: Change) -> None:
        """Take over one committed change."""
        kind = kind_of(change.resource)
        if change.type == "DELETED":
            self._remove(kind, change.object)
        elif kind != "Pod" or change.old is None or _matters(change.old, change.object):
            self._put(kind, change.object)

    def _put(self, kind: str, item: Object) -> None:
        if kind not in KINDS or (kind == "Pod" and not item["spec"].get("nodeName")):
            return
        try:
            self.snapshot.put(kind, self._store.typed(item, KINDS[kind]))
        except BadObject as error:
            # What it was before is not true any more either.
            self._remove(kind, item)
            self.refused[(kind, _key(item))] = error
        else:
            self.refused.pop((kind, _key(item)), None)

    def _remove(self, kind: str, item: Object) -> None:
        self.refused.pop((kind, _key(item)), None)
        metadata = item["metadata"]
        self.snapshot.remove(kind, metadata.get("namespace", ""), metadata["name"])


def _key(item: Object) -> str:
    metadata = item["metadata"]
    return (
        f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])
    )


def _matters(old: Object, new: Object) -> bool:
    # A pod's status changes several times in its life; what the engine reads of it hardly ever.
    before, after = old["metadata"], new["metadata"]
    was, now = old.get("status") or {}, new.get("status") or {}
    return (
        old["spec"] != new["spec"]
        or before.get("labels") != after.get("labels")
        or before.get("deletionTimestamp") != after.get("deletionTimestamp")
        or was.get("startTime") != now.get("startTime")  # of equal victims the latest goes
        or (was.get("phase") in ("Succeeded", "Failed")) != (now.get("phase") in ("Succeeded", "Failed"))
        or _given(old) != _given(new)
    )


def _given(pod: Object) -> list[object]:
    """What containers were given where that is not what they ask for: a resize under way."""
    status, spec = pod.get("status") or {}, pod["spec"]
    found: list[object] = []
    for name, statuses in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        asked = {each["name"]: (each.get("resources") or {}).get("requests") for each in spec.get(name) or ()}
        for each in status.get(statuses) or ():
            given = each.get("allocatedResources")
            if given is not None and given != asked.get(each["name"]):
                found.append((each["name"], given))
    return found
