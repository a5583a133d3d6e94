"""A pod's status through its life, as its kubelet would write it. Pure: old pod and time in, status out."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from fairlead.world.controllers.objects import annotations_of, condition, controller_of, parse_time, stamp
from fairlead.world.controllers.writes import Obj

__all__ = [
    "EXIT_CODE",
    "READY_AFTER",
    "RUN_FOR",
    "accepted",
    "duration",
    "ended",
    "refused",
    "restarted",
    "running",
    "stopped",
]

# What a pod may say about how it wants to be played.
RUN_FOR = "fairlead.dev/run-for"
EXIT_CODE = "fairlead.dev/exit-code"
READY_AFTER = "fairlead.dev/ready-after"

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str) -> timedelta | None:
    """A duration as Go writes it; None when it is not one.

    >>> duration("1m30s").total_seconds(), duration("250ms").total_seconds(), duration("never")
    (90.0, 0.25, None)
    """
    if re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h))+", text) is None:
        return None
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    return timedelta(seconds=sum(float(number) * _UNITS_S[unit] for number, unit in parts))


def refused(pod: Obj, reason: str, message: str, now: datetime) -> Obj:
    """The kubelet will not run this pod."""
    kept = [c for c in (pod.get("status") or {}).get("conditions") or () if c["type"] == "PodScheduled"]
    return {
        **_base(pod),
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "startTime": stamp(now),
        **({"conditions": kept} if kept else {}),
    }


def accepted(pod: Obj, host_ip: str, now: datetime) -> Obj:
    """The pod is this kubelet's; its containers are being created."""
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    names = [c["name"] for c in pod["spec"]["containers"]]
    status: Obj = {
        **_base(pod),
        "phase": "Pending",
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "startTime": stamp(now),
        "conditions": _conditions(
            pod,
            now,
            {
                "PodReadyToStartContainers": ("False", "", ""),
                "Initialized": ("True", "", ""),
                "Ready": _unready(names),
                "ContainersReady": _unready(names),
            },
        ),
        "containerStatuses": [
            _container(c, waiting, ready=False, restarts=0) for c in pod["spec"]["containers"]
        ],
    }
    return _with_init(pod, status, now)


def running(pod: Obj, host_ip: str, pod_ip: str, now: datetime) -> Obj:
    """The containers run; whether they are ready is up to the pod's own `READY_AFTER`."""
    before = pod.get("status") or {}
    ready = ready_at(pod, now)
    is_ready = ready is not None and ready <= now
    names = [c["name"] for c in pod["spec"]["containers"]]
    restarts = {c["name"]: c.get("restartCount", 0) for c in before.get("containerStatuses") or ()}
    state = {"running": {"startedAt": _started(pod) or stamp(now)}}
    fine, gates = ("True", "", ""), _gates_open(pod)
    ip = host_ip if pod["spec"].get("hostNetwork") else pod_ip
    status: Obj = {
        **_base(pod),
        "phase": "Running",
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": before.get("startTime") or stamp(now),
        "conditions": _conditions(
            pod,
            now,
            {
                "PodReadyToStartContainers": fine,
                "Initialized": fine,
                "Ready": _unready(names) if not is_ready else fine if gates else _GATED,
                "ContainersReady": fine if is_ready else _unready(names),
            },
        ),
        "containerStatuses": [
            _container(c, state, ready=is_ready, restarts=restarts.get(c["name"], 0))
            for c in pod["spec"]["containers"]
        ],
    }
    return _with_init(pod, status, now)


def ready_at(pod: Obj, now: datetime) -> datetime | None:
    """When a running pod becomes ready; None for never."""
    asked = annotations_of(pod).get(READY_AFTER)
    started = _started(pod)
    begin = parse_time(started) if started is not None else now
    if asked is None:
        return begin
    delay = duration(asked)
    return None if delay is None else begin + delay


def ends_at(pod: Obj, job_run: timedelta) -> datetime | None:
    """When a running pod's containers exit by themselves; None for never.

    A Job's pods run for `job_run`; `RUN_FOR` says otherwise, for any pod.
    """
    asked = annotations_of(pod).get(RUN_FOR)
    if asked is not None:
        length = duration(asked)
    else:
        held = controller_of(pod)
        length = job_run if held is not None and held["kind"] == "Job" else None
    started = _started(pod)
    if length is None or started is None:
        return None
    return parse_time(started) + length


def exit_code(pod: Obj) -> int:
    """With what the pod's containers exit."""
    text = annotations_of(pod).get(EXIT_CODE, "0")
    return int(text) if text.isdigit() else 0


