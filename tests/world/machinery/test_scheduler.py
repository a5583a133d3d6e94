from __future__ import annotations

from typing import Any

from fairlead.world.api import DeleteOptions
from fairlead.world.autoscaler import Pacing
from fairlead.world.kubelet import Pace
from fairlead.world.schema.resources import PODS
from fairlead.world.world import World
from support.manifests import pod
from support.worlds import (
    Obj,
    asking,
    conditions,
    events,
    group,
    homes,
    names,
    node,
    pods,
    ready,
    seconds,
    status,
    world,
)


def wanting(name: str, cpu: str = "1", **spec: Any) -> Obj:
    labels = spec.pop("labels", {})
    return pod(name, spec={**asking(cpu), "schedulerName": "default-scheduler", **spec}, labels=labels)


def home(cluster: World, name: str) -> str:
    return (cluster.get("Pod", name) or {})["spec"].get("nodeName", "")


def test_pods_spread_over_nodes_with_room() -> None:
    cluster = world(3)
    for number in range(6):
        cluster.create(wanting(f"p{number}"))
    cluster.run_until(lambda: len(ready(cluster)) == 6)
    assert homes(pods(cluster)) == {"n1": 2, "n2": 2, "n3": 2}


def test_a_pod_that_fits_nowhere_is_marked_and_told_why_in_kube_schedulers_words() -> None:
    cluster = world(2)
    cluster.patch("Node", "n2", {"spec": {"unschedulable": True}})
    cluster.run_until(seconds(1))
    cluster.create(wanting("big", "64"))
    cluster.run_until(seconds(5))
    words = (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. "
        "no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for "
        "scheduling."
    )
    assert conditions(cluster, "Pod", "big")["PodScheduled"] == ("False", "Unschedulable")
    assert status(cluster, "Pod", "big")["conditions"][0]["message"] == words
    assert events(cluster, "FailedScheduling") == [words]


def test_it_is_placed_when_a_node_comes() -> None:
    cluster = world(1)
    cluster.create(wanting("big", "8"))
    cluster.run_until(seconds(60))
    cluster.create(node("large", cpu=16))
    cluster.run_until(lambda: ready(cluster))
    assert home(cluster, "big") == "large"


def test_it_is_placed_when_another_pod_goes() -> None:
    cluster = world(1, cpu=1)
    cluster.create(wanting("first"))
    cluster.create(wanting("second"))
    cluster.run_until(seconds(10))
    assert (home(cluster, "first"), home(cluster, "second")) == ("n1", "")
    cluster.delete("Pod", "first")
    cluster.run_until(lambda: home(cluster, "second") == "n1")


def test_it_is_placed_when_what_it_wants_to_be_near_arrives() -> None:
    cluster = world(2)
    near = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    wish = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    cluster.create(wanting("web", affinity=wish))
    cluster.run_until(seconds(10))
    assert home(cluster, "web") == ""
    cluster.create(wanting("db", labels={"app": "db"}))
    cluster.run_until(lambda: home(cluster, "web"))
    assert home(cluster, "web") == home(cluster, "db")


def test_higher_priority_goes_first_when_room_is_short() -> None:
    cluster = world(0)
    cluster.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
        }
    )
    cluster.create(wanting("low"))
    cluster.create(wanting("high", priorityClassName="high"))
    cluster.run_until(seconds(1))
    cluster.create(node("n1", cpu=1))
    cluster.run_until(seconds(5))
    assert (home(cluster, "low"), home(cluster, "high")) == ("", "n1")


def test_other_schedulers_pods_and_gated_pods_are_left_alone() -> None:
    cluster = world(1)
    cluster.create(wanting("theirs", schedulerName="theirs"))
    cluster.create(wanting("gated", schedulingGates=[{"name": "wait"}]))
    cluster.run_until(seconds(60))
    assert homes(pods(cluster)) == {"": 2}
    cluster.patch("Pod", "gated", {"spec": {"schedulingGates": None}})
    cluster.run_until(lambda: home(cluster, "gated") == "n1")


def test_it_can_be_switched_off() -> None:
    cluster = world(1, scheduler=False)
    cluster.create(wanting("a"))
    cluster.run_until(seconds(60))
    assert homes(pods(cluster)) == {"": 1}


def test_it_knows_nothing_of_fairleads_own_rules() -> None:
    cluster = world(1)
    for name in ("a", "b"):
        item = wanting(name)
        item["metadata"]["annotations"] = {"fairlead.dev/capacity": "exclusive"}
        cluster.create(item)
    cluster.run_until(lambda: len(ready(cluster)) == 2)


def test_never_more_is_bound_than_fits() -> None:
    cluster = world(4, cpu=4)
    for number in range(40):
        cluster.create(wanting(f"p{number:02}", ("500m", "1", "2", "3")[number % 4]))
    cluster.run_until(seconds(30))
    assert not [each for each in pods(cluster) if each["status"]["phase"] == "Failed"]
    assert len(ready(cluster)) < 40


