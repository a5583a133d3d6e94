"""The Terraform that is written: parsed, formatted, and what stands in it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml

from fairlead.cloud.terraform import terraform
from fairlead.errors import BadObject
from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.aws import AutoScalingGroup, EksNodegroup, EksTaint, demanded_tags, template_from
from fairlead.nodegroups.file import read_file
from support.terraform import Module, misformatted

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[2]
LONG = f"{'a' * 32}.example/{'b' * 30}"
LONGER = f"{'c' * 60}.{LONG}"
EXAMPLE = (ROOT / "examples" / "node-groups.yaml").read_text()


def groups(*said: dict[str, Any]) -> tuple[NodeGroup, ...]:
    document = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "NodeGroups", "groups": list(said)}
    return read_file(yaml.safe_dump(document), "groups.yaml")


def group(**more: Any) -> dict[str, Any]:
    return {"name": "medium", "instanceTypes": ["t3a.medium"], "max": 5, **more}


ODD = groups(
    group(
        name="2-all",
        instanceTypes=["m7g.large", "m6g.large"],
        labels={"size": "medium", "example.com/Kind": "a.b_c"},
        taints=["size=medium:NoSchedule", "gpu:NoExecute", "soft=1:PreferNoSchedule"],
        zones=["eu-west-1a", "eu-west-1b"],
        min=1,
        desired=2,
        volatile=True,
    ),
    group(name="gpu", instanceTypes=["g5.xlarge"], resources={"example.com/fpga": 2, "pods": 20}),
    group(name="plain"),
)


def module(*of: NodeGroup, cluster: str | None = None) -> tuple[Module, list[str]]:
    said: list[str] = []
    return Module(terraform(of, cluster=cluster, note=said.append)), said


def tags_of(found: Module, name: str, cluster: str) -> dict[str, str]:
    body = found.resources("aws_autoscaling_group_tag")[name]
    assert body["tag"] == [{"key": "${each.key}", "value": "${each.value}", "propagate_at_launch": False}]
    return {key.replace("${var.cluster_name}", cluster): value for key, value in body["for_each"].items()}


@pytest.mark.parametrize("of", [read_file(EXAMPLE, "example"), ODD], ids=["example", "odd"])
def test_it_is_formatted_and_all_that_it_names_is_declared(of: tuple[NodeGroup, ...]) -> None:
    found, _ = module(*of)
    assert misformatted(found.text) == []
    assert found.undeclared() == []
    assert found.unused_variables() == []


@pytest.mark.parametrize("of", [read_file(EXAMPLE, "example"), ODD], ids=["example", "odd"])
def test_the_tags_on_the_Auto_Scaling_groups_are_exactly_those_that_are_demanded(
    of: tuple[NodeGroup, ...],
) -> None:
    found, _ = module(*of)
    assert len(found.resources("aws_autoscaling_group_tag")) == len(of)
    for each in of:
        name = f"_{each.name}" if each.name[0].isdigit() else each.name
        assert tags_of(found, name, "prod") == demanded_tags(each, "prod")
        body = found.resources("aws_autoscaling_group_tag")[name]
        owner = f"${{aws_eks_node_group.{name}.resources[0].autoscaling_groups[0].name}}"
        assert body["autoscaling_group_name"] == owner


def test_effects_are_spelt_as_each_target_wants_them() -> None:
    found, _ = module(*groups(group(taints=["a=b:NoSchedule", "c=d:NoExecute", "e=f:PreferNoSchedule"])))
    assert found.resources("aws_eks_node_group")["medium"]["taint"] == [
        {"key": "a", "value": "b", "effect": "NO_SCHEDULE"},
        {"key": "c", "value": "d", "effect": "NO_EXECUTE"},
        {"key": "e", "value": "f", "effect": "PREFER_NO_SCHEDULE"},
    ]
    tags = tags_of(found, "medium", "prod")
    assert [tags[f"k8s.io/cluster-autoscaler/node-template/taint/{key}"] for key in "ace"] == [
        "b:NoSchedule",
        "d:NoExecute",
        "f:PreferNoSchedule",
    ]


def test_the_node_groups_are_those_of_the_file() -> None:
    found, _ = module(*read_file(EXAMPLE, "example"))
    medium = found.resources("aws_eks_node_group")["medium"]
    assert medium["node_group_name"] == "medium"
    assert medium["instance_types"] == ["t3a.medium"]
    assert medium["labels"] == {"size": "medium"}
    assert medium["scaling_config"] == [{"min_size": 0, "desired_size": 0, "max_size": 5}]
    assert medium["lifecycle"] == [{"ignore_changes": ["${scaling_config[0].desired_size}"]}]
    assert found.resources("aws_eks_node_group")["large"]["scaling_config"][0]["max_size"] == 3


def test_what_nodes_are_made_of_follows_from_their_types() -> None:
    found, _ = module(*ODD)
    made = found.resources("aws_eks_node_group")
    assert {name: (body["ami_type"], body["capacity_type"]) for name, body in made.items()} == {
        "_2-all": ("AL2023_ARM_64_STANDARD", "SPOT"),
        "gpu": ("AL2023_x86_64_NVIDIA", "ON_DEMAND"),
        "plain": ("AL2023_x86_64_STANDARD", "ON_DEMAND"),
    }
    assert made["_2-all"]["scaling_config"] == [{"min_size": 1, "desired_size": 2, "max_size": 5}]
    assert '"eu-west-1a", "eu-west-1b"' in made["_2-all"]["subnet_ids"]
    assert made["plain"]["subnet_ids"] == "${var.subnet_ids}"
    assert {"taint", "labels"}.isdisjoint(made["plain"])


def test_a_zone_without_a_subnet_is_found_before_anything_is_made() -> None:
    found, _ = module(*ODD)
    made = found.resources("aws_eks_node_group")
    assert "precondition" not in made["plain"]["lifecycle"][0]
    [lifecycle] = made["_2-all"]["lifecycle"]
    [rule] = lifecycle["precondition"]
    assert '["eu-west-1a", "eu-west-1b"]' in rule["condition"]
    assert "data.aws_subnet.given[*].availability_zone" in rule["condition"]
    assert "Node group 2-all is for eu-west-1a, eu-west-1b" in rule["error_message"]
    assert lifecycle["ignore_changes"] == ["${scaling_config[0].desired_size}"]


def test_the_autoscaler_may_ask_EKS_about_every_group_and_change_only_those_of_its_cluster() -> None:
    found, _ = module(*read_file(EXAMPLE, "example"))
    rights = found.resources("aws_iam_policy_document", of="data")["autoscaler"]["statement"]
    by_action = {action: statement for statement in rights for action in statement["actions"]}
    assert by_action["eks:DescribeNodegroup"]["resources"] == ["*"]
    assert "condition" not in by_action["eks:DescribeNodegroup"]
    tags = {
        one["variable"]: one["values"] for one in by_action["autoscaling:SetDesiredCapacity"]["condition"]
    }
    # What it must find there to be allowed is what is put there.
    (example, _) = read_file(EXAMPLE, "example")
    demanded = demanded_tags(example, "${var.cluster_name}")
    assert tags == {
        f"aws:ResourceTag/{key}": [demanded[key]]
        for key in ("k8s.io/cluster-autoscaler/enabled", "k8s.io/cluster-autoscaler/${var.cluster_name}")
    }
    trust = found.resources("aws_iam_policy_document", of="data")["autoscaler_trust"]["statement"][0]
    assert trust["principals"] == [{"type": "Federated", "identifiers": ["${var.oidc_provider_arn}"]}]


def test_the_cluster_can_be_named_in_advance() -> None:
    found, _ = module(*ODD, cluster="prod")
    assert found.named("variable")["cluster_name"]["default"] == "prod"
    assert "default" not in module(*ODD)[0].named("variable")["cluster_name"]


@pytest.mark.parametrize("of", [read_file(EXAMPLE, "example"), ODD], ids=["example", "odd"])
def test_the_node_groups_are_such_as_the_EKS_API_takes(of: tuple[NodeGroup, ...]) -> None:
    api = botocore.session.get_session().get_service_model("eks")

    def within(name: str, text: str) -> bool:
        bounds = api.shape_for(name).metadata
        return bool(bounds["min"] <= len(text) <= bounds["max"])

    for made in module(*of)[0].resources("aws_eks_node_group").values():
        assert made["ami_type"] in api.shape_for("AMITypes").metadata["enum"]
        assert made["capacity_type"] in api.shape_for("CapacityTypes").metadata["enum"]
        for key, value in made.get("labels", {}).items():
            assert within("labelKey", key)
            assert within("labelValue", value)
        for taint in made.get("taint", []):
            assert taint["effect"] in api.shape_for("TaintEffect").metadata["enum"]
            assert within("taintKey", taint["key"])
            assert within("taintValue", taint.get("value", ""))


@pytest.mark.parametrize("of", read_file(EXAMPLE, "example"), ids=lambda one: str(one.name))
@pytest.mark.parametrize("asked", [True, False], ids=["with EKS asked", "with EKS silent"])
def test_Cluster_Autoscaler_imagines_the_node_that_the_file_describes(of: NodeGroup, asked: bool) -> None:
    found, _ = module(of)
    made = found.resources("aws_eks_node_group")[of.name]
    asg = AutoScalingGroup(
        "asg", tags=tags_of(found, of.name, "prod"), max=of.max, instance_types=of.instance_types
    )
    said = EksNodegroup(
        of.name, labels=made["labels"], taints=tuple(EksTaint(**taint) for taint in made["taint"])
    )
    template = template_from(asg, said if asked else None, now=NOW)
    assert template.said == ()
    assert of.labels.items() <= template.node.metadata.labels.items()
    assert set(template.node.spec.taints) == set(of.taints)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"instanceTypes": [], "resources": {"cpu": 2, "memory": "4Gi"}},
            "medium: instanceTypes: is missing: EKS",
        ),
        ({"labels": {"kubernetes.io/role": "x"}}, "medium: labels.kubernetes.io/role: .*could not join"),
        ({"labels": {"node-role.kubernetes.io/x": "x"}}, "could not join"),
        ({"labels": {"eks.amazonaws.com/x": "x"}}, "could not join"),
        ({"labels": {f"l{n}": "x" for n in range(49)}}, "medium: labels: needs 51 tags"),
        ({"labels": {"empty": ""}}, "medium: labels.empty: EKS takes no label without a value"),
        ({"labels": {LONG: "x"}}, "medium: labels.*EKS takes keys of 63"),
        ({"taints": [f"{LONG}=x:NoSchedule"]}, r"medium: taints\[0\]: EKS takes keys of 63"),
        ({"resources": {LONGER: 1}}, "medium: resources: the tag .* is longer than AWS"),
    ],
    ids=["no-type", "kubernetes", "role", "eks", "tags", "no-value", "label", "taint", "long"],
)
def test_what_AWS_would_refuse_is_refused_here(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(BadObject, match=said):
        module(*groups(group(**wrong)))


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"labels": {"node.kubernetes.io/lifecycle": "spot"}}, []),
        ({"taints": ["a:NoSchedule"]}, ["a:NoSchedule is seen from zero through its tag only"]),
        ({"taints": ["a=b:NoSchedule", "a=b:NoExecute"]}, ["room for one of the taints on a"]),
        ({"zones": ["eu-west-1a", "eu-west-1b"]}, ["sees only the first zone"]),
        ({"zones": ["eu-west-1a"]}, []),
    ],
    ids=["allowed-label", "no-value", "one-key", "zones", "zone"],
)
def test_what_the_autoscaler_will_not_see_is_noted(odd: dict[str, Any], said: list[str]) -> None:
    _, notes = module(*groups(group(**odd)))
    assert len(notes) == len(said)
    for note, expected in zip(notes, said, strict=True):
        assert note.startswith("node group medium: ")
        assert expected in note
