"""What the doctor reads of a cluster, as plain objects; nothing is written.

What may not be read, or is not served, is left out and said: each kind only makes the diagnosis sharper.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.client.api import Client
from fairlead.client.discovery import served
from fairlead.cloud.doctor.autoscaler import find_autoscaler
from fairlead.errors import ApiError
from fairlead.feed import cluster_read
from fairlead.feed.cluster_read import ClusterRead, Query
from fairlead.kube.resources import Resource, known

# What the rules read of a cluster, and what autoscalers count in.
_KINDS = (
    "Pod",
    "Node",
    "Namespace",
    "Service",
    "ReplicaSet",
    "StatefulSet",
    "ReplicationController",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "PriorityClass",
)
# The autoscaler itself, and what it puts on nodes; a workload's own refusals beside it.
_SCALING = ("DaemonSet", "Deployment")
_EVENTS = ("NotTriggerScaleUp", "NoCompatibleInstanceTypes", "FailedCreate")
_KARPENTER = "karpenter.sh"
_NODE_CLASSES = ("karpenter.k8s.aws", "karpenter.kwok.sh")


def scaling_queries(resources: Iterable[Resource]) -> list[Query]:
    """What tells of autoscalers, beside what the rules read."""
    found = [Query(known(kind)) for kind in _SCALING]
    found += [Query(known("Event"), fields=f"reason={reason}") for reason in _EVENTS]
    for resource in resources:
        pool = resource.group == _KARPENTER and resource.kind == "NodePool"
        if pool or resource.group in _NODE_CLASSES:
            found.append(Query(resource))
    return found


async def read_cluster(client: Client) -> ClusterRead:
    """Read once, as plain objects. Cancelled half-way, nothing is left behind."""
    unread: dict[str, str] = {}
    resources: tuple[Resource, ...] = ()
    try:
        resources = await served(client)
    except ApiError as error:
        if error.code not in (403, 404, 405):
            raise
        unread["the list of API groups"] = str(error)
    queries = [*(Query(known(kind)) for kind in _KINDS), *scaling_queries(resources)]
    read = await cluster_read.read_cluster(client, queries)
    settings = find_autoscaler(read.plain)
    if settings is not None:
        account = Query(known("ServiceAccount"), namespace=settings.namespace)
        more = await cluster_read.read_cluster(client, [account])
        read.plain += more.plain
        unread |= more.unread
    read.unread |= unread
    return read


def is_blind(read: ClusterRead) -> bool:
    """Whether what the diagnosis is about could not be read: pods, or nodes."""
    return "Pod" in read.unread or "Node" in read.unread
