"""Events have one stored shape and two views: core/v1 and events.k8s.io/v1 name its fields differently."""

from __future__ import annotations

from typing import Any

from fairlead.policy.fallback import PROMISES

__all__ = ["from_events_api", "promised", "to_events_api"]

Object = dict[str, Any]

# core/v1 name → events.k8s.io/v1 name
_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK = {theirs: ours for ours, theirs in _NAMES.items()}


def to_events_api(event: Object) -> Object:
    """A stored event as events.k8s.io/v1 shows it."""
    renamed = {_NAMES.get(key, key): value for key, value in event.items()}
    renamed["apiVersion"] = "events.k8s.io/v1"
    return renamed


def from_events_api(event: Object) -> Object:
    """An event written through events.k8s.io/v1, in the stored shape."""
    renamed = {_BACK.get(key, key): value for key, value in event.items()}
    renamed["apiVersion"] = "v1"
    return renamed


def promised(event: Object) -> str:
    """The UID of the pod for which a stored event says that a node is on its way; "" for other events."""
    about: Object = event.get("involvedObject") or {}
    return str(about.get("uid") or "") if event.get("reason") in PROMISES else ""
