from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.nodegroups import NodeGroup
from fairlead.policy.decide.admission import have_alone
from fairlead.world.autoscaler import TO_BE_DELETED, Pacing
from fairlead.world.world import World
from support.manifests import deployment, replica_set
from support.worlds import Obj, active, asking, events, group, homes, names, pods, ready, seconds

QUICK = Pacing(unneeded=seconds(60), after_add=seconds(60))


def scaled(*groups: NodeGroup, **more: Any) -> World:
    return World(groups=groups, autoscaler=QUICK, **more)


def apart(name: str, replicas: int, cpu: str = "100m", **spec: Any) -> Obj:
    """Pods that want a node each, said with anti-affinity on the hostname."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return deployment(name, replicas, pods={**asking(cpu), "affinity": anti, **spec})


def test_two_pods_that_want_a_node_each_get_two_nodes_from_zero() -> None:
    cluster = scaled(group())
    cluster.create(apart("web", 2))
    cluster.run_until(lambda: len(ready(cluster)) == 2)
    assert sorted(homes(pods(cluster)).values()) == [1, 1]
    assert names(cluster.all("Node")) == ["workers-1", "workers-2"]
    cluster.run_until(seconds(600))
    assert len(cluster.all("Node")) == 2


def test_exclusive_pods_of_two_namespaces_at_one_moment_get_a_node_each() -> None:
    cluster = scaled(group(cpu=4))
    for namespace in ("default", "kube-public"):
        web = deployment("web", 2, pods=asking("100m"))
        web["metadata"]["namespace"] = namespace
        template = web["spec"]["template"]
        have_alone(template["spec"], template["metadata"], "web")
        cluster.create(web)
    cluster.run_until(lambda: len(ready(cluster)) == 4)
    assert sorted(homes(pods(cluster)).values()) == [1, 1, 1, 1]
    assert len(cluster.all("Node")) == 4


def test_several_pods_share_the_nodes_they_fit_on() -> None:
    cluster = scaled(group(cpu=4))
    cluster.create(deployment("web", 10, pods=asking("1")))
    cluster.run_until(lambda: len(ready(cluster)) == 10)
    assert len(cluster.all("Node")) == 3


def test_no_more_nodes_than_the_maximum() -> None:
    cluster = scaled(group(max=3))
    cluster.create(apart("web", 5))
    cluster.run_until(seconds(600))
    assert len(cluster.all("Node")) == 3
    assert len(ready(cluster)) == 3
    assert "pod didn't trigger scale-up: 1 max node group size reached" in events(
        cluster, "NotTriggerScaleUp"
    )


def test_a_node_takes_its_time_to_boot() -> None:
    cluster = scaled(group(bootS=120))
    cluster.create(deployment("web", 1))
    cluster.run_until(lambda: events(cluster, "TriggeredScaleUp"))
    assert events(cluster, "TriggeredScaleUp") == ["pod triggered scale-up: [{workers 0->1 (max: 10)}]"]
    cluster.run_until(seconds(119))
    assert not cluster.all("Node")
    cluster.run_until(seconds(5))
    assert len(ready(cluster)) == 1


def test_nodes_on_their_way_are_counted_on() -> None:
    cluster = scaled(group(cpu=4, bootS=120))
    cluster.create(deployment("web", 2, pods=asking("1")))
    cluster.run_until(seconds(60))
    cluster.create(deployment("more", 2, pods=asking("1")))
    cluster.run_until(lambda: len(ready(cluster)) == 4)
    assert cluster.pools.target("workers") == 1


def test_only_groups_that_fit_are_asked() -> None:
    plain = group("plain", labels={"disk": "hdd"})
    tainted = group(
        "tainted", labels={"disk": "ssd"}, taints=[{"key": "size", "value": "l", "effect": "NoSchedule"}]
    )
    cluster = scaled(plain, tainted)
    cluster.create(deployment("fast", 1, pods={**asking(), "nodeSelector": {"disk": "ssd"}}))
    cluster.run_until(seconds(120))
    assert not cluster.all("Node")
    assert events(cluster, "NotTriggerScaleUp") == [
        "pod didn't trigger scale-up: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) had untolerated taint(s)"
    ]
    tolerant = {"key": "size", "operator": "Equal", "value": "l", "effect": "NoSchedule"}
    cluster.create(
        deployment("ok", 1, pods={**asking(), "nodeSelector": {"disk": "ssd"}, "tolerations": [tolerant]})
    )
    cluster.run_until(lambda: len(ready(cluster, app="ok")) == 1)
    assert names(cluster.all("Node")) == ["tainted-1"]


def test_of_groups_that_help_as_many_pods_the_cheaper_one_is_taken() -> None:
    dear = group(
        "a-dear", instanceTypes=[{"capacity": {"cpu": "4", "memory": "8Gi"}, "pricePerHour": "0.20"}]
    )
    cheap = group(
        "b-cheap", instanceTypes=[{"capacity": {"cpu": "4", "memory": "8Gi"}, "pricePerHour": "0.05"}]
    )
    cluster = scaled(dear, cheap)
    cluster.create(deployment("web", 1))
    cluster.run_until(lambda: ready(cluster))
    assert names(cluster.all("Node")) == ["b-cheap-1"]


def test_it_acts_only_on_pods_that_are_marked_unschedulable() -> None:
    cluster = scaled(group(), scheduler=False)
    cluster.create(replica_set("web", 3))
    cluster.run_until(seconds(600))
    assert not cluster.all("Node")


def test_a_pod_that_was_promised_a_place_brings_no_node_until_the_promise_is_taken_back() -> None:
    cluster = scaled(group(), scheduler=False)
    cluster.create(replica_set("web", 1))
    cluster.run_until(lambda: pods(cluster))
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}

    def say(nominated: str) -> None:
        [found] = pods(cluster)
        said = {**found["status"], "conditions": [waits], "nominatedNodeName": nominated}
        cluster.api.update(
            cluster.runner.view.resource(found), {**found, "status": said}, subresource="status"
        )

    say("some-node")
    cluster.run_until(seconds(600))
    assert not cluster.all("Node")
    say("")
    cluster.run_until(seconds(600))
    assert len(cluster.all("Node")) == 1


def test_it_cannot_see_rules_that_only_fairlead_knows() -> None:
    cluster = scaled(group(cpu=4))
    web = deployment("web", 2, pods=asking("1"))
    web["spec"]["template"]["metadata"]["annotations"] = {"fairlead.dev/capacity": "exclusive"}
    cluster.create(web)
    cluster.run_until(seconds(300))
    assert len(cluster.all("Node")) == 1


def test_what_runs_on_every_node_takes_its_part_of_each_new_one() -> None:
    cluster = scaled(group(cpu=2))
    agent = replica_set("agent", pods=asking("500m")) | {"kind": "DaemonSet"}
    del agent["spec"]["replicas"]
    cluster.create(agent)
    cluster.create(deployment("web", 2, pods=asking("1")))
    cluster.run_until(lambda: len(ready(cluster, app="web")) == 2)
    assert len(cluster.all("Node")) == 2  # 1 + 1 + 0.5 does not fit on 2
    cluster.run_until(seconds(30))
    assert len(ready(cluster, app="agent")) == 2


def test_idle_nodes_go_after_a_while_marked_first() -> None:
    cluster = scaled(group())
    cluster.create(apart("web", 3))
    cluster.run_until(lambda: len(ready(cluster)) == 3)
    marked: list[list[str]] = []
    cluster.store.subscribe(
        lambda change: (
            marked.append([t["key"] for t in change.object["spec"].get("taints", ())])
            if change.resource.kind == "Node" and change.type == "MODIFIED"
            else None
        )
    )
    cluster.patch("Deployment", "web", {"spec": {"replicas": 1}})
    cluster.run_until(seconds(50))
    assert len(cluster.all("Node")) == 3
    cluster.run_until(seconds(120))
    assert len(cluster.all("Node")) == 1
    assert [TO_BE_DELETED] in marked
    assert len(active(cluster)) == 1


def test_a_group_never_goes_below_its_minimum() -> None:
    cluster = scaled(group(min=2))
    cluster.run_until(seconds(1))
    assert len(cluster.all("Node")) == 2
    cluster.run_until(seconds(3600))
    assert len(cluster.all("Node")) == 2


def test_a_group_that_cannot_deliver_is_given_up_on_and_another_one_helps() -> None:
    cheap = group(
        "cheap", instanceTypes=[{"capacity": {"cpu": "4", "memory": "8Gi"}, "pricePerHour": "0.01"}]
    )
    dear = group("dear", instanceTypes=[{"capacity": {"cpu": "4", "memory": "8Gi"}, "pricePerHour": "1"}])
    cluster = scaled(cheap, dear)
    cluster.pools.set_supply("cheap", 0)
    cluster.create(deployment("web", 1))
    cluster.run_until(seconds(14 * 60))
    assert not cluster.all("Node")
    cluster.run_until(seconds(3 * 60))
    assert names(cluster.all("Node")) == ["dear-1"]


def test_a_node_that_is_lost_is_replaced() -> None:
    cluster = scaled(group(min=1, bootS=30))
    cluster.run_until(seconds(1))
    cluster.remove_node("workers-1")
    cluster.run_until(seconds(60))
    assert names(cluster.all("Node")) == ["workers-2"]


def test_steady_means_no_writes() -> None:
    cluster = scaled(group(max=2))
    cluster.create(apart("web", 4))
    cluster.run_until(seconds(3600))
    before = cluster.store.rv
    cluster.run_until(seconds(24 * 3600))
    assert cluster.store.rv == before


@given(
    sizes=st.lists(st.sampled_from(["250m", "500m", "1", "1500m", "2", "4"]), min_size=1, max_size=12),
    maximum=st.integers(1, 8),
)
@settings(max_examples=25)
def test_whatever_is_asked_for_everything_that_can_be_placed_is_and_no_node_is_idle(
    sizes: list[str], maximum: int
) -> None:
    cluster = scaled(group(cpu=4, max=maximum))
    for number, size in enumerate(sizes):
        cluster.create(replica_set(f"r{number}", 1, pods=asking(size)))
    cluster.run_until(seconds(400))
    used = homes(ready(cluster))
    assert len(cluster.all("Node")) <= maximum
    assert set(used) == set(names(cluster.all("Node")))
    if len(cluster.all("Node")) < maximum:
        assert len(ready(cluster)) == len(sizes)


@pytest.mark.parametrize("replicas", [30])
def test_thirty_pods_that_want_a_node_each_get_thirty_nodes(replicas: int) -> None:
    cluster = scaled(group(max=50))
    cluster.create(apart("web", replicas))
    cluster.run_until(lambda: len(ready(cluster)) == replicas)
    assert len(cluster.all("Node")) == replicas
