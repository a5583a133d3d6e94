"""Reads the field types of the built-in kinds from Go sources.

``python -m tools.field_types DIR``, where DIR holds the unpacked modules ``api@vX``,
``apimachinery@vX`` and ``apiextensions-apiserver@vX`` of k8s.io, prints the table kept in
``types.json``: for each struct its JSON fields, each with its type,
whether an empty value is left out, and how lists merge. Only facts are taken, no text.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["extract"]

_ROOTS = {
    "core/v1": (
        "Binding ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim "
        "Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount"
    ),
    "apps/v1": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "batch/v1": "CronJob Job",
    "autoscaling/v1": "Scale",
    "autoscaling/v2": "HorizontalPodAutoscaler",
    "policy/v1": "Eviction PodDisruptionBudget",
    "scheduling/v1": "PriorityClass",
    "storage/v1": "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment",
    "coordination/v1": "Lease",
    "events/v1": "Event",
    "discovery/v1": "EndpointSlice",
    "networking/v1": "Ingress IngressClass NetworkPolicy",
    "node/v1": "RuntimeClass",
    "rbac/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "resource/v1": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
    "admissionregistration/v1": (
        "MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding "
        "ValidatingWebhookConfiguration"
    ),
    "apiextensions/v1": "CustomResourceDefinition",
    "authentication/v1": "SelfSubjectReview TokenReview TokenRequest",
    "meta/v1": "DeleteOptions",
    "authorization/v1": (
        "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview"
    ),
}

_GROUPS = {
    "core": "",
    "scheduling": "scheduling.k8s.io",
    "storage": "storage.k8s.io",
    "coordination": "coordination.k8s.io",
    "events": "events.k8s.io",
    "discovery": "discovery.k8s.io",
    "networking": "networking.k8s.io",
    "node": "node.k8s.io",
    "rbac": "rbac.authorization.k8s.io",
    "resource": "resource.k8s.io",
    "admissionregistration": "admissionregistration.k8s.io",
    "apiextensions": "apiextensions.k8s.io",
    "authentication": "authentication.k8s.io",
    "authorization": "authorization.k8s.io",
}

_SCALARS = {
    "string": "string",
    "bool": "bool",
    "int": "int64",
    "int32": "int32",
    "int64": "int64",
    "uint8": "int32",
    "uint32": "int64",
    "uint64": "int64",
    "float32": "float",
    "float64": "float",
    "[]byte": "bytes",
    "resource.Quantity": "quantity",
    "intstr.IntOrString": "intstr",
    "meta/v1.Time": "time",
    "meta/v1.MicroTime": "microtime",
    "meta/v1.Duration": "string",
    "types.UID": "string",
    "types.NodeName": "string",
    "runtime.RawExtension": "any",
    "runtime.Object": "any",
    "meta/v1.FieldsV1": "any",
    "apiextensions/v1.JSONSchemaProps": "any",
}

_STRUCT = re.compile(r"^type (\w+) struct ?\{(\})?$")
_ALIAS = re.compile(r"^type (\w+) (=?\s*[\w.\[\]*]+)$")
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([\w.*\[\]]+)\s+`(.*)`")
_IMPORT = re.compile(
    r'^\t(?:(\w+) )?"k8s\.io/(?:api|apimachinery/pkg/apis|apiextensions-apiserver/pkg/apis)/(\w+/\w+)"'
)


def extract(folder: Path) -> dict[str, Any]:
    """The table: ``kinds`` (group/version/kind → struct) and ``types`` (struct → fields)."""
    packages = _Packages(folder)
    kinds, types = {}, {}
    pending = []
    for package, names in _ROOTS.items():
        group, _, version = package.partition("/")
        for name in names.split():
            kinds[f"{_GROUPS.get(group, group)}/{version}/{name}"] = f"{package}.{name}"
            pending.append(f"{package}.{name}")
    while pending:
        name = pending.pop()
        if name not in types:
            fields = types[name] = packages.fields(name)
            pending += [found for field in fields.values() if (found := _struct_in(field["type"]))]
            pending += packages.inline.get(name, {}).values()
    return {
        "kinds": dict(sorted(kinds.items())),
        "atomic": sorted(packages.atomic & types.keys()),
        "inline": {name: packages.inline[name] for name in sorted(types) if name in packages.inline},
        "types": dict(sorted(types.items())),
    }


def _struct_in(spelled: str) -> str | None:
    inner = spelled.lstrip("[]{}")
    return inner if "." in inner else None


class _Packages:
    """Go packages, read on first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._structs: dict[str, list[tuple[str, str, str, list[str]]]] = {}
        self._aliases: dict[str, str] = {}
        self._read: set[str] = set()
        self.atomic: set[str] = set()
        """Structs that server-side apply owns as a whole."""
        self.inline: dict[str, dict[str, str]] = {}
        """Embedded structs by their protobuf number: JSON spreads them, protobuf nests them."""

    def fields(self, name: str) -> dict[str, Any]:
        """The JSON fields of a struct, embedded ones included."""
        package = name.partition(".")[0]
        self._load(package)
        fields: dict[str, Any] = {}
        for _, spelled, tag, markers in self._structs[name]:
            json_tag = re.search(r'json:"([^"]*)"', tag)
            if json_tag is None or json_tag[1] == "-":
                continue
            label, *options = json_tag[1].split(",")
            kind, pointer = self._resolve(spelled, package)
            if "inline" in options or not label:
                if kind != "meta/v1.TypeMeta":
                    fields.update(self.fields(kind))
                    if number := _number(tag):
                        self.inline.setdefault(name, {})[str(number)] = kind
                else:
                    fields |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
                continue
            fields[label] = _described(kind, pointer, options, tag, markers)
        return fields

    def _resolve(self, spelled: str, package: str) -> tuple[str, bool]:
        pointer = spelled.startswith("*")
        spelled = spelled.lstrip("*")
        if spelled == "[]byte":
            return "bytes", pointer
        if spelled.startswith("[]"):
            return "[]" + self._resolve(spelled[2:], package)[0], pointer
        if spelled.startswith("map["):
            return "{}" + self._resolve(spelled[spelled.index("]") + 1 :], package)[0], pointer
        if spelled in _SCALARS:
            return _SCALARS[spelled], pointer
        if "." in spelled:
            alias, _, name = spelled.partition(".")
            if spelled not in self._aliases and f"{package}:{alias}" not in self._aliases:
                raise SystemExit(f"{package}: what is {spelled}?")
            qualified = f"{self._aliases[f'{package}:{alias}']}.{name}"
        else:
            qualified = f"{package}.{spelled}"
        if qualified in _SCALARS:
            return _SCALARS[qualified], pointer
        self._load(qualified.partition(".")[0])
        if qualified in self._structs:
            return qualified, pointer
        target = self._aliases[qualified]
        kind, _ = self._resolve(target, qualified.partition(".")[0])
        return kind, pointer

    def _load(self, package: str) -> None:
        if package in self._read:
            return
        self._read.add(package)
        for path in sorted(self._source(package).glob("*.go")):
            if not path.name.endswith("_test.go") and not path.name.startswith(("zz_", "generated")):
                self._parse(path.read_text(), package)

    def _source(self, package: str) -> Path:
        match package.partition("/")[0]:
            case "meta":
                return next(self._folder.glob("apimachinery@*")) / "pkg/apis" / package
            case "apiextensions":
                return next(self._folder.glob("apiextensions-apiserver@*")) / "pkg/apis" / package
        return next(self._folder.glob("api@*")) / package

    def _parse(self, text: str, package: str) -> None:
        struct = ""
        markers: list[str] = []
        for line in text.splitlines():
            if found := _IMPORT.match(line):
                self._aliases[f"{package}:{found[1] or found[2].partition('/')[2]}"] = found[2]
            elif found := _STRUCT.match(line):
                name = f"{package}.{found[1]}"
                self._structs[name] = []
                struct = "" if found[2] else name
                if "structType=atomic" in markers:
                    self.atomic.add(name)
                markers = []
            elif found := _ALIAS.match(line):
                self._aliases[f"{package}.{found[1]}"] = found[2].lstrip("= ")
            elif line == "}":
                struct = ""
            elif struct and (found := _FIELD.match(line)):
                self._structs[struct].append((found[1] or "", found[2], found[3], markers))
                markers = []
            elif line.lstrip().startswith("// +"):
                markers.append(line.lstrip().removeprefix("// +").strip())
            elif not line.strip():
                markers = []


