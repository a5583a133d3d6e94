"""The row of a pod: kubectl's STATUS column is a small story of its own."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fairlead.world.objects import condition, condition_holds
from fairlead.world.tables.columns import Printer, age, heading

Object = dict[str, Any]

_ENDED = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


def print_pod_conditions(pod: Object) -> list[Object] | None:
    """What a row says of a pod that has ended, so that clients may hide it."""
    phase = pod.get("status", {}).get("phase")
    if phase not in _ENDED:
        return None
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDED[phase]}]


def _cells(pod: Object, now: datetime) -> list[Any]:
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    reason, ready, restarts, last_restart = _story(pod)
    total = len(spec.get("containers") or ()) + len(_sidecars(spec))
    ago = f" ({age(last_restart, now)} ago)" if restarts and last_restart else ""
    ips = status.get("podIPs") or ()
    return [
        metadata["name"],
        f"{ready}/{total}",
        reason,
        f"{restarts}{ago}",
        age(metadata.get("creationTimestamp"), now),
        ips[0]["ip"] if ips else "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        _gates(pod),
    ]


_HEADINGS = (
    "Name",
    "Ready",
    "Status",
    "Restarts",
    "Age",
    "+IP",
    "+Node",
    "+Nominated Node",
    "+Readiness Gates",
)
POD = Printer(tuple(heading(each) for each in _HEADINGS), _cells)


def _sidecars(spec: Object) -> set[str]:
    return {
        item["name"] for item in spec.get("initContainers") or () if item.get("restartPolicy") == "Always"
    }


def _story(pod: Object) -> tuple[str, int, int, str]:
    status = pod.get("status") or {}
    phase = status.get("phase", "")
    reason = status.get("reason") or phase
    scheduled = condition(pod, "PodScheduled")
    if scheduled and scheduled.get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    initializing, ready, restarts, last = _init_story(pod)
    if initializing:
        reason = initializing
    initialized = condition(pod, "Initialized")
    if not initializing or (initialized and initialized.get("status") == "True"):
        reason, more_ready, more, later = _main_story(pod, reason)
        ready += more_ready
        restarts = _sidecar_restarts(pod) + more
        last = max(last if _sidecar_restarts(pod) else "", later)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif phase not in _ENDED:
            reason = "Terminating"
    return reason, ready, restarts, last


def _init_story(pod: Object) -> tuple[str, int, int, str]:
    spec, status = pod["spec"], pod.get("status") or {}
    sidecars = _sidecars(spec)
    ready, restarts, last = 0, 0, ""
    for index, held in enumerate(status.get("initContainerStatuses") or ()):
        state = held.get("state") or {}
        restarts += held.get("restartCount", 0)
        last = max(last, _last_end(held))
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if held["name"] in sidecars and held.get("started"):
            ready += 1 if held.get("ready") else 0
            continue
        if ended is not None:
            return f"Init:{_end(ended)}", ready, restarts, last
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}", ready, restarts, last
        return f"Init:{index}/{len(spec.get('initContainers') or ())}", ready, restarts, last
    return "", ready, restarts, last


def _main_story(pod: Object, reason: str) -> tuple[str, int, int, str]:
    ready, restarts, last = 0, 0, ""
    running, failed = False, ""
    for held in reversed((pod.get("status") or {}).get("containerStatuses") or []):
        state = held.get("state") or {}
        restarts += held.get("restartCount", 0)
        last = max(last, _last_end(held))
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = _end(ended)
            if ended.get("exitCode", 0):
                failed = reason
        elif held.get("ready") and state.get("running") is not None:
            running = True
            ready += 1
    if reason == "Completed":
        if running:
            reason = "Running" if condition_holds(pod, "Ready") else failed or "NotReady"
        elif failed:
            reason = failed
    return reason, ready, restarts, last


def _end(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _last_end(held: Object) -> str:
    ended = (held.get("lastState") or {}).get("terminated") or {}
    return ended.get("finishedAt") or ""


def _sidecar_restarts(pod: Object) -> int:
    sidecars = _sidecars(pod["spec"])
    held = (pod.get("status") or {}).get("initContainerStatuses") or ()
    return sum(item.get("restartCount", 0) for item in held if item["name"] in sidecars)


def _gates(pod: Object) -> str:
    gates = pod["spec"].get("readinessGates") or ()
    if not gates:
        return "<none>"
    met = sum(condition_holds(pod, gate["conditionType"]) for gate in gates)
    return f"{met}/{len(gates)}"
