"""Terraform for EKS managed node groups that Cluster Autoscaler brings up from zero.

The tags that it needs are put on the Auto Scaling groups themselves, because EKS does not copy a node
group's own; they are exactly what `demanded_tags` says. A taint's effect is spelt as the EKS API wants it
on the node group, and as Kubernetes does in its tag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairlead.cloud.hcl import Expression, Template, attributes, block, quoted
from fairlead.errors import BadObject
from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.aws import demanded_tags
from fairlead.nodegroups.catalog import GPU
from fairlead.nodegroups.group import EFFECTS

Note = Callable[[str], None]

# AWS' own bounds on tags.
_TAGS = 50
_TAG_KEY = 128
# A kubelet that is to say a label under the former, but not under the latter, does not start.
_KUBERNETES = ("kubernetes.io", "k8s.io")
_KUBELETS = ("node.kubernetes.io", "kubelet.kubernetes.io")
_EKS = "eks.amazonaws.com"
# EKS' bound on keys of labels and taints, shorter than Kubernetes' because it counts the prefix.
_KEY = 63

# What is the same whatever the groups.

_HEAD = """\
# Node groups of an EKS cluster that Cluster Autoscaler brings up from zero, and its rights to do so.
# Written by `fairlead nodegroups terraform`: change the file of groups and write it again.

terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.40"
    }
  }
}"""

_SUBNETS = """\
data "aws_subnet" "given" {
  count = length(var.subnet_ids)
  id    = var.subnet_ids[count.index]
}"""

_NODE_ROLE = """\
data "aws_partition" "current" {}

data "aws_iam_policy_document" "node_trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "node" {
  name_prefix        = "${substr(var.cluster_name, 0, 30)}-node-"
  assume_role_policy = data.aws_iam_policy_document.node_trust.json
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each   = toset(["AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", \
"AmazonEC2ContainerRegistryReadOnly"])
  role       = aws_iam_role.node.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/${each.value}"
}"""

_AUTOSCALER = """\
locals {
  oidc_issuer = split(":oidc-provider/", var.oidc_provider_arn)[1]
}

