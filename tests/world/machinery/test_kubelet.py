from __future__ import annotations

from typing import Any

import pytest

from fairlead.world.kubelet import Pace
from fairlead.world.world import World
from support.manifests import pod
from support.worlds import Obj, asking, conditions, names, node, pods, ready, seconds, status, world


def bound(name: str, home: str = "n1", *, cpu: str = "100m", **more: Any) -> Obj:
    play = {f"fairlead.dev/{key.replace('_', '-')}": value for key, value in more.pop("play", {}).items()}
    return pod(name, spec={**asking(cpu), "nodeName": home, **more}, annotations=play)


def phase(cluster: World, name: str) -> tuple[str, str]:
    found = status(cluster, "Pod", name)
    return found["phase"], found.get("reason", "")


def test_a_bound_pod_runs_and_is_ready_after_its_start() -> None:
    cluster = world(1, pace=Pace(start=seconds(10)))
    cluster.create(bound("a"))
    cluster.run_until(seconds(9))
    assert phase(cluster, "a") == ("Pending", "")
    assert conditions(cluster, "Pod", "a")["Ready"] == ("False", "ContainersNotReady")
    cluster.run_until(seconds(1))
    found = status(cluster, "Pod", "a")
    assert found["phase"] == "Running"
    assert conditions(cluster, "Pod", "a")["Ready"] == ("True", "")
    assert found["podIP"].startswith("10.")
    assert found["hostIP"] == status(cluster, "Node", "n1")["addresses"][0]["address"]
    assert found["containerStatuses"][0]["ready"] is True
    assert "startTime" in found


def test_every_pod_has_an_address_of_its_own() -> None:
    cluster = world(1)
    for number in range(20):
        cluster.create(bound(f"p{number}"))
    cluster.run_until(lambda: len(ready(cluster)) == 20)
    assert len({each["status"]["podIP"] for each in pods(cluster)}) == 20


@pytest.mark.parametrize(
    ("room", "cpu", "reason"),
    [({"cpu": 1}, "600m", "OutOfcpu"), ({"cpu": 4, "pods": 1}, "100m", "OutOfpods")],
)
def test_what_no_longer_fits_is_refused(room: dict[str, Any], cpu: str, reason: str) -> None:
    cluster = World([node("n1", **room)])
    cluster.run_until(seconds(1))
    cluster.create(bound("first", cpu=cpu))
    cluster.run_until(seconds(1))
    cluster.create(bound("second", cpu=cpu))
    cluster.run_until(seconds(5))
    assert phase(cluster, "first") == ("Running", "")
    assert phase(cluster, "second") == ("Failed", reason)


def test_a_finished_pod_makes_room() -> None:
    cluster = world(1, cpu=1)
    cluster.create(bound("first", cpu="1", play={"run_for": "10s"}, restartPolicy="Never"))
    cluster.run_until(lambda: phase(cluster, "first")[0] == "Succeeded")
    cluster.create(bound("second", cpu="1"))
    cluster.run_until(seconds(5))
    assert phase(cluster, "second") == ("Running", "")


@pytest.mark.parametrize(("code", "end"), [("0", "Succeeded"), ("3", "Failed")])
def test_a_pod_runs_for_as_long_as_it_says_and_exits_as_it_says(code: str, end: str) -> None:
    cluster = world(1)
    cluster.create(bound("a", play={"run_for": "30s", "exit_code": code}, restartPolicy="Never"))
    cluster.run_until(seconds(30))
    assert phase(cluster, "a")[0] == "Running"
    cluster.run_until(seconds(2))
    assert phase(cluster, "a")[0] == end
    assert status(cluster, "Pod", "a")["containerStatuses"][0]["state"]["terminated"]["exitCode"] == int(code)


def test_a_failing_container_restarts_in_place_when_the_pod_says_so() -> None:
    cluster = world(1)
    cluster.create(bound("a", play={"run_for": "10s", "exit_code": "1"}, restartPolicy="OnFailure"))
    cluster.run_until(seconds(35))
    assert phase(cluster, "a")[0] == "Running"
    assert status(cluster, "Pod", "a")["containerStatuses"][0]["restartCount"] == 3


def test_a_pod_becomes_ready_when_it_says() -> None:
    cluster = world(1)
    cluster.create(bound("a", play={"ready_after": "20s"}))
    cluster.create(bound("b", play={"ready_after": "never"}))
    cluster.run_until(seconds(20))
    assert ready(cluster) == []
    cluster.run_until(seconds(2))
    assert names(ready(cluster)) == ["a"]
    cluster.run_until(seconds(3600))
    assert names(ready(cluster)) == ["a"]


def test_readiness_gates_are_waited_for() -> None:
    cluster = world(1)
    cluster.create(bound("a", readinessGates=[{"conditionType": "example.com/open"}]))
    cluster.run_until(seconds(10))
    assert conditions(cluster, "Pod", "a")["Ready"] == ("False", "ReadinessGatesNotReady")
    found = cluster.get("Pod", "a") or {}
    opened = {"type": "example.com/open", "status": "True"}
    said = {**found, "status": {**found["status"], "conditions": [*found["status"]["conditions"], opened]}}
    cluster.api.update(cluster.runner.view.resource(found), said, subresource="status")
    cluster.run_until(seconds(1))
    assert names(ready(cluster)) == ["a"]


def test_an_active_deadline_ends_a_pod() -> None:
    cluster = world(1)
    cluster.create(bound("a", activeDeadlineSeconds=60))
    cluster.run_until(seconds(61))
    assert phase(cluster, "a") == ("Failed", "DeadlineExceeded")


def test_a_deleted_pod_is_gone_after_it_had_time_to_stop() -> None:
    cluster = world(1, pace=Pace(stop=seconds(5)))
    cluster.create(bound("a"))
    cluster.run_until(lambda: ready(cluster))
    cluster.delete("Pod", "a")
    cluster.run_until(seconds(4))
    assert names(pods(cluster)) == ["a"]
    cluster.run_until(seconds(1))
    assert not pods(cluster)


def test_nobody_gets_more_time_to_stop_than_its_grace_period() -> None:
    cluster = world(1, pace=Pace(stop=seconds(600)))
    cluster.create(bound("a", terminationGracePeriodSeconds=7))
    cluster.run_until(lambda: ready(cluster))
    cluster.delete("Pod", "a")
    cluster.run_until(seconds(7))
    assert not pods(cluster)


def test_on_a_dead_node_nothing_starts_and_nothing_ends() -> None:
    cluster = world(2)
    cluster.create(bound("old"))
    cluster.run_until(lambda: ready(cluster))
    cluster.kill_node("n1")
    cluster.create(bound("new"))
    cluster.delete("Pod", "old")
    cluster.run_until(seconds(30))
    assert phase(cluster, "new") == ("Pending", "")
    assert names(pods(cluster)) == ["new", "old"]
    cluster.revive_node("n1")
    cluster.run_until(seconds(5))
    assert names(ready(cluster)) == ["new"]


def test_a_thousand_idle_nodes_cost_nothing_for_a_day() -> None:
    cluster = world(1000)
    cluster.run_until(seconds(10))
    before = cluster.store.rv
    steps = 0
    while cluster.clock.step(cluster.clock.now() + seconds(86400)):  # type: ignore[attr-defined]  # virtual
        steps += 1
    assert steps == 0
    assert cluster.store.rv == before
