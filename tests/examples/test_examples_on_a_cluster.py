"""The examples on a real control plane of four nodes, with Fairlead as shipped: its rights, its settings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from support.examples import EXAMPLES, FILES, Obj, read
from support.shipped import Shipped, shipped_on
from support.versions import POD_GROUP_WARNING, POD_GROUPS, as_served

pytestmark = [pytest.mark.real, pytest.mark.slow]

APPLICABLE = [name for name in FILES if name != "gang-kubernetes.yaml" or POD_GROUPS]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Shipped]:
    with shipped_on(4) as found:
        found.run().wait_for("synced")
        yield found


def namespace_of(objects: list[Obj]) -> str:
    (found,) = [one["metadata"]["name"] for one in objects if one["kind"] == "Namespace"]
    assert isinstance(found, str)
    return found


@pytest.fixture
def applied(cluster: Shipped, request: pytest.FixtureRequest) -> Iterator[str]:
    """The namespace of the example that the test names, applied; gone afterwards."""
    name: str = request.param
    namespace = namespace_of(read(name))
    cluster.plane.kubectl("apply", "--validate=strict", "-f", "-", stdin=manifest(name))
    yield namespace
    cluster.clear(namespace)


def manifest(name: str) -> str:
    return as_served((EXAMPLES / name).read_text())


@pytest.mark.parametrize("name", APPLICABLE)
def test_the_api_server_takes_it_as_it_is(cluster: Shipped, name: str) -> None:
    # A dry run makes no namespace that the rest of the file could be in.
    for namespace in (one for one in read(name) if one["kind"] == "Namespace"):
        cluster.apply(namespace)
    apply = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
    done = cluster.plane.kubectl(*apply, stdin=manifest(name))
    assert done.stderr.replace(POD_GROUP_WARNING, "") == ""


@pytest.mark.parametrize("applied", ["priorities.yaml"], indirect=True)
def test_the_gang_takes_the_low_priority_pods_node(cluster: Shipped, applied: str) -> None:
    def settled() -> dict[str, str] | None:
        found = cluster.nodes_of(applied)
        waiting = [name for name, node in found.items() if not node]
        return found if len(found) == 5 and len(waiting) == 1 and waiting[0].startswith("low-") else None

    found = cluster.wait(settled, "all but the low-priority pod to run")
    assert len(set(found.values()) - {""}) == 4


@pytest.mark.parametrize("applied", ["split-gang.yaml"], indirect=True)
def test_the_split_gang_starts_whole(cluster: Shipped, applied: str) -> None:
    found = cluster.wait(lambda: all_bound(cluster, applied, 3), "the three members to be bound")
    assert len(set(found.values())) == 3


@pytest.mark.parametrize("applied", ["exclusive-nodes.yaml"], indirect=True)
def test_exclusive_pods_share_their_nodes_with_nobody(cluster: Shipped, applied: str) -> None:
    found = cluster.wait(lambda: all_bound(cluster, applied, 4), "four pods to be bound")
    alone = [node for name, node in found.items() if name.startswith("alone-")]
    assert len(set(alone)) == 2
    assert not set(alone) & {node for name, node in found.items() if name.startswith("sharing-")}


@pytest.mark.parametrize("applied", [name for name in APPLICABLE if name.startswith("gang-")], indirect=True)
def test_a_gang_runs_however_it_is_spelt(cluster: Shipped, applied: str) -> None:
    found = cluster.wait(lambda: all_bound(cluster, applied, 3), "the three members to be bound")
    assert len(set(found.values())) == 3


@pytest.mark.skipif(POD_GROUPS is None, reason="this version of Kubernetes has no PodGroups")
@pytest.mark.parametrize(
    "policy", [{"gang": {"minCount": 2}}, {"basic": {}}], ids=["a gang", "a basic group"]
)
def test_pods_wait_for_the_pod_group_of_kubernetes_that_they_name(cluster: Shipped, policy: Obj) -> None:
    with cluster.namespace(f"own-{next(iter(policy))}") as namespace:
        cluster.apply(*(grouped(namespace, name) for name in "ab"))

        def told() -> bool:
            events = cluster.plane.api.get(f"/api/v1/namespaces/{namespace}/events")["items"]
            return any("PodGroup (scheduling.k8s.io) does not exist" in one["message"] for one in events)

        cluster.wait(told, "the pods to be told that their PodGroup is missing")
        cluster.wait(lambda: settled_since(cluster, namespace, "a"), "a counted size to be believed")
        cluster.apply(pod(namespace, "later", priority=0))
        cluster.wait(lambda: all_bound(cluster, namespace, 3, least=1), "a pod that came later to be bound")
        assert not cluster.nodes_of(namespace)["a"]
        group = {
            "apiVersion": POD_GROUPS,
            "kind": "PodGroup",
            "metadata": {"name": "own", "namespace": namespace},
            "spec": {"schedulingPolicy": policy},
        }
        cluster.apply(group)
        cluster.wait(lambda: all_bound(cluster, namespace, 3), "all pods to be bound")


def settled_since(cluster: Shipped, namespace: str, name: str) -> bool:
    """Whether a gang whose size is counted would be believed to be complete, by its newest member."""
    made = cluster.plane.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["metadata"][
        "creationTimestamp"
    ]
    return datetime.now(UTC) - datetime.fromisoformat(made) > timedelta(seconds=7)


def grouped(namespace: str, name: str) -> Obj:
    made = pod(namespace, name, priority=0)
    made["spec"]["schedulingGroup"] = {"podGroupName": "own"}
    return made


def test_the_priority_annotation_counts_in_labelled_namespaces_only(cluster: Shipped) -> None:
    with cluster.namespace("unlabelled") as namespace:
        filler = [pod(namespace, f"filler-{index}", priority=1) for index in range(4)]
        cluster.apply(*filler)
        cluster.wait(lambda: all_bound(cluster, namespace, 4), "every node to be taken")
        cluster.apply(pod(namespace, "eager", priority=1000))
        path = f"/api/v1/namespaces/{namespace}/pods/eager"

        def refused() -> bool:
            conditions = cluster.plane.api.get(path)["status"].get("conditions", [])
            return any(one["reason"] == "Unschedulable" for one in conditions)

        cluster.wait(refused, "the eager pod to be refused")
        assert len(all_bound(cluster, namespace, 5, least=4)) == 5


def all_bound(cluster: Shipped, namespace: str, number: int, *, least: int | None = None) -> dict[str, str]:
    """The pods with their nodes once there are `number`, all bound (or `least` of them)."""
    found = cluster.nodes_of(namespace)
    bound = sum(bool(node) for node in found.values())
    wanted = number if least is None else least
    return found if len(found) == number and bound == wanted else {}


def pod(namespace: str, name: str, *, priority: int) -> Obj:
    annotations = {"priority": str(priority), "fairlead.dev/capacity": "exclusive"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {"schedulerName": "fairlead", "containers": [{"name": "main", "image": "image"}]},
    }
