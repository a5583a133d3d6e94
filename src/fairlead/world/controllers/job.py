"""Job: pods that run to their end, as many as must succeed.

Every pod carries a finalizer until it is counted, so that no end is missed and none counted twice:
first its uid goes to the status (uncounted), then the finalizer goes, then the count is raised. The
Job is over only when nothing is left uncounted and no pod is still on its way out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from fairlead.kube.template import pod_from_template
from fairlead.world.controllers.workload_pods import (
    by_startup_order,
    claim_pods,
    creation,
    deleted,
    keys_of,
    refusal,
    slow_start,
)
from fairlead.world.controllers.writes import (
    Again,
    Batch,
    Create,
    Delete,
    Emit,
    Obj,
    Patch,
    View,
    Write,
    status_writes,
)
from fairlead.world.objects import (
    annotations_of,
    condition,
    finished,
    is_active,
    is_ready,
    key_of,
    new_condition,
    parse_time,
    split_key,
    stamp,
    terminating,
    uid_of,
)

_COMPONENT = "job-controller"
_FINALIZER = "batch.kubernetes.io/job-tracking"
_INDEX = "batch.kubernetes.io/job-completion-index"
_FIRST_BACKOFF_S = 10
_LAST_BACKOFF_S = 600
_BURST = 500  # pods started or stopped in one pass
_OURS = "kubernetes.io/job-controller"


class JobController:
    """Keeps each Job's pods and counts."""

    name = _COMPONENT
    watches = ("Job", "Pod")

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """The Job; of a pod, its owner; a pod whose Job is gone is let go."""
        return keys_of(view, "Job", kind, old, new)

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Start and stop pods, count the finished, and end the Job."""
        job = view.get("Job", *split_key(key))
        if job is None:
            return _abandoned(view, key)
        if job["spec"].get("managedBy", _OURS) != _OURS:
            return []
        if (verdict := _verdict(job)) is not None:
            return _after(view, job, verdict, now)
        pods, writes = claim_pods(view, job, finalizer=_FINALIZER)
        if writes:
            return writes
        state = _JobState(job, pods, now)
        if terminating(job):
            return [Batch([_let_go(pod) for pod in pods if _has_finalizer(pod)])]
        end = _end(state)
        pod_writes: list[Write] = []
        looks: list[Write] = []
        if end is not None:
            pod_writes = [Batch([Delete(pod) for pod in state.active])] if state.active else []
        else:
            pod_writes, looks = _manage(state)
        return [*pod_writes, *_count(state, end, busy=bool(pod_writes)), *looks]


def _verdict(job: Obj) -> Obj | None:
    said = [condition(job, kind) for kind in ("Complete", "Failed")]
    return next((each for each in said if each is not None and each["status"] == "True"), None)


def _after(view: View, job: Obj, verdict: Obj, now: datetime) -> list[Write]:
    # A finished Job lets its pods go and, if it says so, goes itself after a while.
    writes: list[Write] = [
        _let_go(pod) for pod in view.dependents(uid_of(job)) if pod["kind"] == "Pod" and _has_finalizer(pod)
    ]
    ttl_s = job["spec"].get("ttlSecondsAfterFinished")
    if ttl_s is None or terminating(job):
        return writes
    due = parse_time(verdict["lastTransitionTime"]) + timedelta(seconds=ttl_s)
    if now < due:
        return [*writes, Again(due)]
    return [*writes, Delete(job, propagation="Foreground")]


def _abandoned(view: View, key: str) -> list[Write]:
    namespace, name = split_key(key)
    return [
        _let_go(pod)
        for pod in view.all("Pod", namespace)
        if _has_finalizer(pod)
        and any(
            ref["kind"] == "Job" and ref["name"] == name and view.owner(namespace, ref) is None
            for ref in pod["metadata"].get("ownerReferences") or ()
        )
    ]


def _let_go(pod: Obj) -> Patch:
    left = [each for each in pod["metadata"]["finalizers"] if each != _FINALIZER]
    return Patch(pod, {"metadata": {"finalizers": left or None}})


def _end(state: _JobState) -> Obj | None:
    """The condition that the Job is bound to end with; None while it is not decided."""
    job = state.job
    for kind in ("SuccessCriteriaMet", "FailureTarget"):
        said = condition(job, kind)
        if said is not None and said["status"] == "True":
            return said
    if (why := state.fatal_failure()) is not None:
        return state.said("FailureTarget", "PodFailurePolicy", why)
    limit = job["spec"].get("backoffLimit", 6)
    if state.failed > limit or state.restarted_too_often(limit):
        why = "Job has reached the specified backoff limit"
        return state.said("FailureTarget", "BackoffLimitExceeded", why)
    if (deadline := state.deadline()) is not None and deadline <= state.now:
        why = "Job was active longer than specified deadline"
        return state.said("FailureTarget", "DeadlineExceeded", why)
    wanted = job["spec"].get("completions")
    enough = state.succeeded > 0 if wanted is None else state.succeeded >= wanted
    if enough and not state.active:
        return state.said(
            "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"
        )
    return None


def _manage(state: _JobState) -> tuple[list[Write], list[Write]]:
    """Pods to start or stop, and when to look again."""
    job = state.job
    looks: list[Write] = []
    if (deadline := state.deadline()) is not None:
        looks.append(Again(deadline))
    surplus = _too_many(state)
    if surplus:
        stops: list[Write] = [
            # Given up by the Job itself, they count for nothing: the finalizer goes first.
            Batch([_let_go(pod) for pod in surplus if _has_finalizer(pod)]),
            Batch([Delete(pod) for pod in surplus]),
            *(deleted(job, pod, _COMPONENT) for pod in surplus),
        ]
        return stops, looks
    starts = _creations(state)
    if not starts:
        return [], looks
    ready_at = _backoff(state)
    if ready_at is not None and state.now < ready_at:
        return [], [*looks, Again(ready_at)]
    return [*slow_start(starts, lambda error: [refusal(job, error, _COMPONENT)])], looks


def _backoff(state: _JobState) -> datetime | None:
    # Failures since the last success double the wait: 10 s, 20 s, … 10 min after the last one.
    failures = sorted(state.end_of(pod) for pod in state.pods if _pod_failed(state.job, pod))
    success = max((state.end_of(pod) for pod in state.pods if _succeeded(pod)), default=None)
    recent = [at for at in failures if success is None or at > success]
    if not recent:
        return None
    wait_s = min(_LAST_BACKOFF_S, _FIRST_BACKOFF_S * 2 ** min(len(recent) - 1, 10))
    return recent[-1] + timedelta(seconds=wait_s)


def _succeeded(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") == "Succeeded"


def _count(state: _JobState, end: Obj | None, *, busy: bool) -> list[Write]:
    """The status, then the finalizers of what it has taken note of."""
    job, old = state.job, state.job.get("status") or {}
    failing = end is not None and end["type"] == "FailureTarget"
    done = [
        pod
        for pod in state.pods
        if _has_finalizer(pod) and (end is not None or finished(pod) or _pod_failed(job, pod))
    ]
    succeeded, failed = list(state.uncounted_succeeded), list(state.uncounted_failed)
    for pod in done:
        uid = uid_of(pod)
        if _succeeded(pod):
            if not state.indexed and uid not in succeeded:
                succeeded.append(uid)
        elif (_pod_failed(job, pod) or failing) and uid not in failed and state.counts_as_failure(pod):
            failed.append(uid)
    status: Obj = {
        **{name: old[name] for name in ("startTime", "completionTime", "conditions") if name in old},
        "uncountedTerminatedPods": {
            **({"succeeded": succeeded} if succeeded else {}),
            **({"failed": failed} if failed else {}),
        },
        "ready": state.ready if end is None or not busy else 0,
        "terminating": state.terminating + (len(state.active) if end is not None and busy else 0),
    }
    active = 0 if end is not None and busy else len(state.active)
    counted = {"active": active, "succeeded": state.counted_succeeded, "failed": state.counted_failed}
    status.update({name: value for name, value in counted.items() if value})
    if state.indexed:
        text = format_indexes(state.succeeded_indexes)
        status.update({"completedIndexes": text} if text else {})
        if state.succeeded:
            status["succeeded"] = state.succeeded
    writes = _suspend(state, status)
    if end is not None and condition(job, end["type"]) is None:
        status["conditions"] = [*(status.get("conditions") or []), end]
    if end is not None and not (done or busy or succeeded or failed or status["terminating"]):
        writes += _conclude(state, status, end)
    freed: list[Write] = [Batch([_let_go(pod) for pod in done])] if done else []
    return [*status_writes(job, status), *freed, *writes]


def _suspend(state: _JobState, status: Obj) -> list[Write]:
    job, suspended = state.job, state.suspended
    said = condition(job, "Suspended")
    writes: list[Write] = []
    if suspended != (said is not None and said["status"] == "True"):
        word = "suspended" if suspended else "resumed"
        value = "True" if suspended else "False"
        new = state.said("Suspended", f"Job{word.title()}", f"Job {word}", status=value)
        others = [c for c in status.get("conditions") or () if c["type"] != "Suspended"]
        status["conditions"] = [*others, new]
        writes.append(Emit(job, word.title(), f"Job {word}", _COMPONENT))
        status.pop("startTime", None)
    if not suspended:
        status.setdefault("startTime", stamp(state.now))
    return writes


def _conclude(state: _JobState, status: Obj, end: Obj) -> list[Write]:
    kind = "Complete" if end["type"] == "SuccessCriteriaMet" else "Failed"
    final = state.said(kind, end["reason"], end["message"])
    status["conditions"] = [*(status.get("conditions") or []), final]
    if kind == "Complete":
        status["completionTime"] = stamp(state.now)
        return [Emit(state.job, "Completed", "Job completed", _COMPONENT)]
    return [Emit(state.job, end["reason"], end["message"], _COMPONENT, "Warning")]


def _too_many(state: _JobState) -> list[Obj]:
    """Active pods beyond what is wanted; of an Indexed Job also doubles and strays, whatever the number."""
    surplus = max(0, len(state.active) - _wanted(state))
    chosen: list[Obj] = []
    left = list(state.active)
    if state.indexed:
        seen: dict[int, Obj] = {}
        left = []
        completions = state.job["spec"].get("completions") or 0
        # The most advanced pod of an index stays.
        for pod in reversed(by_startup_order(state.active)):
            index = _completion_index(pod)
            if index is None or index >= completions or index in seen:
                chosen.append(pod)
            else:
                seen[index] = pod
                left.append(pod)
    if len(chosen) < surplus:
        chosen += by_startup_order(left)[: surplus - len(chosen)]
    return chosen[:_BURST]


def _creations(state: _JobState) -> list[Create]:
    """The pods that are missing."""
    leaving = state.terminating if _only_failed(state.job) else 0
    missing = min(_wanted(state) - len(state.active) - leaving, _BURST)
    if missing <= 0:
        return []
    if not state.indexed:
        return [_creation(state.job, None)] * missing
    return [_creation(state.job, index) for index in _open_indexes(state)[:missing]]


def _wanted(state: _JobState) -> int:
    if state.suspended:
        return 0
    spec = state.job["spec"]
    parallelism = spec.get("parallelism", 1)
    if spec.get("completions") is None:
        # A work queue: the first success means there is no more work to hand out.
        return len(state.active) if state.succeeded > 0 else int(parallelism)
    return max(0, min(int(spec["completions"]) - state.succeeded, int(parallelism)))


def _open_indexes(state: _JobState) -> list[int]:
    only = _only_failed(state.job)
    taken = [_completion_index(pod) for pod in state.pods if is_active(pod) or (only and terminating(pod))]
    done = state.succeeded_indexes
    return [i for i in range(state.job["spec"].get("completions") or 0) if i not in done and i not in taken]


def _creation(job: Obj, index: int | None) -> Create:
    pod = pod_from_template(job["spec"]["template"], job)
    metadata = pod["metadata"]
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), _FINALIZER]
    if index is not None:
        name = job["metadata"]["name"]
        metadata["generateName"] = f"{name}-{index}-"
        metadata["annotations"][_INDEX] = str(index)
        metadata["labels"][_INDEX] = str(index)
        spec = pod["spec"] = {**pod["spec"], "hostname": f"{name}-{index}"}
        for group in ("containers", "initContainers"):
            if spec.get(group):
                spec[group] = [_with_index(each) for each in spec[group]]
    return creation(job, pod, _COMPONENT)


def _with_index(container: Obj) -> Obj:
    name = "JOB_COMPLETION_INDEX"
    env = container.get("env") or []
    if any(each["name"] == name for each in env):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{_INDEX}']"}}
    return {**container, "env": [*env, {"name": name, "valueFrom": source}]}


# One Job at one moment: what its pods and its status say, counted but not yet decided


def _has_finalizer(pod: Obj) -> bool:
    """Whether the pod is still to be counted."""
    return _FINALIZER in (pod["metadata"].get("finalizers") or ())


def _completion_index(pod: Obj) -> int | None:
    """Which completion of an Indexed Job the pod stands for."""
    text = annotations_of(pod).get(_INDEX, "")
    return int(text) if text.isdigit() else None


def _pod_failed(job: Obj, pod: Obj) -> bool:
    """Whether a pod counts as failed; one that is being deleted does, unless only real ends count."""
    phase = (pod.get("status") or {}).get("phase")
    if phase == "Failed":
        return True
    return not _only_failed(job) and terminating(pod) and phase != "Succeeded"


def _only_failed(job: Obj) -> bool:
    """Whether a pod is replaced only once it has really ended."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


