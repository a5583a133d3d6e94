"""The rows of volumes, claims and their classes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fairlead.world.tables.columns import Printer, age_of, columns, name_of

__all__ = ["STORAGE"]

Object = dict[str, Any]


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _volume(item: Object, now: datetime) -> list[Any]:
    spec, status = item["spec"], item.get("status") or {}
    claim = spec.get("claimRef")
    leaving = item["metadata"].get("deletionTimestamp")
    return [
        name_of(item),
        (spec.get("capacity") or {}).get("storage", "0"),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if leaving else status.get("phase", ""),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason", ""),
        age_of(item, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _claim(item: Object, now: datetime) -> list[Any]:
    spec, status = item["spec"], item.get("status") or {}
    bound = bool(spec.get("volumeName"))
    leaving = item["metadata"].get("deletionTimestamp")
    return [
        name_of(item),
        "Terminating" if leaving else status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "0") if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        age_of(item, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _storage_class(item: Object, now: datetime) -> list[Any]:
    annotations = item["metadata"].get("annotations") or {}
    default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        f"{name_of(item)} (default)" if default else name_of(item),
        item.get("provisioner", ""),
        item.get("reclaimPolicy", ""),
        item.get("volumeBindingMode", ""),
        bool(item.get("allowVolumeExpansion", False)),
        age_of(item, now),
    ]


STORAGE: dict[str, Printer] = {
    "persistentvolumes": Printer(
        columns(
            "Name",
            "Capacity",
            "Access Modes",
            "Reclaim Policy",
            "Status",
            "Claim",
            "StorageClass",
            "VolumeAttributesClass",
            "Reason",
            "Age",
            wide=("VolumeMode",),
        ),
        _volume,
    ),
    "persistentvolumeclaims": Printer(
        columns(
            "Name",
            "Status",
            "Volume",
            "Capacity",
            "Access Modes",
            "StorageClass",
            "VolumeAttributesClass",
            "Age",
            wide=("VolumeMode",),
        ),
        _claim,
    ),
    "storageclasses.storage.k8s.io": Printer(
        columns("Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"),
        _storage_class,
    ),
    "csinodes.storage.k8s.io": Printer(
        columns("Name", "Drivers:integer", "Age"),
        lambda item, now: [name_of(item), len(item["spec"].get("drivers") or ()), age_of(item, now)],
    ),
}
