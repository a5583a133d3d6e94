"""Converts Kubernetes objects, as plain data, to the typed ones that the engine reads.

Lists are unpacked into their items, kinds that the engine does not read are skipped, and what the API
server's admission would have filled in (a namespace, the number behind a priority class) is filled in.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from fairlead.engine.core.kinds import KINDS
from fairlead.errors import BadInput, BadObject, FairleadError
from fairlead.kube.decode import call_it, convert
from fairlead.kube.meta import Object, ObjectMeta
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod, PodSpec, PodStatus, SchedulingGroup
from fairlead.kube.resources import known as known_kind
from fairlead.kube.selectors import check_selector
from fairlead.kube.storage import CSIDriver, CSINode, PersistentVolume, StorageClass, VolumeAttachment
from fairlead.kube.workloads import DeviceClass, Namespace, PodDisruptionBudget, PriorityClass, Workload
from fairlead.policy.rule.model import read_policy

_KINDS: dict[str, type[Object]] = {**KINDS, "PriorityClass": PriorityClass}

_WITHOUT_NAMESPACE = (
    Node,
    Namespace,
    PersistentVolume,
    StorageClass,
    CSINode,
    CSIDriver,
    VolumeAttachment,
    DeviceClass,
    PriorityClass,
)

# Where kinds that Kubernetes' own resources do not have, or not alone, come from.
_GROUPS: dict[str, tuple[str, ...]] = {
    "DeviceClass": ("resource.k8s.io",),
    "PodGroup": ("scheduling.x-k8s.io", "scheduling.volcano.sh", "scheduling.k8s.io"),
    "PlacementPolicy": ("fairlead.dev",),
}

# Priority classes that every cluster has.
_BUILT_IN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


# Lists of lists occur (kubectl's List of typed lists); deeper than this something contains itself.
_DEPTH = 8


def opened(objects: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """The objects, with lists replaced by their items, whatever kind of list."""
    if not isinstance(objects, Iterable) or isinstance(objects, str | bytes | Mapping):
        raise BadInput(f"objects: a {type(objects).__name__} is not an iterable of Kubernetes objects")
    for thing in objects:
        yield from _opened([thing], 0, {})


def _opened(objects: Iterable[Any], depth: int, known: dict[int, bool]) -> Iterator[dict[str, Any]]:
    """`known`: lists met, and whether they are open."""
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
            if id(items) in known:
                if known[id(items)]:
                    raise BadObject(kind, "items", "nested too deeply, or contains itself")
                continue  # the same list again (YAML's anchors): its objects are there already
            known[id(items)] = True
            # Items of a typed list (PodList) need not say what they are.
            of = {} if kind == "List" else {"kind": kind.removesuffix("List")}
            if of and "apiVersion" in thing:
                of["apiVersion"] = thing["apiVersion"]
            if depth >= _DEPTH:
                raise BadObject(kind, "items", "nested too deeply, or contains itself")
            named = ({**of, **item} if isinstance(item, Mapping) else item for item in items or ())
            yield from _opened(named, depth + 1, known)
            known[id(items)] = False
        else:
            yield dict(thing)


def kind_of(thing: Mapping[str, Any]) -> str:
    """The object's kind; with its API group when another group's kind has the same name.

    Longhorn has Nodes too, Volcano Jobs. An object that does not say its group is taken for ours.

    >>> kind_of({"kind": "Node"}), kind_of({"kind": "Node", "apiVersion": "longhorn.io/v1beta2"})
    ('Node', 'Node.longhorn.io')
    """
    kind: str = thing["kind"]
    version = thing.get("apiVersion")
    if not version or (kind not in _KINDS and kind not in _GROUPS):
        return kind
    if not isinstance(version, str):
        raise BadObject(call_it(thing), "apiVersion", "is not text")
    group = version.rpartition("/")[0]
    return kind if group in (_GROUPS.get(kind) or (known_kind(kind).group,)) else f"{kind}.{group or version}"


def is_policy(thing: Mapping[str, Any]) -> bool:
    """Whether it is a PlacementPolicy."""
    return kind_of(thing) == "PlacementPolicy"


def policy_problem(thing: Mapping[str, Any]) -> str:
    """Why a PlacementPolicy cannot be used, "" where it can."""
    try:
        read_policy(thing)
    except FairleadError as error:
        return str(error)
    return ""


def read(thing: dict[str, Any]) -> tuple[str, Object] | None:
    """An object's kind and its typed form; None for kinds that the engine does not read."""
    kind = kind_of(thing)
    struct = _KINDS.get(kind)
    if struct is None:
        return _scaled(kind, thing)
    namespaced = struct not in _WITHOUT_NAMESPACE
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
    if isinstance(typed, Pod) and not typed.spec.containers:
        raise BadObject(call_it(thing), "spec.containers", "is empty: a pod has at least one")
    if isinstance(typed, Workload | PodDisruptionBudget):
        check_selector(call_it(thing), "spec.selector", typed.spec.selector)
    return kind, msgspec.structs.replace(typed, metadata=metadata)


