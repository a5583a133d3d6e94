"""What the doctor reads of a cluster, as plain objects; nothing is written.

What may not be read, or is not served, is left out and said: each kind only makes the diagnosis sharper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairlead.client.api import Client
from fairlead.client.discovery import served
from fairlead.cloud.doctor.autoscaler import find_autoscaler
from fairlead.errors import ApiError
from fairlead.kube.resources import Resource, known

__all__ = ["ClusterRead", "read_cluster"]

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
    read = _Reading(client)
    for kind in _KINDS:
        await read.all(known(kind))
    for reason in _EVENTS:
        await read.all(known("Event"), fields=f"reason={reason}")
    settings = find_autoscaler(read.objects)
    if settings is not None:
        await read.all(known("ServiceAccount"), namespace=settings.namespace)
    for resource in await read.served():
        pool = resource.group == _KARPENTER and resource.kind == "NodePool"
        if pool or resource.group in _NODE_CLASSES:
            await read.all(resource)
    return ClusterRead(read.objects, read.unread)


class _Reading:
    """Collects; a kind is counted as unread the first time that it fails."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.objects: list[dict[str, Any]] = []
        self.unread: dict[str, str] = {}

    async def served(self) -> tuple[Resource, ...]:
        """What the server has; nothing where it does not say."""
        try:
            return await served(self._client)
        except ApiError as error:
            if error.code not in (403, 404, 405):
                raise
            self.unread["the list of API groups"] = str(error)
            return ()

    async def all(self, resource: Resource, *, namespace: str | None = None, fields: str = "") -> None:
        try:
            listing = await self._client.list(resource, namespace, fields=fields)
        except ApiError as error:
            if error.code not in (403, 404, 405):
                raise
            self.unread.setdefault(resource.kind, str(error))
            return
        said = {"apiVersion": resource.api_version, "kind": resource.kind}
        self.objects += [{**said, **item} for item in listing.items]
