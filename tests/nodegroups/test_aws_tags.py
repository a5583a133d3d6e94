from __future__ import annotations

from typing import Any

import pytest

from fairlead.nodegroups import read_groups
from fairlead.nodegroups.aws import demanded_tags
from fairlead.nodegroups.aws.tags import said_by

TEMPLATE = "k8s.io/cluster-autoscaler/node-template/"


def demanded(**group: Any) -> dict[str, str]:
    kinds = group.pop("instanceTypes", [{"name": "t3a.xlarge"}])
    [read] = read_groups([{"name": "large", "instanceTypes": kinds, **group}])
    return demanded_tags(read, "prod")


def test_a_group_needs_the_tags_by_which_it_is_found_and_those_that_say_what_its_nodes_are_like() -> None:
    taint = {"key": "size", "value": "large", "effect": "NoSchedule"}
    assert demanded(labels={"size": "large"}, taints=[taint]) == {
        "k8s.io/cluster-autoscaler/enabled": "true",
        "k8s.io/cluster-autoscaler/prod": "owned",
        TEMPLATE + "label/size": "large",
        TEMPLATE + "taint/size": "large:NoSchedule",
    }


def test_a_taint_without_value_keeps_its_colon() -> None:
    tags = demanded(taints=[{"key": "gpu", "effect": "NoExecute"}])
    assert tags[TEMPLATE + "taint/gpu"] == ":NoExecute"


def test_of_two_taints_on_a_key_the_stronger_is_said() -> None:
    effects = ("NoExecute", "PreferNoSchedule", "NoSchedule")
    tags = demanded(taints=[{"key": "a", "value": "b", "effect": effect} for effect in effects])
    assert tags[TEMPLATE + "taint/a"] == "b:NoExecute"


@pytest.mark.parametrize(
    ("kind", "resources"),
    [
        ({"name": "t3a.xlarge", "capacity": {"cpu": "4", "memory": "16Gi", "pods": "58"}}, {}),
        ({"name": "g5.xlarge", "capacity": {"nvidia.com/gpu": "1"}}, {}),
        (
            {"name": "t3a.xlarge", "capacity": {"cpu": "4", "example.com/dongle": 2}},
            {"example.com/dongle": "2"},
        ),
        ({"name": "t3a.xlarge", "capacity": {"ephemeral-storage": "80Gi"}}, {"ephemeral-storage": "80Gi"}),
        ({"name": "t3a.xlarge", "capacity": {"pods": "110"}}, {"pods": "110"}),
        ({"name": "x9.huge", "capacity": {"cpu": "4", "memory": "16Gi"}}, {}),
        ({"capacity": {"cpu": 4, "memory": "16Gi"}}, {"cpu": "4", "memory": "16Gi"}),
    ],
    ids=["known", "gpu", "extended", "storage", "other-than-known", "unknown-to-us", "nameless"],
)
def test_only_what_the_autoscaler_does_not_know_of_the_type_is_tagged(
    kind: dict[str, Any], resources: dict[str, str]
) -> None:
    found = {key: value for key, value in demanded(instanceTypes=[kind]).items() if "/resources/" in key}
    assert found == {TEMPLATE + "resources/" + name: amount for name, amount in resources.items()}


def test_what_is_demanded_is_understood() -> None:
    taint = {"key": "size", "value": "large", "effect": "NoSchedule"}
    said = said_by(demanded(labels={"a/b": "c"}, taints=[taint], instanceTypes=[{"capacity": {"cpu": "4"}}]))
    assert said.labels == {"a/b": "c"}
    assert [str(each) for each in said.taints] == ["size=large:NoSchedule"]
    assert said.resources == {"cpu": "4"}
    assert said.wrong == {}


@pytest.mark.parametrize(
    ("tag", "value", "problem"),
    [
        ("taint/size", "large", "'large' has no effect: write value:Effect"),
        ("taint/size", "NoSchedule", "'NoSchedule' has no effect: write value:Effect"),
        ("taint/size", "large:NO_SCHEDULE", "the effect is spelt 'NO_SCHEDULE' where tags need NoSchedule"),
        ("taint/size", "large:noschedule", "the effect is spelt 'noschedule' where tags need NoSchedule"),
        ("taint/size", "large:Never", "the effect is spelt 'Never'"),
        ("taint/", "large:NoSchedule", "names no taint"),
        ("label/", "large", "names no label"),
        ("resources/cpu", "four", "'four' is not a quantity"),
        ("labels/size", "large", "is none of"),
        ("Taint/size", "large:NoSchedule", "is none of"),
    ],
)
def test_a_tag_that_says_nothing_is_named_with_the_reason(tag: str, value: str, problem: str) -> None:
    said = said_by({TEMPLATE + tag: value})
    assert (said.labels, said.taints, said.resources) == ({}, (), {})
    assert said.wrong[TEMPLATE + tag].startswith(problem)


def test_an_effect_with_more_behind_it_is_taken_and_means_nothing() -> None:
    said = said_by({TEMPLATE + "taint/size": "large:NoSchedule "})
    assert [taint.effect for taint in said.taints] == ["NoSchedule "]
    assert said.wrong


def test_tags_with_another_meaning_are_left_alone() -> None:
    said = said_by({TEMPLATE + "autoscaling-options/scaledownunneededtime": "1m", "Name": "x"})
    assert (said.labels, said.wrong) == ({}, {})
