"""Pods that the API server has and we cannot read: from the watch to what people see."""

from __future__ import annotations

import json

from fairlead.client.view import Event, View
from fairlead.doors.scheduler.watching import core_events
from fairlead.engine.core.events import Event as CoreEvent
from fairlead.engine.core.events import Gone, Seen, Unread
from fairlead.kube.decode import decoder
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known
from support.scheduler import Shop, aside, in_process
from support.units import pod

# The API server takes any time of the calendar; ours begins with the year 1.
NO_TIME = "0000-01-01T00:00:00Z"

PODS = known("Pod")


class Watch:
    """What the core is told of frames of a watch."""

    def __init__(self) -> None:
        self._view: View[Pod, None] = View("Pod", decoder(Pod), lambda pod: None, lambda error: None)
        self._view.end("1", [])

    def frame(self, line: bytes) -> list[CoreEvent]:
        batch: list[Event[Pod, None]] = []
        self._view.frame(line, batch)
        return core_events(PODS, batch)

    def shows(self, kind: str, version: int, *, bad: bool) -> list[CoreEvent]:
        made = pod("c", gang="g", annotations={"secret": "x"}, scheduler="mine")
        made["metadata"]["resourceVersion"] = str(version)
        if bad:
            made["status"]["startTime"] = NO_TIME
        return self.frame(json.dumps({"type": kind, "object": made}).encode())


def test_the_core_is_told_what_can_be_made_out_and_nothing_that_it_does_not_read():
    (event,) = Watch().shows("ADDED", 2, bad=True)
    assert isinstance(event, Unread)
    assert (event.pod.metadata.key, event.pod.metadata.uid) == ("default/c", "uid-default-c")
    assert event.pod.metadata.annotations == {"pod-group": "g"}
    assert event.pod.spec.scheduler_name == "mine"
    assert "startTime" in event.problem


def test_it_is_told_when_the_pod_can_be_read_and_when_it_goes():
    watch = Watch()
    watch.shows("ADDED", 2, bad=True)
    (event,) = watch.shows("MODIFIED", 3, bad=False)
    assert isinstance(event, Seen)
    watch.shows("MODIFIED", 4, bad=True)
    (event,) = watch.shows("DELETED", 5, bad=True)
    assert event == Gone("Pod", "default", "c", "uid-default-c")


def test_of_a_pod_that_is_no_json_the_name_is_told():
    line = (
        b'{"type":"ADDED","object":{"metadata":{"name":"c","namespace":"shop","resourceVersion":"2"},"x":}}'
    )
    (event,) = Watch().frame(line)
    assert isinstance(event, Unread)
    assert event.pod.metadata.key == "shop/c"


async def test_a_gang_with_a_member_that_cannot_be_read_waits_and_says_so(ours: Shop):
    await aside(ours.cluster.add_nodes, 1)
    for name in ("a", "b", "c"):
        await aside(ours.add, name, gang="g", minimum=3)
    await aside(ours.cluster.patch, "Pod", "c", {"status": {"startTime": NO_TIME}}, "merge", "status")
    async with in_process(ours):
        (event,) = await aside(ours.events, "a", "WaitingForGang")
        (about_it,) = await aside(ours.events, "c", "FailedScheduling")
        assert await aside(ours.nodes_of) == {"a": "", "b": "", "c": ""}
        named = f"Pod {ours.cluster.namespace}/c"
        assert "2 of 3 members are there; 1 cannot be used: " in event["message"]
        assert named in event["message"]
        assert named in about_it["message"]
        # Read at last, it starts with the others.
        await aside(ours.cluster.patch, "Pod", "c", {"status": {"startTime": None}}, "merge", "status")
        await aside(ours.bound, "a", "b", "c")
