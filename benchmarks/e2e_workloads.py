"""The pods of the end-to-end benchmark: the same for every contender but for the scheduler's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["WORKLOADS", "ZONE", "ZONES", "constrained", "gangs_of_three", "plain", "pod"]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
ZONES = 3
APPS = 100


def plain(scheduler: str, number: int) -> list[dict[str, Any]]:
    """Pods as a hundred Deployments make them at the same time: no two neighbours are alike."""
    return [pod(f"pod-{index:05}", scheduler, app=f"app-{index % APPS}") for index in range(number)]


def constrained(scheduler: str, number: int) -> list[dict[str, Any]]:
    """Three kinds of constrained pods in turn, each against the pods of its own app.

    A third is spread evenly over the zones, a third keeps off each other's node (both of a hundred apps), a
    third keeps out of each other's zone, in apps of three pods: one for each zone.
    """
    made = []
    for index in range(number):
        kind, name = index % 3, f"pod-{index:05}"
        if kind == 0:
            app = f"spread-{index // 3 % APPS}"
            constraint = {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": app}},
            }
            made.append(pod(name, scheduler, app=app, topologySpreadConstraints=[constraint]))
        elif kind == 1:
            made.append(_apart(name, scheduler, f"apart-{index // 3 % APPS}", HOSTNAME))
        else:
            made.append(_apart(name, scheduler, f"zonal-{index // 3 // ZONES}", ZONE))
    return made


def gangs_of_three(scheduler: str, gangs: int) -> list[dict[str, Any]]:
    """Gangs by annotation, which kube-scheduler does not read: it takes the same pods one by one."""
    return [
        pod(
            f"pod-{gang:05}-{member}",
            scheduler,
            annotations={"pod-group": f"g{gang}", "pod-group-min-member": "3"},
        )
        for gang in range(gangs)
        for member in range(3)
    ]


def pod(name: str, scheduler: str, *, app: str = "app", cpu: str = "100m", **more: Any) -> dict[str, Any]:
    """A pod; `annotations` go into its metadata, the rest into its spec."""
    metadata = {"name": name, "labels": {"app": app}, "annotations": more.pop("annotations", {})}
    resources = {"requests": {"cpu": cpu, "memory": "200Mi"}}
    spec = {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 0,  # no kubelet runs here: the API server must delete pods at once
        "containers": [{"name": "main", "image": "image", "resources": resources}],
        **more,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _apart(name: str, scheduler: str, app: str, topology_key: str) -> dict[str, Any]:
    term = {"topologyKey": topology_key, "labelSelector": {"matchLabels": {"app": app}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return pod(name, scheduler, app=app, affinity={"podAntiAffinity": required})


WORKLOADS: dict[str, Callable[[str, int], list[dict[str, Any]]]] = {
    "plain": plain,
    "constrained": constrained,
}
