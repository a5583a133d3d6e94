"""Fairlead's core inside the embedded cluster: what it decides is carried out, refusals come back to it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fairlead.engine.planning.settings import Settings
from fairlead.world.fairlead_scheduler import Fairlead
from fairlead.world.world import World
from support.manifests import deployment, pod
from support.policies import policy
from support.worlds import Obj, asking, conditions, events, node, ready, seconds, world


def ours(name: str, cpu: str = "3", **annotations: str) -> Obj:
    spec = asking(cpu, schedulerName="fairlead")
    return pod(name, spec=spec, namespace="default", annotations=annotations, labels={"app": name})


def scheduled(nodes: int, **more: Any) -> World:
    cluster = world(nodes)
    Fairlead(cluster.api, cluster.clock, Settings(**more))
    return cluster


def home(cluster: World, name: str) -> str:
    found = cluster.get("Pod", name)
    return str(found["spec"].get("nodeName", "")) if found else "gone"


def test_a_pod_that_asks_for_it_is_bound() -> None:
    cluster = scheduled(1)
    cluster.create(ours("a"))
    cluster.run_until(lambda: home(cluster, "a") == "n1")
    assert events(cluster, "Scheduled") == ["Successfully assigned default/a to n1"]


def test_a_pod_that_fits_nowhere_is_marked_for_autoscalers() -> None:
    cluster = scheduled(1)
    cluster.create(ours("a", "9"))
    cluster.run_until(seconds(1))
    assert conditions(cluster, "Pod", "a")["PodScheduled"] == ("False", "Unschedulable")


def test_a_gang_that_lost_a_member_is_no_longer_marked_for_autoscalers() -> None:
    cluster = scheduled(1)
    gang = {"pod-group": "g", "pod-group-min-member": "2"}
    cluster.create(ours("a", **gang))
    cluster.create(ours("b", **gang))
    cluster.run_until(seconds(1))
    assert conditions(cluster, "Pod", "a")["PodScheduled"] == ("False", "Unschedulable")
    cluster.delete("Pod", "b")
    cluster.run_until(seconds(1))
    assert conditions(cluster, "Pod", "a")["PodScheduled"] == ("False", "WaitingForGang")


def test_a_higher_pod_takes_the_place_of_a_lower_one() -> None:
    cluster = scheduled(1)
    cluster.create(ours("low"))
    cluster.run_until(lambda: home(cluster, "low") == "n1")
    cluster.create(ours("high", priority="10"))
    cluster.run_until(lambda: home(cluster, "high") == "n1")
    assert home(cluster, "low") == "gone"
    assert events(cluster, "Preempted") == ["Preempted by default/high on node n1"]


def test_a_budget_that_refuses_an_eviction_keeps_its_pod() -> None:
    cluster = scheduled(1, pdb="best-effort")
    cluster.create(ours("low"))
    cluster.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "all", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "low"}}},
        }
    )
    # A pod that does not run yet is under no budget's protection.
    cluster.run_until(lambda: conditions(cluster, "Pod", "low").get("Ready", ("",))[0] == "True")
    cluster.create(ours("high", priority="10"))
    cluster.run_until(seconds(60))
    assert (home(cluster, "low"), home(cluster, "high")) == ("n1", "")


@pytest.mark.parametrize("gang", [{}, {"pod-group": "g", "pod-group-min-member": "2"}])
def test_the_first_eviction_that_is_refused_stops_the_rest(gang: dict[str, str]) -> None:
    cluster = scheduled(1, pdb="best-effort")
    cluster.create(ours("first", "2", priority="2", **gang))
    cluster.create(ours("second", "2", priority="1", **gang))
    cluster.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "all", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "first"}}},
        }
    )
    cluster.run_until(lambda: conditions(cluster, "Pod", "first").get("Ready", ("",))[0] == "True")
    cluster.create(ours("high", "4", priority="10"))
    cluster.run_until(seconds(60))
    assert (home(cluster, "first"), home(cluster, "second")) == ("n1", "n1")


def test_a_gang_waits_for_its_last_member() -> None:
    cluster = scheduled(2)
    gang = {"pod-group": "g", "pod-group-min-member": "2"}
    cluster.create(ours("a", **gang))
    cluster.run_until(seconds(30))
    assert home(cluster, "a") == ""
    assert events(cluster, "WaitingForGang")
    cluster.create(ours("b", **gang))
    cluster.run_until(seconds(30))
    assert {home(cluster, "a"), home(cluster, "b")} == {"n1", "n2"}


def test_a_closed_scheduler_decides_nothing_more() -> None:
    cluster = world(1)
    fairlead = Fairlead(cluster.api, cluster.clock)
    fairlead.close()
    cluster.create(ours("a"))
    cluster.run_until(seconds(30))
    assert home(cluster, "a") == ""


def test_policies_split_pods_over_tiers_and_outlive_the_loss_of_one() -> None:
    cluster = World()
    for name, capacity in (("s1", "spot"), ("s2", "spot"), ("d1", "on-demand")):
        cluster.create(node(name, cpu=64, labels={"capacity": capacity}))
    cluster.run_until(seconds(1))
    Fairlead(cluster.api, cluster.clock, policies=[policy()])
    web = deployment("web", 10, pods=asking("1", schedulerName="fairlead"))
    web["metadata"]["namespace"] = "default"
    cluster.create(web)
    cluster.run_until(seconds(30))
    assert homes(cluster) == {"s1": 4, "s2": 3, "d1": 3}
    cluster.remove_node("s1")
    cluster.remove_node("s2")
    cluster.run_until(seconds(50))
    assert homes(cluster) == {"d1": 10}


def test_a_bind_carries_the_marks_of_its_slot_and_the_tolerations_of_its_tier() -> None:
    burst = node("burst")
    burst["spec"] = {"taints": [{"key": "virtual", "effect": "NoSchedule"}]}
    cluster = World([burst])
    tier = {"name": "burst", "names": ["burst"], "tolerations": [{"key": "virtual", "operator": "Exists"}]}
    Fairlead(cluster.api, cluster.clock, policies=[policy("burst", tier)])
    cluster.create(ours("a"))
    cluster.run_until(lambda: home(cluster, "a") == "burst")
    bound = cluster.get("Pod", "a")
    assert bound is not None
    assert bound["metadata"]["annotations"] == {
        "fairlead.dev/policy": "burst",
        "fairlead.dev/slot": "1",
        "fairlead.dev/tier": "burst",
        "controller.kubernetes.io/pod-deletion-cost": "-1",
    }
    assert "virtual" in [one.get("key") for one in bound["spec"]["tolerations"]]


def test_a_pod_for_which_a_node_is_on_its_way_waits_for_its_tier() -> None:
    cluster = World([node("n1", labels={"capacity": "on-demand"})])
    tiers = ({"name": name, "nodes": {"capacity": name}} for name in ("spot", "on-demand"))
    Fairlead(cluster.api, cluster.clock, policies=[policy("web", *tiers)])
    waiting = cluster.create(ours("a"))
    cluster.run_until(seconds(100))
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "a.1", "namespace": "default"},
            "involvedObject": {
                "kind": "Pod",
                "name": "a",
                "namespace": "default",
                "uid": waiting["metadata"]["uid"],
            },
            "reason": "TriggeredScaleUp",
            "message": "pod triggered scale-up",
        }
    )
    cluster.run_until(seconds(115))
    assert home(cluster, "a") == ""
    cluster.run_until(seconds(10))
    assert home(cluster, "a") == "n1"


def homes(cluster: World) -> Counter[str]:
    return Counter(str(one["spec"].get("nodeName", "")) for one in ready(cluster, app="web"))
