from __future__ import annotations

from typing import Any

from support.manifests import replica_set
from support.worlds import Obj, active, homes, node, pods, ready, seconds, status, world


def daemon_set(name: str = "agent", **pods: Any) -> Obj:
    item = replica_set(name, pods=pods)
    del item["spec"]["replicas"]
    return item | {"kind": "DaemonSet"}


def test_every_node_gets_one_pod() -> None:
    cluster = world(3)
    cluster.create(daemon_set())
    cluster.run_until(lambda: len(ready(cluster, app="agent")) == 3)
    assert homes(active(cluster)) == {"n1": 1, "n2": 1, "n3": 1}
    cluster.run_until(seconds(1))
    said = status(cluster, "DaemonSet", "agent")
    assert (said["desiredNumberScheduled"], said["numberReady"], said["numberAvailable"]) == (3, 3, 3)


def test_a_new_node_gets_one_and_a_lost_one_loses_it() -> None:
    cluster = world(1)
    cluster.create(daemon_set())
    cluster.create(node("n2"))
    cluster.run_until(lambda: homes(active(cluster)) == {"n1": 1, "n2": 1})
    cluster.remove_node("n1")
    cluster.run_until(lambda: homes(pods(cluster)) == {"n2": 1})


def test_only_nodes_that_it_may_run_on_count() -> None:
    cluster = world(2)
    cluster.create(node("special", labels={"disk": "ssd"}))
    cluster.create(daemon_set(nodeSelector={"disk": "ssd"}))
    cluster.run_until(seconds(10))
    assert homes(active(cluster)) == {"special": 1}


def test_it_runs_on_cordoned_nodes() -> None:
    cluster = world(1)
    cluster.patch("Node", "n1", {"spec": {"unschedulable": True}})
    cluster.create(daemon_set())
    cluster.run_until(lambda: homes(ready(cluster)) == {"n1": 1})


def test_it_stays_on_a_node_that_cannot_be_reached() -> None:
    cluster = world(2)
    cluster.create(daemon_set())
    cluster.run_until(lambda: len(ready(cluster, app="agent")) == 2)
    cluster.kill_node("n1")
    cluster.run_until(seconds(3600))
    assert homes(active(cluster)) == {"n1": 1, "n2": 1}


def test_a_taint_that_it_does_not_tolerate_keeps_it_off() -> None:
    cluster = world(2)
    cluster.patch("Node", "n1", {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}})
    cluster.create(daemon_set())
    cluster.run_until(seconds(10))
    assert homes(active(cluster)) == {"n2": 1}


def test_a_new_template_replaces_one_pod_after_the_other() -> None:
    cluster = world(3)
    cluster.create(daemon_set())
    cluster.run_until(lambda: len(ready(cluster, app="agent")) == 3)
    cluster.run_until(seconds(5))
    least = []
    cluster.store.subscribe(lambda _: least.append(len(ready(cluster, app="agent"))))
    containers = [{"name": "main", "image": "image:2"}]
    cluster.patch("DaemonSet", "agent", {"spec": {"template": {"spec": {"containers": containers}}}})
    cluster.run_until(
        lambda: [p["spec"]["containers"][0]["image"] for p in ready(cluster)] == ["image:2"] * 3
    )
    assert min(least) == 2


def test_steady_means_no_writes() -> None:
    cluster = world(3)
    cluster.create(daemon_set())
    cluster.run_until(seconds(60))
    before = cluster.store.rv
    cluster.run_until(seconds(24 * 3600))
    assert cluster.store.rv == before
