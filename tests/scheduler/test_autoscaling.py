"""Pods that fit nowhere get nodes from zero, and gangs get all of theirs, from an unchanged autoscaler.

The same stories on the real control plane with Karpenter and on the embedded cluster with its own. What
the autoscalers are not told in their own terms, they cannot act on: that is told by an event.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.rig.nodes import is_ready
from support.autoscaled import add_pool, autoscaled
from support.cluster import Cluster, Host
from support.faults import Answer, LoseReply, LoseRequest, RequestFault, Script
from support.scheduler import Manifest, Shop, aside, in_process
from support.seen import first, has_node, history, is_marked, marked_because
from support.wire import Watch

pytestmark = pytest.mark.slow

SIZE = 3
WHOLE_NODE = "1500m"  # of the 1900m that a node has for pods
SLIVER = "100m"

EXCLUSIVE = {"fairlead.dev/capacity": "exclusive"}
SAID_TO_ALL = {"fairlead.dev/exclusive": "true"}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "namespaceSelector": {},
                "labelSelector": {
                    "matchExpressions": [{"key": "fairlead.dev/exclusive", "operator": "Exists"}]
                },
            }
        ]
    }
}
BY_SIZE: dict[str, Any] = {"cpu": WHOLE_NODE}
BY_RULE: dict[str, Any] = {
    "cpu": SLIVER,
    "labels": SAID_TO_ALL,
    "annotations": EXCLUSIVE,
    "affinity": APART,
}


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)], scope="module")
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """Each kind of cluster in turn, with an autoscaler and without nodes."""
    with autoscaled(request.param) as own:
        yield own


def test_plain_pods_get_nodes_from_zero(ours: Shop):
    add_pool(ours.cluster)
    ours.run()
    ours.deployment("web", 5, cpu="800m")
    running = all_running(ours, "web", 5)
    homes = [pod["spec"]["nodeName"] for pod in running]
    assert sorted(homes.count(home) for home in set(homes)) == [1, 2, 2]


@pytest.mark.parametrize("alone", [BY_SIZE, BY_RULE], ids=["by size", "by rule"])
def test_a_gang_gets_a_node_for_each_member_and_starts_when_all_are_there(ours: Shop, alone: dict[str, Any]):
    pool = add_pool(ours.cluster)
    ours.run()
    with watched(ours, "Pod") as pods, watched(ours, "Node") as nodes:
        ours.deployment("ranks", SIZE, gang="ring", **alone)
        assert_whole(pods, nodes)
    homes = {pod["spec"]["nodeName"] for pod in all_running(ours, "ranks", SIZE)}
    assert homes == set(node_names(ours.cluster, pool))
    assert len(homes) == SIZE


def test_a_gang_split_over_deployments_waits_for_its_slowest_node(ours: Shop):
    cluster = ours.cluster
    early, late = add_pool(cluster, "early"), add_pool(cluster, "late", boot_s=4)
    ours.run()
    selectors = {"a": early, "b": early, "c": late}
    with watched(ours, "Pod") as pods, watched(ours, "Node") as nodes:
        for name, label in selectors.items():
            ours.deployment(name, 1, gang="ring", nodeSelector=label, **BY_SIZE)
        assert_whole(pods, nodes)
    for name, label in selectors.items():
        (pod,) = all_running(ours, name, 1)
        assert cluster.get("Node", pod["spec"]["nodeName"])["metadata"]["labels"]["pool"] == label["pool"]


def test_an_incomplete_gang_brings_no_nodes(ours: Shop):
    cluster = ours.cluster
    pool = add_pool(cluster)
    ours.run()
    for name in ("a", "b"):
        ours.add(name, gang="ring", minimum=SIZE, cpu=WHOLE_NODE)
    for name in ("a", "b"):
        ours.events(name, "WaitingForGang")
    # Proof that the autoscaler has looked since: it brought a node for another pod, and one only.
    ours.deployment("single", 1, cpu=WHOLE_NODE)
    all_running(ours, "single", 1)
    assert len(node_names(cluster, pool)) == 1
    assert not any(is_marked(cluster.get("Pod", name)) for name in ("a", "b"))

    ours.add("c", gang="ring", minimum=SIZE, cpu=WHOLE_NODE)
    homes = ours.bound("a", "b", "c")
    assert len(set(homes.values())) == len(homes) == SIZE + 1


def test_a_gang_that_cannot_get_all_its_nodes_takes_none(ours: Shop):
    cluster = ours.cluster
    add_pool(cluster, most=SIZE - 1)
    ours.run()
    with watched(ours, "Node") as nodes:
        ours.deployment("ranks", SIZE, gang="ring", **BY_SIZE)
        usable = first(history(nodes, is_usable, SIZE - 1), is_usable)
    # Two would fit now, and have been tried.
    tried = cluster.wait(lambda: held_with(cluster, "ranks", "2 of 3 members fit"), "the gang to be held")
    assert [has_node(pod) for pod in tried] == [False] * SIZE

    (last,) = cluster.add_nodes(1, cpu=2)
    homes = {pod["spec"]["nodeName"] for pod in all_running(ours, "ranks", SIZE)}
    assert homes == {*usable, last}


def test_exclusive_pods_get_a_node_each_when_they_say_so_to_all(ours: Shop):
    cluster = ours.cluster
    add_pool(cluster)
    ours.run()
    ours.deployment("alone", SIZE, **BY_RULE)
    running = all_running(ours, "alone", SIZE)
    assert len({pod["spec"]["nodeName"] for pod in running}) == SIZE
    assert not unseen(cluster)


def test_exclusive_pods_that_tell_only_us_are_told_that_autoscalers_do_not_know(ours: Shop):
    cluster = ours.cluster
    pool, another = add_pool(cluster, "one"), add_pool(cluster, "another")
    ours.run()
    ours.deployment("alone", 1, cpu=SLIVER, annotations=EXCLUSIVE, nodeSelector=pool)
    all_running(ours, "alone", 1)
    (event,) = cluster.wait(lambda: unseen(cluster), "an event that says so")
    assert event["type"] == "Warning"
    assert "autoscalers cannot see" in event["message"]

    # It is true: to an autoscaler there is room for a second one beside the first.
    cluster.patch("Deployment", "alone", {"spec": {"replicas": 2}})
    (waiting,) = cluster.wait(lambda: without_node(cluster, "alone"), "a second pod")
    cluster.wait(
        lambda: "has its node to itself" in marked_because(cluster.get("Pod", waiting)), "it to be held"
    )
    # The autoscaler has looked since: it brought a node for who came after.
    ours.deployment("proof", 1, cpu=SLIVER, nodeSelector=another)
    all_running(ours, "proof", 1)
    assert without_node(cluster, "alone") == [waiting]
    assert len(node_names(cluster, pool)) == 1
    assert len(unseen(cluster)) == 1


def test_a_gang_that_loses_a_member_before_its_start_asks_for_nothing_more(ours: Shop):
    cluster = ours.cluster
    ours.run()
    for name in ("a", "b", "c"):
        ours.add(name, gang="ring", minimum=SIZE, cpu=WHOLE_NODE)
    for name in ("a", "b", "c"):
        ours.held(name)
    cluster.delete("Pod", "c")
    cluster.wait(
        lambda: not any(is_marked(cluster.get("Pod", name)) for name in ("a", "b")), "no mark to be left"
    )

    add_pool(cluster)
    ours.add("c", gang="ring", minimum=SIZE, cpu=WHOLE_NODE)
    assert len(set(ours.bound("a", "b", "c").values())) == SIZE


@pytest.mark.parametrize(
    "fault",
    [Answer(409, "Conflict"), Answer(500, "InternalError"), LoseRequest(), LoseReply()],
    ids=lambda fault: f"{type(fault).__name__}{getattr(fault, 'code', '')}",
)
async def test_a_mark_whose_first_write_fails_is_written_all_the_same(ours: Shop, fault: RequestFault):
    async with in_process(ours, Script(requests=[("/pods/a/status", fault)])):
        await aside(ours.add, "a")
        assert (await aside(ours.held, "a"))["reason"] == "Unschedulable"


# What the API shows


def watched(ours: Shop, kind: str) -> Any:
    """A watch of the test's own pods, or of the nodes that they may use."""
    cluster = ours.cluster
    if kind == "Node":
        return cluster.wire.watch(cluster.path(kind), labelSelector=f"test={cluster.namespace}")
    return cluster.wire.watch(cluster.path(kind))


