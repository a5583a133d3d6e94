from __future__ import annotations

from fairlead.world.world import World
from support.manifests import deployment, pod
from support.worlds import Obj, conditions, events, homes, names, node, pods, ready, seconds, world


def taints(cluster: World, name: str) -> list[tuple[str, str]]:
    found = cluster.get("Node", name) or {}
    return [
        (taint["key"].removeprefix("node.kubernetes.io/"), taint["effect"])
        for taint in (found.get("spec") or {}).get("taints") or ()
    ]


def bound(name: str, home: str, *, tolerations: list[Obj] | None = None) -> Obj:
    return pod(name, spec={"nodeName": home, "tolerations": tolerations or []})


def test_a_node_is_ready_and_untainted_once_it_is_registered() -> None:
    cluster = world(0)
    cluster.create(node("n1"))
    cluster.run_until(seconds(1))
    assert conditions(cluster, "Node", "n1")["Ready"] == ("True", "KubeletReady")
    assert taints(cluster, "n1") == []
    labels = (cluster.get("Node", "n1") or {})["metadata"]["labels"]
    assert labels["kubernetes.io/hostname"] == "n1"


def test_a_silent_node_is_unknown_after_the_grace_period_and_not_before() -> None:
    cluster = world(2)
    cluster.kill_node("n1")
    cluster.run_until(seconds(49))
    assert conditions(cluster, "Node", "n1")["Ready"] == ("True", "KubeletReady")
    cluster.run_until(seconds(1))
    assert conditions(cluster, "Node", "n1")["Ready"] == ("Unknown", "NodeStatusUnknown")
    assert taints(cluster, "n1") == [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]
    assert events(cluster, "NodeNotReady") == ["Node n1 status is now: NodeNotReady"]


def test_pods_on_a_silent_node_are_not_ready_and_are_replaced_after_five_minutes() -> None:
    cluster = world(3)
    cluster.create(deployment("web", 3))
    cluster.run_until(lambda: len(ready(cluster, app="web")) == 3)
    cluster.kill_node("n1")
    cluster.run_until(seconds(51))
    assert len(ready(cluster, app="web")) == 2
    cluster.run_until(seconds(298))
    assert len(ready(cluster, app="web")) == 2
    cluster.run_until(seconds(5))
    assert len(ready(cluster, app="web")) == 3
    assert set(homes(ready(cluster, app="web"))) == {"n2", "n3"}


def test_a_node_that_speaks_again_is_ready_again() -> None:
    cluster = world(1)
    cluster.create(bound("a", "n1"))
    cluster.run_until(lambda: ready(cluster))
    cluster.kill_node("n1")
    cluster.run_until(seconds(100))
    assert not ready(cluster)
    cluster.revive_node("n1")
    cluster.run_until(seconds(1))
    assert conditions(cluster, "Node", "n1")["Ready"] == ("True", "KubeletReady")
    assert taints(cluster, "n1") == []
    assert names(ready(cluster)) == ["a"]


