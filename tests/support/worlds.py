"""Embedded clusters in virtual time, and what tests ask of them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from fairlead.nodegroups import NodeGroup, read_groups
from fairlead.world.objects import is_active, is_ready
from fairlead.world.world import World

Obj = dict[str, Any]


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def node(name: str, *, cpu: int | str = 4, memory: str = "16Gi", pods: int = 110, **metadata: Any) -> Obj:
    room = {"cpu": str(cpu), "memory": memory, "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **metadata},
        "status": {"capacity": room, "allocatable": room},
    }


def asking(cpu: int | str = "100m", **more: Any) -> Obj:
    """Part of a pod's spec: one container that asks for cpu."""
    requests = {"cpu": str(cpu)}
    return {"containers": [{"name": "main", "image": "image", "resources": {"requests": requests}}], **more}


def group(name: str = "workers", *, cpu: int | str = 4, **more: Any) -> NodeGroup:
    data = {"name": name, "instanceTypes": [{"capacity": {"cpu": str(cpu), "memory": "16Gi"}}], **more}
    return read_groups([data])[0]


def world(nodes: int = 3, *, cpu: int = 4, **more: Any) -> World:
    """A cluster with ready nodes n1, n2, …."""
    made = World([node(f"n{number}", cpu=cpu) for number in range(1, nodes + 1)], **more)
    made.run_until(seconds(1))
    return made


def pods(cluster: World, **labels: str) -> list[Obj]:
    """The pods with these labels, in the order of their names."""
    return [
        pod for pod in cluster.all("Pod") if labels.items() <= (pod["metadata"].get("labels") or {}).items()
    ]


def active(cluster: World, **labels: str) -> list[Obj]:
    return [pod for pod in pods(cluster, **labels) if is_active(pod)]


def ready(cluster: World, **labels: str) -> list[Obj]:
    return [pod for pod in active(cluster, **labels) if is_ready(pod)]


def names(objects: list[Obj]) -> list[str]:
    return [each["metadata"]["name"] for each in objects]


def homes(objects: list[Obj]) -> Counter[str]:
    """How many of the pods are on each node."""
    return Counter(pod["spec"].get("nodeName", "") for pod in objects)


def status(cluster: World, kind: str, name: str) -> Obj:
    found = cluster.get(kind, name)
    assert found is not None, f"there is no {kind} {name}"
    return found.get("status") or {}


def conditions(cluster: World, kind: str, name: str) -> dict[str, tuple[str, str]]:
    """Type → (status, reason)."""
    return {
        c["type"]: (c["status"], c.get("reason", ""))
        for c in status(cluster, kind, name).get("conditions", ())
    }


def events(cluster: World, reason: str) -> list[str]:
    """The messages of the events with a reason."""
    return [event["message"] for event in cluster.all("Event") if event["reason"] == reason]


def history(cluster: World) -> list[tuple[int, str, str, Obj]]:
    """Collects every change from now on."""
    seen: list[tuple[int, str, str, Obj]] = []
    cluster.store.subscribe(lambda c: seen.append((c.rv, c.type, f"{c.resource.kind} {c.key}", c.object)))
    return seen
