"""Node groups as a file: ``kind: NodeGroups``, the one description that every command and target starts from.

Misspelt fields are errors, and every error names the group and the field: from a group that silently
says something else, a pod never gets its node.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from fairlead.errors import BadInput, BadObject
from fairlead.kube.decode import convert
from fairlead.kube.documents import documents
from fairlead.kube.duration import Duration, seconds
from fairlead.kube.pod import Quantities
from fairlead.kube.quantity import QuantityError, nano
from fairlead.kube.tolerations import Taint
from fairlead.nodegroups.catalog import architecture, instance_type
from fairlead.nodegroups.group import InstanceType, NodeGroup, check

API_VERSION = "fairlead.dev/v1alpha1"
KIND = "NodeGroups"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PREFIX = re.compile(r"(?=.{1,253}/)[a-z0-9]([-a-z0-9.]*[a-z0-9])?/")
_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class GroupFields(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A group as it is written."""

    name: str
    instance_types: tuple[str, ...] = ()
    resources: dict[str, str | int | float] = {}
    labels: dict[str, str] = {}
    taints: tuple[str | dict[str, Any], ...] = ()
    zones: tuple[str, ...] = ()
    min: int = 0
    desired: int | None = None
    max: int = 10
    price_per_hour: Decimal = Decimal(0)
    boot_time: Duration = "30s"
    volatile: bool = False