data "aws_iam_policy_document" "autoscaler_trust" {
  statement {
    actions = ["sts:AssumeRoleWithWebIdentity"]

    principals {
      type        = "Federated"
      identifiers = [var.oidc_provider_arn]
    }

    condition {
      test     = "StringEquals"
      variable = "${local.oidc_issuer}:sub"
      values   = ["system:serviceaccount:${var.autoscaler_namespace}:${var.autoscaler_service_account}"]
    }

    condition {
      test     = "StringEquals"
      variable = "${local.oidc_issuer}:aud"
      values   = ["sts.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "autoscaler" {
  # On everything: these cannot be narrowed, or are called before the group is known.
  statement {
    sid = "Read"
    actions = [
      "autoscaling:DescribeAutoScalingGroups",
      "autoscaling:DescribeAutoScalingInstances",
      "autoscaling:DescribeLaunchConfigurations",
      "autoscaling:DescribeScalingActivities",
      "ec2:DescribeImages",
      "ec2:DescribeInstanceTypes",
      "ec2:DescribeLaunchTemplateVersions",
      "ec2:GetInstanceTypesFromInstanceRequirements",
      "eks:DescribeNodegroup",
    ]
    resources = ["*"]
  }

  # Only on groups that carry the tags of this cluster.
  statement {
    sid       = "Scale"
    actions   = ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
    resources = ["*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/k8s.io/cluster-autoscaler/enabled"
      values   = ["true"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/k8s.io/cluster-autoscaler/${var.cluster_name}"
      values   = ["owned"]
    }
  }
}

resource "aws_iam_role" "autoscaler" {
  name_prefix        = "${substr(var.cluster_name, 0, 20)}-autoscaler-"
  assume_role_policy = data.aws_iam_policy_document.autoscaler_trust.json
}

resource "aws_iam_role_policy" "autoscaler" {
  name   = "cluster-autoscaler"
  role   = aws_iam_role.autoscaler.id
  policy = data.aws_iam_policy_document.autoscaler.json
}

output "autoscaler_role_arn" {
  description = "For the annotation eks.amazonaws.com/role-arn of its service account."
  value       = aws_iam_role.autoscaler.arn
}

output "node_role_arn" {
  description = "For other groups of the same cluster."
  value       = aws_iam_role.node.arn
  depends_on  = [aws_iam_role_policy_attachment.node]
}"""


def terraform(groups: Sequence[NodeGroup], *, cluster: str | None, note: Note) -> str:
    """A module: the groups, their tags and the autoscaler's role; `cluster` is its default cluster name.

    What the tags cannot say is noted; what EKS would refuse is refused here, with the group's name.
    """
    for group in groups:
        _check(group, note)
    parts = [
        _HEAD,
        _variable("cluster_name", "The EKS cluster that the groups belong to.", default=cluster),
        _variable("subnet_ids", "Where nodes are made.", kind="list(string)"),
        _variable("oidc_provider_arn", "The cluster's OIDC provider in IAM, for the autoscaler's role."),
        _variable("autoscaler_namespace", "Where Cluster Autoscaler runs.", default="kube-system"),
        _variable(
            "autoscaler_service_account", "The service account that it runs as.", default="cluster-autoscaler"
        ),
        *([_SUBNETS] if any(group.zones for group in groups) else []),
        _NODE_ROLE,
        *(part for group in groups for part in (_node_group(group), _tags(group))),
        _AUTOSCALER,
        block(
            'output "auto_scaling_groups"',
            attributes(
                {
                    "description": "The Auto Scaling group of each node group.",
                    "value": {group.name: _asg_name(group) for group in groups},
                }
            ),
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _check(group: NodeGroup, note: Note) -> None:
    called = f"node group {group.name}"
    if not all(kind.name for kind in group.instance_types):
        raise BadObject(
            called,
            "instanceTypes",
            "is missing: EKS makes nodes of EC2 instance types, resources are not enough",
        )
    for key, value in group.labels.items():
        if problem := _wrong_label(key, value):
            raise BadObject(called, f"labels.{key}", problem)
    for index, taint in enumerate(group.taints):
        if len(taint.key) > _KEY:
            raise BadObject(called, f"taints[{index}]", f"EKS takes keys of {_KEY} characters at most")
    tags = demanded_tags(group, "any")
    if len(tags) > _TAGS:
        raise BadObject(
            called, "labels", f"needs {len(tags)} tags on its Auto Scaling group, which may have {_TAGS}"
        )
    for key in tags:
        if len(key) > _TAG_KEY:
            raise BadObject(called, "resources", f"the tag {key} is longer than AWS allows: {_TAG_KEY}")
    keys = [taint.key for taint in group.taints]
    for key in dict.fromkeys(key for key in keys if keys.count(key) > 1):
        note(f"{called}: a tag has room for one of the taints on {key}: from zero the strongest is seen")
    for taint in group.taints:
        if not taint.value:
            note(
                f"{called}: Cluster Autoscaler passes over a taint without a value that the EKS API tells it "
                f"of; {taint} is seen from zero through its tag only"
            )
    if len(group.zones) > 1:
        note(f"{called}: from zero Cluster Autoscaler sees only the first zone; a group for each is safer")


def _wrong_label(key: str, value: str) -> str:
    if not value:
        return "EKS takes no label without a value"
    if len(key) > _KEY:
        return f"EKS takes keys of {_KEY} characters at most"
    domain = f".{key.rpartition('/')[0]}"
    if any(domain.endswith(f".{allowed}") for allowed in _KUBELETS):
        return ""
    reserved = (*_KUBERNETES, _EKS)
    if any(domain.endswith(f".{each}") for each in reserved):
        return f"{', '.join(reserved)} are reserved: a node that says it could not join"
    return ""


def _variable(name: str, said: str, *, kind: str = "string", default: str | None = None) -> str:
    more = {} if default is None else {"default": default}
    return block(f'variable "{name}"', attributes({"description": said, "type": Expression(kind), **more}))


def _node_group(group: NodeGroup) -> str:
    subnets = "var.subnet_ids"
    lifecycle = [attributes({"ignore_changes": [Expression("scaling_config[0].desired_size")]})]
    if group.zones:
        lifecycle.append(_every_zone_has_a_subnet(group))
        inside = f"contains({_inline(group.zones)}, subnet.availability_zone)"
        subnets = f"[for subnet in data.aws_subnet.given : subnet.id if {inside}]"
    said = {
        "cluster_name": Expression("var.cluster_name"),
        "node_group_name": group.name,
        "node_role_arn": Expression("aws_iam_role.node.arn"),
        "subnet_ids": Expression(subnets),
        "instance_types": [kind.name for kind in group.instance_types],
        "ami_type": _image(group),
        "capacity_type": "SPOT" if group.volatile else "ON_DEMAND",
        **({"labels": group.labels} if group.labels else {}),
    }
    taints = (
        {
            "key": taint.key,
            **({"value": taint.value} if taint.value else {}),
            "effect": EFFECTS[taint.effect],
        }
        for taint in group.taints
    )
    sizes = {"min_size": group.min, "desired_size": max(group.min, group.desired), "max_size": group.max}
    return block(
        f'resource "aws_eks_node_group" "{_identifier(group)}"',
        attributes(said),
        *(block("taint", attributes(taint)) for taint in taints),
        block("scaling_config", attributes(sizes)),
        "# The autoscaler changes it; applying again must not take its nodes away.\n"
        + block("lifecycle", *lifecycle),
        "# Nodes that come before their rights cannot join.\n"
        "depends_on = [aws_iam_role_policy_attachment.node]",
    )


def _every_zone_has_a_subnet(group: NodeGroup) -> str:
    """Said before anything is made: EKS' own word on a group without subnets does not speak of zones."""
    zones = f"setsubtract({_inline(group.zones)}, data.aws_subnet.given[*].availability_zone)"
    said = f"Node group {group.name} is for {', '.join(group.zones)}: subnet_ids needs a subnet in each."
    rule = {"condition": Expression(f"length({zones}) == 0"), "error_message": said}
    return block("precondition", attributes(rule))


def _image(group: NodeGroup) -> str:
    gpus = GPU in group.instance_type.capacity
    architecture = "ARM_64" if group.instance_type.architecture == "arm64" else "x86_64"
    return f"AL2023_{architecture}_{'NVIDIA' if gpus else 'STANDARD'}"


def _tags(group: NodeGroup) -> str:
    tags = demanded_tags(group, "${var.cluster_name}")
    each = {"key": Expression("each.key"), "value": Expression("each.value"), "propagate_at_launch": False}
    return block(
        f'resource "aws_autoscaling_group_tag" "{_identifier(group)}"',
        attributes(
            {
                "for_each": {Template(key): value for key, value in tags.items()},
                "autoscaling_group_name": _asg_name(group),
            }
        ),
        block("tag", attributes(each)),
    )


def _inline(names: Sequence[str]) -> str:
    return f"[{', '.join(map(quoted, names))}]"


def _identifier(group: NodeGroup) -> str:
    """Its name in Terraform, where none begins with a digit."""
    return f"_{group.name}" if group.name[0].isdigit() else group.name


def _asg_name(group: NodeGroup) -> Expression:
    return Expression(f"aws_eks_node_group.{_identifier(group)}.resources[0].autoscaling_groups[0].name")
