"""When an object that others depend on is there for them: each kind says so in its own way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Standing", "standing"]


@dataclass(frozen=True, slots=True)
class Standing:
    """Why an object is not ready yet, if it is not; `failed` when it never will be."""

    reason: str = ""
    failed: bool = False

    @property
    def ready(self) -> bool:
        """Whether what depends on it may be applied."""
        return not self.reason


def standing(item: Mapping[str, Any]) -> Standing:
    """Whether what depends on the object may be applied.

    >>> standing({"kind": "ConfigMap"}).ready
    True
    >>> standing({"kind": "Job", "status": {}}).reason
    'it has not completed'
    """
    status = item.get("status") or {}
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    match item["kind"]:
        case "Job":
            if _true(conditions, "Failed"):
                return Standing(f"it failed: {conditions['Failed'].get('message', '')}", failed=True)
            return Standing("" if _true(conditions, "Complete") else "it has not completed")
        case "Deployment" | "StatefulSet" | "ReplicaSet":
            return _replicas(item, status)
        case "DaemonSet":
            wanted = status.get("desiredNumberScheduled", 0)
            current = status.get("observedGeneration", 0) >= item["metadata"].get("generation", 0)
            ready = status.get("numberAvailable", 0)
            return Standing("" if current and ready >= wanted else f"{ready} of {wanted} pods are available")
        case "Pod":
            done = status.get("phase") == "Succeeded" or _true(conditions, "Ready")
            return Standing("" if done else f"it is {status.get('phase', 'Pending')}, not ready")
        case "Namespace":
            return Standing("" if status.get("phase", "Active") == "Active" else "it is being removed")
    # Of kinds that nobody here knows, those that speak of readiness are asked, the rest are there.
    for kind in ("Ready", "Available", "Established"):
        if kind in conditions and not _true(conditions, kind):
            return Standing(conditions[kind].get("message") or f"it is not {kind}")
    return Standing()


def _replicas(item: Mapping[str, Any], status: Mapping[str, Any]) -> Standing:
    wanted = item["spec"].get("replicas", 1)
    if status.get("observedGeneration", 0) < item["metadata"].get("generation", 0):
        return Standing("its controller has not seen it yet")
    updated = status.get("updatedReplicas", 0) if item["kind"] != "ReplicaSet" else wanted
    ready = min(status.get("availableReplicas", 0), updated)
    return Standing("" if ready >= wanted else f"{ready} of {wanted} pods are available")


def _true(conditions: Mapping[Any, Any], kind: str) -> bool:
    found = conditions.get(kind)
    return found is not None and found.get("status") == "True"
