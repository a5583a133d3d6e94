"""Simulated nodes: the Node objects that KWOK then plays the kubelet for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fairlead.rig.api import Api

KWOK_ANNOTATION = "kwok.x-k8s.io/node"
UNREADY_ANNOTATION = "rig.fairlead.dev/unready"
"""Its value is why the node says that it is not ready; see stages/node.yaml."""

_STILL_STARTING = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def node_object(
    name: str,
    *,
    cpu: str | int = 4,
    memory: str = "16Gi",
    pods: int = 110,
    extended: Mapping[str, str | int] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """A Node that KWOK will bring up, with what a kubelet would report about it."""
    resources = {"cpu": str(cpu), "memory": memory, "ephemeral-storage": "100Gi", "pods": str(pods)}
    resources |= {name: str(value) for name, value in (extended or {}).items()}
    own = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": own | dict(labels or {}),
            "annotations": {KWOK_ANNOTATION: "fake"} | dict(annotations or {}),
        },
        "spec": {"taints": [dict(taint) for taint in taints]} if taints else {},
        "status": {"capacity": dict(resources), "allocatable": dict(resources)},
    }


def create_nodes(api: Api, nodes: Sequence[dict[str, Any]]) -> None:
    """Create them over a few connections at once: thousands are asked for."""

    def create(share: Sequence[dict[str, Any]]) -> None:
        own = api.another()
        try:
            for node in share:
                own.create("/api/v1/nodes", node)
        finally:
            own.close()

    lanes = min(8, 1 + len(nodes) // 50)
    with ThreadPoolExecutor(lanes) as pool:
        list(pool.map(create, [nodes[lane::lanes] for lane in range(lanes)]))


def ready_nodes(api: Api, *, untainted: bool) -> set[str]:
    """The names of all nodes that are Ready now."""
    nodes = api.get("/api/v1/nodes?resourceVersion=0")["items"]
    return {node["metadata"]["name"] for node in nodes if is_ready(node, untainted=untainted)}


def is_ready(node: Mapping[str, Any], *, untainted: bool) -> bool:
    """Whether a node is Ready and, where a controller manager runs, freed of its start-up taints."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    taints = node.get("spec", {}).get("taints", [])
    return ready and not (untainted and any(taint["key"] in _STILL_STARTING for taint in taints))
