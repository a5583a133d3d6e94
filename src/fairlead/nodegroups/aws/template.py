"""The node that Cluster Autoscaler imagines for a group on AWS, by its own rules, right or wrong.

A live node stands for its group; without one the last that was seen does, for as long as the node-info
cache keeps it; only then is one made from the instance type, the Auto Scaling group's tags and what the
EKS API says. The API's labels win over tags, and a call that fails is remembered as a group without any.
Which of its versions does what is said by `Version`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import msgspec

from fairlead.errors import BadInput
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.node import Node, NodeSpec, NodeStatus
from fairlead.kube.pod import Quantities
from fairlead.kube.tolerations import Taint
from fairlead.nodegroups.aws.state import AutoScalingGroup, EksNodegroup, NoAnswer
from fairlead.nodegroups.aws.tags import RESOURCES, node_effect, said_by
from fairlead.nodegroups.catalog import instance_type
from fairlead.nodegroups.group import EFFECTS, InstanceType

_SHAPE = re.compile(r"(?:.*[:/])?v?(\d+)\.(\d+)(?:\.(\d+))?(?:[-+@].*)?", re.DOTALL)


class Version(NamedTuple):
    """A release of Cluster Autoscaler. It follows Kubernetes' minor versions."""

    major: int = 1
    minor: int = 36
    patch: int = 0

    @classmethod
    def read(cls, text: str) -> Version:
        """From a version or an image that names one.

        >>> str(Version.read("registry.k8s.io/autoscaling/cluster-autoscaler:v1.27.5"))
        '1.27.5'
        """
        found = _SHAPE.fullmatch(text.strip())
        if found is None:
            raise BadInput(f"{text!r} does not say a version of Cluster Autoscaler: write it as 1.32.1")
        return cls(int(found[1]), int(found[2]), int(found[3] or 0))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def asks_eks(self) -> bool:
        """Whether it reads labels and taints of a managed group with ``eks:DescribeNodegroup``."""
        return self >= (1, 24)

    @property
    def misreads_effects(self) -> bool:
        """Whether it takes EKS' spelling of an effect (NO_SCHEDULE) as it is: the taint then means nothing.

        The translation came to the main branch in mid-2024, between 1.30 and 1.31.
        """
        return self.asks_eks and self < (1, 31)

    @property
    def can_forget_nodes(self) -> bool:
        """Whether it knows ``--node-info-cache-expire-time``."""
        return self >= (1, 24)


# How long an answer of the EKS API is kept, a failure as well as a success.
EKS_CACHE = timedelta(minutes=6)
# How long the last node of a group is remembered unless --node-info-cache-expire-time says otherwise.
NODE_CACHE = timedelta(hours=87600)

_STABLE = timedelta(minutes=1)
# It takes every machine to have room for this many pods: it does not count network interfaces.
_PODS: Quantities = {"pods": "110"}
# Taints that come and go with a node's life are no part of what the next node will be like.
_PASSING = (
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
)


@dataclass(frozen=True, slots=True)
class Template:
    """An imagined node, what it was made from, and what went wrong unseen while it was made."""

    node: Node
    source: Literal["node", "cache", "provider"]
    said: tuple[str, ...] = ()


@dataclass(slots=True)
class Memory:
    """What a running autoscaler remembers: the last node of each group, and EKS' answers.

    Both are lost when it restarts. `expire` is its ``--node-info-cache-expire-time``.
    """

    expire: timedelta = NODE_CACHE
    nodes: dict[str, tuple[Node, datetime]] = field(default_factory=dict)
    answers: dict[str, tuple[EksNodegroup | None, datetime]] = field(default_factory=dict)

    def last_node(self, asg: str, now: datetime) -> Node | None:
        """The last node of a group, unless it is too long ago."""
        found = self.nodes.get(asg)
        if found is None:
            return None
        if now - found[1] > self.expire:
            del self.nodes[asg]
            return None
        return found[0]

    def ask(
        self, name: str, answer: EksNodegroup | NoAnswer, now: datetime
    ) -> tuple[EksNodegroup | None, str]:
        """What it takes a managed group to be, and what went wrong; `answer` counts only if it asks now."""
        found = self.answers.get(name)
        if found is not None and now - found[1] <= EKS_CACHE:
            left = EKS_CACHE - (now - found[1])
            problem = "" if found[0] else f"an empty answer of eks:DescribeNodegroup is kept for {left} more"
            return found[0], problem
        known = answer if isinstance(answer, EksNodegroup) else None
        self.answers[name] = (known, now)
        return known, "" if isinstance(answer, EksNodegroup) else f"eks:DescribeNodegroup: {answer.why}"


