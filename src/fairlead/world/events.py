"""Events have one stored shape and two views: core/v1 and events.k8s.io/v1 name its fields differently."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import structlog

from fairlead.errors import ApiError, NotFound
from fairlead.policy.tiers.fallback import PROMISES
from fairlead.world.api import Api
from fairlead.world.clock import Clock
from fairlead.world.controllers.writes import Emit, Obj
from fairlead.world.objects import micro_stamp, stamp
from fairlead.world.schema.resources import EVENTS

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


_log = structlog.get_logger()

# What is remembered to count repeats; the oldest is forgotten first.
_REMEMBERED = 4096


class Recorder:
    """Writes events. Events never fail a controller: one that cannot be written is let go.

    `reasons` are those of the events that are written; None: all are.
    """

    def __init__(self, api: Api, clock: Clock, reasons: Collection[str] | None = None) -> None:
        self._api = api
        self._clock = clock
        self._reasons = reasons
        self._said: dict[tuple[str, ...], tuple[str, str, int]] = {}

    def record(self, emit: Emit) -> None:
        """Write an event, or count it up when it was said before."""
        if self._reasons is not None and emit.reason not in self._reasons:
            return
        about, now = emit.about, self._clock.now()
        meta = about["metadata"]
        said = (meta.get("uid", ""), emit.component, emit.type, emit.reason, emit.message)
        before = self._said.get(said)
        if before is not None:
            namespace, name, count = before
            self._said[said] = (namespace, name, count + 1)
            try:
                self._api.patch(EVENTS, name, {"count": count + 1, "lastTimestamp": stamp(now)}, namespace)
                return
            except NotFound:
                pass  # it was deleted: create another
        namespace = meta.get("namespace") or "default"
        name = f"{meta['name']}.{self._api.ids.uid().replace('-', '')[:16]}"
        event: Obj = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "name": meta["name"],
                "uid": meta.get("uid", ""),
                **({"namespace": meta["namespace"]} if meta.get("namespace") else {}),
                **({"resourceVersion": meta["resourceVersion"]} if meta.get("resourceVersion") else {}),
            },
            "reason": emit.reason,
            "message": emit.message,
            "type": emit.type,
            "source": {"component": emit.component},
            "reportingComponent": emit.component,
            "reportingInstance": "",
            "firstTimestamp": stamp(now),
            "lastTimestamp": stamp(now),
            "count": 1,
        }
        if emit.action:
            event["action"] = emit.action
            event["eventTime"] = micro_stamp(now)
            event["reportingInstance"] = emit.component  # an event of the new kind must name one
        try:
            self._api.create(EVENTS, event)
        except ApiError as error:
            # A namespace that is on its way out takes no more events, say.
            _log.debug("event_not_written", reason=emit.reason, about=name, error=str(error))
            return
        if len(self._said) >= _REMEMBERED:
            del self._said[next(iter(self._said))]
        self._said[said] = (namespace, name, 1)
