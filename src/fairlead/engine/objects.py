"""From any Kubernetes objects, as plain data, to the typed ones that the engine reads.

Lists are opened, kinds that nobody reads are passed over, and what the API server's admission would
have filled in (a namespace, the number behind a priority class) is filled in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from fairlead.errors import BadObject
from fairlead.kube.decode import call_it, convert
from fairlead.kube.meta import Object, ObjectMeta
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
from fairlead.kube.workloads import (
    DeviceClass,
    Job,
    Namespace,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Service,
    Workload,
)

__all__ = ["POLICY_KIND", "opened", "read", "read_pod", "with_priority"]

POLICY_KIND = "PlacementPolicy"

_KINDS: dict[str, tuple[type[Object], bool]] = {
    "Pod": (Pod, True),
    "Node": (Node, False),
    "Namespace": (Namespace, False),
    "Service": (Service, True),
    "PersistentVolumeClaim": (PersistentVolumeClaim, True),
    "PersistentVolume": (PersistentVolume, False),
    "StorageClass": (StorageClass, False),
    "CSINode": (CSINode, False),
    "CSIDriver": (CSIDriver, False),
    "CSIStorageCapacity": (CSIStorageCapacity, True),
    "VolumeAttachment": (VolumeAttachment, False),
    "DeviceClass": (DeviceClass, False),
    "PriorityClass": (PriorityClass, False),
    "PodDisruptionBudget": (PodDisruptionBudget, True),
    "PodGroup": (PodGroup, True),
    "Deployment": (Workload, True),
    "ReplicaSet": (Workload, True),
    "StatefulSet": (Workload, True),
    "ReplicationController": (Workload, True),
    "Job": (Job, True),
}

# Priority classes that every cluster has.
_BUILT_IN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


# Lists of lists occur (kubectl's List of typed lists); deeper than this something contains itself.
_DEPTH = 8


def opened(objects: Iterable[Any], depth: int = 0) -> Iterator[dict[str, Any]]:
    """The objects, with lists replaced by their items, whatever kind of list."""
    for thing in objects:
        if thing is None:
            continue
        if not isinstance(thing, Mapping):
            raise BadObject(call_it(thing), "", "is not a Kubernetes object")
        kind = thing.get("kind")
        if not isinstance(kind, str) or not kind:
            raise BadObject(call_it(thing), "kind", "is missing")
        if kind.endswith("List") and "items" in thing:
            items = thing["items"]
            if not isinstance(items, list | tuple | None):
                raise BadObject(kind, "items", "is not a list")
            # Items of a typed list (PodList) need not say what they are.
            of = {} if kind == "List" else {"kind": kind.removesuffix("List")}
            if depth >= _DEPTH:
                raise BadObject(kind, "items", "nested too deeply, or contains itself")
            named = ({**of, **item} if isinstance(item, Mapping) else item for item in items or ())
            yield from opened(named, depth + 1)
        else:
            yield dict(thing)


def read(thing: dict[str, Any]) -> tuple[str, Object] | None:
    """An object's kind and its typed form; None for kinds that nobody reads."""
    kind = thing["kind"]
    known = _KINDS.get(kind)
    if known is None:
        return _scaled(thing)
    struct, namespaced = known
    if kind == "ReplicationController":
        thing = _with_selector(thing)
    typed = convert(thing, struct)
    metadata: ObjectMeta = typed.metadata  # type: ignore[attr-defined]  # every struct above has it
    if not metadata.name and not metadata.generate_name:
        raise BadObject(call_it(thing), "metadata.name", "is missing")
    if namespaced and not metadata.namespace:
        metadata = msgspec.structs.replace(metadata, namespace="default")
    elif not namespaced and metadata.namespace:
        metadata = msgspec.structs.replace(metadata, namespace="")
    return kind, msgspec.structs.replace(typed, metadata=metadata)


def _scaled(thing: dict[str, Any]) -> tuple[str, Object] | None:
    """A custom resource that makes pods by number: its replicas count towards its pods' gang."""
    spec = thing.get("spec")
    if not isinstance(spec, Mapping) or not isinstance(spec.get("template"), Mapping):
        return None
    if not isinstance(spec.get("replicas"), int):
        return None
    try:
        typed = convert(thing, Workload)
    except BadObject:
        # Its template means something else: nobody promised that it makes pods.
        return None
    namespace = typed.metadata.namespace or "default"
    metadata = msgspec.structs.replace(typed.metadata, namespace=namespace)
    return thing["kind"], msgspec.structs.replace(typed, metadata=metadata)


def read_pod(thing: Mapping[str, Any]) -> Pod:
    """A pod from plain data; its kind need not be said."""
    if not isinstance(thing, Mapping):
        raise BadObject(call_it(thing, "Pod"), "", "is not a Kubernetes object")
    kind = thing.get("kind", "Pod")
    found = read({**thing, "kind": kind}) if kind == "Pod" else None
    if found is None:
        raise BadObject(call_it(thing), "kind", "is not Pod")
    assert isinstance(found[1], Pod)
    return found[1]


def with_priority(pod: Pod, classes: Mapping[str, PriorityClass]) -> Pod:
    """The pod with the number that its priority class, or the default one, stands for."""
    if pod.spec.priority is not None:
        return pod
    name = pod.spec.priority_class_name
    found = classes.get(name) if name else next((c for c in classes.values() if c.global_default), None)
    if found is not None:
        changes: dict[str, Any] = {"priority": found.value}
        if found.preemption_policy == "Never":
            changes["preemption_policy"] = "Never"
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **changes))
    built_in = _BUILT_IN_PRIORITIES.get(name)
    if built_in is None:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=built_in))


def _with_selector(thing: dict[str, Any]) -> dict[str, Any]:
    # A ReplicationController's selector is a bare map of labels.
    spec = thing.get("spec")
    if not isinstance(spec, Mapping) or not isinstance(spec.get("selector"), Mapping):
        return thing
    return {**thing, "spec": {**spec, "selector": {"matchLabels": spec["selector"]}}}
