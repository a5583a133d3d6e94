"""Node groups on AWS accounts for tests: EKS managed groups and the Auto Scaling groups behind them."""

from __future__ import annotations

from typing import Any

from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.aws import AutoScalingGroup, CloudState, EksNodegroup, EksTaint, demanded_tags
from fairlead.nodegroups.aws.tags import MANAGED_CLUSTER, MANAGED_NAME, discovery_tags, eks_effect
from fairlead.nodegroups.file import read_file

__all__ = ["CLUSTER", "account", "asg_name", "sized", "tagged"]

CLUSTER = "prod"


def sized(name: str, instance_type: str, **more: Any) -> NodeGroup:
    """A group whose nodes say their size in a label, and keep off who does not ask for it."""
    fields = {
        "name": name,
        "instanceTypes": [instance_type],
        "labels": {"size": name},
        "taints": [f"size={name}:NoSchedule"],
        "max": 3,
        **more,
    }
    document = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "NodeGroups", "groups": [fields]}
    (group,) = read_file(str(document), "groups.yaml")
    return group


def asg_name(group: str) -> str:
    """How EKS names the Auto Scaling group of a managed group."""
    return f"eks-{group}-56c9efb8-09b4-a2a8-50c7-7a370d197f3a"


def tagged(group: NodeGroup) -> dict[str, str]:
    """All the tags that the group's Auto Scaling group should have."""
    return demanded_tags(group, CLUSTER)


def account(
    *groups: NodeGroup,
    tags: dict[str, str] | None = None,
    describe: str = "allowed",
    **nodegroup: Any,
) -> CloudState:
    """An account with these groups, as EKS makes them: found by the autoscaler, and further `tags`.

    `describe`: whether the autoscaler may call ``eks:DescribeNodegroup``; `nodegroup` are fields of what
    that then says, which otherwise is what the groups are.
    """
    asgs, described = [], []
    for group in groups:
        managed = {MANAGED_NAME: group.name, MANAGED_CLUSTER: CLUSTER}
        asg = AutoScalingGroup(
            asg_name(group.name),
            tags={**discovery_tags(CLUSTER), **managed, **(tags or {})},
            min=group.min,
            desired=group.desired,
            max=group.max,
            zones=("eu-west-1a",),
            instance_types=group.instance_types,
        )
        asgs.append(asg)
        fields = {
            "labels": group.labels,
            "taints": tuple(EksTaint(t.key, eks_effect(t.effect), t.value or None) for t in group.taints),
            "auto_scaling_groups": (asg.name,),
            **nodegroup,
        }
        described.append(EksNodegroup(group.name, CLUSTER, **fields))
    return CloudState(CLUSTER, "eu-west-1", "", tuple(asgs), tuple(described), describe)  # type: ignore[arg-type]  # tests say what they mean
