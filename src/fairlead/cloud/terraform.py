"""Terraform for EKS managed node groups that Cluster Autoscaler brings up from zero.

The tags that it needs are put on the Auto Scaling groups themselves, because EKS does not copy a node
group's own; they are exactly what `demanded_tags` says. A taint's effect is spelt as the EKS API wants it
on the node group, and as Kubernetes does in its tag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fairlead.cloud.hcl import Attribute, Block, Comment, Expression, Item, Template, write
from fairlead.errors import BadObject
from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.aws import demanded_tags
from fairlead.nodegroups.catalog import GPU
from fairlead.nodegroups.group import EFFECTS

__all__ = ["terraform"]

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

_HEAD = """\
# Node groups of an EKS cluster that Cluster Autoscaler brings up from zero, and its rights to do so.
# Written by `fairlead nodegroups terraform`: change the file of groups and write it again.

"""

_CLUSTER = Template("${var.cluster_name}")
_READ = [
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
_WRITE = ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
_NODE_POLICIES = ["AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly"]


def terraform(groups: Sequence[NodeGroup], *, cluster: str | None, note: Note) -> str:
    """A module: the groups, their tags and the autoscaler's role; `cluster` is its default cluster name.

    What the tags cannot say is noted; what EKS would refuse is refused here, with the group's name.
    """
    for group in groups:
        _check(group, note)
    items = _settings(cluster)
    if any(group.zones for group in groups):
        items.append(_subnets())
    items += _node_role()
    for group in groups:
        items += [_node_group(group), _tags(group)]
    items += _autoscaler()
    items += _outputs(groups)
    return _HEAD + write(items)


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


def _settings(cluster: str | None) -> list[Item]:
    providers = {"aws": {"source": "hashicorp/aws", "version": ">= 5.40"}}
    return [
        Block(
            "terraform",
            (),
            [
                Attribute("required_version", ">= 1.5"),
                Block("required_providers", (), [Attribute(name, said) for name, said in providers.items()]),
            ],
        ),
        _variable("cluster_name", "The EKS cluster that the groups belong to.", default=cluster),
        _variable("subnet_ids", "Where nodes are made.", kind="list(string)"),
        _variable("oidc_provider_arn", "The cluster's OIDC provider in IAM, for the autoscaler's role."),
        _variable("autoscaler_namespace", "Where Cluster Autoscaler runs.", default="kube-system"),
        _variable("autoscaler_service_account", "As whom it runs.", default="cluster-autoscaler"),
    ]


def _variable(name: str, said: str, *, kind: str = "string", default: Any = None) -> Block:
    more = [] if default is None else [Attribute("default", default)]
    return Block(
        "variable",
        (name,),
        [Attribute("description", said), Attribute("type", Expression(kind)), *more],
    )


def _subnets() -> Block:
    return Block(
        "data",
        ("aws_subnet", "given"),
        [
            Attribute("count", Expression("length(var.subnet_ids)")),
            Attribute("id", Expression("var.subnet_ids[count.index]")),
        ],
    )


def _node_role() -> list[Item]:
    assume = Block(
        "statement",
        (),
        [
            Attribute("actions", ["sts:AssumeRole"]),
            Block(
                "principals",
                (),
                [Attribute("type", "Service"), Attribute("identifiers", ["ec2.amazonaws.com"])],
            ),
        ],
    )
    return [
        Block("data", ("aws_partition", "current"), []),
        Block("data", ("aws_iam_policy_document", "node_trust"), [assume]),
        Block(
            "resource",
            ("aws_iam_role", "node"),
            [
                Attribute("name_prefix", Template("${substr(var.cluster_name, 0, 30)}-node-")),
                Attribute("assume_role_policy", Expression("data.aws_iam_policy_document.node_trust.json")),
            ],
        ),
        Block(
            "resource",
            ("aws_iam_role_policy_attachment", "node"),
            [
                Attribute("for_each", Expression(f"toset({_inline(_NODE_POLICIES)})")),
                Attribute("role", Expression("aws_iam_role.node.name")),
                Attribute(
                    "policy_arn",
                    Template("arn:${data.aws_partition.current.partition}:iam::aws:policy/${each.value}"),
                ),
            ],
        ),
    ]


def _node_group(group: NodeGroup) -> Block:
    subnets = Expression("var.subnet_ids")
    lifecycle: list[Item] = [Attribute("ignore_changes", [Expression("scaling_config[0].desired_size")])]
    if group.zones:
        lifecycle.append(_every_zone_has_a_subnet(group))
        inside = f"contains({_inline(group.zones)}, subnet.availability_zone)"
        subnets = Expression(f"[for subnet in data.aws_subnet.given : subnet.id if {inside}]")
    taints = [
        Block(
            "taint",
            (),
            [
                Attribute("key", taint.key),
                *([Attribute("value", taint.value)] if taint.value else []),
                Attribute("effect", EFFECTS[taint.effect]),
            ],
        )
        for taint in group.taints
    ]
    return Block(
        "resource",
        ("aws_eks_node_group", _identifier(group)),
        [
            Attribute("cluster_name", Expression("var.cluster_name")),
            Attribute("node_group_name", group.name),
            Attribute("node_role_arn", Expression("aws_iam_role.node.arn")),
            Attribute("subnet_ids", subnets),
            Attribute("instance_types", [kind.name for kind in group.instance_types]),
            Attribute("ami_type", _image(group)),
            Attribute("capacity_type", "SPOT" if group.volatile else "ON_DEMAND"),
            *([Attribute("labels", group.labels)] if group.labels else []),
            *taints,
            Block(
                "scaling_config",
                (),
                [
                    Attribute("min_size", group.min),
                    Attribute("desired_size", max(group.min, group.desired)),
                    Attribute("max_size", group.max),
                ],
            ),
            Comment("The autoscaler changes it; applying again must not take its nodes away."),
            Block("lifecycle", (), lifecycle),
            Comment("Nodes that come before their rights cannot join."),
            Attribute("depends_on", [Expression("aws_iam_role_policy_attachment.node")]),
        ],
    )


def _every_zone_has_a_subnet(group: NodeGroup) -> Block:
    """Said before anything is made: EKS' own word on a group without subnets does not speak of zones."""
    zones = f"setsubtract({_inline(group.zones)}, data.aws_subnet.given[*].availability_zone)"
    said = f"Node group {group.name} is for {', '.join(group.zones)}: subnet_ids needs a subnet in each."
    return Block(
        "precondition",
        (),
        [Attribute("condition", Expression(f"length({zones}) == 0")), Attribute("error_message", said)],
    )


