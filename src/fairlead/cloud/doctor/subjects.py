"""What the doctor looks at: each group of the file beside what the account has for it, and what is context.

Among the cluster's own Auto Scaling groups, one belongs to a group of the file by its managed node group's
name, by its own, or by either with something behind it, as Terraform's name prefixes leave it. Those that
merely have the name belong to others, and are never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from fairlead.cloud.doctor.autoscaler import AskFailed, CaSettings, Evidence, Refusal, without_suffix
from fairlead.cloud.doctor.findings import Finding, TagChange
from fairlead.cloud.shell import word
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.quantity import QuantityError, nano
from fairlead.kube.tolerations import Taint
from fairlead.nodegroups import NodeGroup, node_of
from fairlead.nodegroups.aws import (
    AutoScalingGroup,
    CloudState,
    EksNodegroup,
    NoAnswer,
    Template,
    demanded_tags,
    template_from,
)
from fairlead.nodegroups.aws.state import Access
from fairlead.nodegroups.aws.tags import LABEL, RESOURCES, TAINT, node_effect, said_by

# The resource that every node has and no template does, unless a tag says it.
DISK = "ephemeral-storage"
# EKS' default for a node, in GiB.
_USUAL_DISK = 20
# Templates are made by an autoscaler that remembers nothing: the moment is of no consequence.
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Context:
    """What all checks share. `access`: whether EKS answers the autoscaler's questions, by all we know."""

    state: CloudState
    settings: CaSettings = field(default_factory=CaSettings)
    evidence: Evidence = field(default_factory=Evidence)

    @property
    def cluster(self) -> str:
        """The cluster's name, as discovery tags have it."""
        return self.state.cluster

    @cached_property
    def groups(self) -> tuple[AutoScalingGroup, ...]:
        """The cluster's Auto Scaling groups; one that its autoscaler is given by name is among them."""
        given = self.settings.names()
        return tuple(
            each
            for each in self.state.auto_scaling_groups
            if self.state.owns(each) or (each.name in given and not each.cluster)
        )

    @cached_property
    def access(self) -> Access:
        """IAM's word where there is one, else what the log last said."""
        if self.state.describe_nodegroup != "unknown":
            return self.state.describe_nodegroup
        if not self.evidence.asked:
            return "unknown"
        return "denied" if self.evidence.asked[-1].denied else "unreachable"


