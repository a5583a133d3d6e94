"""The doctor on tags, against a served AWS account: each cause is built, found, named and mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.aws import DISCOVERY, TEMPLATE, Aws, template_tags
from support.doctor import doctor, groups_file

DENIED = {"Effect": "Allow", "Action": "autoscaling:*", "Resource": "*"}
ALLOWED = {"Effect": "Allow", "Action": ["autoscaling:*", "eks:DescribeNodegroup"], "Resource": "*"}


@pytest.fixture
def medium(aws: Aws) -> str:
    """The other group, with which all is well."""
    return aws.group("medium", instance_type="t3a.medium", asg_tags=template_tags("medium"), most=5)


def mended(*flags: str) -> None:
    """After ``--fix`` nothing is wrong, neither right then nor for who looks again."""
    fixed = doctor("--aws", "--fix", "--yes", *flags)
    assert (fixed.code, fixed.wrong) == (0, [])
    again = doctor("--aws", *flags)
    assert (again.code, again.wrong) == (0, [])


def test_where_nothing_is_wrong_nothing_is_said(aws: Aws, medium: str) -> None:
    aws.group("large", asg_tags=template_tags("large"))
    told = doctor("--aws")
    assert (told.code, told.findings) == (0, [])
    assert told.from_zero("medium")
    assert told.from_zero("large")


def test_label_and_taint_tags_are_missing(aws: Aws, medium: str) -> None:
    asg = aws.group("large")
    role = aws.role("autoscaler", DENIED)
    told = doctor("--aws", "--ca-role", role)
    assert told.code == 1
    assert told.wrong == [
        ("large", "label-tag-missing"),
        ("large", "taint-tag-missing"),
        ("autoscaler", "describe-nodegroup-denied"),
    ]
    assert not told.from_zero("large")
    assert told.from_zero("medium")
    assert f"Key={TEMPLATE}label/size,Value=large" in told.one("label-tag-missing")["fix"]
    mended("--ca-role", role)
    assert template_tags("large").items() <= aws.tags_of(asg).items()


def test_tags_are_missing_and_nobody_knows_whether_eks_tells(aws: Aws, medium: str) -> None:
    aws.group("large")
    told = doctor("--aws")
    assert told.wrong == [("large", "label-tag-missing"), ("large", "taint-tag-missing")]
    assert not told.one("label-tag-missing")["certain"]
    mended()


def test_what_eks_is_known_to_tell_needs_no_tags(aws: Aws, medium: str) -> None:
    aws.group("large")
    told = doctor("--aws", "--ca-role", aws.role("autoscaler", ALLOWED))
    assert (told.code, told.findings) == (0, [])


def test_tags_are_on_the_node_group_only(aws: Aws, medium: str) -> None:
    asg = aws.group("large", tags=template_tags("large"))
    role = aws.role("autoscaler", DENIED)
    told = doctor("--aws", "--ca-role", role)
    assert told.wrong[0] == ("large", "tags-not-propagated")
    found = told.one("tags-not-propagated")
    assert found["certain"]
    assert "EKS copies no tag to" in found["says"]
    assert {tag["key"] for tag in found["tags"]} == set(template_tags("large"))
    mended("--ca-role", role)
    assert template_tags("large").items() <= aws.tags_of(asg).items()


@pytest.mark.parametrize(
    ("tag", "value", "cause"),
    [
        ("taint/size", "large:NO_SCHEDULE", "effect-misspelt"),
        ("taint/size", "large:noschedule", "effect-misspelt"),
        ("taint/size", "large", "tag-malformed"),
        ("taint/size", "NoSchedule", "tag-malformed"),
        ("taint/size", "small:NoSchedule", "taint-tag-wrong"),
        ("label/size", "Large", "label-tag-wrong"),
    ],
)
def test_a_tag_is_not_as_it_should_be(aws: Aws, medium: str, tag: str, value: str, cause: str) -> None:
    asg = aws.group("large", asg_tags={**template_tags("large"), TEMPLATE + tag: value})
    role = aws.role("autoscaler", DENIED)
    told = doctor("--aws", "--ca-role", role)
    assert told.wrong[0] == ("large", cause)
    assert value in told.one(cause)["says"]
    mended("--ca-role", role)
    assert aws.tags_of(asg)[TEMPLATE + tag] == template_tags("large")[TEMPLATE + tag]


def test_a_misspelt_key_is_blamed_and_the_right_one_is_set(aws: Aws, medium: str) -> None:
    tags = {TEMPLATE + "labels/size": "large", TEMPLATE + "taint/size": "large:NoSchedule"}
    asg = aws.group("large", asg_tags=tags)
    role = aws.role("autoscaler", DENIED)
    told = doctor("--aws", "--ca-role", role)
    assert told.wrong[0] == ("large", "tag-malformed")
    assert "labels/size=large" in told.one("tag-malformed")["says"]
    fixed = doctor("--aws", "--ca-role", role, "--fix", "--yes")
    assert aws.tags_of(asg)[TEMPLATE + "label/size"] == "large"
    assert (fixed.code, fixed.wrong) == (0, [])
    assert "tag-malformed" in fixed.risks  # the stray one is still there, and said how to take away


def test_a_missing_label_and_a_misspelt_taint_of_one_key_are_two_causes(aws: Aws, medium: str) -> None:
    aws.group("large", asg_tags={TEMPLATE + "taint/size": "large:NO_SCHEDULE"})
    told = doctor("--aws", "--ca-role", aws.role("autoscaler", DENIED))
    label, taint = told.one("label-tag-missing"), told.one("effect-misspelt")
    assert [tag["key"] for tag in label["tags"]] == [TEMPLATE + "label/size"]
    assert [tag["key"] for tag in taint["tags"]] == [TEMPLATE + "taint/size"]
    assert "label/size" in label["fix"]
    assert "taint/size" not in label["fix"]
    assert "taint/size" in taint["fix"]
    assert "tag-malformed" not in {cause for _, cause in told.wrong}


def test_discovery_tags_are_missing(aws: Aws, medium: str) -> None:
    asg = aws.group("large", asg_tags=template_tags("large"), discovery=False)
    told = doctor("--aws")
    assert told.wrong == [("large", "discovery-tags-missing")]
    mended()
    assert DISCOVERY.items() <= aws.tags_of(asg).items()


def test_a_resource_that_only_the_file_knows_is_missing(aws: Aws, tmp_path: Path) -> None:
    aws.group("large", asg_tags=template_tags("large"))
    group = {
        "name": "large",
        "instanceTypes": ["t3a.xlarge"],
        "labels": {"size": "large"},
        "taints": ["size=large:NoSchedule"],
        "resources": {"example.com/dongle": 2},
    }
    groups = groups_file(tmp_path, group)
    told = doctor("--aws", groups=groups)
    assert told.wrong == [("large", "resource-tag-missing")]
    fixed = doctor("--aws", "--fix", "--yes", groups=groups)
    assert (fixed.code, fixed.wrong) == (0, [])


def test_a_taint_without_value_is_skipped_by_the_autoscaler(aws: Aws, tmp_path: Path) -> None:
    tags = {TEMPLATE + "label/size": "large"}
    asg = aws.group("large", taints=[{"key": "gpu", "effect": "NO_SCHEDULE"}], asg_tags=tags)
    group = {
        "name": "large",
        "instanceTypes": ["t3a.xlarge"],
        "labels": {"size": "large"},
        "taints": ["gpu:NoSchedule"],
    }
    groups = groups_file(tmp_path, group)
    role = aws.role("autoscaler", ALLOWED)
    told = doctor("--aws", "--ca-role", role, groups=groups)
    assert told.wrong == [("large", "taint-without-value")]
    fixed = doctor("--aws", "--ca-role", role, "--fix", "--yes", groups=groups)
    assert (fixed.code, fixed.wrong) == (0, [])
    assert aws.tags_of(asg)[TEMPLATE + "taint/gpu"] == ":NoSchedule"


def test_what_eks_says_wins_over_a_tag_and_only_eks_can_change_it(aws: Aws, medium: str) -> None:
    aws.group("large", labels={"size": "big"}, asg_tags=template_tags("large"))
    told = doctor("--aws", "--fix", "--yes")
    assert told.code == 1
    assert told.wrong == [("large", "overridden-by-eks")]
    found = told.one("overridden-by-eks")
    assert "size=big where the file and the tag have size=large" in found["says"]
    assert not found["fixable"]
    aws.client("eks").update_nodegroup_config(  # what the fix says to do
        clusterName="prod", nodegroupName="large", labels={"addOrUpdateLabels": {"size": "large"}}
    )
    assert "--labels 'addOrUpdateLabels={size=large}'" in found["fix"]
    assert doctor("--aws").findings == []


def test_another_taint_in_eks_wins_too(aws: Aws, medium: str) -> None:
    other = [{"key": "size", "value": "big", "effect": "NO_SCHEDULE"}]
    aws.group("large", taints=other, asg_tags=template_tags("large"))
    told = doctor("--aws")
    assert told.wrong == [("large", "overridden-by-eks")]
    assert "size=big:NoSchedule where the file has size=large:NoSchedule" in told.findings[0]["says"]


def test_a_taint_that_only_eks_has_keeps_the_groups_own_pods_away(aws: Aws, medium: str) -> None:
    taints = [
        {"key": "size", "value": "large", "effect": "NO_SCHEDULE"},
        {"key": "more", "value": "yes", "effect": "NO_EXECUTE"},
    ]
    aws.group("large", taints=taints, asg_tags=template_tags("large"))
    told = doctor("--aws")
    assert told.wrong == [("large", "taint-not-tolerated")]
    assert "more=yes:NoExecute" in told.findings[0]["says"]


def test_labels_that_eks_does_not_put_on_nodes_are_a_risk(aws: Aws, medium: str) -> None:
    aws.group("large", labels={}, taints=[], asg_tags=template_tags("large"))
    told = doctor("--aws")
    assert (told.code, told.wrong) == (0, [])
    assert told.risks == ["nodegroup-lacks-label", "nodegroup-lacks-taint"]


@pytest.mark.parametrize(
    ("version", "tags"),
    [
        ("1.27.5", {TEMPLATE + "label/size": "large"}),  # reads EKS' labels, misreads its effects
        ("1.23.1", {}),  # never asks
    ],
)
def test_an_affected_version_is_helped_by_tags(
    aws: Aws, medium: str, version: str, tags: dict[str, str]
) -> None:
    aws.group("large", asg_tags=tags)
    flags = ("--ca-role", aws.role("autoscaler", ALLOWED), "--ca-version", version)
    told = doctor("--aws", *flags)
    assert told.wrong == [("large", "affected-version")]
    assert version in told.findings[0]["says"]
    mended(*flags)


def test_a_new_version_is_not_affected(aws: Aws, medium: str) -> None:
    aws.group("large", asg_tags={TEMPLATE + "label/size": "large"})
    role = aws.role("autoscaler", ALLOWED)
    assert doctor("--aws", "--ca-role", role, "--ca-version", "1.31.0").findings == []


def test_several_causes_at_once_are_each_named_and_one_fix_mends_them(aws: Aws) -> None:
    aws.group("large", discovery=False, tags={TEMPLATE + "label/size": "large"})
    wrong = {TEMPLATE + "label/size": "medium", TEMPLATE + "taint/size": "medium:NO_SCHEDULE"}
    aws.group("medium", instance_type="t3a.medium", asg_tags=wrong)
    role = aws.role("autoscaler", DENIED)
    told = doctor("--aws", "--ca-role", role)
    assert told.wrong == [
        ("large", "discovery-tags-missing"),
        ("large", "tags-not-propagated"),
        ("medium", "effect-misspelt"),
        ("large", "taint-tag-missing"),
        ("autoscaler", "describe-nodegroup-denied"),
    ]
    mended("--ca-role", role)


def test_a_group_that_the_account_does_not_have_is_named(aws: Aws, medium: str) -> None:
    told = doctor("--aws")
    assert told.wrong == [("large", "group-missing")]
    assert not told.one("group-missing")["fixable"]


def test_groups_of_other_clusters_are_not_taken_for_ours(aws: Aws, medium: str) -> None:
    aws.asg("eks-theirs", {"eks:cluster-name": "other", "eks:nodegroup-name": "large"})
    assert doctor("--aws").wrong == [("large", "group-missing")]


def test_a_node_group_whose_name_goes_on_is_found(aws: Aws, medium: str) -> None:
    aws.group("large-20260101", asg_tags=template_tags("large"))
    assert doctor("--aws").findings == []


def test_a_group_of_ones_own_needs_the_same_tags(aws: Aws, medium: str) -> None:
    aws.asg("large", DISCOVERY)
    told = doctor("--aws")
    assert told.wrong == [("large", "label-tag-missing"), ("large", "taint-tag-missing")]
    assert told.one("label-tag-missing")["certain"]
    mended()