def _image(group: NodeGroup) -> str:
    gpus = GPU in group.instance_type.capacity
    architecture = "ARM_64" if group.instance_type.architecture == "arm64" else "x86_64"
    return f"AL2023_{architecture}_{'NVIDIA' if gpus else 'STANDARD'}"


def _tags(group: NodeGroup) -> Block:
    tags = {Template(key): value for key, value in demanded_tags(group, _CLUSTER).items()}
    return Block(
        "resource",
        ("aws_autoscaling_group_tag", _identifier(group)),
        [
            Attribute("for_each", tags),
            Attribute("autoscaling_group_name", _asg_name(group)),
            Block(
                "tag",
                (),
                [
                    Attribute("key", Expression("each.key")),
                    Attribute("value", Expression("each.value")),
                    Attribute("propagate_at_launch", False),
                ],
            ),
        ],
    )


def _autoscaler() -> list[Item]:
    issuer = 'split(":oidc-provider/", var.oidc_provider_arn)[1]'
    account = "system:serviceaccount:${var.autoscaler_namespace}:${var.autoscaler_service_account}"
    trust = Block(
        "statement",
        (),
        [
            Attribute("actions", ["sts:AssumeRoleWithWebIdentity"]),
            Block(
                "principals",
                (),
                [
                    Attribute("type", "Federated"),
                    Attribute("identifiers", [Expression("var.oidc_provider_arn")]),
                ],
            ),
            _condition(Template("${local.oidc_issuer}:sub"), Template(account)),
            _condition(Template("${local.oidc_issuer}:aud"), "sts.amazonaws.com"),
        ],
    )
    tag = "aws:ResourceTag/k8s.io/cluster-autoscaler"
    rights: list[Item] = [
        Comment("On everything: these cannot be narrowed, or are called before the group is known."),
        Block(
            "statement",
            (),
            [Attribute("sid", "Read"), Attribute("actions", _READ), Attribute("resources", ["*"])],
        ),
        Comment("Only on groups that carry the tags of this cluster."),
        Block(
            "statement",
            (),
            [
                Attribute("sid", "Scale"),
                Attribute("actions", _WRITE),
                Attribute("resources", ["*"]),
                _condition(f"{tag}/enabled", "true"),
                _condition(Template(f"{tag}/{_CLUSTER}"), "owned"),
            ],
        ),
    ]
    return [
        Block("locals", (), [Attribute("oidc_issuer", Expression(issuer))]),
        Block("data", ("aws_iam_policy_document", "autoscaler_trust"), [trust]),
        Block("data", ("aws_iam_policy_document", "autoscaler"), rights),
        Block(
            "resource",
            ("aws_iam_role", "autoscaler"),
            [
                Attribute("name_prefix", Template("${substr(var.cluster_name, 0, 20)}-autoscaler-")),
                Attribute(
                    "assume_role_policy", Expression("data.aws_iam_policy_document.autoscaler_trust.json")
                ),
            ],
        ),
        Block(
            "resource",
            ("aws_iam_role_policy", "autoscaler"),
            [
                Attribute("name", "cluster-autoscaler"),
                Attribute("role", Expression("aws_iam_role.autoscaler.id")),
                Attribute("policy", Expression("data.aws_iam_policy_document.autoscaler.json")),
            ],
        ),
    ]


def _condition(variable: str, value: str) -> Block:
    return Block(
        "condition",
        (),
        [Attribute("test", "StringEquals"), Attribute("variable", variable), Attribute("values", [value])],
    )


def _outputs(groups: Sequence[NodeGroup]) -> list[Item]:
    names = {group.name: _asg_name(group) for group in groups}
    return [
        Block(
            "output",
            ("autoscaler_role_arn",),
            [
                Attribute(
                    "description", "For the annotation eks.amazonaws.com/role-arn of its service account."
                ),
                Attribute("value", Expression("aws_iam_role.autoscaler.arn")),
            ],
        ),
        Block(
            "output",
            ("node_role_arn",),
            [
                Attribute("description", "For other groups of the same cluster."),
                Attribute("value", Expression("aws_iam_role.node.arn")),
                Attribute("depends_on", [Expression("aws_iam_role_policy_attachment.node")]),
            ],
        ),
        Block(
            "output",
            ("auto_scaling_groups",),
            [
                Attribute("description", "The Auto Scaling group of each node group."),
                Attribute("value", names),
            ],
        ),
    ]


def _inline(names: Sequence[str]) -> str:
    listed = ", ".join(f'"{name}"' for name in names)
    return f"[{listed}]"


def _identifier(group: NodeGroup) -> str:
    """Its name in Terraform, where none begins with a digit."""
    return f"_{group.name}" if group.name[0].isdigit() else group.name


def _asg_name(group: NodeGroup) -> Expression:
    return Expression(f"aws_eks_node_group.{_identifier(group)}.resources[0].autoscaling_groups[0].name")
