"""What Terraform puts on the Auto Scaling groups is what the doctor demands, no more and no less."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.cloud.doctor import diagnose
from fairlead.cloud.terraform import terraform
from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.aws import AutoScalingGroup, CloudState, EksNodegroup, EksTaint
from fairlead.nodegroups.file import read_file
from support.terraform import Module

ROOT = Path(__file__).resolve().parents[2]
GROUPS = read_file((ROOT / "examples" / "node-groups.yaml").read_text(), "example")
MODULE = Module(terraform(GROUPS, cluster=None, note=pytest.fail))
LARGE = GROUPS[1]


def tags(group: NodeGroup) -> dict[str, str]:
    said = MODULE.resources("aws_autoscaling_group_tag")[group.name]["for_each"]
    return {key.replace("${var.cluster_name}", "prod"): value for key, value in said.items()}


def applied(*, managed: bool = True, without: str = "") -> CloudState:
    """The account after ``terraform apply``; `managed` as with EKS, otherwise only the tags speak."""
    groups, nodegroups = [], []
    for group in GROUPS:
        made = MODULE.resources("aws_eks_node_group")[group.name]
        own = {key: value for key, value in tags(group).items() if key != without}
        own["kubernetes.io/cluster/prod"] = "owned"  # instances could not join without it
        if managed:
            own |= {"eks:nodegroup-name": group.name, "eks:cluster-name": "prod"}
            nodegroups.append(
                EksNodegroup(
                    group.name,
                    cluster="prod",
                    labels=made["labels"],
                    taints=tuple(EksTaint(**taint) for taint in made["taint"]),
                    auto_scaling_groups=(f"eks-{group.name}",),
                )
            )
        groups.append(
            AutoScalingGroup(
                f"eks-{group.name}",
                tags=own,
                max=made["scaling_config"][0]["max_size"],
                zones=("eu-west-1a",),
                instance_types=group.instance_types,
            )
        )
    return CloudState(
        cluster="prod",
        auto_scaling_groups=tuple(groups),
        nodegroups=tuple(nodegroups),
        describe_nodegroup="allowed",
    )


@pytest.mark.parametrize("managed", [True, False], ids=["with EKS", "by tags alone"])
def test_the_doctor_has_nothing_to_say(managed: bool) -> None:
    report = diagnose(GROUPS, applied(managed=managed))
    assert report.findings == ()
    assert [(verdict.name, verdict.works) for verdict in report.groups] == [("medium", True), ("large", True)]


@pytest.mark.parametrize("tag", tags(LARGE))
def test_no_tag_could_be_left_out(tag: str) -> None:
    report = diagnose(GROUPS, applied(managed=False, without=tag))
    (found,) = (finding for finding in report.findings if finding.group == "large")
    assert [(change.key, change.value) for change in found.tags] == [(tag, tags(LARGE)[tag])]
