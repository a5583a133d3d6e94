"""What the scheduler watches, and what of it reaches the core.

Objects are cut down to what a rule reads before anything else sees them: a recording then holds no
secrets, and an update that changes nothing we read (a heartbeat, a status) costs one comparison.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from fairlead.client.view import Added, Deleted, Modified, Spoiled
from fairlead.client.view import Event as WatchEvent
from fairlead.engine.core.events import Event, Gone, Seen, Unread
from fairlead.engine.core.state import KINDS
from fairlead.engine.objects import remains
from fairlead.kube.meta import Condition, Object, ObjectMeta
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.resources import Resource, known
from fairlead.kube.workloads import DEPLOYMENT_REVISION, Job, PodGroup, Workload
from fairlead.policy.names import DELETION_COST

__all__ = ["POD_GROUP_GROUPS", "Source", "core_events", "pod_groups", "sources", "trimmed"]

# The flavours of PodGroup that we read, by API group; which are served, discovery tells.
POD_GROUP_GROUPS = ("scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.volcano.sh")

# Annotations that a rule, a door or a policy reads; others stay out of memory and recordings.
_READ = ("priority", "pod-group", "pod-group-min-member", "kubernetes.io/config.mirror", DELETION_COST)
_READ_PREFIXES = ("fairlead.dev/", "scheduling.")

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Source:
    """One kind to watch. `keep` is what stays of an object in memory beside the core's own copy.

    `skips`: a change that leaves `keep` as it was is no news.
    """

    kind: str
    resource: Resource
    struct: type[Any]
    keep: Callable[[Any], object]
    skips: bool = False


def sources(served: Iterable[Resource]) -> list[Source]:
    """What to watch on a server that serves these resources; kinds it does not have are left out."""
    served = list(served)
    offered = {(resource.group, resource.plural) for resource in served}
    found = [
        Source(kind, known(kind), struct, *_keep_of(struct))
        for kind, struct in KINDS.items()
        if kind not in ("PodGroup", "DeviceClass") and (known(kind).group, known(kind).plural) in offered
    ]
    for resource in served:
        if resource.group == "resource.k8s.io" and resource.kind == "DeviceClass":
            found.append(Source("DeviceClass", resource, KINDS["DeviceClass"], _nothing))
            break  # the preferred version comes first
    return found + pod_groups(served)


def pod_groups(served: Iterable[Resource]) -> list[Source]:
    """The PodGroups among the served resources, in the preferred version of each group."""
    found: dict[str, Source] = {}
    for resource in served:
        if resource.kind == "PodGroup" and resource.group in POD_GROUP_GROUPS:
            found.setdefault(resource.group, Source("PodGroup", resource, PodGroup, _nothing))
    return list(found.values())


def core_events(source: Source, batch: Iterable[WatchEvent[Any, Any]]) -> list[Event]:
    """What the core is told of a batch of watch events.

    An object that cannot be read stays, for the core, as it last was: what it holds it still holds. Of a
    pod that could never be read the core is told what can be made out, because its gang waits for it.
    """
    kind, events = source.kind, cast(list[Event], [])
    for event in batch:
        if isinstance(event, Added):
            events.append(Seen(kind, trimmed(source, event.object)))
        elif isinstance(event, Modified):
            if not source.skips or source.keep(event.object) != event.old:
                events.append(Seen(kind, trimmed(source, event.object)))
        elif isinstance(event, Deleted):
            namespace, _, name = event.key.rpartition("/")
            group = source.resource.group if kind == "PodGroup" else ""
            events.append(Gone(kind, namespace, name, event.uid, group))
        elif isinstance(event, Spoiled) and kind == "Pod":
            events.append(Unread(_remains(event), str(event.error)))
    return events


def _remains(event: Spoiled[Any]) -> Pod:
    """What can be made out of a pod; of one that is no JSON at all only its name."""
    namespace, _, name = event.key.rpartition("/")
    try:
        body = msgspec.json.decode(event.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        body = None
    if not isinstance(body, dict):
        body = {"metadata": {"name": name, "namespace": namespace}}
    found = remains(body)
    return msgspec.structs.replace(found, metadata=_trimmed_pod(found.metadata))


def trimmed(source: Source, thing: Any) -> Object:
    """The object with only what somebody reads."""
    if isinstance(thing, Pod):
        metadata = _trimmed_pod(thing.metadata)
        return thing if metadata is thing.metadata else msgspec.structs.replace(thing, metadata=metadata)
    if isinstance(thing, Node):
        return _bare_node(thing)
    if isinstance(thing, Workload | Job):
        template = thing.spec.template
        cut = msgspec.structs.replace(template, metadata=_trimmed_pod(template.metadata))
        metadata = msgspec.structs.replace(thing.metadata, annotations=_revision_of(thing))
        spec = msgspec.structs.replace(thing.spec, template=cut)
        return cast(Object, msgspec.structs.replace(thing, metadata=metadata, spec=spec))
    if isinstance(thing, PodGroup):
        # Items of a list need not say which version they are of.
        thing = msgspec.structs.replace(thing, api_version=source.resource.api_version)
    metadata = cast(ObjectMeta, thing.metadata)
    if _LAST_APPLIED in metadata.annotations:
        rest = {key: value for key, value in metadata.annotations.items() if key != _LAST_APPLIED}
        thing = msgspec.structs.replace(thing, metadata=msgspec.structs.replace(metadata, annotations=rest))
    return cast(Object, thing)


def _trimmed_pod(metadata: ObjectMeta) -> ObjectMeta:
    annotations = metadata.annotations
    if not annotations or all(_is_read(key) for key in annotations):
        return metadata
    return msgspec.structs.replace(metadata, annotations=_only_read(annotations))


def _only_read(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if _is_read(key)}


def _is_read(key: str) -> bool:
    return key in _READ or key.startswith(_READ_PREFIXES)


def _bare_node(node: Node) -> Node:
    """A node without what changes by itself: version, heartbeats, annotations."""
    metadata = ObjectMeta(
        name=node.metadata.name,
        uid=node.metadata.uid,
        creation_timestamp=node.metadata.creation_timestamp,
        deletion_timestamp=node.metadata.deletion_timestamp,
        labels=node.metadata.labels,
    )
    ready = tuple(Condition(one.type, one.status) for one in node.status.conditions if one.type == "Ready")
    return Node(metadata, node.spec, msgspec.structs.replace(node.status, conditions=ready))


def _keep_of(struct: type[Any]) -> tuple[Callable[[Any], object], bool]:
    if struct is Pod:
        return _node_of, False
    if struct is Node:
        return _bare_node, True
    if struct is Workload:
        return _spec_of_workload, True
    return (_spec_of_job, True) if struct is Job else (_nothing, False)


def _node_of(pod: Pod) -> str:
    """Where the pod takes room; "" for nowhere. For comparing with what the core believes."""
    return "" if pod.terminal else sys.intern(pod.spec.node_name)


def _nothing(thing: Any) -> object:
    """Every change counts, and nothing is kept: the core has the object."""
    return None


def _spec_of_workload(owner: Workload) -> object:
    # The API server counts a new generation for every change of the spec, and for deletion. Which revision is
    # the newest is written later, by the controller.
    revision = owner.status.update_revision or owner.metadata.annotations.get(DEPLOYMENT_REVISION, "")
    return (owner.metadata.generation, owner.spec.replicas, revision)


def _revision_of(owner: Workload | Job) -> dict[str, str]:
    revision = owner.metadata.annotations.get(DEPLOYMENT_REVISION)
    return {DEPLOYMENT_REVISION: revision} if revision else {}


def _spec_of_job(job: Job) -> object:
    return (job.metadata.generation, job.status.succeeded, job.status.conditions)
