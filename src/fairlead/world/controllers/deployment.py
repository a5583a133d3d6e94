"""Deployment: rolls ReplicaSets, one per template, from the old ones to the new one.

Each pass makes one kind of step (adopt, annotate, resize, clean up) and then says how far it is; the
change it made brings it back for the next. A resize in mid-rollout is noticed by the desired number
that each ReplicaSet's annotation remembers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from fairlead.errors import ApiError
from fairlead.world.controllers.claims import claim
from fairlead.world.controllers.deployment_status import complete, has_deadline, progressing, status_writes
from fairlead.world.controllers.objects import (
    annotations_of,
    condition,
    controller_of,
    finished,
    key_of,
    labels_of,
    namespace_of,
    owner_reference,
    selects,
    short_hash,
    split_key,
    terminating,
    uid_of,
    with_status,
)
from fairlead.world.controllers.rollout import (
    DESIRED,
    MAX,
    REVISION,
    bounds,
    new_size,
    old_sizes,
    proportional_sizes,
    replicas,
)
from fairlead.world.controllers.writes import Batch, Create, Delete, Emit, Obj, Update, View, Write

__all__ = ["HASH_LABEL", "DeploymentController"]

HASH_LABEL = "pod-template-hash"
_HISTORY = "deployment.kubernetes.io/revision-history"
_COMPONENT = "deployment-controller"
_NOT_COPIED = ("kubectl.kubernetes.io/last-applied-configuration", REVISION, _HISTORY, DESIRED, MAX)


class DeploymentController:
    """Keeps each Deployment's ReplicaSets."""

    name = _COMPONENT
    watches = ("Deployment", "ReplicaSet", "Pod")

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """The Deployment; of a ReplicaSet, its owner or who may adopt it; of a pod, only that it is gone."""
        item = new or old
        assert item is not None
        if kind == "Deployment":
            return [key_of(item)]
        namespace = namespace_of(item)
        if kind == "ReplicaSet":
            return [key for each in (new, old) if each is not None for key in _owners(view, namespace, each)]
        # Recreate waits until the last old pod is gone or finished.
        if new is None or (finished(new) and (old is None or not finished(old))):
            held = controller_of(item)
            owner = view.owner(namespace, held) if held is not None and held["kind"] == "ReplicaSet" else None
            return [] if owner is None else _owners(view, namespace, owner)
        return []

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """The next step of the rollout."""
        deployment = view.get("Deployment", *split_key(key))
        if deployment is None:
            return []
        sets, writes = _replica_sets(view, deployment)
        if writes:
            return writes
        new = next((each for each in sets if _same_template(each, deployment)), None)
        old = [each for each in sets if each is not new]
        if terminating(deployment):
            return status_writes(deployment, sets, new, now, rolling=False)
        if (pause := _pause_condition(deployment, now)) is not None:
            return [pause]
        if new is not None and (step := _annotate(deployment, new, old)):
            return step
        found = _found(deployment, new, now)
        if deployment["spec"].get("paused") or _resized(deployment, sets):
            return [
                *_resize(deployment, new, old),
                *(_clean_up(deployment, old) if deployment["spec"].get("paused") else []),
                *status_writes(deployment, sets, new, now, rolling=False, found=found),
            ]
        strategy = (deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate")
        if strategy == "Recreate":
            steps = _recreate(view, deployment, new, old, now)
        else:
            steps = _roll(deployment, new, old, now)
        if not steps and complete(deployment, deployment.get("status") or {}):
            steps = _clean_up(deployment, old)
        if new is None and steps and isinstance(steps[-1], Create | Batch):
            return steps  # the creation says what happened, in the status too
        return [*steps, *status_writes(deployment, sets, new, now, rolling=True, found=found)]


def _owners(view: View, namespace: str, replica_set: Obj) -> list[str]:
    held = controller_of(replica_set)
    if held is not None:
        return [f"{namespace}/{held['name']}"] if held["kind"] == "Deployment" else []
    have = labels_of(replica_set)
    return [
        key_of(each) for each in view.all("Deployment", namespace) if selects(each["spec"]["selector"], have)
    ]


def _replica_sets(view: View, deployment: Obj) -> tuple[list[Obj], list[Write]]:
    # Oldest first: of two with the same template the older one is the new one.
    namespace = namespace_of(deployment)
    own = [each for each in view.dependents(uid_of(deployment)) if each["kind"] == "ReplicaSet"]
    orphans = [each for each in view.all("ReplicaSet", namespace) if controller_of(each) is None]
    sets, writes = claim(deployment, deployment["spec"]["selector"], [*own, *orphans])
    sets.sort(key=lambda each: (each["metadata"].get("creationTimestamp") or "", each["metadata"]["name"]))
    return sets, writes


def _same_template(replica_set: Obj, deployment: Obj) -> bool:
    held, wanted = replica_set["spec"]["template"], deployment["spec"]["template"]
    return held.get("spec") == wanted.get("spec") and _bare(held) == _bare(wanted)


def _bare(template: Obj) -> Obj:
    meta = {name: value for name, value in (template.get("metadata") or {}).items() if value}
    meta["labels"] = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH_LABEL}
    return meta