def assert_whole(pods: Watch, nodes: Watch) -> None:
    """The gang asked for nodes when its last member was there, and started when its last node was."""
    members, machines = history(pods, has_node, SIZE), history(nodes, is_usable, SIZE)
    created, marked = first(members, lambda pod: True), first(members, is_marked)
    usable, bound = first(machines, is_usable), first(members, has_node)
    assert len(created) == len(marked) == SIZE
    assert max(created.values()) < min(marked.values()), "an incomplete gang asked for nodes"
    assert max(usable.values()) < min(bound.values()), "a member was bound before the last node was there"


def is_usable(node: Manifest) -> bool:
    return is_ready(node, untainted=True) and not node["spec"].get("taints")


def held_with(cluster: Cluster, app: str, text: str) -> list[Manifest]:
    """The pods of a workload, once all of them are Unschedulable for such a reason."""
    pods: list[Manifest] = cluster.list("Pod", labelSelector=f"app={app}")["items"]
    return pods if all(text in marked_because(pod) for pod in pods) else []


def all_running(ours: Shop, app: str, number: int) -> list[Manifest]:
    def look() -> list[Manifest] | None:
        pods = [pod for pod in ours.running_of(app, number) if pod["status"]["phase"] == "Running"]
        return pods if len(pods) == number else None

    found = ours.cluster.wait(look, f"{number} pods of {app} to run")
    assert found is not None
    return found


def without_node(cluster: Cluster, app: str) -> list[str]:
    pods = cluster.list("Pod", labelSelector=f"app={app}")["items"]
    return [pod["metadata"]["name"] for pod in pods if not has_node(pod)]


def node_names(cluster: Cluster, pool: dict[str, str]) -> list[str]:
    return cluster.names("Node", labelSelector=f"pool={pool['pool']}")


def unseen(cluster: Cluster) -> list[Manifest]:
    return [one for one in cluster.list("Event")["items"] if one["reason"] == "ExclusiveUnseen"]