def good_example(node: Node, now: datetime) -> bool:
    """Whether a live node may stand for its group: ready for a minute, and schedulable."""
    if node.spec.unschedulable:
        return False
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
    if ready is None or ready.status != "True":
        return False
    since = ready.last_transition_time
    return since is None or since + _STABLE < now


def template_from(
    asg: AutoScalingGroup,
    answer: EksNodegroup | NoAnswer | None,
    *,
    now: datetime,
    version: Version | None = None,
    memory: Memory | None = None,
    live: Node | None = None,
    kind: InstanceType | None = None,
    name: str = "",
) -> Template:
    """The node that the autoscaler expects of the group's next scale-up; `memory` learns from it.

    `live` is a node of the group that may stand for it (`good_example`); `kind` says the size of the
    group's first instance type where neither `asg` nor the catalogue does.
    """
    name = name or f"template-node-for-{asg.name}"
    memory = memory if memory is not None else Memory()
    version = version or Version()
    if live is not None:
        memory.nodes[asg.name] = (live, now)
        return Template(_as_example(live, name), "node")
    last = memory.last_node(asg.name, now)
    if last is not None:
        return Template(_as_example(last, name), "cache", (f"remembers node {last.metadata.name}",))
    group, problem = None, ""
    if answer is not None and asg.nodegroup and version.asks_eks:
        group, problem = memory.ask(asg.nodegroup, answer, now)
    node, said = _made(asg, group, version, _sized(asg, kind), name)
    return Template(node, "provider", (*said, problem) if problem else said)


def _made(
    asg: AutoScalingGroup, group: EksNodegroup | None, version: Version, kind: InstanceType, name: str
) -> tuple[Node, tuple[str, ...]]:
    tags = said_by(asg.tags)
    problems = [f"tag {tag}: {why}" for tag, why in tags.wrong.items()]
    if not kind.capacity:
        problems.append(f"the size of instance type {kind.name or '(unknown)'} is not known")
    labels = {**_generic(asg, kind, name), **tags.labels}
    taints = list(tags.taints)
    capacity: Quantities = {**kind.capacity, **_PODS, **tags.resources}
    if group is not None:
        labels |= _api_labels(group)
        taints += _api_taints(group, version, problems)
        overriding = {tag: amount for tag, amount in group.tags.items() if tag.startswith(RESOURCES)}
        capacity |= said_by(overriding).resources
    node = Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=NodeSpec(taints=tuple(taints)),
        status=NodeStatus(allocatable=capacity, capacity=capacity),
    )
    return node, tuple(problems)


def _sized(asg: AutoScalingGroup, kind: InstanceType | None) -> InstanceType:
    first = asg.instance_types[0] if asg.instance_types else InstanceType()
    if first.capacity:
        return first
    known = kind or instance_type(first.name) or first
    return msgspec.structs.replace(known, name=first.name or known.name)


def _generic(asg: AutoScalingGroup, kind: InstanceType, name: str) -> dict[str, str]:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": kind.architecture,
    }
    if kind.name:
        labels["node.kubernetes.io/instance-type"] = kind.name
    if asg.zones:
        zone = asg.zones[0]
        labels["topology.kubernetes.io/zone"] = labels["topology.ebs.csi.aws.com/zone"] = zone
        labels["topology.kubernetes.io/region"] = zone[:-1]
    return labels


def _api_labels(group: EksNodegroup) -> dict[str, str]:
    extra = {
        "diskSize": "" if group.disk_size is None else str(group.disk_size),
        "amiType": group.ami_type,
        "k8sVersion": group.version,
    }
    return {**{key: value for key, value in extra.items() if value}, **group.node_labels}


def _api_taints(group: EksNodegroup, version: Version, problems: list[str]) -> list[Taint]:
    found = []
    for each in group.taints:
        if each.value is None:
            problems.append(f"the taint {each.key} of node group {group.name} has no value and is skipped")
            continue
        effect = each.effect if version.misreads_effects else node_effect(each.effect)
        if effect not in EFFECTS:
            problems.append(
                f"{version} takes the effect {effect!r} of taint {each.key} as it is: it means nothing"
            )
        found.append(Taint(each.key, effect=effect, value=each.value))
    return found


def _as_example(node: Node, name: str) -> Node:
    labels = {**node.metadata.labels, "kubernetes.io/hostname": name}
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(_PASSING))
    return Node(
        metadata=ObjectMeta(name=name, labels=labels), spec=NodeSpec(taints=taints), status=node.status
    )
