"""Clusters that start without nodes and grow them: Karpenter on the real one, our own on the embedded.

A test asks either for pools of nodes in the same words. Every node has 2 cpus, of which 1900m are for
pods, and the label ``test`` that the test's own pods select.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from fairlead.nodegroups import read_groups
from fairlead.world.autoscaler import Pacing
from support.cluster import Cluster, EmbeddedHost, Host, RealHost
from support.rig import programs

_NODE_CLASSES = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
_NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"
_CPUS = 2

PATIENT = Pacing(scan=timedelta(seconds=0.5))
"""Takes no node away as long as a test runs."""
EAGER = replace(
    PATIENT,
    unneeded=timedelta(seconds=2),
    after_add=timedelta(seconds=2),
    deletion=timedelta(seconds=1),
)
"""Takes nodes away within seconds, as Karpenter does."""


@contextmanager
def autoscaled(kind: str, pacing: Pacing = PATIENT) -> Iterator[Host]:
    """A cluster with an autoscaler, paced like this if it is ours, and no nodes; no other test runs there."""
    host = karpenter_host() if kind == "real" else EmbeddedHost(autoscaler=pacing)
    try:
        yield host
    finally:
        host.stop()


def karpenter_host() -> RealHost:
    """The real control plane with Karpenter at work."""
    programs("karpenter")
    host = RealHost()
    try:
        host.plane.start_karpenter()
    except BaseException:
        host.stop()
        raise
    return host


def add_pool(cluster: Cluster, name: str = "pool", *, most: int = 10, boot_s: int = 0) -> dict[str, str]:
    """A pool that may grow from zero; returns the label that its nodes alone carry."""
    label = {"pool": cluster.unique(name)}
    labels = {"test": cluster.namespace} | label
    if isinstance(cluster.host, EmbeddedHost):
        _add_group(cluster.host, label["pool"], labels, most, boot_s)
    else:
        _add_node_pool(cluster, label["pool"], labels, most, boot_s)
    return label


def _add_group(host: EmbeddedHost, name: str, labels: dict[str, str], most: int, boot_s: int) -> None:
    size = {
        "capacity": {"cpu": str(_CPUS), "memory": "4Gi"},
        "allocatable": {"cpu": "1900m"},
    }
    (group,) = read_groups(
        [{"name": name, "instanceTypes": [size], "labels": labels, "max": most, "bootS": boot_s}]
    )
    host.on_loop(lambda: host.world.pools.add(group))


def _add_node_pool(cluster: Cluster, name: str, labels: dict[str, str], most: int, boot_s: int) -> None:
    node_class = {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": name},
        "spec": {"nodeRegistrationDelay": f"{boot_s}s"},
    }
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": name}
    requirements = [
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": [str(_CPUS)]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            # Not `nodes`: all that one look at the pods asks for may exceed those, but not the cpus.
            "limits": {"cpu": str(_CPUS * most)},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"nodeClassRef": reference, "requirements": requirements},
            },
        },
    }
    for path, made in ((_NODE_CLASSES, node_class), (_NODE_POOLS, pool)):
        cluster.wire.request("POST", path, made).ok()
        cluster.owns(f"{path}/{name}")
    cluster.wait(lambda: _ready(cluster, f"{_NODE_POOLS}/{name}"), f"the NodePool {name} to be ready")


def _ready(cluster: Cluster, path: str) -> bool:
    found: dict[str, Any] = cluster.wire.request("GET", path).ok()
    conditions = found.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
