"""Nodes: how they come up, and what their conditions do to pods."""

from __future__ import annotations

from typing import Any

from support.cluster import Cluster
from support.manifests import scheduled_pod
from support.workloads import condition, on_own_nodes


def taints(cluster: Cluster, node: str) -> set[tuple[str, str]]:
    spec = cluster.get("Node", node)["spec"]
    return {(taint["key"], taint["effect"]) for taint in spec.get("taints", [])}


def running_pod(cluster: Cluster, name: str, **spec: Any) -> dict[str, Any]:
    cluster.create(scheduled_pod(name, spec=on_own_nodes(cluster) | spec))
    cluster.wait(lambda: cluster.get("Pod", name)["status"]["phase"] == "Running", f"pod {name} to run")
    return cluster.get("Pod", name)


def test_a_node_comes_up_ready_and_without_taints(cluster: Cluster) -> None:
    (name,) = cluster.add_nodes(cpu=8, memory="32Gi")

    node = cluster.get("Node", name)

    assert condition(node, "Ready")["status"] == "True"
    assert node["status"]["allocatable"]["cpu"] == "8"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == name
    assert {one["type"] for one in node["status"]["addresses"]} == {"InternalIP", "Hostname"}
    assert node["status"]["nodeInfo"]["kubeletVersion"].startswith(f"v{cluster.host.kubernetes}.")


def test_a_node_gets_a_lease(cluster: Cluster) -> None:
    (name,) = cluster.add_nodes()

    path = cluster.path("Lease", name, namespace="kube-node-lease")

    cluster.wait(lambda: cluster.wire.request("GET", path).status == 200, "its lease")
    assert cluster.wire.request("GET", path).ok()["spec"]["leaseDurationSeconds"] == 40


def test_a_cordoned_node_is_tainted_and_an_uncordoned_one_freed(cluster: Cluster) -> None:
    (name,) = cluster.add_nodes()

    cluster.patch("Node", name, {"spec": {"unschedulable": True}})
    taint = ("node.kubernetes.io/unschedulable", "NoSchedule")
    cluster.wait(lambda: taint in taints(cluster, name), "the taint")

    cluster.patch("Node", name, {"spec": {"unschedulable": None}})
    cluster.wait(lambda: taint not in taints(cluster, name), "the taint to be taken off")


def test_a_node_that_is_not_ready_is_tainted_for_new_pods_and_for_running_ones(cluster: Cluster) -> None:
    # With most nodes well: where most are not, the cluster suspects itself and ends nobody's pods.
    name, *_ = cluster.add_nodes(3)

    cluster.host.set_unready(name)

    cluster.wait(
        lambda: (
            taints(cluster, name)
            >= {
                ("node.kubernetes.io/not-ready", "NoSchedule"),
                ("node.kubernetes.io/not-ready", "NoExecute"),
            }
        ),
        "both taints",
    )


def test_a_no_execute_taint_ends_the_pods_that_do_not_tolerate_it(cluster: Cluster) -> None:
    (name,) = cluster.add_nodes()
    running_pod(cluster, "goes")
    running_pod(cluster, "stays", tolerations=[{"key": "fire", "operator": "Exists", "effect": "NoExecute"}])

    cluster.patch("Node", name, {"spec": {"taints": [{"key": "fire", "effect": "NoExecute"}]}})

    cluster.gone("Pod", "goes")
    assert "deletionTimestamp" not in cluster.get("Pod", "stays")["metadata"]


def test_a_running_pod_says_where_and_since_when(cluster: Cluster) -> None:
    (name,) = cluster.add_nodes()

    pod = running_pod(cluster, "a")

    assert pod["spec"]["nodeName"] == name
    assert pod["status"]["podIP"]
    assert pod["status"]["hostIP"] == cluster.get("Node", name)["status"]["addresses"][0]["address"]
    assert pod["status"]["startTime"]
    for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready"):
        assert condition(pod, kind)["status"] == "True"
    (container,) = pod["status"]["containerStatuses"]
    assert (container["name"], container["ready"], container["restartCount"]) == ("main", True, 0)
    assert "running" in container["state"]


def test_the_scheduler_says_where_it_put_a_pod(cluster: Cluster) -> None:
    (name,) = cluster.add_nodes()
    running_pod(cluster, "a")

    def said() -> list[dict[str, Any]]:
        events = cluster.list("Event", fieldSelector="involvedObject.name=a,reason=Scheduled")["items"]
        assert isinstance(events, list)
        return events

    (event,) = cluster.wait(said, "its event")
    assert event["message"] == f"Successfully assigned {cluster.namespace}/a to {name}"
    assert (event["type"], event["action"]) == ("Normal", "Binding")


def test_a_pod_that_fits_nowhere_is_unschedulable(cluster: Cluster) -> None:
    cluster.add_nodes(cpu=1)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}

    cluster.create(scheduled_pod("a", spec=on_own_nodes(cluster) | {"containers": [container]}))

    found = cluster.wait(lambda: condition(cluster.get("Pod", "a"), "PodScheduled"), "the verdict")
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    assert "nodes are available: " in found["message"]
    assert "1 Insufficient cpu" in found["message"]


def test_a_new_node_takes_the_pods_that_waited_for_it(cluster: Cluster) -> None:
    cluster.create(scheduled_pod("a", spec=on_own_nodes(cluster)))
    cluster.wait(lambda: condition(cluster.get("Pod", "a"), "PodScheduled"), "the verdict")

    cluster.add_nodes()

    cluster.wait(lambda: cluster.get("Pod", "a")["status"]["phase"] == "Running", "the pod to run")
