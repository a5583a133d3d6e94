"""Job: pods that run to their end, as many as must succeed.

Every pod carries a finalizer until it is counted, so that no end is missed and none counted twice:
first its uid goes to the status (uncounted), then the finalizer goes, then the count is raised. The
Job is over only when nothing is left uncounted and no pod is still on its way out.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from fairlead.errors import ApiError
from fairlead.world.controllers.claims import claim_pods, owners_of_pod
from fairlead.world.controllers.indexes import format_indexes
from fairlead.world.controllers.job_look import FINALIZER, Look, has_finalizer, pod_failed
from fairlead.world.controllers.job_pods import creations, too_many
from fairlead.world.controllers.objects import (
    condition,
    finished,
    key_of,
    parse_time,
    split_key,
    stamp,
    terminating,
    uid_of,
    with_status,
)
from fairlead.world.controllers.replicaset import slow_start
from fairlead.world.controllers.writes import Again, Batch, Delete, Emit, Obj, Patch, Update, View, Write

__all__ = ["JobController"]

_COMPONENT = "job-controller"
_FIRST_BACKOFF_S = 10
_LAST_BACKOFF_S = 600
_OURS = "kubernetes.io/job-controller"


class JobController:
    """Keeps each Job's pods and counts."""

    name = _COMPONENT
    watches = ("Job", "Pod")

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """The Job; of a pod, its owner; a pod whose Job is gone is let go."""
        if kind == "Job":
            item = new or old
            return [key_of(item)] if item else []
        return [*owners_of_pod(view, "Job", new), *owners_of_pod(view, "Job", old)]

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Start and stop pods, count the finished, and end the Job."""
        job = view.get("Job", *split_key(key))
        if job is None:
            return _abandoned(view, key)
        if job["spec"].get("managedBy", _OURS) != _OURS:
            return []
        if _over(job):
            return _after(view, job, now)
        pods, writes = claim_pods(view, job, finalizer=FINALIZER)
        if writes:
            return writes
        look = Look(job, pods, now)
        if terminating(job):
            return [Batch([_let_go(pod) for pod in pods if has_finalizer(pod)])]
        end = _end(look)
        pod_writes: list[Write] = []
        looks: list[Write] = []
        if end is not None:
            pod_writes = [Batch([Delete(pod) for pod in look.active])] if look.active else []
        else:
            pod_writes, looks = _manage(look)
        return [*pod_writes, *_count(look, end, busy=bool(pod_writes)), *looks]


def _over(job: Obj) -> bool:
    return any(
        c["type"] in ("Complete", "Failed") and c["status"] == "True"
        for c in (job.get("status") or {}).get("conditions") or ()
    )


def _after(view: View, job: Obj, now: datetime) -> list[Write]:
    # A finished Job lets its pods go and, if it says so, goes itself after a while.
    writes: list[Write] = [
        _let_go(pod) for pod in view.dependents(uid_of(job)) if pod["kind"] == "Pod" and has_finalizer(pod)
    ]
    ttl_s = job["spec"].get("ttlSecondsAfterFinished")
    if ttl_s is None or terminating(job):
        return writes
    end = next(
        c
        for c in job["status"]["conditions"]
        if c["type"] in ("Complete", "Failed") and c["status"] == "True"
    )
    due = parse_time(end["lastTransitionTime"]) + timedelta(seconds=ttl_s)
    if now < due:
        return [*writes, Again(due)]
    return [*writes, Delete(job, propagation="Foreground")]


def _abandoned(view: View, key: str) -> list[Write]:
    namespace, name = split_key(key)
    return [
        _let_go(pod)
        for pod in view.all("Pod", namespace)
        if has_finalizer(pod)
        and any(
            ref["kind"] == "Job" and ref["name"] == name and view.owner(namespace, ref) is None
            for ref in pod["metadata"].get("ownerReferences") or ()
        )
    ]


def _let_go(pod: Obj) -> Patch:
    left = [each for each in pod["metadata"]["finalizers"] if each != FINALIZER]
    return Patch(pod, {"metadata": {"finalizers": left or None}})


def _end(look: Look) -> Obj | None:
    """The condition that the Job is bound to end with; None while it is not decided."""
    job = look.job
    for kind in ("SuccessCriteriaMet", "FailureTarget"):
        said = condition(job, kind)
        if said is not None and said["status"] == "True":
            return said
    if (why := look.fatal_failure()) is not None:
        return look.said("FailureTarget", "PodFailurePolicy", why)
    limit = job["spec"].get("backoffLimit", 6)
    if look.failed > limit or look.restarted_too_often(limit):
        why = "Job has reached the specified backoff limit"
        return look.said("FailureTarget", "BackoffLimitExceeded", why)
    if (deadline := look.deadline()) is not None and deadline <= look.now:
        why = "Job was active longer than specified deadline"
        return look.said("FailureTarget", "DeadlineExceeded", why)
    wanted = job["spec"].get("completions")
    enough = look.succeeded > 0 if wanted is None else look.succeeded >= wanted
    if enough and not look.active:
        return look.said(
            "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"
        )
    return None


def _manage(look: Look) -> tuple[list[Write], list[Write]]:
    """Pods to start or stop, and when to look again."""
    job = look.job
    looks: list[Write] = []
    if (deadline := look.deadline()) is not None:
        looks.append(Again(deadline))
    surplus = too_many(look)
    if surplus:
        stops: list[Write] = [
            # Given up by the Job itself, they count for nothing: the finalizer goes first.
            Batch([_let_go(pod) for pod in surplus if has_finalizer(pod)]),
            Batch([Delete(pod) for pod in surplus]),
            *(
                Emit(job, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}", _COMPONENT)
                for pod in surplus
            ),
        ]
        return stops, looks
    starts = creations(look)
    if not starts:
        return [], looks
    ready_at = _backoff(look)
    if ready_at is not None and look.now < ready_at:
        return [], [*looks, Again(ready_at)]

    def refused(error: ApiError) -> list[Write]:
        return [Emit(job, "FailedCreate", f"Error creating: {error.message}", _COMPONENT, "Warning")]

    return [*slow_start(starts, refused)], looks


def _backoff(look: Look) -> datetime | None:
    # Failures since the last success double the wait: 10 s, 20 s, … 10 min after the last one.
    failures = sorted(look.end_of(pod) for pod in look.pods if pod_failed(look.job, pod))
    success = max((look.end_of(pod) for pod in look.pods if _succeeded(pod)), default=None)
    recent = [at for at in failures if success is None or at > success]
    if not recent:
        return None
    wait_s = min(_LAST_BACKOFF_S, _FIRST_BACKOFF_S * 2 ** min(len(recent) - 1, 10))
    return recent[-1] + timedelta(seconds=wait_s)


def _succeeded(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") == "Succeeded"


def _count(look: Look, end: Obj | None, *, busy: bool) -> list[Write]:
    """The status, then the finalizers of what it has taken note of."""
    job, old = look.job, look.job.get("status") or {}
    failing = end is not None and end["type"] == "FailureTarget"
    done = [
        pod
        for pod in look.pods
        if has_finalizer(pod) and (end is not None or finished(pod) or pod_failed(job, pod))
    ]
    succeeded, failed = list(look.uncounted_succeeded), list(look.uncounted_failed)
    for pod in done:
        uid = uid_of(pod)
        if _succeeded(pod):
            if not look.indexed and uid not in succeeded:
                succeeded.append(uid)
        elif (pod_failed(job, pod) or failing) and uid not in failed and look.counts_as_failure(pod):
            failed.append(uid)
    status: Obj = {
        **{name: old[name] for name in ("startTime", "completionTime", "conditions") if name in old},
        "uncountedTerminatedPods": {
            **({"succeeded": succeeded} if succeeded else {}),
            **({"failed": failed} if failed else {}),
        },
        "ready": look.ready if end is None or not busy else 0,
        "terminating": look.terminating + (len(look.active) if end is not None and busy else 0),
    }
    active = 0 if end is not None and busy else len(look.active)
    counted = {"active": active, "succeeded": look.counted_succeeded, "failed": look.counted_failed}
    status.update({name: value for name, value in counted.items() if value})
    if look.indexed:
        text = format_indexes(look.succeeded_indexes)
        status.update({"completedIndexes": text} if text else {})
        if look.succeeded:
            status["succeeded"] = look.succeeded
    writes = _suspend(look, status)
    if end is not None and condition(job, end["type"]) is None:
        status["conditions"] = [*(status.get("conditions") or []), end]
    if (
        end is not None
        and not done
        and not busy
        and not succeeded
        and not failed
        and not status["terminating"]
    ):
        writes += _conclude(look, status, end)
    first: list[Write] = [] if status == old else [Update(with_status(job, status), "status")]
    freed: list[Write] = [Batch([_let_go(pod) for pod in done])] if done else []
    return [*first, *freed, *writes]


def _suspend(look: Look, status: Obj) -> list[Write]:
    job, suspended = look.job, look.suspended
    said = condition(job, "Suspended")
    writes: list[Write] = []
    if suspended != (said is not None and said["status"] == "True"):
        word = "suspended" if suspended else "resumed"
        value = "True" if suspended else "False"
        new = look.said("Suspended", f"Job{word.title()}", f"Job {word}", status=value)
        others = [c for c in status.get("conditions") or () if c["type"] != "Suspended"]
        status["conditions"] = [*others, new]
        writes.append(Emit(job, word.title(), f"Job {word}", _COMPONENT))
        status.pop("startTime", None)
    if not suspended:
        status.setdefault("startTime", stamp(look.now))
    return writes


def _conclude(look: Look, status: Obj, end: Obj) -> list[Write]:
    kind = "Complete" if end["type"] == "SuccessCriteriaMet" else "Failed"
    final = look.said(kind, end["reason"], end["message"])
    status["conditions"] = [*(status.get("conditions") or []), final]
    if kind == "Complete":
        status["completionTime"] = stamp(look.now)
        return [Emit(look.job, "Completed", "Job completed", _COMPONENT)]
    return [Emit(look.job, end["reason"], end["message"], _COMPONENT, "Warning")]
