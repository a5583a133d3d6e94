"""ControllerRevisions: the templates a StatefulSet or DaemonSet has had, each under a name of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead.kube.template import owner_reference
from fairlead.kube.workloads import REVISION_LABEL
from fairlead.world.controllers.writes import Create, Delete, Obj, Patch, View, Write
from fairlead.world.objects import annotations_of, labels_of, namespace_of, short_hash, uid_of

_HASH = "controller.kubernetes.io/hash"


def revisions_of(view: View, owner: Obj) -> list[Obj]:
    """The owner's revisions, oldest first."""
    held = [each for each in view.dependents(uid_of(owner)) if each["kind"] == "ControllerRevision"]
    return sorted(held, key=lambda each: (each["revision"], each["metadata"]["name"]))


def settle(owner: Obj, revisions: Sequence[Obj], collisions: int = 0) -> tuple[Obj | None, list[Write]]:
    """The revision of the owner's present template; or the writes that make it so.

    A template that was there before gets its old revision back, under a new number.
    """
    data = _data(owner)
    number = max((each["revision"] for each in revisions), default=0) + 1
    same = [each for each in revisions if each.get("data") == data]
    if same and same[-1] is revisions[-1]:
        return same[-1], []
    if same:
        return None, [Patch(same[-1], {"revision": number})]
    digest = short_hash(data, collisions)
    revision: Obj = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{owner['metadata']['name']}-{digest}",
            "namespace": namespace_of(owner),
            "labels": {
                **((owner["spec"]["template"].get("metadata") or {}).get("labels") or {}),
                _HASH: digest,
            },
            "annotations": dict(annotations_of(owner)),
            "ownerReferences": [owner_reference(owner)],
        },
        "data": data,
        "revision": number,
    }
    return None, [Create(revision)]


def template_of(revision: Obj) -> Obj:
    """The pod template that a revision stands for."""
    template = revision["data"]["spec"]["template"]
    return {name: value for name, value in template.items() if name != "$patch"}


def truncate(owner: Obj, revisions: Sequence[Obj], live: Sequence[str], pods: Sequence[Obj]) -> list[Write]:
    """Deletions of unused revisions, beyond the history limit, oldest first."""
    used = {*live, *(labels_of(pod).get(REVISION_LABEL, "") for pod in pods)}
    idle = [each for each in revisions if each["metadata"]["name"] not in used]
    limit = owner["spec"].get("revisionHistoryLimit", 10)
    return [Delete(each) for each in idle[: max(0, len(idle) - limit)]]


def _data(owner: Obj) -> Any:
    return {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}
