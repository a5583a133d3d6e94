"""Synthetic clusters for the engine's benchmarks: plain nodes over three zones, pods of many templates."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.kube.decode import convert
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.node import Node, NodeStatus
from fairlead.kube.pod import Pod

__all__ = ["HOSTNAME", "ZONE", "copies", "node", "pod_json", "template"]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def node(index: int) -> Node:
    name = f"node-{index:05}"
    labels = {HOSTNAME: name, ZONE: f"zone-{index % 3}"}
    amounts: dict[str, str | int | float] = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    return Node(ObjectMeta(name=name, labels=labels), status=NodeStatus(allocatable=amounts))


def template(index: int, **spec: Any) -> Pod:
    """The first pod of a template: each asks for a little more than the one before."""
    requests = {"cpu": f"{100 + index % 17 * 50}m", "memory": f"{128 + index % 13 * 64}Mi"}
    container = {
        "name": "main",
        "image": f"registry.example.com/team/app-{index}:1.0",
        "resources": {"requests": requests},
    }
    return convert(
        {
            "metadata": {"name": "first", "namespace": f"ns-{index % 20}", "labels": {"app": f"app-{index}"}},
            "spec": {"schedulerName": "fairlead", "containers": [container], **spec},
        },
        Pod,
    )


def copies(first: Pod, number: int, prefix: str) -> list[Pod]:
    """Pods of one template, as a scheduler sees them: names and UIDs of their own, one spec."""
    return [
        msgspec.structs.replace(
            first,
            metadata=msgspec.structs.replace(first.metadata, name=f"{prefix}-{i}", uid=f"uid-{prefix}-{i}"),
        )
        for i in range(number)
    ]


def pod_json(index: int, of: int, node_name: str) -> bytes:
    """A running pod of template `of` as the API server would send it, fields we do not read included."""
    first = template(of)
    name = f"app-{of}-7d4b9c6f5-{index:05}"
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": first.metadata.namespace,
                "uid": f"7f3c1a52-0000-4000-8000-{index:012}",
                "resourceVersion": str(1000 + index),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {**first.metadata.labels, "pod-template-hash": "7d4b9c6f5"},
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "ReplicaSet",
                        "name": f"app-{of}-7d4b9c6f5",
                        "uid": f"9d3c1a52-0000-4000-8000-{of:012}",
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {
                "nodeName": node_name,
                "serviceAccountName": "default",
                "schedulerName": "fairlead",
                "containers": [
                    {
                        "name": "main",
                        "image": f"registry.example.com/team/app-{of}:1.0",
                        "env": [{"name": f"SETTING_{n}", "value": "x" * 40} for n in range(20)],
                        "resources": {"requests": dict(first.spec.containers[0].resources.requests)},
                        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets"}],
                    }
                ],
                "volumes": [{"name": "token", "projected": {"sources": []}}],
                "tolerations": [
                    {
                        "key": "node.kubernetes.io/not-ready",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 300,
                    },
                    {
                        "key": "node.kubernetes.io/unreachable",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 300,
                    },
                ],
            },
            "status": {
                "phase": "Running",
                "startTime": "2026-01-01T00:00:01Z",
                "conditions": [
                    {"type": kind, "status": "True"} for kind in ("Initialized", "Ready", "PodScheduled")
                ],
                "containerStatuses": [
                    {"name": "main", "ready": True, "restartCount": 0, "image": "i", "imageID": "i"}
                ],
            },
        }
    )
