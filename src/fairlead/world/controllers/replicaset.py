"""ReplicaSet: as many pods of a template as asked for.

Pods are created in batches of 1, 2, 4, …: when the first ones are refused (quota, a webhook), the
rest is not even tried. Status is written when there is nothing to create or delete, because
creations and deletions bring the controller back here anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from fairlead.errors import ApiError
from fairlead.kube.template import pod_from_template
from fairlead.world.controllers.workload_pods import (
    by_deletion_order,
    claim_pods,
    creation,
    deleted,
    keys_of,
    refusal,
    slow_start,
)
from fairlead.world.controllers.writes import Batch, Delete, Obj, View, Write, status_writes
from fairlead.world.objects import (
    available_at,
    condition,
    controller_of,
    is_active,
    is_ready,
    labels_of,
    new_condition,
    split_key,
    terminating,
)

# At most this many creations or deletions in one go.
_BURST = 500

_COMPONENT = "replicaset-controller"


class ReplicaSetController:
    """Keeps the number of each ReplicaSet's pods."""

    name = _COMPONENT
    watches = ("ReplicaSet", "Pod")

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """The ReplicaSet itself; of a pod, its owner before and after."""
        return keys_of(view, "ReplicaSet", kind, old, new)

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Adopt or release, then create or delete, then say how far it is."""
        owner = view.get("ReplicaSet", *split_key(key))
        if owner is None:
            return []
        pods, writes = claim_pods(view, owner)
        active = [pod for pod in pods if is_active(pod)]
        leaving = sum(1 for pod in pods if terminating(pod))
        missing = owner["spec"].get("replicas", 1) - len(active)
        if terminating(owner) or missing == 0:
            return [*writes, *_say(owner, active, leaving, now)]
        if missing > 0:
            return [*writes, *_create(owner, min(missing, _BURST), active, leaving, now)]
        return [*writes, *_give_up(view, owner, active, min(-missing, _BURST), now)]


def _create(owner: Obj, missing: int, active: Sequence[Obj], leaving: int, now: datetime) -> list[Write]:
    def refused(error: ApiError) -> list[Write]:
        return [
            refusal(owner, error, _COMPONENT),
            *_say(owner, active, leaving, now, failure=error),
        ]

    pod = pod_from_template(owner["spec"]["template"], owner)
    return [*slow_start([creation(owner, pod, _COMPONENT)] * missing, refused)]


def _give_up(view: View, owner: Obj, active: Sequence[Obj], surplus: int, now: datetime) -> list[Write]:
    chosen = (
        by_deletion_order(active, _related(view, owner), now)[:surplus] if surplus < len(active) else active
    )
    return [
        Batch([Delete(pod) for pod in chosen]),
        *(deleted(owner, pod, _COMPONENT) for pod in chosen),
    ]


def _related(view: View, owner: Obj) -> list[Obj]:
    # Pods of every ReplicaSet of the same Deployment crowd a node, not only our own.
    held = controller_of(owner)
    sets = [owner] if held is None else [o for o in view.dependents(held["uid"]) if o["kind"] == "ReplicaSet"]
    return [
        pod
        for each in sets
        for pod in view.dependents(each["metadata"]["uid"])
        if pod["kind"] == "Pod" and (controller_of(pod) or {}).get("uid") == each["metadata"]["uid"]
    ]


def _say(
    owner: Obj,
    active: Sequence[Obj],
    leaving: int,
    now: datetime,
    failure: ApiError | None = None,
) -> list[Write]:
    min_ready_s = owner["spec"].get("minReadySeconds", 0)
    wanted = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
    times = [at for pod in active if (at := available_at(pod, min_ready_s)) is not None]
    later = [at for at in times if at > now]
    counts = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(1 for pod in active if wanted.items() <= labels_of(pod).items()),
        "readyReplicas": sum(1 for pod in active if is_ready(pod)),
        "availableReplicas": len(times) - len(later),
        "terminatingReplicas": leaving,
    }
    status: Obj = {
        # Zero counts are left out, as the API's own encoding does; the two others are pointers there.
        **{
            name: value
            for name, value in counts.items()
            if value or name in ("replicas", "terminatingReplicas")
        },
        "observedGeneration": owner["metadata"].get("generation", 0),
    }
    said = (owner.get("status") or {}).get("conditions") or ()
    conditions = [each for each in said if each["type"] != "ReplicaFailure"]
    if failure is not None:
        new = new_condition("ReplicaFailure", "True", "FailedCreate", failure.message, now)
        conditions.append(condition(owner, "ReplicaFailure") or new)
    if conditions:
        status["conditions"] = conditions
    return status_writes(owner, status, later)
