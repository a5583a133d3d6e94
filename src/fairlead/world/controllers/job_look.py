"""One Job at one moment: what its pods and its status say, counted but not yet decided."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from fairlead.world.controllers.indexes import parse_indexes
from fairlead.world.controllers.objects import (
    annotations_of,
    condition,
    is_active,
    is_ready,
    key_of,
    parse_time,
    stamp,
    terminating,
    uid_of,
)
from fairlead.world.controllers.writes import Obj

__all__ = ["FINALIZER", "INDEX", "Look", "completion_index", "has_finalizer", "pod_failed"]

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


def has_finalizer(pod: Obj) -> bool:
    """Whether the pod is still to be counted."""
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def completion_index(pod: Obj) -> int | None:
    """Which completion of an Indexed Job the pod stands for."""
    text = annotations_of(pod).get(INDEX, "")
    return int(text) if text.isdigit() else None


def pod_failed(job: Obj, pod: Obj) -> bool:
    """Whether a pod counts as failed; one that is being deleted does, unless only real ends count."""
    phase = (pod.get("status") or {}).get("phase")
    if phase == "Failed":
        return True
    return not only_failed(job) and terminating(pod) and phase != "Succeeded"


def only_failed(job: Obj) -> bool:
    """Whether a pod is replaced only once it has really ended."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


class Look:
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
        held = [uid_of(pod) for pod in pods if has_finalizer(pod)]
        before_ok, before_bad = uncounted.get("succeeded") or [], uncounted.get("failed") or []
        self.uncounted_succeeded = [uid for uid in before_ok if uid in held]
        self.uncounted_failed = [uid for uid in before_bad if uid in held]
        self.counted_succeeded = status.get("succeeded", 0) + len(before_ok) - len(self.uncounted_succeeded)
        self.counted_failed = status.get("failed", 0) + len(before_bad) - len(self.uncounted_failed)
        fresh = [pod for pod in pods if has_finalizer(pod)]
        new_bad = [
            pod
            for pod in fresh
            if uid_of(pod) not in before_bad and pod_failed(job, pod) and self.counts_as_failure(pod)
        ]
        self.failed = self.counted_failed + len(self.uncounted_failed) + len(new_bad)
        self.succeeded_indexes: list[int] = []
        if self.indexed:
            completions = spec.get("completions") or 0
            won = [i for pod in fresh if _succeeded(pod) and (i := completion_index(pod)) is not None]
            known = parse_indexes(status.get("completedIndexes", ""), completions)
            self.succeeded_indexes = sorted({*known, *(i for i in won if i < completions)})
            self.succeeded = len(self.succeeded_indexes)
        else:
            new_ok = [pod for pod in fresh if _succeeded(pod) and uid_of(pod) not in before_ok]
            self.succeeded = self.counted_succeeded + len(self.uncounted_succeeded) + len(new_ok)

    def said(self, kind: str, reason: str, message: str, *, status: str = "True") -> Obj:
        """A condition as of now."""
        at = stamp(self.now)
        return {
            "type": kind,
            "status": status,
            "lastProbeTime": at,
            "lastTransitionTime": at,
            "reason": reason,
            "message": message,
        }

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
        """When a pod ended, as far as can be told."""
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
            if pod_failed(self.job, pod) and self._rule(pod) == "FailJob":
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


def _succeeded(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") == "Succeeded"


def _ended(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
