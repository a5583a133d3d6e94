"""What changes make of each node and pod: which come, which go and why, which stay."""

from __future__ import annotations

from collections import Counter

from fairlead.simulation.changes import AddNodes, Apply, Change, DrainNode, RemoveNode, Scale
from fairlead.simulation.contents import Contents
from fairlead.simulation.difference import Difference, End, difference, end_of
from fairlead.simulation.whatif import Question, compare
from fairlead.world.world import World
from support.manifests import deployment
from support.worlds import Obj, asking, node, seconds


def contents(*objects: Obj, after: float = 30.0) -> Contents:
    world = World()
    for one in objects:
        world.create(one)
    world.run_until(seconds(after))
    found = tuple(item for resource in world.store.resources() for item in world.store.list(resource))
    at = world.clock.now()
    world.close()
    return Contents(found, at)


def nodes(number: int, cpu: int = 2) -> list[Obj]:
    labels = {"eks.amazonaws.com/nodegroup": "large"}
    return [node(f"n{index}", cpu=cpu, labels=labels) for index in range(1, number + 1)]


def differing(cluster: Contents, *changes: Change) -> Difference:
    ends: list[End] = []
    compare(cluster, Question(changes), look=lambda copy, observer: ends.append(end_of(copy, observer)))
    changed, without = ends
    return difference(without, changed)


def marks(found: Difference, node: str) -> dict[str, int]:
    return dict(Counter(mark for mark, pod in found.pods if pod["spec"].get("nodeName", "") == node))


def test_nothing_done_is_no_difference() -> None:
    found = differing(contents(*nodes(2), deployment("web", 5, pods=asking("1"))))
    assert found.nodes == {}
    assert marks(found, "n1") == marks(found, "n2") == {"stays": 2}
    assert marks(found, "") == {"waits": 1}


def test_pods_of_a_node_that_is_gone_are_evicted_and_their_replacements_come_or_wait() -> None:
    cluster = contents(*nodes(3), deployment("web", 5, pods=asking("1")))
    full = Counter(pod["spec"]["nodeName"] for pod in cluster.of_kind("Pod"))
    gone = next(name for name, pods in full.items() if pods == 2)
    found = differing(cluster, RemoveNode(gone))
    assert found.nodes == {gone: "gone"}
    assert marks(found, gone) == {"evicted": 2}
    (roomy,) = (name for name, pods in full.items() if pods == 1)
    assert marks(found, roomy) == {"stays": 1, "comes": 1}
    assert marks(found, "") == {"comes": 1}


def test_a_drained_node_is_cordoned_and_an_added_one_takes_its_pods() -> None:
    cluster = contents(*nodes(1), deployment("web", 2, pods=asking("1")))
    found = differing(cluster, AddNodes("large", 1), DrainNode("n1"))
    assert found.nodes == {"large-added-0": "added", "n1": "cordoned"}
    assert marks(found, "n1") == {"evicted": 2}
    assert marks(found, "large-added-0") == {"comes": 2}


def test_scaling_in_is_no_eviction() -> None:
    cluster = contents(*nodes(1), deployment("web", 2, pods=asking("1")))
    found = differing(cluster, Scale("default", "", "web", 1))
    assert marks(found, "n1") == {"stays": 1, "goes": 1}


def test_new_pods_of_one_workload_are_the_same_ones_whatever_they_are_called() -> None:
    """The third pod is created in both ways, but after another, so its name and UID are others."""
    cluster = contents(*nodes(1, cpu=8), deployment("web", 2, pods=asking("1")))
    scaled = Contents(
        tuple(
            {**one, "spec": {**one["spec"], "replicas": 3}} if one["kind"] == "Deployment" else one
            for one in cluster.objects
        ),
        cluster.at,
    )
    other = deployment("api", 1, pods=asking("1"))
    found = differing(scaled, Apply("other.yaml", [other]))
    assert marks(found, "n1") == {"stays": 3, "comes": 1}