@dataclass(frozen=True)
class Subject:
    """One group of the file with what the account has for it; `asg` None: nothing."""

    group: NodeGroup
    context: Context
    asg: AutoScalingGroup | None = None
    nodegroup: EksNodegroup | None = None

    @property
    def name(self) -> str:
        """The group's name."""
        return self.group.name

    @property
    def asg_name(self) -> str:
        """The name of its Auto Scaling group, "" where there is none."""
        return self.asg.name if self.asg else ""

    @property
    def tags(self) -> dict[str, str]:
        """The tags on its Auto Scaling group."""
        return self.asg.tags if self.asg else {}

    @cached_property
    def template(self) -> Template | None:
        """The node that the autoscaler imagines from zero, if it could read all that it should now."""
        if self.asg is None:
            return None
        return template_from(
            self.asg,
            self.answer,
            now=_ANY_TIME,
            version=self.context.settings.as_version,
            kind=self.group.instance_type,
        )

    @property
    def answer(self) -> EksNodegroup | NoAnswer | None:
        """What EKS answers the autoscaler."""
        if self.asg is None or not (self.asg.nodegroup and self.asg.cluster):
            return None
        if self.context.access in ("denied", "unreachable"):
            return NoAnswer(self.context.access)
        return self.nodegroup or NoAnswer("no such node group")

    @cached_property
    def wished(self) -> tuple[Node, ...]:
        """The nodes that the file describes, one for each zone, with what EKS adds of its own."""
        zones = (self.asg.zones if self.asg else ()) or self.group.zones or ("",)
        return tuple(self._wished(zone) for zone in zones)

    def _wished(self, zone: str) -> Node:
        plain = node_of(self.group, f"node-of-{self.name}-{zone}".rstrip("-"))
        labels = plain["metadata"]["labels"]
        for key, value in (self.nodegroup.node_labels if self.nodegroup else {}).items():
            labels.setdefault(key, value)
        for amounts in (plain["status"]["capacity"], plain["status"]["allocatable"]):
            amounts.setdefault(DISK, f"{self.disk or _USUAL_DISK}Gi")
        if zone:
            labels["topology.kubernetes.io/zone"] = labels["topology.ebs.csi.aws.com/zone"] = zone
            labels["topology.kubernetes.io/region"] = zone[:-1]
        return convert(plain, Node)

    @property
    def disk(self) -> int | None:
        """How many GiB of disk its nodes have by EKS; None where a launch template has the say."""
        return self.nodegroup.disk_size if self.nodegroup else None

    @cached_property
    def lacking(self) -> dict[str, str]:
        """The demanded tags on what nodes are like that its own tags do not say."""
        return {
            tag: value
            for tag, value in demanded_tags(self.group, self.context.cluster).items()
            if tag.startswith((LABEL, TAINT, RESOURCES)) and not _same(tag, self.tags.get(tag), value)
        }

    def told_by_eks(self, tag: str, value: str) -> bool:
        """Whether EKS reports of the group what a tag would; whether the autoscaler reads it is not said."""
        if self.nodegroup is None or self.asg is None or not (self.asg.nodegroup and self.asg.cluster):
            return False
        if tag.startswith(LABEL):
            return self.nodegroup.labels.get(tag.removeprefix(LABEL)) == value
        if tag.startswith(TAINT):
            return any(f"{taint.value}:{taint.effect}" == value for taint in self.eks_taints(tag))
        return self.nodegroup.tags.get(tag) == value

    def eks_taints(self, tag: str) -> list[Taint]:
        """EKS' taints of the key that a tag speaks of, spelt as nodes spell them."""
        key = tag.removeprefix(TAINT)
        taints = self.nodegroup.taints if self.nodegroup else ()
        return [
            Taint(each.key, effect=node_effect(each.effect), value=each.value or "")
            for each in taints
            if each.key == key
        ]

    @cached_property
    def relies(self) -> tuple[str, ...]:
        """What only EKS says, and no tag: keys of the tags that would; where EKS is unread, maybe all."""
        if self.nodegroup is None and self.asg is not None and self.asg.nodegroup:
            return tuple(self.lacking)
        return tuple(tag for tag, value in self.lacking.items() if self.told_by_eks(tag, value))

    @cached_property
    def refusals(self) -> list[Refusal]:
        """What the log says of its template."""
        return [each for each in self.context.evidence.refusals if self.is_called(each.group)]

    def is_called(self, asg: str) -> bool:
        """Whether an Auto Scaling group that a log names is this one's."""
        if not asg:
            return False
        if self.asg is not None and asg == self.asg.name:
            return True
        said = without_suffix(asg)
        return bool(said) and said in (self.name, self.nodegroup.name if self.nodegroup else self.name)

    @property
    def strangers(self) -> list[str]:
        """Auto Scaling groups that have its name, though nothing says that they are the cluster's."""
        others = (each for each in self.context.state.auto_scaling_groups if each not in self.context.groups)
        return sorted(
            each.name
            for each in others
            if not each.cluster and any(_is_called(self.name, each, None, exact) for exact in (True, False))
        )

    @property
    def ask_failed(self) -> AskFailed | None:
        """The last failed question about its managed node group."""
        name = self.nodegroup.name if self.nodegroup else self.name
        return self.context.evidence.failed(name)

    @property
    def update_nodegroup(self) -> str:
        """How the AWS CLI's command begins that changes its managed node group."""
        name = self.nodegroup.name if self.nodegroup else self.name
        where = f" --region {word(self.context.state.region)}" if self.context.state.region else ""
        return (
            f"aws eks update-nodegroup-config{where} --cluster-name {word(self.context.cluster)} "
            f"--nodegroup-name {word(name)}"
        )

    @property
    def wrong_tags(self) -> dict[str, str]:
        """Tags that say nothing to the autoscaler, with the reason."""
        return said_by(self.tags).wrong

    def finding(self, cause: str, says: str, fix: str, *evidence: str, **more: Any) -> Finding:
        """What is wrong with the group; `more` is what else a `Finding` has."""
        return Finding(cause, says, fix, group=self.name, evidence=evidence, **more)


def subjects_of(groups: Sequence[NodeGroup], context: Context) -> tuple[Subject, ...]:
    """Each group with its Auto Scaling group; one that has several is looked at once for each."""
    found: list[Subject] = []
    claimed: dict[str, str] = {}
    for exact in (True, False):
        for group in groups:
            if not exact and any(each.name == group.name for each in found):
                continue
            for asg in context.groups:
                nodegroup = context.state.nodegroup_of(asg)
                if asg.name not in claimed and _is_called(group.name, asg, nodegroup, exact):
                    claimed[asg.name] = group.name
                    found.append(Subject(group, context, asg, nodegroup))
    there = {each.name for each in found}
    found += [
        Subject(group, context, None, context.state.nodegroup(group.name))
        for group in groups
        if group.name not in there
    ]
    order = {group.name: number for number, group in enumerate(groups)}
    return tuple(sorted(found, key=lambda each: (order[each.name], each.asg_name)))


def _same(tag: str, have: str | None, value: str) -> bool:
    if have is None or not tag.startswith(RESOURCES):
        return have == value
    try:
        return nano(have) == nano(value)
    except QuantityError:
        return False


def _is_called(name: str, asg: AutoScalingGroup, nodegroup: EksNodegroup | None, exact: bool) -> bool:
    names = [asg.nodegroup, asg.name, nodegroup.name if nodegroup else "", without_suffix(asg.name)]
    if exact:
        return name in names
    return any(each.startswith(f"{name}-") or each.endswith(f"-{name}") for each in names)


def activities_of(asg: str) -> str:
    """The AWS CLI's command that tells why an Auto Scaling group gets no nodes."""
    return (
        f"aws autoscaling describe-scaling-activities --auto-scaling-group-name {word(asg)} "
        "--max-items 5 tells why"
    )


def tag_command(changes: Sequence[TagChange], region: str) -> str:
    """The AWS CLI's command that sets tags."""
    tags = [
        word(
            f"ResourceId={tag.asg},ResourceType=auto-scaling-group,Key={tag.key},Value={tag.value},"
            "PropagateAtLaunch=false"
        )
        for tag in changes
    ]
    where = f" --region {word(region)}" if region else ""
    return f"aws autoscaling create-or-update-tags{where} --tags {' '.join(tags)}"
