"""Volumes' objects: claims, persistent volumes, classes, what CSI drivers say of nodes and capacity."""

from __future__ import annotations

from fairlead.kube.meta import Int32, Int64, Object, ObjectMeta, ObjectReference
from fairlead.kube.pod import CSISource, Disk, NodeSelector, Quantities, Resources
from fairlead.kube.selectors import LabelSelector, Requirement

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class ClaimSpec(Object, frozen=True, gc=False):
    """What a claim asks for. An absent class is the default class, an empty one is none."""

    access_modes: tuple[str, ...] = ()
    resources: Resources = Resources()
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    selector: LabelSelector | None = None
    volume_attributes_class_name: str | None = None


class ClaimStatus(Object, frozen=True, gc=False):
    """Pending, Bound or Lost."""

    phase: str = ""


class PersistentVolumeClaim(Object, frozen=True, gc=False):
    """A claim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def is_bound(self) -> bool:
        """Whether it has its volume, and the volume controller is done with it."""
        return bool(self.spec.volume_name) and _BIND_COMPLETED in self.metadata.annotations


class VolumeNodeAffinity(Object, frozen=True, gc=False):
    """Where a volume can be reached from."""

    required: NodeSelector | None = None


class VolumeSpec(Object, frozen=True, gc=False):
    """What a persistent volume is."""

    capacity: Quantities = {}
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    csi: CSISource | None = None
    aws_elastic_block_store: Disk | None = None
    gce_persistent_disk: Disk | None = None
    azure_disk: Disk | None = None
    cinder: Disk | None = None
    portworx_volume: Disk | None = None


class VolumeStatus(Object, frozen=True, gc=False):
    """Available, Bound, Released or Failed."""

    phase: str = ""


class PersistentVolume(Object, frozen=True, gc=False):
    """A persistent volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class TopologyTerm(Object, frozen=True, gc=False):
    """Label expressions of an allowed topology; each key's values are ORed."""

    match_label_expressions: tuple[TopologyExpression, ...] = ()


class TopologyExpression(Object, frozen=True, gc=False):
    """A key and its allowed values."""

    key: str
    values: tuple[str, ...] = ()

    @property
    def requirement(self) -> Requirement:
        """The same as a requirement."""
        return Requirement(self.key, "In", self.values)


class StorageClass(Object, frozen=True, gc=False):
    """How claims of a class are bound."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()


class DriverAllocatable(Object, frozen=True, gc=False):
    """How many volumes a driver can attach to the node; absent is no limit."""

    count: Int32 | None = None


class NodeDriver(Object, frozen=True, gc=False):
    """A CSI driver on a node."""

    name: str
    allocatable: DriverAllocatable | None = None


class CSINodeSpec(Object, frozen=True, gc=False):
    """The drivers on a node."""

    drivers: tuple[NodeDriver, ...] = ()


class CSINode(Object, frozen=True, gc=False):
    """What CSI drivers say of the node of the same name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Object, frozen=True, gc=False):
    """What a driver supports."""

    storage_capacity: bool = False


class CSIDriver(Object, frozen=True, gc=False):
    """A CSI driver."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Object, frozen=True, gc=False):
    """Room for new volumes of a class in a topology segment."""

    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | Int64 | float | None = None
    maximum_volume_size: str | Int64 | float | None = None


class AttachmentSource(Object, frozen=True, gc=False):
    """What is attached."""

    persistent_volume_name: str | None = None


class AttachmentSpec(Object, frozen=True, gc=False):
    """Which volume is attached to which node, by which driver."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Object, frozen=True, gc=False):
    """A volume attached to a node; counts against the driver's limit there."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AttachmentSpec = AttachmentSpec()
