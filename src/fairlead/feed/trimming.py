"""Objects cut down to what anything reads, once, before anything else sees them.

So memory and recordings hold no secrets and nothing that changes by itself. Versions stay: a watch goes by
them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.kube.meta import Condition, Object, ObjectMeta
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import DEPLOYMENT_REVISION, Job, Workload
from fairlead.policy.names import DELETION_COST
from fairlead.policy.rule.workloads import MIRROR

# Annotations that a rule, a door or a policy reads; others stay out of memory and recordings.
_READ = ("priority", "pod-group", "pod-group-min-member", MIRROR, DELETION_COST)
_READ_PREFIXES = ("fairlead.dev/", "scheduling.")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class _BriefSpec(Object, frozen=True, gc=False):
    node_name: str = ""


class _BriefStatus(Object, frozen=True, gc=False):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class BriefPod(Object, frozen=True, gc=False):
    """The few fields of a pod that placement policies read."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _BriefSpec = _BriefSpec()
    status: _BriefStatus = _BriefStatus()

    @property
    def terminal(self) -> bool:
        """Whether it has finished."""
        return self.status.phase in ("Succeeded", "Failed")


class BriefNode(Object, frozen=True, gc=False):
    """The few fields of a node that placement policies read."""

    metadata: ObjectMeta = ObjectMeta()


def trimmed(thing: Any) -> Any:
    """An object with only what is read of its kind."""
    if isinstance(thing, Pod | BriefPod):
        metadata = trimmed_metadata(thing.metadata)
        return thing if metadata is thing.metadata else msgspec.structs.replace(thing, metadata=metadata)
    if isinstance(thing, Node):
        return _trimmed_node(thing)
    if isinstance(thing, Workload | Job):
        template = thing.spec.template
        cut = msgspec.structs.replace(template, metadata=trimmed_metadata(template.metadata))
        revision = thing.metadata.annotations.get(DEPLOYMENT_REVISION)
        kept = {DEPLOYMENT_REVISION: revision} if revision else {}
        metadata = msgspec.structs.replace(thing.metadata, annotations=kept)
        spec = msgspec.structs.replace(thing.spec, template=cut)
        return msgspec.structs.replace(thing, metadata=metadata, spec=spec)
    metadata = thing.metadata
    if _LAST_APPLIED in metadata.annotations:
        rest = {key: value for key, value in metadata.annotations.items() if key != _LAST_APPLIED}
        return msgspec.structs.replace(thing, metadata=msgspec.structs.replace(metadata, annotations=rest))
    return thing


def trimmed_metadata(metadata: ObjectMeta) -> ObjectMeta:
    """A pod's or template's metadata with only the annotations that are read."""
    annotations = metadata.annotations
    read = {key: value for key, value in annotations.items() if _is_read(key)}
    same = len(read) == len(annotations)
    return metadata if same else msgspec.structs.replace(metadata, annotations=read)


def _is_read(key: str) -> bool:
    return key in _READ or key.startswith(_READ_PREFIXES)


def _trimmed_node(node: Node) -> Node:
    """A node without what changes by itself: heartbeats, annotations."""
    metadata = ObjectMeta(
        name=node.metadata.name,
        uid=node.metadata.uid,
        resource_version=node.metadata.resource_version,
        creation_timestamp=node.metadata.creation_timestamp,
        deletion_timestamp=node.metadata.deletion_timestamp,
        labels=node.metadata.labels,
    )
    ready = tuple(Condition(one.type, one.status) for one in node.status.conditions if one.type == "Ready")
    return Node(metadata, node.spec, msgspec.structs.replace(node.status, conditions=ready))
