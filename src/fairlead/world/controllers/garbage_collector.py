"""Garbage collection by owner references: background, foreground and orphaning.

An object goes when none of its owners is left. An owner that is deleted in the foreground stays
until every dependent that blocks it is gone; one that is deleted with orphaning first takes itself
off its dependents.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from fairlead.world.controllers.workload_pods import release
from fairlead.world.controllers.writes import Batch, Delete, Obj, Patch, View, Write
from fairlead.world.objects import key_of, namespace_of, split_key, terminating, uid_of

_FOREGROUND = "foregroundDeletion"
_ORPHAN = "orphan"


class GarbageCollector:
    """Collects objects of every kind. A key is ``Kind|namespace/name``."""

    name = "garbage-collector"
    watches = ("*",)

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """What may have lost an owner, and owners that wait for their dependents."""
        item = new or old
        assert item is not None
        if kind == "Event":
            return []  # events own nothing and have no owner
        keys = []
        owners = item["metadata"].get("ownerReferences") or ()
        if new is None:
            keys += [f"{found}|{key_of(each)}" for found, each in view.dependent_keys(uid_of(item))]
            for reference in owners:
                keys += _waiting(view, namespace_of(item), reference)
            return keys
        if terminating(new):
            keys.append(f"{kind}|{key_of(new)}")
            if _finalizers(new) and (old is None or not terminating(old)):
                keys += [f"{found}|{key_of(each)}" for found, each in view.dependent_keys(uid_of(new))]
            for reference in owners:
                keys += _waiting(view, namespace_of(new), reference)
        elif owners and (old is None or old["metadata"].get("ownerReferences") != owners):
            keys.append(f"{kind}|{key_of(new)}")
        if old is not None and (before := old["metadata"].get("ownerReferences")) and before != owners:
            for reference in before:
                keys += _waiting(view, namespace_of(new), reference)
        return keys

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Delete it, let it go, or wait."""
        kind, _, rest = key.partition("|")
        item = view.get(kind, *split_key(rest))
        if item is None:
            return []
        if terminating(item):
            if _ORPHAN in _finalizers(item):
                return _orphan(view, item)
            if _FOREGROUND in _finalizers(item):
                return _foreground(view, item)
            return []
        return _collect(view, item)


def _finalizers(item: Obj) -> list[str]:
    return item["metadata"].get("finalizers") or []


def _waiting(view: View, namespace: str, reference: Obj) -> list[str]:
    owner = view.owner(namespace, reference)
    if owner is None or not terminating(owner) or _FOREGROUND not in _finalizers(owner):
        return []
    return [f"{view.kind(owner)}|{key_of(owner)}"]


def _collect(view: View, item: Obj) -> list[Write]:
    references = item["metadata"].get("ownerReferences") or []
    if not references:
        return []
    solid, waiting, dangling = [], [], []
    for reference in references:
        owner = view.owner(namespace_of(item), reference)
        if owner is None:
            dangling.append(reference)
        elif terminating(owner) and _FOREGROUND in _finalizers(owner):
            waiting.append(reference)
        else:
            solid.append(reference)
    if solid:
        if not dangling and not waiting:
            return []
        return [Patch(item, {"metadata": {"ownerReferences": solid}})]
    dependents = view.dependents(uid_of(item))
    if waiting and dependents:
        writes: list[Write] = []
        if any(terminating(each) and _FOREGROUND in _finalizers(each) for each in dependents):
            # A circle of owners that wait for each other: this one no longer blocks.
            free = [{**reference, "blockOwnerDeletion": False} for reference in references]
            writes.append(Patch(item, {"metadata": {"ownerReferences": free}}))
        return [*writes, Delete(item, propagation="Foreground")]
    if _ORPHAN in _finalizers(item):
        return [Delete(item, propagation="Orphan")]
    if _FOREGROUND in _finalizers(item):
        return [Delete(item, propagation="Foreground")]
    return [Delete(item, propagation="Background")]


def _foreground(view: View, item: Obj) -> list[Write]:
    uid = uid_of(item)
    blocking = [
        each
        for each in view.dependents(uid)
        if any(
            ref["uid"] == uid and ref.get("blockOwnerDeletion") for ref in each["metadata"]["ownerReferences"]
        )
    ]
    if blocking:
        return []  # each of them has its own key in the queue; the last one's end comes back here
    return [_without_finalizer(item, _FOREGROUND)]


def _orphan(view: View, item: Obj) -> list[Write]:
    dependents = view.dependents(uid_of(item))
    releases: list[Write] = (
        [Batch([release(each, uid_of(item)) for each in dependents])] if dependents else []
    )
    return [*releases, _without_finalizer(item, _ORPHAN)]


def _without_finalizer(item: Obj, finalizer: str) -> Patch:
    left = [each for each in _finalizers(item) if each != finalizer]
    return Patch(item, {"metadata": {"finalizers": left or None}})
