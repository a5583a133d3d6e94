"""What befalls requests and watches while a fault lasts, and that it is over afterwards."""

from __future__ import annotations

import random

from tools.soak.fault_plan import DoorPlan

BINDING = "/api/v1/namespaces/soak/pods/a/binding"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/fairlead-system/leases/fairlead-scheduler"
WATCH = "/api/v1/pods?watch=true&resourceVersion=7"


class Clock:
    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def plan() -> tuple[DoorPlan, Clock]:
    clock = Clock()
    return DoorPlan(random.Random(1), clock), clock


def kinds(own: DoorPlan, method: str, path: str) -> set[str]:
    return {type(own.on_request(method, path)).__name__ for _ in range(1000)} - {"NoneType"}


def test_without_a_fault_everything_passes():
    own, _ = plan()
    assert kinds(own, "POST", BINDING) == set()
    assert own.on_frame(WATCH) is None


def test_a_storm_hurts_writes_but_never_the_lease():
    own, _ = plan()
    for fault in ("bind_conflict", "too_many_requests", "server_errors", "lost_requests", "lost_replies"):
        own.begin(fault, 5)
    assert kinds(own, "POST", BINDING) == {"Answer", "LoseRequest", "LoseReply"}
    assert kinds(own, "PUT", LEASE) == set()


def test_a_blocked_lease_hurts_nothing_else():
    own, _ = plan()
    own.begin("lease_blocked", 5)
    assert kinds(own, "PUT", LEASE) == {"LoseRequest"}
    assert kinds(own, "POST", BINDING) == set()


def test_a_fault_that_began_again_meanwhile_is_not_over_with_the_first():
    own, clock = plan()
    own.begin("lost_requests", 5)
    clock.at += 3
    own.begin("lost_requests", 5)
    clock.at += 2
    own.end("lost_requests")
    assert "lost_requests" in own.active
    clock.at += 3
    own.end("lost_requests")
    assert own.active == {}


def test_a_watch_that_lost_events_is_told_to_list_again():
    own, clock = plan()
    own.begin("watch_dropped", 5)
    while own.on_frame(WATCH) is None:
        pass
    clock.at += 5
    own.end("watch_dropped")
    answer = own.on_request("GET", WATCH)
    assert getattr(answer, "code", None) == 410
    assert own.on_request("GET", WATCH) is None


def test_only_the_first_frame_of_a_watch_waits_for_the_end_of_a_delay():
    own, _ = plan()
    own.begin("watch_delayed", 5)
    assert getattr(own.on_frame(WATCH), "seconds", None) == 5
    assert own.on_frame(WATCH) is None


def test_it_is_known_when_a_watch_lied():
    own, clock = plan()
    began = clock.at
    own.begin("watch_frozen", 5)
    assert own.was_lied_to(began + 3)
    assert not own.was_lied_to(began - 1)
    assert not own.was_lied_to(began + 60)
