"""Which gang a pod or a pod template declares to belong to, in every spelling of the field.

The subtle thing is identity. PodGroups of different projects that share a namespace and a name are
different objects, so their members are different gangs. Only the plain spelling `pod-group` and
coscheduling's share one name, because they are used together: the annotation in a template, the PodGroup
beside it.
"""

from __future__ import annotations

from typing import NamedTuple

from fairlead.kube.meta import ObjectMeta
from fairlead.kube.pod import Pod, PodSpec
from fairlead.kube.workloads import PodGroup

MIN_MEMBER = "pod-group-min-member"

STARTED_WITH = "fairlead.dev/gang-minimum"
"""Annotation that a bind gives to a member: the minimum with which its gang started."""

COSCHEDULING = "scheduling.x-k8s.io"
_VOLCANO = "scheduling.volcano.sh"
KUBERNETES = "scheduling.k8s.io"

# How annotations (or labels) spell it, and the API group of the PodGroup that goes with the spelling.
_SPELLINGS = (
    ("pod-group", ""),
    ("scheduling.x-k8s.io/pod-group", COSCHEDULING),
    ("scheduling.k8s.io/group-name", _VOLCANO),
    ("scheduling.volcano.sh/group-name", _VOLCANO),
)


class Membership(NamedTuple):
    """A declared gang: its name, and the API group of the PodGroup that goes with the spelling, or ""."""

    api_group: str
    name: str

    @property
    def needs_object(self) -> bool:
        """Whether members wait for the PodGroup, as Kubernetes' own and Volcano's users expect."""
        return self.api_group in (KUBERNETES, _VOLCANO)


def membership_of(metadata: ObjectMeta, spec: PodSpec) -> Membership | None:
    """The gang that a pod or a pod template declares, None for none.

    >>> membership_of(ObjectMeta(labels={"scheduling.volcano.sh/group-name": "train"}), PodSpec())
    Membership(api_group='scheduling.volcano.sh', name='train')
    """
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return Membership(KUBERNETES, spec.scheduling_group.pod_group_name)
    for marks in (metadata.annotations, metadata.labels):
        if marks:
            for spelling, api_group in _SPELLINGS:
                name = marks.get(spelling)
                if name:
                    return Membership(api_group, name)
    return None


def gang_of(metadata: ObjectMeta, spec: PodSpec) -> str:
    """The key of the gang that a pod or a pod template declares; "" for none.

    >>> gang_of(ObjectMeta(namespace="ml", labels={"pod-group": "train"}), PodSpec())
    'ml/train'
    """
    membership = membership_of(metadata, spec)
    return key_of(metadata.namespace, membership) if membership is not None else ""


def key_of(namespace: str, membership: Membership) -> str:
    """What a gang is known by.

    >>> key_of("ml", Membership("scheduling.volcano.sh", "train"))
    'ml/train@scheduling.volcano.sh'
    """
    key = f"{namespace}/{membership.name}"
    return f"{key}@{membership.api_group}" if membership.needs_object else key


def shown(key: str) -> str:
    """What messages call the gang with that key: ``namespace/name``.

    >>> shown("ml/train@scheduling.volcano.sh")
    'ml/train'
    """
    return key.partition("@")[0]


def object_minimum(group: PodGroup | None) -> int:
    """The minimum that a PodGroup declares, 0 for none."""
    if group is None:
        return 0
    policy = group.spec.scheduling_policy
    if policy is not None and policy.gang is not None:
        return max(0, policy.gang.min_count)
    return max(0, group.spec.min_member or 0)


def annotated_minimum(pod: Pod) -> int:
    """The minimum that a pod's annotation declares, 0 for none."""
    return whole_number(pod.metadata.annotations.get(MIN_MEMBER, ""))


def started_with(pod: Pod) -> int:
    """The minimum with which the pod's gang started, as its bind wrote it; 0 for a pod that does not say."""
    return whole_number(pod.metadata.annotations.get(STARTED_WITH, ""))


def whole_number(text: str) -> int:
    """The number that an annotation holds, 0 for anything else."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