class _JobState:
    """The counts. `counted_*` are what the status may say now, the others include what is on its way."""

    def __init__(self, job: Obj, pods: Sequence[Obj], now: datetime) -> None:
        self.job, self.pods, self.now = job, pods, now
        spec, status = job["spec"], job.get("status") or {}
        self.indexed = spec.get("completionMode") == "Indexed"
        self.suspended = bool(spec.get("suspend"))
        self.active = [pod for pod in pods if is_active(pod)]
        self.ready = sum(1 for pod in self.active if is_ready(pod))
        self.terminating = sum(1 for pod in pods if terminating(pod) and not _ended(pod))
        uncounted = status.get("uncountedTerminatedPods") or {}
        held = [uid_of(pod) for pod in pods if _has_finalizer(pod)]
        before_ok, before_bad = uncounted.get("succeeded") or [], uncounted.get("failed") or []
        self.uncounted_succeeded = [uid for uid in before_ok if uid in held]
        self.uncounted_failed = [uid for uid in before_bad if uid in held]
        self.counted_succeeded = status.get("succeeded", 0) + len(before_ok) - len(self.uncounted_succeeded)
        self.counted_failed = status.get("failed", 0) + len(before_bad) - len(self.uncounted_failed)
        fresh = [pod for pod in pods if _has_finalizer(pod)]
        new_bad = [
            pod
            for pod in fresh
            if uid_of(pod) not in before_bad and _pod_failed(job, pod) and self.counts_as_failure(pod)
        ]
        self.failed = self.counted_failed + len(self.uncounted_failed) + len(new_bad)
        self.succeeded_indexes: list[int] = []
        if self.indexed:
            completions = spec.get("completions") or 0
            won = [i for pod in fresh if _succeeded(pod) and (i := _completion_index(pod)) is not None]
            known = parse_indexes(status.get("completedIndexes", ""), completions)
            self.succeeded_indexes = sorted({*known, *(i for i in won if i < completions)})
            self.succeeded = len(self.succeeded_indexes)
        else:
            new_ok = [pod for pod in fresh if _succeeded(pod) and uid_of(pod) not in before_ok]
            self.succeeded = self.counted_succeeded + len(self.uncounted_succeeded) + len(new_ok)

    def said(self, kind: str, reason: str, message: str, *, status: str = "True") -> Obj:
        """A condition as of now."""
        return new_condition(kind, status, reason, message, self.now, lastProbeTime=stamp(self.now))

    def deadline(self) -> datetime | None:
        """When the Job is out of time; None without a limit, or while it is suspended."""
        limit_s = self.job["spec"].get("activeDeadlineSeconds")
        start = (self.job.get("status") or {}).get("startTime")
        if limit_s is None or self.suspended:
            return None
        return (parse_time(start) if start else self.now) + timedelta(seconds=limit_s)

    def restarted_too_often(self, limit: int) -> bool:
        """Whether containers that restart in place (OnFailure) used up the backoff limit."""
        if (self.job["spec"]["template"]["spec"]).get("restartPolicy") != "OnFailure":
            return False
        restarts = sum(
            each.get("restartCount", 0)
            for pod in self.pods
            if (pod.get("status") or {}).get("phase") in ("Running", "Pending")
            for name in ("initContainerStatuses", "containerStatuses")
            for each in pod["status"].get(name) or ()
        )
        return bool(restarts > 0 if limit == 0 else restarts >= limit)

    def end_of(self, pod: Obj) -> datetime:
        """When a pod ended, as far as its status says."""
        status = pod.get("status") or {}
        ends = [
            parse_time(state["finishedAt"])
            for each in status.get("containerStatuses") or ()
            if (state := (each.get("state") or {}).get("terminated")) and state.get("finishedAt")
        ]
        if ends:
            return max(ends)
        meta = pod["metadata"]
        if (deleted := meta.get("deletionTimestamp")) is not None:
            return parse_time(deleted) - timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
        return parse_time(meta["creationTimestamp"])

    # The Job's own rules about failures

    def counts_as_failure(self, pod: Obj) -> bool:
        """Whether a failed pod counts against the backoff limit."""
        return self._rule(pod) != "Ignore"

    def fatal_failure(self) -> str | None:
        """Why a failed pod must end the whole Job; None when none does."""
        for pod in self.pods:
            if _pod_failed(self.job, pod) and self._rule(pod) == "FailJob":
                return f"Pod {key_of(pod)} has a failure that a FailJob rule matches"
        return None

    def _rule(self, pod: Obj) -> str:
        for rule in (self.job["spec"].get("podFailurePolicy") or {}).get("rules") or ():
            codes = rule.get("onExitCodes")
            if codes is not None and _exit_code_matches(pod, codes):
                return str(rule["action"])
            for pattern in rule.get("onPodConditions") or ():
                said = condition(pod, pattern["type"])
                if said is not None and said["status"] == pattern.get("status", "True"):
                    return str(rule["action"])
        return "Count"


def _exit_code_matches(pod: Obj, rule: Obj) -> bool:
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        state = (each.get("state") or {}).get("terminated")
        if state is None or state["exitCode"] == 0:
            continue
        if rule.get("containerName") in (None, each["name"]):
            listed = state["exitCode"] in rule["values"]
            if listed == (rule["operator"] == "In"):
                return True
    return False


def _ended(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


# Completion indexes of an Indexed Job, written as ranges: ``0,3-5,7``


def parse_indexes(text: str, below: int) -> list[int]:
    """The indexes that a Job's status lists, those out of range left out.

    >>> parse_indexes("0,3-5,7", 7)
    [0, 3, 4, 5]
    """
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return [index for index in found if index < below]


def format_indexes(indexes: Iterable[int]) -> str:
    """Indexes as ranges; two neighbours are written as two.

    >>> format_indexes([5, 0, 3, 4, 7, 8])
    '0,3-5,7,8'
    """
    runs: list[list[int]] = []
    for index in sorted(set(indexes)):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(str(index) for index in run) for run in runs
    )
