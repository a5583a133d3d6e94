"""Which objects belong to a controller: by owner reference, adopted by selector, or let go.

A controller owns what carries its reference *and* matches its selector. Orphans that match are
adopted; what no longer matches is released. Nobody takes what another controller owns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairlead.world.controllers.objects import (
    controller_of,
    finished,
    labels_of,
    owner_reference,
    selects,
    terminating,
    uid_of,
)
from fairlead.world.controllers.writes import Obj, Patch, View, Write

__all__ = ["claim", "claim_pods", "owners_of_pod", "release"]


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
        # Somebody else may adopt at the same moment: only one of the two patches may hold.
        "resourceVersion": item["metadata"]["resourceVersion"],
    }
    if finalizer:
        metadata["finalizers"] = [*(item["metadata"].get("finalizers") or ()), finalizer]
    return Patch(item, {"metadata": metadata})
