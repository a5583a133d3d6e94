"""Deployment: rolls ReplicaSets, one per template, from the old ones to the new one.

Each pass makes one kind of step (adopt, annotate, resize, clean up) and then says how far it is; the
change it made brings it back for the next. A resize in mid-rollout is noticed by the desired number
that each ReplicaSet's annotation remembers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fairlead.errors import ApiError
from fairlead.kube.template import owner_reference
from fairlead.world.controllers.workload_pods import claim
from fairlead.world.controllers.writes import Again, Batch, Create, Delete, Emit, Obj, Update, View, Write
from fairlead.world.objects import (
    annotations_of,
    condition,
    controller_of,
    finished,
    key_of,
    labels_of,
    namespace_of,
    new_condition,
    parse_time,
    replicas,
    scaled,
    selects,
    short_hash,
    split_key,
    stamp,
    terminating,
    uid_of,
    with_status,
)

_REVISION = "deployment.kubernetes.io/revision"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MAX = "deployment.kubernetes.io/max-replicas"
_HASH_LABEL = "pod-template-hash"
_HISTORY = "deployment.kubernetes.io/revision-history"
_COMPONENT = "deployment-controller"
_NOT_COPIED = ("kubectl.kubernetes.io/last-applied-configuration", _REVISION, _HISTORY, _DESIRED, _MAX)


class DeploymentController:
    """Keeps each Deployment's ReplicaSets."""

    name = _COMPONENT
    watches = ("Deployment", "ReplicaSet", "Pod")

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """The Deployment; of a ReplicaSet, its owner or adopter; of a pod, only that it is gone."""
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
            return _status_writes(deployment, sets, new, now, rolling=False)
        if (pause := _pause_condition(deployment, now)) is not None:
            return [pause]
        if new is not None and (step := _annotate(deployment, new, old)):
            return step
        found = _found(deployment, new, now)
        if deployment["spec"].get("paused") or _resized(deployment, sets):
            return [
                *_resize(deployment, new, old),
                *(_clean_up(deployment, old) if deployment["spec"].get("paused") else []),
                *_status_writes(deployment, sets, new, now, rolling=False, found=found),
            ]
        strategy = (deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate")
        if strategy == "Recreate":
            steps = _recreate(view, deployment, new, old, now)
        else:
            steps = _roll(deployment, new, old, now)
        if not steps and _complete(deployment, deployment.get("status") or {}):
            steps = _clean_up(deployment, old)
        if new is None and steps and isinstance(steps[-1], Create | Batch):
            return steps  # the creation says what happened, in the status too
        return [*steps, *_status_writes(deployment, sets, new, now, rolling=True, found=found)]


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
    meta["labels"] = {key: value for key, value in (meta.get("labels") or {}).items() if key != _HASH_LABEL}
    return meta


# Revisions and annotations


def _revision(replica_set: Obj) -> int:
    text = annotations_of(replica_set).get(_REVISION, "0")
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
        if _REVISION in have:
            wanted[_HISTORY] = ",".join(filter(None, (have.get(_HISTORY, ""), have[_REVISION])))
        wanted[_REVISION] = str(revision)
    min_ready_s = deployment["spec"].get("minReadySeconds", 0)
    if wanted != have or new["spec"].get("minReadySeconds", 0) != min_ready_s:
        changed = {**new, "metadata": {**new["metadata"], "annotations": wanted}}
        return [Update({**changed, "spec": {**new["spec"], "minReadySeconds": min_ready_s}})]
    if annotations_of(deployment).get(_REVISION) != have.get(_REVISION):
        shown = {**annotations_of(deployment), _REVISION: have[_REVISION]}
        metadata = {**deployment["metadata"], "annotations": shown}
        # With the status: written otherwise, an annotation would move the Deployment's generation.
        return [Update({**deployment, "metadata": metadata}, "status")]
    return []


def _copied(deployment: Obj) -> dict[str, str]:
    return {key: value for key, value in annotations_of(deployment).items() if key not in _NOT_COPIED}


def _pause_condition(deployment: Obj, now: datetime) -> Write | None:
    if not _has_deadline(deployment):
        return None
    said = condition(deployment, "Progressing")
    reason = said["reason"] if said is not None else ""
    if reason == "ProgressDeadlineExceeded":
        return None
    paused = bool(deployment["spec"].get("paused"))
    if paused == (reason == "DeploymentPaused"):
        return None
    what = "paused" if paused else "resumed"
    new = _progressing("Unknown", f"Deployment{what.title()}", f"Deployment is {what}", now)
    return _saying(deployment, new)


def _saying(deployment: Obj, progress: Obj) -> Update:
    status = deployment.get("status") or {}
    others = [each for each in status.get("conditions") or () if each["type"] != "Progressing"]
    return Update(with_status(deployment, {**status, "conditions": [*others, progress]}), "status")


def _found(deployment: Obj, new: Obj | None, now: datetime) -> Obj | None:
    if new is None or not _has_deadline(deployment) or condition(deployment, "Progressing") is not None:
        return None
    return _progressing(
        "True", "FoundNewReplicaSet", f'Found new replica set "{new["metadata"]["name"]}"', now
    )


# Steps


def _resized(deployment: Obj, sets: Sequence[Obj]) -> bool:
    remembered = [annotations_of(each).get(_DESIRED, "") for each in sets if replicas(each) > 0]
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
    sizes = _proportional_sizes(deployment, active)
    return [write for each in active for write in _scale(deployment, each, sizes[uid_of(each)], force=True)]


def _saturated(deployment: Obj, new: Obj) -> bool:
    wanted = replicas(deployment)
    available = (new.get("status") or {}).get("availableReplicas", 0)
    return replicas(new) == wanted == available and annotations_of(new).get(_DESIRED) == str(wanted)


def _roll(deployment: Obj, new: Obj | None, old: Sequence[Obj], now: datetime) -> list[Write]:
    every = [*old, *([new] if new is not None else [])]
    size = _new_size(deployment, every, new)
    if new is None:
        return _create(deployment, old, size, now)
    if size != replicas(new):
        return _scale(deployment, new, size)
    active = [each for each in old if replicas(each) > 0]
    sizes = _old_sizes(deployment, active, new) if active else {}
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
    return {_DESIRED: str(wanted), _MAX: str(wanted + bounds(deployment).surge)}


def _create(deployment: Obj, old: Sequence[Obj], size: int, now: datetime) -> list[Write]:
    template = deployment["spec"]["template"]
    status = deployment.get("status") or {}
    collisions = status.get("collisionCount", 0)
    digest = short_hash(template, collisions)
    name = f"{deployment['metadata']['name']}-{digest}"
    meta = template.get("metadata") or {}
    tagged = {**(meta.get("labels") or {}), _HASH_LABEL: digest}
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
                _REVISION: str(_next_revision(old)),
                **_sizes(deployment),
            },
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {
            "replicas": size,
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), _HASH_LABEL: digest},
            },
            "template": {**template, "metadata": {**meta, "labels": tagged}},
        },
    }
    if deployment["spec"].get("minReadySeconds"):
        replica_set["spec"]["minReadySeconds"] = deployment["spec"]["minReadySeconds"]

    def refused(error: ApiError) -> list[Write]:
        if error.reason == "AlreadyExists":
            # A ReplicaSet of another owner has this name: another hash is tried.
            return [Update(with_status(deployment, {**status, "collisionCount": collisions + 1}), "status")]
        said = f'Failed to create new replica set "{name}": {error.message}'
        writes: list[Write] = [Emit(deployment, "ReplicaSetCreateError", said, _COMPONENT, "Warning")]
        before = condition(deployment, "Progressing")
        if _has_deadline(deployment) and (before is None or before["reason"] != "ReplicaSetCreateError"):
            failed = _progressing("False", "ReplicaSetCreateError", said, now)
            writes.append(_saying(deployment, failed))
        return writes

    def created(_: Obj) -> list[Write]:
        writes: list[Write] = []
        if size > 0:
            said = f"Scaled up replica set {name} from 0 to {size}"
            writes.append(Emit(deployment, "ScalingReplicaSet", said, _COMPONENT))
        if _has_deadline(deployment):
            said = f'Created new replica set "{name}"'
            begun = _progressing("True", "NewReplicaSetCreated", said, now)
            before = condition(deployment, "Progressing")
            if before is not None and before["status"] == "True":
                begun["lastTransitionTime"] = before["lastTransitionTime"]
            writes.append(_saying(deployment, begun))
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