def _scaled(kind: str, thing: dict[str, Any]) -> tuple[str, Object] | None:
    """A custom resource that makes pods by number: its replicas count towards its pods' gang."""
    spec = thing.get("spec")
    if not isinstance(spec, Mapping) or not isinstance(spec.get("template"), Mapping):
        return None
    if not isinstance(spec.get("replicas"), int):
        return None
    try:
        typed = convert(thing, Workload)
    except BadObject:
        # Its template means something else: nothing says that it makes pods.
        return None
    namespace = typed.metadata.namespace or "default"
    metadata = msgspec.structs.replace(typed.metadata, namespace=namespace)
    return kind, msgspec.structs.replace(typed, metadata=metadata)


def read_pod(thing: Mapping[str, Any]) -> Pod:
    """A pod from plain data; its kind need not be said."""
    if not isinstance(thing, Mapping):
        raise BadObject(call_it(thing, "Pod"), "", "is not a Kubernetes object")
    kind = thing.get("kind", "Pod")
    found = read({**thing, "kind": kind}) if kind == "Pod" else None
    if found is None:
        raise BadObject(call_it(thing), "kind", "is not Pod")
    if not isinstance(found[1], Pod):
        raise BadObject(call_it(thing), "apiVersion", "is not that of pods")
    return found[1] if found[1].metadata.name else with_name(found[1], ())


def remains(thing: Mapping[str, Any]) -> Pod:
    """What can be told of a pod that cannot be used: its name, scheduler and gang, and how far it got."""
    metadata, spec = _mapping(thing.get("metadata")), _mapping(thing.get("spec"))
    phase = _mapping(thing.get("status")).get("phase")
    node = spec.get("nodeName")
    group = _mapping(spec.get("schedulingGroup")).get("podGroupName")
    scheduler = spec.get("schedulerName")
    return Pod(
        metadata=ObjectMeta(
            name=str(metadata.get("name") or metadata.get("generateName") or "(no name)"),
            namespace=str(metadata.get("namespace") or "default"),
            uid=str(metadata.get("uid") or ""),
            labels=_texts(metadata.get("labels")),
            annotations=_texts(metadata.get("annotations")),
        ),
        spec=PodSpec(
            scheduler_name=scheduler if isinstance(scheduler, str) else "default-scheduler",
            scheduling_group=SchedulingGroup(group) if isinstance(group, str) else None,
            node_name=node if isinstance(node, str) else "",
        ),
        status=PodStatus(phase=phase if isinstance(phase, str) else ""),
    )


def with_name(pod: Pod, taken: Container[str]) -> Pod:
    """A pod that leaves its name to the API server, with the first name of that form that is free."""
    for number in itertools.count(1):
        metadata = msgspec.structs.replace(pod.metadata, name=f"{pod.metadata.generate_name}{number}")
        if metadata.key not in taken:
            return msgspec.structs.replace(pod, metadata=metadata)
    raise AssertionError("unreachable")


def identified(pod: Pod, taken: Container[str]) -> Pod:
    """A pod with a UID that no other has; in a file it may have none, and its name is as good."""
    uid = pod.metadata.uid or pod.metadata.key
    while uid in taken:
        uid = f"{uid} of {pod.metadata.key}"
    if uid == pod.metadata.uid:
        return pod
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid))


def unpromised(pod: Pod) -> Pod:
    """A pod as if no node had been promised to it."""
    if not pod.status.nominated_node_name or pod.spec.node_name:
        return pod
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name=""))


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


def _mapping(given: object) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}


def _texts(given: object) -> dict[str, str]:
    found = _mapping(given).items()
    return {key: value for key, value in found if isinstance(key, str) and isinstance(value, str)}


def _with_selector(thing: dict[str, Any]) -> dict[str, Any]:
    # A ReplicationController's selector is a bare map of labels.
    spec = thing.get("spec")
    if not isinstance(spec, Mapping) or not isinstance(spec.get("selector"), Mapping):
        return thing
    return {**thing, "spec": {**spec, "selector": {"matchLabels": spec["selector"]}}}