def test_waiting_without_news_writes_nothing() -> None:
    cluster = world(1)
    cluster.create(wanting("big", "64"))
    cluster.run_until(seconds(10))
    before = cluster.store.rv
    cluster.run_until(seconds(86400))
    assert cluster.store.rv == before
    assert names(pods(cluster)) == ["big"]


def test_a_node_that_cannot_be_read_is_left_out_until_it_can() -> None:
    cluster = world(1)
    wrong, right = {"cpu": "-1"}, {"cpu": "4", "memory": "16Gi", "pods": "110"}
    found = cluster.get("Node", "n1") or {}

    def offer(room: dict[str, str]) -> None:
        held = cluster.get("Node", "n1") or {}
        said = {**held["status"], "allocatable": room}
        cluster.store.put(
            cluster.runner.view.resource(found), {**held, "metadata": {**held["metadata"]}, "status": said}
        )

    offer(wrong)  # past the API's own checks
    cluster.create(wanting("a"))
    cluster.run_until(seconds(10))
    assert home(cluster, "a") == ""
    offer(right)
    cluster.run_until(lambda: home(cluster, "a") == "n1")


def preempting(cpu: int = 1, **more: Any) -> World:
    """A node with a pod of low priority; what is told to leave takes half a minute to."""
    cluster = world(1, cpu=cpu, pace=Pace(stop=seconds(30)), **more)
    for value in (1, 5, 10):
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        cluster.create({**made, "metadata": {"name": f"p{value}"}})
    cluster.create(wanting("low", priorityClassName="p1"))
    cluster.run_until(lambda: ready(cluster))
    return cluster


def test_room_that_is_being_made_is_kept_for_the_pod_that_asked_for_it() -> None:
    cluster = preempting(cpu=2)
    cluster.create(wanting("other", priorityClassName="p1"))
    cluster.run_until(lambda: len(ready(cluster)) == 2)
    cluster.create(wanting("high", "2", priorityClassName="p10"))
    cluster.run_until(seconds(10))
    assert status(cluster, "Pod", "high")["nominatedNodeName"] == "n1"
    assert len(events(cluster, "Preempted")) == 2
    cluster.create(wanting("another", priorityClassName="p5"))
    cluster.api.delete(PODS, "other", "default", DeleteOptions(grace_s=0))
    cluster.run_until(lambda: home(cluster, "high"))
    assert home(cluster, "another") == ""


def test_a_still_higher_pod_takes_the_room_over_and_the_nomination_is_taken_back() -> None:
    cluster = preempting()
    cluster.create(wanting("middle", priorityClassName="p5"))
    cluster.run_until(seconds(10))
    assert status(cluster, "Pod", "middle")["nominatedNodeName"] == "n1"
    cluster.create(wanting("high", priorityClassName="p10"))
    cluster.run_until(lambda: status(cluster, "Pod", "high").get("nominatedNodeName"))
    cluster.run_until(seconds(1))
    assert not status(cluster, "Pod", "middle").get("nominatedNodeName")
    cluster.run_until(lambda: home(cluster, "high"))
    assert home(cluster, "middle") == ""


def test_a_pod_that_waits_for_its_victims_picks_no_others() -> None:
    cluster = preempting()
    cluster.patch("Node", "n1", {"metadata": {"labels": {"pool": "own"}}})
    cluster.create(wanting("high", priorityClassName="p10", nodeSelector={"pool": "own"}))
    cluster.run_until(seconds(5))
    cluster.create(node("n2", cpu=1))
    cluster.create(wanting("later", priorityClassName="p1", nodeSelector={"kubernetes.io/hostname": "n2"}))
    cluster.run_until(lambda: ready(cluster))
    cluster.patch("Node", "n2", {"metadata": {"labels": {"pool": "own"}}})
    cluster.run_until(lambda: home(cluster, "high"))
    assert home(cluster, "high") == "n1"
    assert len(events(cluster, "Preempted")) == 1


def test_an_autoscaler_brings_no_node_for_a_pod_for_which_others_leave() -> None:
    cluster = preempting(groups=[group(cpu=1)], autoscaler=Pacing())
    cluster.create(wanting("high", priorityClassName="p10"))
    cluster.run_until(lambda: home(cluster, "high"))
    assert home(cluster, "high") == "n1"
    assert not events(cluster, "TriggeredScaleUp")


def test_pods_that_start_later_are_the_first_of_their_priority_to_leave() -> None:
    cluster = world(2, cpu=1)
    made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 10}
    cluster.create({**made, "metadata": {"name": "p10"}})
    cluster.create(wanting("old"))
    cluster.run_until(seconds(60))
    cluster.create(wanting("new"))
    cluster.run_until(lambda: len(ready(cluster)) == 2)
    cluster.create(wanting("high", priorityClassName="p10"))
    cluster.run_until(lambda: home(cluster, "high"))
    assert cluster.get("Pod", "old")
    assert not cluster.get("Pod", "new")
