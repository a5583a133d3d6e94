"""Up to so many pods on three nodes, the rest on a virtual one, and back again."""

from __future__ import annotations

import pytest

from support.burst import Bursting
from support.workloads import is_ready


@pytest.mark.slow
def test_a_deployment_bursts_beyond_the_value_and_comes_back(either: Bursting):
    either.run(either.nodes(), 10, "--return-after=1s")
    either.deploy("web", 5)
    either.lies("web", base=5)
    either.scale("web", 20)
    either.lies("web", base=10, virtual=10)
    either.scale("web", 8)
    either.lies("web", base=8)


@pytest.mark.slow
def test_of_twenty_jobs_ten_stay_on_base_whatever_finished_before(either: Bursting):
    either.run(either.nodes(), 10)
    for number in range(10):
        either.job(f"short-{number}", long=False)
    either.cluster.wait(
        lambda: [job["status"].get("succeeded") for job in either.cluster.list("Job")["items"]] == [1] * 10,
        "the short Jobs to be over",
    )
    for number in range(20):
        either.job(f"long-{number}")
    either.lies("jobs", base=10, virtual=10)


@pytest.mark.slow
def test_pods_return_one_at_a_time_when_base_has_room_again(either: Bursting):
    either.run(either.nodes(), 4, "--return-after=1s")
    either.deploy("one", 4)
    either.lies("one", base=4)
    either.deploy("two", 3)
    either.lies("two", virtual=3)
    either.scale("one", 1)
    either.lies("two", base=3)
    either.lies("one", base=1)


@pytest.mark.slow
def test_pods_of_jobs_return_only_when_asked_to(either: Bursting):
    door = either.run(either.nodes(), 2, "--return-after=1s", "--return-jobs")
    either.deploy("web", 2)
    either.lies("web", base=2)
    either.job("long")
    either.lies("jobs", virtual=1)
    either.scale("web", 1)
    either.lies("jobs", base=1)
    assert [one["to"] for one in door.wait_for("moved")] == ["base"]


@pytest.mark.slow
def test_labels_and_namespaces_are_groups_of_their_own(either: Bursting):
    home = either.home
    other = either.cluster.add_namespace()
    either.cluster.namespace = home
    either.run(either.nodes(), 2, "--all-namespaces", "--group-label=team")
    for namespace in (home, other):
        either.cluster.namespace = namespace
        either.deploy("red", 3, labels={"team": "red"})
        either.deploy("blue", 1, labels={"team": "blue"})
        either.deploy("none", 3)
    for namespace in (home, other):
        either.lies("red", namespace=namespace, base=2, virtual=1)
        either.lies("blue", namespace=namespace, base=1)
        either.lies("none", namespace=namespace, base=2, virtual=1)
    either.cluster.namespace = home


def test_only_pods_that_ask_for_this_scheduler_count(ours: Bursting):
    ours.run(ours.nodes(), 1)
    for number in range(3):
        ours.pod(f"other-{number}", schedulerName="default-scheduler")
        ours.lies(f"other-{number}", base=1)
    ours.pod("mine")
    ours.lies("mine", base=1)
    ours.pod("more")
    (more,) = ours.lies("more", virtual=1)
    assert "virtual-kubelet.io/provider" in [one.get("key") for one in more["spec"]["tolerations"]]
    assert more["metadata"]["annotations"]["fairlead.dev/slot"] == "2"
    assert more["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] == "-2"


def test_a_burst_node_that_is_missing_is_named_to_those_who_wait(either: Bursting):
    either.nodes(base=1)
    door = either.run("not-there", 1)
    either.deploy("web", 3)
    waiting = either.cluster.wait(lambda: held_of(either, "web", 2), "two to be held")
    for name in waiting:
        assert "waits for tier burst" in told(either, name)
        assert "node not-there does not exist" in told(either, name)
    if either.via == "webhook":
        (said,) = door.log("tier_takes_no_pod")
        assert said["reason"] == "node not-there does not exist"


def test_a_burst_node_that_is_cordoned_or_not_ready_is_named_to_those_who_wait(either: Bursting):
    virtual = either.nodes(base=1)
    either.cluster.patch("Node", virtual, {"spec": {"unschedulable": True}})
    either.run(virtual, 1)
    either.pod("first")
    either.lies("first", base=1)
    either.pod("second")
    assert f"node {virtual} is cordoned, not ready or to be removed" in told(either, "second")
    either.cluster.patch("Node", virtual, {"spec": {"unschedulable": None}})
    either.lies("second", virtual=1)
    # It is the taint that keeps pods off, and somebody else sets it; until then the node stays cordoned.
    either.cluster.patch("Node", virtual, {"spec": {"unschedulable": True}})
    either.cluster.host.set_unready(virtual)
    either.cluster.wait(lambda: "not-ready" in str(either.cluster.get("Node", virtual)["spec"]), "the taint")
    either.pod("third")
    either.held("third")
    either.cluster.patch("Node", virtual, {"spec": {"unschedulable": None}})
    either.pod("fourth")
    assert f"node {virtual} is cordoned, not ready or to be removed" in told(either, "fourth")
    assert "nodeName" not in either.cluster.get("Pod", "third")["spec"]


def test_a_full_burst_node_holds_pods_until_there_is_room(either: Bursting):
    either.cluster.add_nodes(1, cpu=32, labels={"kind": "base"})
    either.run(either.virtual(cpu=1), 1)
    either.pod("first")
    either.lies("first", base=1)
    big = [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    either.pod("second", containers=big)
    either.lies("second", virtual=1)
    either.pod("third", containers=big)
    said = either.held("third")
    # Whoever the scheduler is, it says what is lacking on the one node that the pod may go to.
    assert "1 Insufficient cpu" in said
    if either.via == "scheduler":
        assert "waits for tier burst" in said
    either.cluster.delete("Pod", "second")
    either.lies("third", virtual=1)


def test_pods_that_return_are_never_missed_for_long(ours: Bursting):
    """One move at a time: the next begins when the replacement of the last is Ready."""
    ours.run(ours.nodes(), 3, "--return-after=1s")
    ours.deploy("one", 3)
    ours.lies("one", base=3)
    ours.deploy("two", 3)
    ours.lies("two", virtual=3)
    ours.scale("one", 1)
    least = 3

    def back() -> bool:
        nonlocal least
        items = ours.living("two")
        least = min(least, sum(map(is_ready, items)))
        return ours.split(items) == {"base": 2, "virtual": 1} and all(map(is_ready, items))

    ours.cluster.wait(back, "two pods to be back")
    assert least >= 2


def test_without_listen_no_port_is_opened(ours: Bursting):
    door = ours.run(ours.nodes(base=1), 1)
    assert not door.log("listening")
    assert door.stop() == 0


def held_of(own: Bursting, app: str, number: int) -> list[str]:
    """The names of an app's pods without a node, once there are so many."""
    names = [one["metadata"]["name"] for one in own.living(app) if "nodeName" not in one["spec"]]
    return names if len(names) == number and len(own.living(app)) > number else []


def told(own: Bursting, name: str) -> str:
    """What a pod that waits is told by us: our scheduler's refusal, or beside another's an event."""
    said = own.held(name)
    if own.via == "scheduler":
        return said

    def look() -> str:
        about = f"reason=WaitsForTier,involvedObject.name={name}"
        return " ".join(one["message"] for one in own.cluster.list("Event", fieldSelector=about)["items"])

    return own.cluster.wait(look, f"{name} to be told why it waits")