# Revisions and annotations


def _revision(replica_set: Obj) -> int:
    text = annotations_of(replica_set).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def _next_revision(old: Sequence[Obj]) -> int:
    return max((_revision(each) for each in old), default=0) + 1


def _annotate(deployment: Obj, new: Obj, old: Sequence[Obj]) -> list[Write]:
    # The new ReplicaSet carries the Deployment's annotations and the highest revision; the Deployment
    # shows that revision.
    have = annotations_of(new)
    wanted = {**have, **_copied(deployment)}
    revision = _next_revision(old)
    if _revision(new) < revision:
        if REVISION in have:
            wanted[_HISTORY] = ",".join(filter(None, (have.get(_HISTORY, ""), have[REVISION])))
        wanted[REVISION] = str(revision)
    min_ready_s = deployment["spec"].get("minReadySeconds", 0)
    if wanted != have or new["spec"].get("minReadySeconds", 0) != min_ready_s:
        changed = {**new, "metadata": {**new["metadata"], "annotations": wanted}}
        return [Update({**changed, "spec": {**new["spec"], "minReadySeconds": min_ready_s}})]
    if annotations_of(deployment).get(REVISION) != have.get(REVISION):
        shown = {**annotations_of(deployment), REVISION: have[REVISION]}
        metadata = {**deployment["metadata"], "annotations": shown}
        # With the status: written otherwise, an annotation would move the Deployment's generation.
        return [Update({**deployment, "metadata": metadata}, "status")]
    return []


def _copied(deployment: Obj) -> dict[str, str]:
    return {key: value for key, value in annotations_of(deployment).items() if key not in _NOT_COPIED}


def _pause_condition(deployment: Obj, now: datetime) -> Write | None:
    if not has_deadline(deployment):
        return None
    said = condition(deployment, "Progressing")
    reason = said["reason"] if said is not None else ""
    if reason == "ProgressDeadlineExceeded":
        return None
    paused = bool(deployment["spec"].get("paused"))
    if paused == (reason == "DeploymentPaused"):
        return None
    what = "paused" if paused else "resumed"
    new = progressing("Unknown", f"Deployment{what.title()}", f"Deployment is {what}", now)
    status = deployment.get("status") or {}
    others = [each for each in status.get("conditions") or () if each["type"] != "Progressing"]
    return Update(with_status(deployment, {**status, "conditions": [*others, new]}), "status")


def _found(deployment: Obj, new: Obj | None, now: datetime) -> Obj | None:
    if new is None or not has_deadline(deployment) or condition(deployment, "Progressing") is not None:
        return None
    return progressing(
        "True", "FoundNewReplicaSet", f'Found new replica set "{new["metadata"]["name"]}"', now
    )


# Steps


def _resized(deployment: Obj, sets: Sequence[Obj]) -> bool:
    remembered = [annotations_of(each).get(DESIRED, "") for each in sets if replicas(each) > 0]
    return any(text.isdigit() and int(text) != replicas(deployment) for text in remembered)


