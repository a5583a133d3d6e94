"""What the doctor reads of a cluster, as plain objects; nothing is written.

What may not be read, or is not served, is left out and said: each kind only makes the diagnosis sharper.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fairlead.client.api import Client
from fairlead.client.discovery import served
from fairlead.cloud.doctor.autoscaler import find_autoscaler
from fairlead.errors import ApiError
from fairlead.kube.resources import Resource, known

# What the rules read of a cluster, what autoscalers count in, and the autoscaler itself.
_KINDS = (
    "Pod",
    "Node",
    "Namespace",
    "Service",
    "ReplicaSet",
    "StatefulSet",
    "ReplicationController",
    "DaemonSet",
    "Deployment",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "PriorityClass",
)
_EVENTS = ("NotTriggerScaleUp", "NoCompatibleInstanceTypes")
_KARPENTER = "karpenter.sh"
_NODE_CLASSES = ("karpenter.k8s.aws", "karpenter.kwok.sh")


@dataclass(frozen=True, slots=True)
class ClusterRead:
    """Objects, and what could not be read (kind → reason)."""

    objects: list[dict[str, Any]]
    unread: dict[str, str]

    @property
    def blind(self) -> bool:
        """Whether what the diagnosis is about could not be read: pods, or nodes."""
        return "Pod" in self.unread or "Node" in self.unread


async def read_cluster(client: Client) -> ClusterRead:
    """Read once, kind by kind. Cancelled half-way, nothing is left behind."""
    read = ClusterRead([], {})

    async def add(resource: Resource, namespace: str | None = None, fields: str = "") -> None:
        with _optional(resource.kind, read):
            listing = await client.list(resource, namespace, fields=fields)
            said = {"apiVersion": resource.api_version, "kind": resource.kind}
            read.objects.extend({**said, **item} for item in listing.items)

    for kind in _KINDS:
        await add(known(kind))
    for reason in _EVENTS:
        await add(known("Event"), fields=f"reason={reason}")
    settings = find_autoscaler(read.objects)
    if settings is not None:
        await add(known("ServiceAccount"), settings.namespace)
    resources: tuple[Resource, ...] = ()
    with _optional("the list of API groups", read):
        resources = await served(client)
    for resource in resources:
        pool = resource.group == _KARPENTER and resource.kind == "NodePool"
        if pool or resource.group in _NODE_CLASSES:
            await add(resource)
    return read


@contextmanager
def _optional(what: str, read: ClusterRead) -> Iterator[None]:
    """What may not be read, or is not served, is counted as unread the first time that it fails."""
    try:
        yield
    except ApiError as error:
        if error.code not in (403, 404, 405):
            raise
        read.unread.setdefault(what, str(error))