class _File(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The document; `metadata` is let through because tools add it."""

    api_version: str
    kind: str
    groups: tuple[dict[str, Any], ...]
    metadata: dict[str, Any] = {}


class _Taint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A taint as an object."""

    key: str
    effect: str
    value: str = ""


def read_file(text: str, source: str) -> tuple[NodeGroup, ...]:
    """The groups of a YAML text; `source` is how messages call it.

    >>> [group] = read_file('''
    ... apiVersion: fairlead.dev/v1alpha1
    ... kind: NodeGroups
    ... groups: [{name: medium, instanceTypes: [t3a.medium], taints: ["size=medium:NoSchedule"], max: 5}]
    ... ''', "groups.yaml")
    >>> group.instance_type.capacity["cpu"], str(group.taints[0])
    ('2', 'size=medium:NoSchedule')
    """
    return read_documents(documents(text, source), source)


def read_documents(documents: Iterable[object], source: str) -> tuple[NodeGroup, ...]:
    """The groups of documents that are read already; several documents are one list of groups."""
    found: dict[str, NodeGroup] = {}
    empty = True
    for document in documents:
        if document is None:
            continue
        empty = False
        for number, group in enumerate(_groups(document, source)):
            read = _read(group, number, source)
            if read.name in found:
                raise BadInput(f"{source}: node group {read.name}: there are two of that name")
            found[read.name] = read
    if empty:
        raise BadInput(f"{source}: is empty; expected {KIND}, apiVersion {API_VERSION}")
    if not found:
        raise BadInput(f"{source}: groups: is empty; at least one is needed")
    return tuple(found.values())


def _groups(document: object, source: str) -> tuple[dict[str, Any], ...]:
    if not isinstance(document, dict):
        raise BadInput(f"{source}: holds a {type(document).__name__} where {KIND} should be")
    for field, wanted in (("kind", KIND), ("apiVersion", API_VERSION)):
        if document.get(field) != wanted:
            raise BadObject(source, field, f"{document.get(field)!r} is not {wanted!r}")
    return convert(document, _File, source).groups


def _read(data: dict[str, Any], number: int, source: str) -> NodeGroup:
    name = data.get("name")
    called = (
        f"{source}: node group {name}" if isinstance(name, str) and name else f"{source}: groups[{number}]"
    )
    _check_strings(data.get("labels"), called)
    group = _group(convert(data, GroupFields, called), called)
    check(group, called)
    return group


def _check_strings(labels: object, called: str) -> None:
    for key, value in labels.items() if isinstance(labels, dict) else ():
        # YAML reads `zone: 1` and `spot: yes` as no strings; what was meant cannot be known.
        if not isinstance(key, str) or not isinstance(value, str):
            raise BadObject(called, f"labels.{key}", "must be a string: put it in quotes")


def _group(said: GroupFields, called: str) -> NodeGroup:
    if _NAME.fullmatch(said.name) is None:
        raise BadObject(called, "name", f"{said.name!r} is not a name of lower case letters, digits and -")
    for key, value in said.labels.items():
        _check_label(called, f"labels.{key}", key, value)
    for index, zone in enumerate(said.zones):
        _check_name(called, f"zones[{index}]", zone, said.zones[:index])
    _check_number(called, said)
    # NaN cannot even be compared.
    if not said.price_per_hour.is_finite() or said.price_per_hour < 0:
        raise BadObject(called, "pricePerHour", f"{said.price_per_hour} is not a price")
    try:
        boot_s = seconds(said.boot_time)
    except ValueError as error:
        raise BadObject(called, "bootTime", str(error)) from error
    if not math.isfinite(boot_s):
        raise BadObject(called, "bootTime", f"{boot_s} is no time")
    return NodeGroup(
        name=said.name,
        instance_types=_types(said, called),
        labels=said.labels,
        taints=_taints(said, called),
        zones=said.zones,
        min=said.min,
        desired=said.min if said.desired is None else said.desired,
        max=said.max,
        boot_s=boot_s,
        volatile=said.volatile,
    )


def _check_name(called: str, field: str, name: str, before: Sequence[str]) -> None:
    if _PART.fullmatch(name) is None:
        raise BadObject(called, field, f"{name!r} is not a name")
    if name in before:
        raise BadObject(called, field, f"{name!r} is there twice")


def _check_number(called: str, said: GroupFields) -> None:
    if said.max < 1:
        raise BadObject(called, "max", f"{said.max}: a group that may have no node is of no use")
    if said.desired is not None and said.min <= said.max and not said.min <= said.desired <= said.max:
        raise BadObject(
            called, "desired", f"{said.desired} is not between min ({said.min}) and max ({said.max})"
        )


def _types(said: GroupFields, called: str) -> tuple[InstanceType, ...]:
    given = _resources(said, called)
    if not said.instance_types:
        if not {"cpu", "memory"} <= given.keys():
            raise BadObject(
                called, "instanceTypes", "is missing; name one, or give cpu and memory under resources"
            )
        return (InstanceType(capacity=given, price_per_hour=said.price_per_hour),)
    found = []
    for index, name in enumerate(said.instance_types):
        _check_name(called, f"instanceTypes[{index}]", name, said.instance_types[:index])
        known = instance_type(name)
        capacity = {**(known.capacity if known else {}), **given}
        if lacking := [resource for resource in ("cpu", "memory") if resource not in capacity]:
            raise BadObject(
                called,
                f"instanceTypes[{index}]",
                f"{name!r} is not in our catalogue; say what it has: resources: "
                f"{{{', '.join(f'{resource}: …' for resource in ('cpu', 'memory', 'pods'))}}}"
                + (f" (missing: {', '.join(lacking)})" if given else ""),
            )
        found.append(
            InstanceType(
                name=name,
                capacity=capacity,
                price_per_hour=said.price_per_hour,
                architecture=architecture(name),
            )
        )
    if len({each.architecture for each in found}) > 1:
        raise BadObject(called, "instanceTypes", "has arm64 and amd64 types: a group is of one architecture")
    return tuple(found)


def _resources(said: GroupFields, called: str) -> Quantities:
    found: Quantities = {}
    for resource, quantity in said.resources.items():
        field = f"resources.{resource}"
        if not _is_key(resource):
            raise BadObject(called, field, f"{resource!r} is not the name of a resource")
        try:
            amount = nano(quantity)
        except QuantityError as error:
            raise BadObject(called, field, str(error)) from error
        if amount < 0 or (amount == 0 and resource in ("cpu", "memory", "pods")):
            raise BadObject(called, field, f"{quantity} is too little for any pod")
        found[resource] = str(quantity)
    return found


def _taints(said: GroupFields, called: str) -> tuple[Taint, ...]:
    found: list[Taint] = []
    for index, each in enumerate(said.taints):
        field = f"taints[{index}]"
        taint = _taint(each, called, field)
        _check_label(called, field, taint.key, taint.value)
        if any((taint.key, taint.effect) == (other.key, other.effect) for other in found):
            raise BadObject(called, field, f"there are two of key {taint.key} and effect {taint.effect}")
        found.append(taint)
    return tuple(found)


def _taint(said: str | dict[str, Any], called: str, field: str) -> Taint:
    if isinstance(said, dict):
        read = convert(said, _Taint, called, field)
        return Taint(key=read.key, effect=read.effect, value=read.value)
    front, colon, effect = said.rpartition(":")
    key, _, value = front.partition("=")
    if not colon or not key or not effect:
        raise BadObject(called, field, f"{said!r} is neither key=value:Effect nor key:Effect")
    return Taint(key=key, effect=effect, value=value)


def _check_label(called: str, field: str, key: str, value: str) -> None:
    if not _is_key(key):
        raise BadObject(
            called, field, f"{key!r} is not a key: letters, digits, -, _ and ., with a prefix or not"
        )
    if value and _PART.fullmatch(value) is None:
        raise BadObject(called, field, f"{value!r} is not a value: at most 63 letters, digits, -, _ and .")


def _is_key(key: str) -> bool:
    prefix = _PREFIX.match(key)
    return _PART.fullmatch(key, prefix.end() if prefix else 0) is not None
