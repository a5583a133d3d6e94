"""Looking at what controllers do with a test's workloads."""

from __future__ import annotations

from typing import Any

from support.cluster import Cluster


def on_own_nodes(cluster: Cluster) -> dict[str, Any]:
    """A pod spec's part that keeps pods on the nodes of this test."""
    return {"nodeSelector": {"test": cluster.namespace}}


def pods_of(cluster: Cluster, app: str) -> list[dict[str, Any]]:
    """The pods of a workload that are not on their way out, in order of name."""
    items = cluster.list("Pod", labelSelector=f"app={app}")["items"]
    return [item for item in items if "deletionTimestamp" not in item["metadata"]]


def pod_names(cluster: Cluster, app: str) -> list[str]:
    return [item["metadata"]["name"] for item in pods_of(cluster, app)]


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def wait_ready(cluster: Cluster, app: str, number: int) -> list[dict[str, Any]]:
    """Exactly so many pods, all of them Ready, and none on its way out."""

    def ready() -> list[dict[str, Any]] | None:
        items = cluster.list("Pod", labelSelector=f"app={app}")["items"]
        settled = len(items) == number and all(map(is_ready, items))
        return items if settled and number else ([{}] if settled else None)

    found = cluster.wait(ready, f"{number} ready pods of {app}")
    return found if number else []


def rolled_out(cluster: Cluster, name: str, number: int) -> dict[str, Any]:
    """A Deployment whose every pod is new and available."""

    def done() -> dict[str, Any] | None:
        found = cluster.get("Deployment", name)
        status = found.get("status", {})
        new = status.get("observedGeneration") == found["metadata"]["generation"]
        counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")]
        return found if new and counts == [number] * 3 else None

    found = cluster.wait(done, f"the rollout of {name}")
    assert found is not None
    return found


def condition(obj: dict[str, Any], kind: str) -> dict[str, Any]:
    """The one condition of this type; empty when there is none."""
    found = [one for one in obj.get("status", {}).get("conditions") or [] if one["type"] == kind]
    return found[0] if found else {}
