"""What the cluster's own scheduler does for a pod of high priority that fits nowhere."""

from __future__ import annotations

from typing import Any

from support.cluster import Cluster
from support.manifests import budget, scheduled_pod
from support.moments import recording
from support.versions import before_preemption
from support.workloads import condition, is_ready, on_own_nodes


def priorities(cluster: Cluster, **more: Any) -> dict[int, str]:
    """The names of PriorityClasses 1, 5 and 10."""
    found = {}
    for value in (1, 5, 10):
        metadata = {"name": cluster.unique(f"{more.get('preemptionPolicy', 'priority').lower()}-{value}")}
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        found[value] = cluster.create({**made, "metadata": metadata, **more})["metadata"]["name"]
    for name in found.values():
        probe = scheduled_pod("probe", spec={"priorityClassName": name})
        cluster.wait(
            lambda probe=probe: cluster.try_create(probe, dryRun="All").status == 201, f"{name} to be known"
        )
    return found


def add(cluster: Cluster, name: str, priority: str, **metadata: Any) -> None:
    """A pod that has a node's cpu to itself."""
    container = {"name": "main", "image": "image", "resources": {"requests": {"cpu": "600m"}}}
    spec = {"priorityClassName": priority, "containers": [container], "terminationGracePeriodSeconds": 0}
    cluster.create(scheduled_pod(name, spec=on_own_nodes(cluster) | spec, **metadata))


def running(cluster: Cluster, name: str, priority: str, **metadata: Any) -> str:
    """The same, once it runs; its node."""
    add(cluster, name, priority, **metadata)
    cluster.wait(lambda: is_ready(cluster.get("Pod", name)), f"{name} to run")
    return home(cluster, name)


def home(cluster: Cluster, name: str) -> str:
    return str(cluster.get("Pod", name)["spec"].get("nodeName", ""))


def bound(cluster: Cluster, name: str) -> str:
    return cluster.wait(lambda: home(cluster, name), f"{name} to be bound")


def refused(cluster: Cluster, name: str) -> str:
    """Why a pod has no node, once that is said."""

    def look() -> str:
        said = condition(cluster.get("Pod", name), "PodScheduled")
        return str(said["message"]) if said.get("reason") == "Unschedulable" else ""

    return cluster.wait(look, f"{name} to be refused")


def said(cluster: Cluster, name: str, reason: str) -> str:
    """The message of the event with this reason about a pod."""
    selector = f"involvedObject.name={name},reason={reason}"
    found = cluster.wait(lambda: cluster.list("Event", fieldSelector=selector)["items"], f"{reason}: {name}")
    return str(found[0]["message"])


def test_the_lowest_pod_leaves_and_its_condition_says_why(cluster: Cluster) -> None:
    classes = priorities(cluster)
    cluster.add_nodes(2, cpu=1)
    middle = running(cluster, "middle", classes[5], labels={"app": "story"})
    node = running(cluster, "low", classes[1], labels={"app": "story"})

    with recording(cluster, "story") as moments:
        add(cluster, "high", classes[10], labels={"app": "story"})
        assert bound(cluster, "high") == node
        cluster.gone("Pod", "low")
        seen = [{one["metadata"]["name"]: one for one in pods} for pods in moments()]

    (*_, last) = (pods["low"] for pods in seen if "low" in pods)
    assert "deletionTimestamp" in last["metadata"]
    target = condition(last, "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
    assert target["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
    waited = [pods["high"] for pods in seen if "high" in pods and not pods["high"]["spec"].get("nodeName")]
    assert node in [one["status"].get("nominatedNodeName") for one in waited]
    high = cluster.get("Pod", "high")
    assert "nominatedNodeName" not in high["status"]
    assert said(cluster, "low", "Preempted") == f"Preempted by pod {high['metadata']['uid']} on node {node}"
    assert home(cluster, "middle") == middle


def test_no_pod_leaves_for_its_equal_or_for_one_that_never_preempts(cluster: Cluster) -> None:
    classes, patient = priorities(cluster), priorities(cluster, preemptionPolicy="Never")
    cluster.add_nodes(1, cpu=1)
    node = running(cluster, "first", classes[5])

    add(cluster, "equal", classes[5])
    add(cluster, "patient", patient[10])

    assert "No preemption victims found for incoming pod" in refused(cluster, "equal")
    never = (
        before_preemption(cluster.host.kubernetes) + "preemption: not eligible due to preemptionPolicy=Never."
    )
    assert refused(cluster, "patient").endswith(f" Insufficient cpu. {never}")
    assert "deletionTimestamp" not in cluster.get("Pod", "first")["metadata"]
    cluster.delete("Pod", "first")
    assert bound(cluster, "patient") == node


def test_a_budget_is_broken_only_where_nothing_else_helps(cluster: Cluster) -> None:
    classes = priorities(cluster)
    cluster.add_nodes(2, cpu=1)
    safe = {"labels": {"app": "safe"}}
    kept = running(cluster, "kept", classes[1], **safe)
    free = running(cluster, "free", classes[5])
    cluster.create(budget("b", safe["labels"], minAvailable=1))
    cluster.wait(
        lambda: "desiredHealthy" in cluster.get("PodDisruptionBudget", "b").get("status", {}), "the budget"
    )

    add(cluster, "one", classes[10])
    assert bound(cluster, "one") == free

    add(cluster, "two", classes[10])
    assert bound(cluster, "two") == kept