def test_a_node_that_says_it_is_not_ready_is_tainted_as_such() -> None:
    cluster = world(1)
    cluster.unready_node("n1")
    cluster.run_until(seconds(1))
    assert taints(cluster, "n1") == [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")]


def test_a_cordoned_node_is_tainted_until_it_is_uncordoned() -> None:
    cluster = world(1)
    cluster.patch("Node", "n1", {"spec": {"unschedulable": True}})
    cluster.run_until(seconds(1))
    assert taints(cluster, "n1") == [("unschedulable", "NoSchedule")]
    cluster.patch("Node", "n1", {"spec": {"unschedulable": None}})
    cluster.run_until(seconds(1))
    assert taints(cluster, "n1") == []


def test_taints_of_others_are_left_alone() -> None:
    cluster = world(1)
    cluster.patch("Node", "n1", {"spec": {"taints": [{"key": "gpu", "value": "a", "effect": "NoSchedule"}]}})
    cluster.kill_node("n1")
    cluster.run_until(seconds(60))
    cluster.revive_node("n1")
    cluster.run_until(seconds(1))
    assert taints(cluster, "n1") == [("gpu", "NoSchedule")]


def test_what_does_not_tolerate_a_no_execute_taint_goes_at_once() -> None:
    cluster = world(1)
    forever = {"key": "go", "operator": "Exists", "effect": "NoExecute"}
    cluster.create(bound("intolerant", "n1"))
    cluster.create(bound("patient", "n1", tolerations=[{**forever, "tolerationSeconds": 60}]))
    cluster.create(bound("stoic", "n1", tolerations=[forever]))
    cluster.run_until(lambda: len(ready(cluster)) == 3)
    cluster.patch("Node", "n1", {"spec": {"taints": [{"key": "go", "effect": "NoExecute"}]}})
    cluster.run_until(seconds(30))
    assert names(pods(cluster)) == ["patient", "stoic"]
    cluster.run_until(seconds(60))
    assert names(pods(cluster)) == ["stoic"]


def test_a_taint_that_is_taken_back_in_time_evicts_nobody() -> None:
    cluster = world(1)
    grace = {"key": "go", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    cluster.create(bound("patient", "n1", tolerations=[grace]))
    cluster.run_until(lambda: len(ready(cluster)) == 1)
    cluster.patch("Node", "n1", {"spec": {"taints": [{"key": "go", "effect": "NoExecute"}]}})
    cluster.run_until(seconds(30))
    cluster.patch("Node", "n1", {"spec": {"taints": None}})
    cluster.run_until(seconds(600))
    assert names(ready(cluster)) == ["patient"]


def test_evicted_pods_say_why() -> None:
    cluster = world(1)
    cluster.create(bound("a", "n1"))
    cluster.run_until(lambda: len(ready(cluster)) == 1)
    cluster.patch("Node", "n1", {"spec": {"taints": [{"key": "go", "effect": "NoExecute"}]}})
    cluster.run_until(seconds(0))
    assert conditions(cluster, "Pod", "a")["DisruptionTarget"] == ("True", "DeletionByTaintManager")


def test_pods_of_a_node_that_is_gone_are_removed_after_a_quarantine() -> None:
    cluster = world(2)
    cluster.create(bound("a", "n1"))
    cluster.run_until(lambda: len(ready(cluster)) == 1)
    cluster.remove_node("n1")
    cluster.run_until(seconds(39))
    assert names(pods(cluster)) == ["a"]
    cluster.run_until(seconds(2))
    assert not pods(cluster)


def test_pods_stay_when_their_node_comes_back_in_time() -> None:
    cluster = world(2)
    cluster.create(bound("a", "n1"))
    cluster.run_until(lambda: len(ready(cluster)) == 1)
    cluster.remove_node("n1")
    cluster.run_until(seconds(20))
    cluster.create(node("n1"))
    cluster.run_until(seconds(600))
    assert names(ready(cluster)) == ["a"]


def test_terminating_pods_on_a_node_out_of_service_are_removed() -> None:
    cluster = world(2)
    cluster.create(bound("a", "n1"))
    cluster.run_until(lambda: len(ready(cluster)) == 1)
    cluster.kill_node("n1")
    cluster.run_until(seconds(60))
    cluster.delete("Pod", "a")
    cluster.run_until(seconds(600))
    assert names(pods(cluster)) == ["a"]
    mark = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    held = (cluster.get("Node", "n1") or {})["spec"]["taints"]
    cluster.patch("Node", "n1", {"spec": {"taints": [*held, mark]}})
    cluster.run_until(seconds(1))
    assert not pods(cluster)


def test_every_pod_on_a_node_that_there_is_not_has_its_time_to_see_it_come() -> None:
    cluster = world(0)
    for _ in range(2):
        cluster.create(bound("a", "nowhere"))
        cluster.run_until(seconds(39))
        assert names(pods(cluster)) == ["a"]
        cluster.run_until(seconds(2))
        assert not pods(cluster)
