"""Disks of the clouds from before CSI: which driver took each kind over, and what it calls them.

A node says in its CSINode which kinds were taken over there. Where one was, a volume's zone is looked
for under the driver's own label instead of Kubernetes'.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.kube.pod import Disk, NodeSelectorTerm, Volume
from fairlead.kube.selectors import Requirement
from fairlead.kube.storage import CSINode, PersistentVolume

_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


@dataclass(frozen=True, slots=True)
class _Kind:
    source: str  # the field of a volume
    plugin: str
    driver: str
    zone_key: str = ""


_AWS = _Kind(
    "aws_elastic_block_store", "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"
)
_GCE = _Kind("gce_persistent_disk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone")
_CINDER = _Kind(
    "cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"
)
_AZURE = _Kind("azure_disk", "kubernetes.io/azure-disk", "disk.csi.azure.com")
_PORTWORX = _Kind("portworx_volume", "kubernetes.io/portworx-volume", "pxd.portworx.com")
_KINDS = (_AWS, _GCE, _CINDER, _AZURE, _PORTWORX)
_BY_PLUGIN = {kind.plugin: kind for kind in _KINDS}


def driver_of(provisioner: str) -> str:
    """The CSI driver behind a provisioner, which may be the name of what it took over."""
    kind = _BY_PLUGIN.get(provisioner)
    return kind.driver if kind is not None else provisioner


def migrated(csi_node: CSINode | None, plugin: str) -> bool:
    """Whether a kind was taken over on a node."""
    if csi_node is None:
        return False
    return plugin in csi_node.metadata.annotations.get(_MIGRATED, "").split(",")


def plugin_of(volume: PersistentVolume) -> str:
    """The kind of an old volume, empty for all others."""
    kind = _kind(volume)
    return kind.plugin if kind is not None else ""


def handle(volume: PersistentVolume) -> tuple[str, str] | None:
    """The driver of a persistent volume and its name for it; None when no driver knows it."""
    spec = volume.spec
    if spec.csi is not None:
        return (spec.csi.driver, spec.csi.volume_handle) if spec.csi.volume_handle else None
    if spec.gce_persistent_disk is not None:
        labels = volume.metadata.labels
        parts = (labels.get(OLD_ZONE) or labels.get(ZONE) or "UNSPECIFIED").split("__")
        place = f"zones/{parts[0]}" if len(parts) == 1 else f"regions/{parts[0].rsplit('-', 1)[0]}"
        return _gce(spec.gce_persistent_disk, place)
    return _disk(spec.aws_elastic_block_store, spec.azure_disk, spec.cinder, spec.portworx_volume)


def handle_inline(volume: Volume) -> tuple[str, str] | None:
    """The same for a disk that a pod names itself."""
    if volume.gce_persistent_disk is not None:
        return _gce(volume.gce_persistent_disk, "zones/UNSPECIFIED")
    return _disk(volume.aws_elastic_block_store, volume.azure_disk, volume.cinder, volume.portworx_volume)


def translated_terms(volume: PersistentVolume) -> tuple[NodeSelectorTerm, ...] | None:
    """Where an old volume can be reached from, in its driver's terms; None: from everywhere."""
    kind = _kind(volume)
    required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    terms = required.node_selector_terms if required is not None else None
    if kind is None or not kind.zone_key:
        return terms
    keys = [requirement.key for term in terms or () for requirement in term.match_expressions]
    zone = next((key for key in (ZONE, OLD_ZONE) if key in keys), None)
    if zone is not None:
        renamed = {zone: kind.zone_key, **({OLD_REGION: REGION} if zone == OLD_ZONE else {})}
        return tuple(
            NodeSelectorTerm(
                tuple(
                    Requirement(renamed.get(each.key, each.key), each.operator, each.values)
                    for each in term.match_expressions
                )
            )
            for term in terms or ()
        )
    # Not said where: the labels may know.
    labels = volume.metadata.labels
    label = labels.get(ZONE, labels.get(OLD_ZONE, ""))
    zones = tuple(sorted({part.strip() for part in label.split("__") if part.strip()}))
    if not zones:
        return terms
    place = Requirement(kind.zone_key, "In", zones)
    return tuple(
        NodeSelectorTerm((*term.match_expressions, place)) for term in terms or (NodeSelectorTerm(),)
    )


def _kind(volume: PersistentVolume) -> _Kind | None:
    return next((kind for kind in _KINDS if getattr(volume.spec, kind.source) is not None), None)


def _gce(disk: Disk, place: str) -> tuple[str, str]:
    return _GCE.driver, f"projects/UNSPECIFIED/{place}/disks/{disk.pd_name}"


def _disk(
    aws: Disk | None, azure: Disk | None, cinder: Disk | None, portworx: Disk | None
) -> tuple[str, str] | None:
    if aws is not None:
        # Old volumes are spelt aws://zone/vol-1.
        return _AWS.driver, aws.volume_id.rsplit("/", 1)[-1]
    if azure is not None:
        return _AZURE.driver, azure.disk_uri
    if cinder is not None:
        return _CINDER.driver, cinder.volume_id
    if portworx is not None:
        return _PORTWORX.driver, portworx.volume_id
    return None