# What a Deployment says of itself: counts, Available, Progressing; what `kubectl rollout status` reads

# progressDeadlineSeconds with this value means: never give up.
_NEVER = 2**31 - 1


def _has_deadline(deployment: Obj) -> bool:
    """Whether the rollout is watched for progress at all."""
    return deployment["spec"].get("progressDeadlineSeconds") not in (None, _NEVER)


def _complete(deployment: Obj, status: Obj) -> bool:
    """Whether all pods are of the newest template and available, and no other is left."""
    wanted = replicas(deployment)
    return bool(
        status.get("updatedReplicas", 0) == wanted
        and status.get("replicas", 0) == wanted
        and status.get("availableReplicas", 0) == wanted
        and status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    )


def _progressing(status: str, reason: str, message: str, now: datetime) -> Obj:
    """A Progressing condition as of now."""
    return _condition("Progressing", status, reason, message, now)


def _status_writes(
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
    if not _has_deadline(deployment):
        return [each for each in conditions if each["type"] != "Progressing"]
    current = condition(deployment, "Progressing")
    settled = current is not None and current["reason"] == "NewReplicaSetAvailable"
    if settled and status.get("replicas", 0) == status.get("updatedReplicas", 0):
        return conditions
    name = deployment["metadata"]["name"]
    who = f'Deployment "{name}"' if new is None else f'ReplicaSet "{new["metadata"]["name"]}"'
    if _complete(deployment, status):
        said = _progressing("True", "NewReplicaSetAvailable", f"{who} has successfully progressed.", now)
        return _set(conditions, said)
    if _moved(deployment.get("status") or {}, status):
        said = _progressing("True", "ReplicaSetUpdated", f"{who} is progressing.", now)
        if current is not None and current["status"] == "True":
            said["lastTransitionTime"] = current["lastTransitionTime"]
        # Unlike other conditions it is renewed with the same reason: its time is the proof of progress.
        return [*(each for each in conditions if each["type"] != "Progressing"), said]
    at = _deadline(deployment, status)
    if at is not None and at < now:
        said = _progressing("False", "ProgressDeadlineExceeded", f"{who} has timed out progressing.", now)
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
    if not _has_deadline(deployment) or _complete(deployment, status):
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
    return new_condition(kind, status, reason, message, now, lastUpdateTime=stamp(now))


def _set(conditions: Sequence[Obj], new: Obj) -> list[Obj]:
    # Same status and reason: the old one stays as it is. A changed one moves to the end.
    for old in conditions:
        if old["type"] == new["type"]:
            if old["status"] == new["status"] and old["reason"] == new["reason"]:
                return list(conditions)
            if old["status"] == new["status"]:
                new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
    return [*(each for each in conditions if each["type"] != new["type"]), new]


# The arithmetic of a rollout. Percentages of surge round up and of unavailability down; when both end at
# zero, one may be unavailable, because otherwise nothing could ever move.


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many pods above the desired number may exist, and how many of it may be missing."""

    surge: int
    unavailable: int


def bounds(deployment: Obj) -> Bounds:
    """The bounds of a rolling update; a Recreate strategy has none of either."""
    strategy = deployment["spec"].get("strategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return Bounds(0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    desired = replicas(deployment)
    surge = scaled(rolling.get("maxSurge", "25%"), desired, up=True)
    unavailable = scaled(rolling.get("maxUnavailable", "25%"), desired, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Bounds(surge, min(unavailable, desired))


def _new_size(deployment: Obj, every: Sequence[Obj], new: Obj | None) -> int:
    """How large the new ReplicaSet may be now."""
    desired, held = replicas(deployment), 0 if new is None else replicas(new)
    strategy = (deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate")
    if strategy == "Recreate" or held >= desired:
        return desired
    room = desired + bounds(deployment).surge - sum(replicas(each) for each in every)
    return held + max(0, min(room, desired - held))


def _old_sizes(deployment: Obj, old: Sequence[Obj], new: Obj) -> dict[str, int]:
    """New sizes of old ReplicaSets (oldest first), by uid: only those that shrink.

    Pods that are not available go first, wherever they are: that costs no availability. Then as
    many available ones as there are beyond the minimum.
    """
    sizes = {each["metadata"]["uid"]: replicas(each) for each in old}
    before = dict(sizes)
    minimum = replicas(deployment) - bounds(deployment).unavailable
    new_unavailable = replicas(new) - _available(new)
    budget = sum(sizes.values()) + replicas(new) - minimum - new_unavailable
    if budget <= 0:
        return {}
    for each in old:
        uid = each["metadata"]["uid"]
        unhealthy = min(budget, sizes[uid] - _available(each))
        if unhealthy > 0:
            sizes[uid] -= unhealthy
            budget -= unhealthy
    spare = sum(_available(each) for each in (*old, new)) - minimum
    for each in old:
        uid = each["metadata"]["uid"]
        shrink = min(sizes[uid], spare)
        if shrink > 0:
            sizes[uid] -= shrink
            spare -= shrink
    return {uid: size for uid, size in sizes.items() if size != before[uid]}


def _proportional_sizes(deployment: Obj, active: Sequence[Obj]) -> dict[str, int]:
    """Sizes by uid when a Deployment is resized in mid-rollout: all ReplicaSets in proportion.

    Growing prefers larger and then newer ones, shrinking larger and then older ones; what rounding
    leaves over goes to the largest.
    """
    desired = replicas(deployment)
    allowed = desired + bounds(deployment).surge if desired > 0 else 0
    change = allowed - sum(replicas(each) for each in active)
    ordered = sorted(active, key=_age, reverse=change > 0)
    ordered.sort(key=replicas, reverse=True)
    sizes, changed = {}, 0
    for each in ordered:
        part = _part(deployment, each, change, changed)
        sizes[each["metadata"]["uid"]] = replicas(each) + part
        changed += part
    if ordered and change != 0:
        largest = ordered[0]["metadata"]["uid"]
        sizes[largest] = max(0, sizes[largest] + change - changed)
    return sizes


def _part(deployment: Obj, each: Obj, change: int, changed: int) -> int:
    size = replicas(each)
    if size == 0 or change in (0, changed):
        return 0
    if replicas(deployment) == 0:
        wish = -size
    else:
        now = replicas(deployment) + bounds(deployment).surge
        before = annotations_of(each).get(_MAX, "")
        base = int(before) if before.isdigit() and int(before) > 0 else _total(deployment)
        # Half a replica is rounded away from zero.
        wish = 0 if base == 0 else (2 * size * now + base) // (2 * base) - size
    left = change - changed
    return min(wish, left) if change > 0 else max(wish, left)


def _total(deployment: Obj) -> int:
    return int((deployment.get("status") or {}).get("replicas", 0))


def _available(each: Obj) -> int:
    return int((each.get("status") or {}).get("availableReplicas", 0))


def _age(each: Obj) -> tuple[str, str]:
    return each["metadata"].get("creationTimestamp") or "", each["metadata"]["name"]
