"""StatefulSet: pods with ordinals, made and unmade in order.

OrderedReady touches one pod at a time and waits for it to be running, ready and available before the
next; Parallel does not wait. A rolling update replaces pods from the highest ordinal down to the
partition, one at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from fairlead.errors import ApiError
from fairlead.kube.template import pod_from_template
from fairlead.kube.workloads import REVISION_LABEL
from fairlead.world.controllers.revisions import revisions_of, settle, template_of, truncate
from fairlead.world.controllers.workload_pods import claim_pods, keys_of, slow_start
from fairlead.world.controllers.writes import Create, Delete, Emit, Obj, View, Write, status_writes
from fairlead.world.objects import (
    available_at,
    finished,
    is_ready,
    labels_of,
    namespace_of,
    replicas,
    split_key,
    terminating,
)

INDEX_LABEL = "apps.kubernetes.io/pod-index"
_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
_COMPONENT = "statefulset-controller"


class StatefulSetController:
    """Keeps each StatefulSet's pods and claims."""

    name = _COMPONENT
    watches = ("StatefulSet", "Pod", "ControllerRevision")

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """The StatefulSet; of a pod or revision, its owner."""
        if kind == "ControllerRevision" and new is None:
            return []
        return keys_of(view, "StatefulSet", kind, old, new)

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """The next thing to do for one ordinal, or for all that may go at once."""
        owner = view.get("StatefulSet", *split_key(key))
        if owner is None:
            return []
        pods, writes = claim_pods(view, owner, fits=lambda pod: _ordinal(owner, pod) is not None)
        pods = [pod for pod in pods if _ordinal(owner, pod) is not None]
        revisions = revisions_of(view, owner)
        update, steps = settle(owner, revisions, (owner.get("status") or {}).get("collisionCount", 0))
        if writes or update is None:
            return [*writes, *steps]
        current = _current(owner, revisions) or update
        look = _Look(owner, pods, current, update, now)
        steps = [] if terminating(owner) else _steps(view, look)
        if not steps:
            steps = truncate(owner, revisions, (_name(current), _name(update)), pods)
        return [*steps, *look.status_writes()]


