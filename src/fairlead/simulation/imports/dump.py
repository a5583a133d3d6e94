"""A cluster as ``kubectl get … -o yaml`` printed it, as a scenario that begins with its objects.

The subtle thing is time: a scenario begins at a time of its own, and objects that were created after it would
wait for their own creation. So all times in the objects are moved, by as much each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from fairlead.engine.ask.capacity import ZONE, group_of, is_spot
from fairlead.engine.ask.cost import price_of
from fairlead.engine.planning.settings import Settings
from fairlead.errors import BadInput, BadObject
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.quantity import nano
from fairlead.nodegroups import GROUP_LABEL
from fairlead.nodegroups.file import API_VERSION, KIND, read_documents
from fairlead.policy.names import POLICIES
from fairlead.simulation.contents import SCHEDULER, Obj, components_seen, manifests
from fairlead.simulation.imports.draft import Draft, counted, duration
from fairlead.world.clock import EPOCH
from fairlead.world.objects import parse_time, stamp
from fairlead.world.schema.resources import Registry

OBJECTS_FILE = "objects.json"

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# What a simulation does not read, and may be secret.
_PRIVATE = frozenset({"ConfigMap", "Event", "Secret"})
# What every node of a group is given anyway, or has for itself.
_OF_A_NODE = (
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/",
    ZONE,
    GROUP_LABEL,
)
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "fairlead.dev/")


def import_dump(documents: Iterable[Any], *, name: str, lasts_s: float) -> Draft:
    """The scenario of objects, lists of them among them, that goes on for so long."""
    registry = Registry()
    kept: list[Obj] = []
    policies: list[Obj] = []
    private: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    found = manifests(documents)
    for one in found:
        kind, version = one["kind"], str(one.get("apiVersion", "v1"))
        if kind == POLICIES.kind:
            policies.append({"metadata": {"name": one["metadata"]["name"]}, "spec": one.get("spec") or {}})
        elif kind in _PRIVATE:
            private[kind] += 1
        elif registry.of_kind(version, kind) is None:
            unknown[f"{kind} ({version})"] += 1
        else:
            kept.append(_bare(one))
    if not any(one["kind"] == "Node" for one in kept):
        raise BadInput("the dump has no nodes: kubectl get nodes,pods -A -o yaml prints both")
    ends = _latest(kept)
    moved = [_moved(one, EPOCH - ends) for one in kept] if ends is not None else kept
    groups, ungrouped = _groups([one for one in moved if one["kind"] == "Node"])
    spec: dict[str, Any] = {
        "duration": duration(lasts_s),
        "components": sorted({SCHEDULER, *components_seen(found, ends or EPOCH, Settings())}),
        "objects": [OBJECTS_FILE],
    }
    if groups:
        spec["nodeGroups"] = groups
    if policies:
        spec["policies"] = policies
    lines = ",\n".join(msgspec.json.encode(one).decode() for one in moved)
    text = f'{{"apiVersion": "v1", "kind": "List", "items": [\n{lines}\n]}}\n'
    kinds = Counter(one["kind"] for one in moved)
    said = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    return Draft(
        name, f"A cluster as it was: {said}", spec, {OBJECTS_FILE: text}, tuple(
            _notes(private, unknown, ungrouped, groups, moved=ends is not None)
        )
    )  # fmt: skip


def _notes(
    private: Counter[str], unknown: Counter[str], ungrouped: int, groups: Sequence[Obj], *, moved: bool
) -> Iterable[str]:
    for kind, number in sorted(unknown.items()):
        yield f"Left out: {number} of kind {kind}, which a simulation does not have."
    if private:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(private.items()))
        yield f"Left out: {kinds}, which nothing reads."
    if groups:
        yield (
            "Node groups are those that labels of nodes tell, each with the nodes that are there. To let an "
            "autoscaler bring more, raise max and add `autoscaler: {}`."
        )
    if ungrouped:
        yield f"{counted(ungrouped, 'node')} of no group that labels tell: no more of them can be had."
    if moved:
        yield "Times in the objects were moved, so that the latest is the beginning."
    yield "Pods that run go on until the end; nothing new comes, unless workloads or arrivals are added."


def _bare(item: Obj) -> Obj:
    """An object without what only API servers and kubectl keep in it."""
    meta = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    annotations = meta.get("annotations")
    if isinstance(annotations, dict) and _LAST_APPLIED in annotations:
        meta["annotations"] = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    return {"apiVersion": item.get("apiVersion", "v1"), **item, "metadata": meta}


# Times


def _latest(objects: Iterable[Any]) -> datetime | None:
    """The latest time that objects have, of those that say what happened."""
    found: list[datetime] = []
    for one in objects:
        found += _times(one)
    return max(found, default=None)


def _times(value: Any) -> Iterable[datetime]:
    if isinstance(value, dict):
        for key, one in value.items():
            at = _time(key, one)
            if at is not None:
                yield at
            else:
                yield from _times(one)
    elif isinstance(value, list):
        for one in value:
            yield from _times(one)


def _moved(value: Any, by: timedelta) -> Any:
    if isinstance(value, dict):
        return {key: _moved_field(key, one, by) for key, one in value.items()}
    if isinstance(value, list):
        return [_moved(one, by) for one in value]
    return value


def _moved_field(key: str, value: Any, by: timedelta) -> Any:
    at = _time(key, value)
    return stamp(at + by) if at is not None else _moved(value, by)


def _time(key: object, value: object) -> datetime | None:
    """A field's time; YAML makes one of an unquoted text."""
    if not isinstance(key, str) or not key.endswith(("Time", "Timestamp")):
        return None
    if isinstance(value, str):
        try:
            value = parse_time(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


# Node groups


def _groups(nodes: Sequence[Obj]) -> tuple[list[Obj], int]:
    """The groups that nodes say they are of, and how many nodes say none that can be described."""
    by_group: dict[str, list[Node]] = {}
    ungrouped = 0
    for one in nodes:
        node = convert(one, Node)
        if name := group_of(node):
            by_group.setdefault(name, []).append(node)
        else:
            ungrouped += 1
    found: list[Obj] = []
    for name, members in sorted(by_group.items()):
        group = _group(name, members)
        try:
            read_documents([{"apiVersion": API_VERSION, "kind": KIND, "groups": [group]}], name)
        except (BadInput, BadObject):  # a name or a label that a group may not have
            ungrouped += len(members)
        else:
            found.append(group)
    return found, ungrouped


def _group(name: str, nodes: Sequence[Node]) -> Obj:
    first = nodes[0]
    group: Obj = {"name": name, "max": len(nodes), "resources": _least(nodes)}
    zones = dict.fromkeys(zone for one in nodes if (zone := one.metadata.labels.get(ZONE)))
    if zones:
        group["zones"] = list(zones)
    labels = {
        key: value
        for key, value in first.metadata.labels.items()
        if not key.startswith(_OF_A_NODE) and all(one.metadata.labels.get(key) == value for one in nodes)
    }
    if labels:
        group["labels"] = labels
    taints = [
        str(taint)
        for taint in first.spec.taints
        if not taint.key.startswith(_PASSING) and all(taint in one.spec.taints for one in nodes)
    ]
    if taints:
        group["taints"] = taints
    if all(is_spot(one) for one in nodes):
        group["volatile"] = True
    price = price_of(first.metadata.labels)
    if price:
        group["pricePerHour"] = price
    return group


def _least(nodes: Sequence[Node]) -> dict[str, str]:
    """What every node of a group has: what the one with the least cpu offers."""
    least = min(nodes, key=lambda one: nano(one.status.allocatable.get("cpu", 0)))
    offered = {key: str(value) for key, value in least.status.allocatable.items()}
    return {key: value for key, value in offered.items() if nano(value) > 0 or key in ("cpu", "memory")}
