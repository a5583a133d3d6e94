"""What happened is told from how objects changed, once, and with why."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fairlead.engine.ask import timeline
from fairlead.kube.decode import convert
from fairlead.kube.event import Event
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.rig.nodes import node_object


def pod(
    *conditions: tuple[str, str, str, str], node: str = "", leaving: bool = False, phase: str = ""
) -> Pod:
    listed = [
        {"type": kind, "status": status, "reason": reason, "message": message}
        for kind, status, reason, message in conditions
    ]
    meta = {"name": "web", "namespace": "shop", "uid": "1", "annotations": {"pod-group": "g"}}
    if leaving:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    body = {"metadata": meta, "spec": {"nodeName": node}, "status": {"conditions": listed, "phase": phase}}
    return convert(body, Pod)


HELD = ("PodScheduled", "False", "Unschedulable", "0/1 nodes are available")
EVICTED = ("fairlead.dev/Evicted", "True", "Pod", "Preempted by shop/high on node n1")
BY_API = ("DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")
RELEASED = ("fairlead.dev/Evicted", "True", "Release", "only 1 of 3 members could be bound")
READY = ("Ready", "True", "", "")

CASES: dict[str, tuple[Pod | None, Pod | None, list[tuple[str, str]]]] = {
    "created": (None, pod(), [("created", "is created")]),
    "created with a node": (None, pod(node="n1"), [("created", "is created"), ("placed", "placed on n1")]),
    "placed": (pod(HELD), pod(node="n1"), [("placed", "placed on n1")]),
    "held": (pod(), pod(HELD), [("held", "0/1 nodes are available")]),
    "still held": (pod(HELD), pod(HELD), []),
    "runs": (pod(node="n1"), pod(READY, node="n1"), [("runs", "runs on n1")]),
    "preempted": (pod(node="n1"), pod(EVICTED, node="n1"), [("preempted", EVICTED[3])]),
    "preempted, then deleted": (pod(EVICTED, node="n1"), pod(EVICTED, node="n1", leaving=True), []),
    "evicted": (
        pod(node="n1"),
        pod(BY_API, node="n1", leaving=True),
        [("evicted", "leaves n1: Eviction API: evicting")],
    ),
    "released": (pod(node="n1"), pod(RELEASED, node="n1"), [("released", RELEASED[3])]),
    "deleted": (pod(node="n1"), pod(node="n1", leaving=True), [("leaves", "leaves n1: it is being deleted")]),
    "finished": (pod(node="n1"), pod(node="n1", phase="Failed"), [("ended", "finished: Failed")]),
    "gone": (pod(node="n1"), None, [("gone", "is gone")]),
}


@pytest.mark.parametrize("what", CASES)
def test_a_change_of_a_pod_is_told(what: str) -> None:
    old, new, told = CASES[what]
    found = list(timeline.of_pod(old, new, 5.0))
    assert [(one.kind, one.text) for one in found] == told
    assert all((one.about, one.gang, one.at) == ("shop/web", "shop/g", 5.0) for one in found)


def test_who_makes_another_go_is_named() -> None:
    (found,) = timeline.of_pod(pod(node="n1"), pod(EVICTED, node="n1"), 1.0)
    assert (found.by, found.node) == ("shop/high", "n1")


def test_a_change_of_a_node_is_told() -> None:
    def node(status: str) -> Node:
        plain: dict[str, Any] = node_object("n1")
        plain["status"]["conditions"] = [{"type": "Ready", "status": status}]
        return convert(plain, Node)

    def kind(old: Node | None, new: Node | None) -> str:
        found = timeline.of_node(old, new, "n1", 1.0)
        return found.kind if found is not None else ""

    assert kind(None, node("True")) == "node-ready"
    assert kind(node("True"), node("Unknown")) == "node-lost"
    assert kind(node("Unknown"), node("True")) == "node-ready"
    assert kind(None, node("False")) == ""
    assert kind(node("True"), None) == "node-gone"


def test_events_tell_what_no_object_shows() -> None:
    def event(reason: str, kind: str = "Pod") -> timeline.Happening | None:
        about = {"kind": kind, "namespace": "shop", "name": "web"}
        plain = {
            "reason": reason,
            "message": "m",
            "involvedObject": about,
            "eventTime": "2026-01-01T00:00:00Z",
        }
        return timeline.of_event(convert(plain, Event))

    moved = event("Rebalanced")
    assert moved is not None
    assert (moved.kind, moved.about, moved.text) == ("moved", "shop/web", "m")
    assert event("Rebalanced", "Node") is None
    assert event("Pulled") is None
    assert all(event(reason) is not None for reason in timeline.REASONS)


def test_marks_are_told_when_they_come_and_when_they_go() -> None:
    found = list(timeline.of_marks("web", {"a": "", "b": "no room"}, {"b": "no room", "c": "lost"}, 1.0))
    assert [(one.kind, one.text) for one in found] == [
        ("marked", "leaves tier c alone: lost"),
        ("unmarked", "uses tier a again"),
    ]


def test_the_page_has_a_word_for_every_kind() -> None:
    page = Path(timeline.__file__).parents[2] / "web" / "page" / "lines.js"
    words = page.read_text().partition("KINDS = {")[2].partition("};")[0]
    found = set(re.findall(r'"?([a-z-]+)"?: \[', words))
    assert found == set(timeline.KINDS)