class _Look:
    """One StatefulSet at one moment."""

    def __init__(self, owner: Obj, pods: Sequence[Obj], current: Obj, update: Obj, now: datetime) -> None:
        self.owner, self.current, self.update, self.now = owner, current, update, now
        spec = owner["spec"]
        self.start = (spec.get("ordinals") or {}).get("start", 0)
        self.end = self.start + replicas(owner)
        self.min_ready_s = spec.get("minReadySeconds", 0)
        self.ordered = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        self.by_ordinal = {_ordinal(owner, pod) or 0: pod for pod in pods}
        self.condemned = sorted((o for o in self.by_ordinal if not self.start <= o < self.end), reverse=True)

    def available(self, pod: Obj) -> bool:
        """Whether the next pod may be touched as far as this one is concerned."""
        at = available_at(pod, self.min_ready_s)
        return (
            (pod.get("status") or {}).get("phase") == "Running"
            and not terminating(pod)
            and at is not None
            and at <= self.now
        )

    def status_writes(self) -> list[Write]:
        """The status, if it changed, and when to look again."""
        pods = list(self.by_ordinal.values())
        current, update = _name(self.current), _name(self.update)
        ready = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running" and is_ready(pod)]
        times = [at for pod in ready if (at := available_at(pod, self.min_ready_s)) is not None]
        staying = [labels_of(pod).get(REVISION_LABEL) for pod in pods if not terminating(pod)]
        wanted = replicas(self.owner)
        updated = sum(1 for each in staying if each == update)
        kept = sum(1 for each in staying if each == current)
        strategy = (self.owner["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")
        if strategy == "RollingUpdate" and updated == len(ready) == len(pods) == wanted:
            current, kept = update, updated
        old = self.owner.get("status") or {}
        counts = {"readyReplicas": len(ready), "currentReplicas": kept, "updatedReplicas": updated}
        status: Obj = {
            "observedGeneration": self.owner["metadata"].get("generation", 0),
            "replicas": len(pods),
            **{name: count for name, count in counts.items() if count},
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": old.get("collisionCount", 0),
            "availableReplicas": sum(1 for at in times if at <= self.now),
        }
        if old.get("conditions"):
            status["conditions"] = old["conditions"]
        return status_writes(self.owner, status, [at for at in times if at > self.now])


def _steps(view: View, look: _Look) -> list[Write]:
    steps, blocked = _living(view, look)
    if steps or blocked:
        return steps
    steps, blocked = _condemned(look)
    if steps or blocked:
        return steps
    return _update(look)


def _living(view: View, look: _Look) -> tuple[list[Write], bool]:
    # Each ordinal in turn: replace what has ended, create what is missing, wait for what is not there yet.
    creations: list[Create] = []
    writes: list[Write] = []
    for ordinal in range(look.start, look.end):
        pod = look.by_ordinal.get(ordinal)
        if pod is None:
            writes += _claims(view, look.owner, ordinal)
            creations.append(_creation(look, ordinal))
            if look.ordered:
                break
        elif finished(pod):
            if not terminating(pod):
                writes += _deletion(look.owner, pod)
            if look.ordered:
                return writes, True
        elif look.ordered and not look.available(pod):
            return writes, True
    return [*writes, *slow_start(creations, lambda error: _refused(look.owner, error))], False


def _condemned(look: _Look) -> tuple[list[Write], bool]:
    # From the highest down. In order: the lower ones must be well before the next may go, except that
    # the first pod that is not well may itself go.
    everyone = [*range(look.start, look.end), *reversed(look.condemned)]
    unwell = next((o for o in everyone if not look.available(look.by_ordinal[o])), None)
    writes: list[Write] = []
    for ordinal in look.condemned:
        pod = look.by_ordinal[ordinal]
        if terminating(pod):
            if look.ordered:
                return writes, True
            continue
        if look.ordered and not look.available(pod) and ordinal != unwell:
            return writes, True
        writes += _deletion(look.owner, pod)
        if look.ordered:
            break
    return writes, False


def _update(look: _Look) -> list[Write]:
    strategy = look.owner["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") == "OnDelete":
        return []
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    for ordinal in range(look.end - 1, look.start + partition - 1, -1):
        pod = look.by_ordinal[ordinal]
        if labels_of(pod).get(REVISION_LABEL) != _name(look.update) and not terminating(pod):
            return _deletion(look.owner, pod)
        if not look.available(pod):
            return []
    return []


def _creation(look: _Look, ordinal: int) -> Create:
    owner = look.owner
    strategy = owner["spec"].get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    before = strategy.get("type", "RollingUpdate") == "RollingUpdate" and ordinal < look.start + rolling.get(
        "partition", 0
    )
    revision = look.current if before else look.update
    name = _pod_name(owner, ordinal)
    pod = pod_from_template(template_of(revision), owner, name=name)
    pod["metadata"]["labels"].update(
        {_NAME_LABEL: name, INDEX_LABEL: str(ordinal), REVISION_LABEL: _name(revision)}
    )
    spec = {**pod["spec"], "hostname": name}
    if owner["spec"].get("serviceName"):
        spec["subdomain"] = owner["spec"]["serviceName"]
    templates = owner["spec"].get("volumeClaimTemplates") or []
    if templates:
        names = [each["metadata"]["name"] for each in templates]
        spec["volumes"] = [
            *({"name": n, "persistentVolumeClaim": {"claimName": f"{n}-{name}"}} for n in names),
            *(volume for volume in spec.get("volumes") or () if volume["name"] not in names),
        ]
    pod["spec"] = spec
    who = f"Pod {name} in StatefulSet {owner['metadata']['name']}"

    def created(_: Obj) -> list[Write]:
        return [Emit(owner, "SuccessfulCreate", f"create {who} successful", _COMPONENT)]

    return Create(pod, created)


def _claims(view: View, owner: Obj, ordinal: int) -> list[Write]:
    namespace = namespace_of(owner)
    writes: list[Write] = []
    for template in owner["spec"].get("volumeClaimTemplates") or ():
        name = f"{template['metadata']['name']}-{_pod_name(owner, ordinal)}"
        if view.get("PersistentVolumeClaim", namespace, name) is None:
            labels = {
                **labels_of(template),
                **((owner["spec"].get("selector") or {}).get("matchLabels") or {}),
            }
            writes.append(
                Create(
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "metadata": {"name": name, "namespace": namespace, "labels": labels},
                        "spec": template["spec"],
                    }
                )
            )
    return writes


def _deletion(owner: Obj, pod: Obj) -> list[Write]:
    who = f"Pod {pod['metadata']['name']} in StatefulSet {owner['metadata']['name']}"
    return [Delete(pod), Emit(owner, "SuccessfulDelete", f"delete {who} successful", _COMPONENT)]


def _refused(owner: Obj, error: ApiError) -> list[Write]:
    said = f"create Pod in StatefulSet {owner['metadata']['name']} failed error: {error.message}"
    return [Emit(owner, "FailedCreate", said, _COMPONENT, "Warning")]


def _current(owner: Obj, revisions: Sequence[Obj]) -> Obj | None:
    name = (owner.get("status") or {}).get("currentRevision")
    return next((each for each in revisions if _name(each) == name), None)


def _pod_name(owner: Obj, ordinal: int) -> str:
    return f"{owner['metadata']['name']}-{ordinal}"


def _ordinal(owner: Obj, pod: Obj) -> int | None:
    found = re.fullmatch(r"(.*)-(\d+)", pod["metadata"]["name"], re.ASCII)
    return int(found[2]) if found and found[1] == owner["metadata"]["name"] else None


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])
