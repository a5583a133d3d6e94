"""What the core is told of nodes: what rules, ranking and tiers read, and no heartbeats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead.client.view import Event, View
from fairlead.doors.scheduler.watching import core_events
from fairlead.engine.core.events import Event as CoreEvent
from fairlead.engine.core.events import Seen
from fairlead.feed.sources import sources
from fairlead.kube.decode import decoder
from fairlead.kube.node import Node
from fairlead.kube.resources import known
from support.units import node

(NODES,) = sources((known("Node"),))


class Watch:
    """What the core is told while a node changes."""

    def __init__(self) -> None:
        self._view: View[Node, Any] = View("Node", decoder(Node), lambda node: node, lambda error: None)
        self._view.end("1", [])
        self._version = 1

    def shows(self, *conditions: dict[str, Any], **metadata: Any) -> list[CoreEvent]:
        self._version += 1
        made = node("n1")
        made["metadata"] |= {"uid": "u1", "resourceVersion": str(self._version), **metadata}
        made["status"]["conditions"] = list(conditions)
        batch: list[Event[Node, Any]] = []
        kind = "ADDED" if self._version == 2 else "MODIFIED"
        self._view.frame(json.dumps({"type": kind, "object": made}).encode(), batch)
        return core_events(NODES, batch)


def condition(kind: str, status: str, second: int = 0) -> dict[str, Any]:
    beat = f"2026-01-01T00:00:{second:02}Z"
    return {"type": kind, "status": status, "message": str(second), "lastTransitionTime": beat}


@pytest.fixture
def watch() -> Watch:
    found = Watch()
    assert len(found.shows(condition("Ready", "True"))) == 1
    return found


def test_a_node_that_stops_being_ready_is_told(watch: Watch):
    (event,) = watch.shows(condition("Ready", "False"))
    assert isinstance(event, Seen)
    assert isinstance(event.object, Node)
    assert not event.object.ready


def test_so_is_one_that_is_being_deleted(watch: Watch):
    (event,) = watch.shows(condition("Ready", "True"), deletionTimestamp="2026-01-01T00:00:00Z")
    assert isinstance(event, Seen)


def test_heartbeats_annotations_and_other_conditions_are_not(watch: Watch):
    assert watch.shows(condition("Ready", "True", 9)) == []
    assert watch.shows(condition("Ready", "True", 10), condition("DiskPressure", "True")) == []
    assert watch.shows(condition("Ready", "True", 11), annotations={"beat": "11"}) == []