def _number(tag: str) -> int:
    found = re.search(r'protobuf:"\w+,(\d+),', tag)
    return int(found[1]) if found else 0


def _described(kind: str, pointer: bool, options: list[str], tag: str, markers: list[str]) -> dict[str, Any]:
    field: dict[str, Any] = {"type": kind}
    if number := _number(tag):
        field["number"] = number
    if pointer:
        field["pointer"] = True
    if "omitempty" in options:
        field["omit"] = True
    if "omitzero" in options:
        field["omitzero"] = True
    if strategy := re.search(r'patchStrategy:"([^"]*)"', tag):
        field["patch"] = strategy[1]
    if key := re.search(r'patchMergeKey:"([^"]*)"', tag):
        field["key"] = key[1]
    listed = [marker.partition("=")[2] for marker in markers if marker.startswith("listType=")]
    if listed:
        field["list"] = listed[0]
    if keys := [marker.partition("=")[2] for marker in markers if marker.startswith("listMapKey=")]:
        field["keys"] = keys
    if any(marker in ("structType=atomic", "mapType=atomic") for marker in markers):
        field["atomic"] = True
    return field


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    table = extract(Path(sys.argv[1]))
    lines = [f'"atomic":{json.dumps(table["atomic"])}']
    for part in ("kinds", "inline", "types"):
        entries = (
            f"  {json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}"
            for key, value in table[part].items()
        )
        lines.append(f'"{part}":{{\n' + ",\n".join(entries) + "\n}")
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")