def _resize(deployment: Obj, new: Obj | None, old: Sequence[Obj]) -> list[Write]:
    every = [*old, *([new] if new is not None else [])]
    active = [each for each in every if replicas(each) > 0]
    wanted = replicas(deployment)
    if len(active) <= 1:
        only = active[0] if active else new or (old[-1] if old else None)
        return [] if only is None else _scale(deployment, only, wanted)
    if new is not None and _saturated(deployment, new):
        return [write for each in old if replicas(each) for write in _scale(deployment, each, 0)]
    if (deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate") != "RollingUpdate":
        return []
    sizes = proportional_sizes(deployment, active)
    return [write for each in active for write in _scale(deployment, each, sizes[uid_of(each)], force=True)]


def _saturated(deployment: Obj, new: Obj) -> bool:
    wanted = replicas(deployment)
    available = (new.get("status") or {}).get("availableReplicas", 0)
    return replicas(new) == wanted == available and annotations_of(new).get(DESIRED) == str(wanted)


def _roll(deployment: Obj, new: Obj | None, old: Sequence[Obj], now: datetime) -> list[Write]:
    every = [*old, *([new] if new is not None else [])]
    size = new_size(deployment, every, new)
    if new is None:
        return _create(deployment, old, size, now)
    if size != replicas(new):
        return _scale(deployment, new, size)
    active = [each for each in old if replicas(each) > 0]
    sizes = old_sizes(deployment, active, new) if active else {}
    return [
        write
        for each in active
        if uid_of(each) in sizes
        for write in _scale(deployment, each, sizes[uid_of(each)])
    ]


def _recreate(view: View, deployment: Obj, new: Obj | None, old: Sequence[Obj], now: datetime) -> list[Write]:
    running = [each for each in old if replicas(each) > 0]
    if running:
        return [write for each in running for write in _scale(deployment, each, 0)]
    if any((each.get("status") or {}).get("replicas", 0) for each in old) or any(
        pod["kind"] == "Pod" and not finished(pod) for each in old for pod in view.dependents(uid_of(each))
    ):
        return []
    if new is None:
        return _create(deployment, old, replicas(deployment), now)
    return _scale(deployment, new, replicas(deployment))


def _scale(deployment: Obj, replica_set: Obj, size: int, *, force: bool = False) -> list[Write]:
    before = replicas(replica_set)
    sizes = _sizes(deployment)
    stale = any(annotations_of(replica_set).get(key) != value for key, value in sizes.items())
    if before == size and not (force and stale):
        return []
    metadata = {**replica_set["metadata"], "annotations": {**annotations_of(replica_set), **sizes}}
    writes: list[Write] = [
        Update({**replica_set, "metadata": metadata, "spec": {**replica_set["spec"], "replicas": size}})
    ]
    if before != size:
        way = "up" if size > before else "down"
        name = replica_set["metadata"]["name"]
        said = f"Scaled {way} replica set {name} from {before} to {size}"
        writes.append(Emit(deployment, "ScalingReplicaSet", said, _COMPONENT))
    return writes


def _sizes(deployment: Obj) -> dict[str, str]:
    wanted = replicas(deployment)
    return {DESIRED: str(wanted), MAX: str(wanted + bounds(deployment).surge)}


def _create(deployment: Obj, old: Sequence[Obj], size: int, now: datetime) -> list[Write]:
    template = deployment["spec"]["template"]
    status = deployment.get("status") or {}
    collisions = status.get("collisionCount", 0)
    digest = short_hash(template, collisions)
    name = f"{deployment['metadata']['name']}-{digest}"
    meta = template.get("metadata") or {}
    tagged = {**(meta.get("labels") or {}), HASH_LABEL: digest}
    selector = deployment["spec"]["selector"]
    replica_set: Obj = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": namespace_of(deployment),
            "labels": tagged,
            "annotations": {
                **_copied(deployment),
                REVISION: str(_next_revision(old)),
                **_sizes(deployment),
            },
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {
            "replicas": size,
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: digest},
            },
            "template": {**template, "metadata": {**meta, "labels": tagged}},
        },
    }
    if deployment["spec"].get("minReadySeconds"):
        replica_set["spec"]["minReadySeconds"] = deployment["spec"]["minReadySeconds"]

    def refused(error: ApiError) -> list[Write]:
        if error.reason == "AlreadyExists":
            # Somebody else's ReplicaSet has this name: another hash is tried.
            return [Update(with_status(deployment, {**status, "collisionCount": collisions + 1}), "status")]
        said = f'Failed to create new replica set "{name}": {error.message}'
        writes: list[Write] = [Emit(deployment, "ReplicaSetCreateError", said, _COMPONENT, "Warning")]
        before = condition(deployment, "Progressing")
        if has_deadline(deployment) and (before is None or before["reason"] != "ReplicaSetCreateError"):
            failed = progressing("False", "ReplicaSetCreateError", said, now)
            others = [each for each in status.get("conditions") or () if each["type"] != "Progressing"]
            writes.append(
                Update(with_status(deployment, {**status, "conditions": [*others, failed]}), "status")
            )
        return writes

    def created(_: Obj) -> list[Write]:
        writes: list[Write] = []
        if size > 0:
            said = f"Scaled up replica set {name} from 0 to {size}"
            writes.append(Emit(deployment, "ScalingReplicaSet", said, _COMPONENT))
        if has_deadline(deployment):
            said = f'Created new replica set "{name}"'
            begun = progressing("True", "NewReplicaSetCreated", said, now)
            before = condition(deployment, "Progressing")
            if before is not None and before["status"] == "True":
                begun["lastTransitionTime"] = before["lastTransitionTime"]
            others = [each for each in status.get("conditions") or () if each["type"] != "Progressing"]
            writes.append(
                Update(with_status(deployment, {**status, "conditions": [*others, begun]}), "status")
            )
        return writes

    return [Batch([Create(replica_set, created)], refused)]


def _clean_up(deployment: Obj, old: Sequence[Obj]) -> list[Write]:
    limit = deployment["spec"].get("revisionHistoryLimit", 10)
    idle = [each for each in old if not terminating(each)]
    idle.sort(
        key=lambda each: (_revision(each), each["metadata"].get("creationTimestamp") or "", key_of(each))
    )
    return [
        Delete(each)
        for each in idle[: max(0, len(idle) - limit)]
        if replicas(each) == 0
        and not (each.get("status") or {}).get("replicas", 0)
        and each["metadata"].get("generation", 0) <= (each.get("status") or {}).get("observedGeneration", 0)
    ]