def ended(pod: Obj, now: datetime, code: int, *, reason: str = "", message: str = "") -> Obj:
    """All containers exited with `code`, and nobody starts them again."""
    before = pod.get("status") or {}
    done = code == 0
    why = "Completed" if done else "Error"
    at = stamp(now)
    state = {
        "terminated": {
            "exitCode": code,
            "reason": why,
            "startedAt": _started(pod) or at,
            "finishedAt": at,
        }
    }
    restarts = {c["name"]: c.get("restartCount", 0) for c in before.get("containerStatuses") or ()}
    over = ("False", "PodCompleted" if done else "PodFailed", "")
    return {
        **before,
        "phase": "Succeeded" if done else "Failed",
        "observedGeneration": pod["metadata"].get("generation", 0),
        **({"reason": reason} if reason else {}),
        **({"message": message} if message else {}),
        "conditions": _conditions(
            pod, now, {"PodReadyToStartContainers": ("False", "", ""), "Ready": over, "ContainersReady": over}
        ),
        "containerStatuses": [
            _container(c, state, ready=False, restarts=restarts.get(c["name"], 0))
            for c in pod["spec"]["containers"]
        ],
    }


def restarted(pod: Obj, now: datetime, code: int) -> Obj:
    """All containers exited with `code` and were started again."""
    before = pod.get("status") or {}
    at = stamp(now)
    last = {
        "terminated": {
            "exitCode": code,
            "reason": "Error",
            "startedAt": _started(pod) or at,
            "finishedAt": at,
        }
    }
    return {
        **before,
        "containerStatuses": [
            {
                **each,
                "restartCount": each.get("restartCount", 0) + 1,
                "state": {"running": {"startedAt": at}},
                "lastState": last,
            }
            for each in before.get("containerStatuses") or ()
        ],
    }


def stopped(pod: Obj, now: datetime) -> Obj:
    """Told to go, the containers exited on the signal."""
    return ended(pod, now, 143)


_GATED = ("False", "ReadinessGatesNotReady", 'the status of pod readiness gates is not "True"')


def _base(pod: Obj) -> Obj:
    # What others wrote and a kubelet keeps.
    before = pod.get("status") or {}
    kept = {
        name: before[name]
        for name in ("qosClass", "nominatedNodeName", "resourceClaimStatuses")
        if name in before
    }
    return {**kept, "observedGeneration": pod["metadata"].get("generation", 0)}


def _started(pod: Obj) -> str | None:
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        run = (each.get("state") or {}).get("running")
        if run:
            return str(run["startedAt"])
    return None


def _unready(names: list[str]) -> tuple[str, str, str]:
    return "False", "ContainersNotReady", f"containers with unready status: [{' '.join(names)}]"


def _gates_open(pod: Obj) -> bool:
    gates = pod["spec"].get("readinessGates") or ()
    return all((condition(pod, gate["conditionType"]) or {}).get("status") == "True" for gate in gates)


def _conditions(pod: Obj, now: datetime, wanted: dict[str, tuple[str, str, str]]) -> list[Obj]:
    generation = pod["metadata"].get("generation", 0)
    result = []
    for kind, (status, reason, message) in wanted.items():
        old = condition(pod, kind)
        since = old["lastTransitionTime"] if old is not None and old["status"] == status else stamp(now)
        entry: Obj = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": since}
        if generation:
            entry["observedGeneration"] = generation
        if reason:
            entry["reason"] = reason
        if message:
            entry["message"] = message
        result.append(entry)
    kept = [c for c in (pod.get("status") or {}).get("conditions") or () if c["type"] not in wanted]
    return [*result, *kept]


def _container(spec: Obj, state: Obj, *, ready: bool, restarts: int) -> Obj:
    status: Obj = {
        "name": spec["name"],
        "image": spec.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": {},
    }
    if resources := spec.get("resources"):
        status["resources"] = resources
        if resources.get("requests"):
            status["allocatedResources"] = resources["requests"]
    return status


def _with_init(pod: Obj, status: Obj, now: datetime) -> Obj:
    init = pod["spec"].get("initContainers")
    if not init:
        return status
    at = stamp(now)
    over = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}}
    on = {"running": {"startedAt": at}}
    before = {c["name"]: c for c in (pod.get("status") or {}).get("initContainerStatuses") or ()}
    status["initContainerStatuses"] = [
        before.get(c["name"])
        or _container(c, on if c.get("restartPolicy") == "Always" else over, ready=True, restarts=0)
        for c in init
    ]
    return status
