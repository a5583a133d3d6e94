"""The kinds of objects that a snapshot is made of, and the type each comes as."""

from __future__ import annotations

from typing import get_args

from fairlead.kube.meta import Object
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from fairlead.kube.workloads import DeviceClass, Namespace, Service, Workload

StorageObject = (
    PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)

STORAGE: dict[str, type[StorageObject]] = {kind.__name__: kind for kind in get_args(StorageObject)}

KINDS: dict[str, type[Object]] = {
    "Pod": Pod,
    "Node": Node,
    "Namespace": Namespace,
    "Service": Service,
    "ReplicaSet": Workload,
    "StatefulSet": Workload,
    "ReplicationController": Workload,
    "DeviceClass": DeviceClass,
    **STORAGE,
}
