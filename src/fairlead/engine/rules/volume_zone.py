"""VolumeZone: a bound volume with zone or region labels is used only there.

Nodes that have none of those labels are let through: a cluster of one zone may not bother to label.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.engine.rules.reasons import Rejection, VolumeZoneMismatch
from fairlead.engine.rules.verdicts import Finding
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.nodes import Bools
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.engine.snapshot.volume_migration import OLD_REGION, OLD_ZONE, REGION, ZONE
from fairlead.kube.storage import PersistentVolume

_KEYS = (OLD_ZONE, OLD_REGION, ZONE, REGION)
_NEW = {OLD_ZONE: ZONE, OLD_REGION: REGION}

# How a volume's label lists several zones.
_SEPARATOR = "__"


def concerns(cls: PodClass) -> bool:
    """Whether the rule has anything to say of the class."""
    return bool(cls.facts.volumes)


def reject(snapshot: Snapshot, cls: PodClass) -> Rejection | None:
    """A claim bound to a volume that does not exist."""
    for name in _bound(snapshot, cls):
        if name not in snapshot.storage.volumes:
            return Rejection("VolumeZone", f'persistentvolume "{name}" not found')
    return None


def find(snapshot: Snapshot, cls: PodClass) -> Iterator[Finding]:
    """Where the rule refuses the class, and why."""
    zones = [zone for name in _bound(snapshot, cls) for zone in _zones(snapshot.storage.volumes[name])]
    if not zones:
        return
    nodes = snapshot.nodes
    labelled = np.zeros(nodes.capacity, np.bool_)
    for key in _KEYS:
        labelled |= nodes.column(key).ids >= 0
    wrong = np.zeros(nodes.capacity, np.bool_)
    for key, values in zones:
        there, right = _in(snapshot, key, values)
        if key in _NEW:
            there_new, right_new = _in(snapshot, _NEW[key], values)
            right = right | (~there & there_new & right_new)
        wrong |= ~right
    yield Finding(VolumeZoneMismatch(), wrong & labelled, unresolvable=True)


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the rule lets the class onto one node."""
    return not any(finding.slots[slot] for finding in find(snapshot, cls))


def _in(snapshot: Snapshot, key: str, values: frozenset[str]) -> tuple[Bools, Bools]:
    column = snapshot.nodes.column(key)
    table = np.array([*(value in values for value in column.values), False], np.bool_)
    return column.ids >= 0, table[column.ids]


def _bound(snapshot: Snapshot, cls: PodClass) -> Iterator[str]:
    for volume in cls.facts.volumes:
        if volume.persistent_volume_claim is not None:
            claim = snapshot.storage.claims.get(
                f"{cls.namespace}/{volume.persistent_volume_claim.claim_name}"
            )
            if claim is not None and claim.spec.volume_name:
                yield claim.spec.volume_name


def _zones(volume: PersistentVolume) -> Iterator[tuple[str, frozenset[str]]]:
    for key in _KEYS:
        value = volume.metadata.labels.get(key)
        if value is None:
            continue
        parts = [part.strip() for part in value.split(_SEPARATOR)]
        # A list with a hole in it cannot be read, and is ignored.
        if all(parts):
            yield key, frozenset(parts)
