from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.errors import BadInput, BadObject, FairleadError
from fairlead.nodegroups import NodeGroup, template_of
from fairlead.nodegroups.file import read_file

# Ten to the eighth of x.
ANCHORS = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
)
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "node-groups.yaml"


def medium(**more: Any) -> dict[str, Any]:
    return {"name": "medium", "instanceTypes": ["t3a.medium"], "max": 5, **more}


def text(*groups: Any, **more: Any) -> str:
    return yaml.safe_dump(
        {"apiVersion": "fairlead.dev/v1alpha1", "kind": "NodeGroups", "groups": list(groups), **more}
    )


def read(*groups: Any, **more: Any) -> tuple[NodeGroup, ...]:
    return read_file(text(*groups, **more), "groups.yaml")


def test_the_example_is_two_groups_that_start_from_nothing() -> None:
    groups = {group.name: group for group in read_file(EXAMPLE.read_text(), "node-groups.yaml")}
    assert list(groups) == ["medium", "large"]
    assert groups["medium"].instance_type.capacity == {"cpu": "2", "memory": "4Gi", "pods": "17"}
    assert groups["medium"].price_per_hour == Decimal("0.0376")
    assert groups["large"].labels == {"size": "large"}
    assert [str(taint) for taint in groups["large"].taints] == ["size=large:NoSchedule"]
    assert [(group.min, group.desired, group.max) for group in groups.values()] == [(0, 0, 5), (0, 0, 3)]


def test_what_is_left_out_has_a_default() -> None:
    (group,) = read({"name": "plain", "instanceTypes": ["m5.large"]})
    assert (group.min, group.desired, group.max, group.boot_s, group.volatile) == (0, 0, 10, 30, False)
    assert (group.labels, group.taints, group.zones) == ({}, (), ())


def test_desired_is_min_unless_it_is_said() -> None:
    assert read(medium(min=1))[0].desired == 1
    assert read(medium(min=1, desired=2))[0].desired == 2


@pytest.mark.parametrize(
    ("resources", "capacity"),
    [
        ({"cpu": 2, "memory": "4Gi"}, {"cpu": "2", "memory": "4Gi"}),
        (
            {"cpu": "1930m", "memory": 4294967296, "pods": 20},
            {"cpu": "1930m", "memory": "4294967296", "pods": "20"},
        ),
        (
            {"cpu": 0.5, "memory": "1Gi", "nvidia.com/gpu": 1},
            {"cpu": "0.5", "memory": "1Gi", "nvidia.com/gpu": "1"},
        ),
    ],
    ids=["numbers", "strings", "extended"],
)
def test_resources_stand_in_for_an_instance_type(resources: dict[str, Any], capacity: dict[str, str]) -> None:
    (group,) = read({"name": "own", "resources": resources})
    assert (group.instance_type.name, group.instance_type.capacity) == ("", capacity)


def test_resources_describe_an_unknown_type_and_correct_a_known_one() -> None:
    unknown, known = read(
        {"name": "new", "instanceTypes": ["z9.large"], "resources": {"cpu": 2, "memory": "16Gi"}},
        medium(resources={"pods": 110}),
    )
    assert (unknown.instance_type.name, unknown.instance_type.capacity["memory"]) == ("z9.large", "16Gi")
    assert known.instance_type.capacity == {"cpu": "2", "memory": "4Gi", "pods": "110"}


def test_a_group_of_Graviton_brings_arm64_nodes() -> None:
    (group,) = read({"name": "arm", "instanceTypes": ["t4g.medium", "m7g.large"]})
    assert template_of(group, "new").metadata.labels["kubernetes.io/arch"] == "arm64"


def test_a_taint_is_a_string_as_kubectl_has_it_or_an_object() -> None:
    taints = [
        "size=medium:NoSchedule",
        "gpu:NoExecute",
        {"key": "a.example/b", "value": "c", "effect": "NoSchedule"},
    ]
    (group,) = read(medium(taints=taints))
    assert [str(taint) for taint in group.taints] == [
        "size=medium:NoSchedule",
        "gpu:NoExecute",
        "a.example/b=c:NoSchedule",
    ]


def test_several_documents_are_one_list_of_groups() -> None:
    both = f"{text(medium())}---\n{text(medium(name='other'))}"
    assert [group.name for group in read_file(both, "-")] == ["medium", "other"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": ""}, r"groups\[0\]: name: '' is not a name"),
        ({"name": "Medium_1"}, "node group Medium_1: name: 'Medium_1' is not a name of lower case"),
        ({"name": 7}, r"groups\[0\]: name: Expected `str`"),
        ({"size": 5}, "unknown field `size`"),
        ({"min": 6}, r"min: must be between 0 and max \(5\)"),
        ({"min": -1}, "min: must be between"),
        ({"min": "1"}, "min: Expected `int`"),
        ({"max": 0}, "max: 0"),
        ({"desired": 6}, r"desired: 6 is not between min \(0\) and max \(5\)"),
        ({"min": 1, "desired": 0}, "desired: 0 is not between"),
        ({"pricePerHour": -1}, "pricePerHour: -1 is not a price"),
        ({"pricePerHour": "cheap"}, "pricePerHour"),
        ({"pricePerHour": float("nan")}, "pricePerHour: NaN is not a price"),
        ({"pricePerHour": "sNaN"}, "pricePerHour: sNaN is not a price"),
        ({"pricePerHour": float("inf")}, "pricePerHour: Infinity is not a price"),
        ({"bootTime": float("nan")}, "bootTime: nan is no time"),
        ({"bootTime": float("inf")}, "bootTime: inf is no time"),
        ({"bootTime": "soon"}, "bootTime: 'soon' is not a duration"),
        ({"bootTime": -1}, "bootTime: -1 is negative"),
        ({"taints": ["size=medium:NO_SCHEDULE"]}, r"taints\[0\].effect: NO_SCHEDULE .*: write NoSchedule"),
        ({"taints": ["size=medium:Never"]}, r"taints\[0\].effect: 'Never' is none of NoSchedule"),
        ({"taints": ["size=medium"]}, r"taints\[0\]: 'size=medium' is neither key=value:Effect"),
        ({"taints": [":NoSchedule"]}, r"taints\[0\]: ':NoSchedule' is neither"),
        ({"taints": ["a b=c:NoSchedule"]}, r"taints\[0\]: 'a b' is not a key"),
        ({"taints": ["a=b c:NoSchedule"]}, r"taints\[0\]: 'b c' is not a value"),
        ({"taints": ["a=b:NoSchedule", "a=c:NoSchedule"]}, r"taints\[1\]: there are two of key a"),
        ({"taints": [{"key": "a"}]}, r"taints\[0\]: Object missing required field `effect`"),
        ({"taints": [{"key": "a", "effect": "NoSchedule", "colour": "red"}]}, r"taints\[0\].*colour"),
        ({"taints": "size=medium:NoSchedule"}, "taints: Expected `array`"),
        ({"labels": {"size": 1}}, "labels.size: must be a string: put it in quotes"),
        ({"labels": {"spot": True}}, "labels.spot: must be a string"),
        ({"labels": {"a/b/c": "d"}}, "labels.a/b/c: 'a/b/c' is not a key"),
        ({"labels": {"size": "-medium"}}, "labels.size: '-medium' is not a value"),
        ({"labels": ["size"]}, "labels: Expected `object`"),
        (
            {"instanceTypes": []},
            "instanceTypes: is missing; name one, or give cpu and memory under resources",
        ),
        ({"instanceTypes": ["z9.large"]}, "'z9.large' is not in our catalogue; say what it has: resources:"),
        ({"instanceTypes": ["z9.large"], "resources": {"cpu": 1}}, r"\(missing: memory\)"),
        ({"instanceTypes": ["t3a.medium", "t3a.medium"]}, r"instanceTypes\[1\]: 't3a.medium' is there twice"),
        ({"instanceTypes": ["t3a.medium", "t4g.medium"]}, "instanceTypes: has arm64 and amd64"),
        ({"instanceTypes": [{"name": "t3a.medium"}]}, r"instanceTypes\[0\]: Expected `str`"),
        ({"instanceTypes": ["t3a medium"]}, r"instanceTypes\[0\]: 't3a medium' is not a name"),
        ({"zones": ["eu-west-1a", "eu-west-1a"]}, r"zones\[1\]: 'eu-west-1a' is there twice"),
        ({"zones": [""]}, r"zones\[0\]: '' is not a name"),
        ({"resources": {"cpu": "two"}}, "resources.cpu: 'two' is not a quantity"),
        ({"resources": {"cpu": -1}}, "resources.cpu: -1 is too little"),
        ({"resources": {"memory": 0}}, "resources.memory: 0 is too little"),
        ({"resources": {"a gpu": 1}}, "resources.a gpu: 'a gpu' is not the name of a resource"),
        ({"resources": {"cpu": True}}, "resources"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value),
)
def test_a_bad_group_is_refused_with_its_name_and_the_field(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(BadObject, match=said) as refused:
        read(medium(**wrong))
    assert str(refused.value).startswith("groups.yaml: ")
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("", "groups.yaml: is empty; expected NodeGroups"),
        ("just text", "groups.yaml: holds a str where NodeGroups should be"),
        ("a: [", "groups.yaml: is neither YAML nor JSON"),
        ("a: 2026-13-45", "groups.yaml: has a value that cannot be read"),
        (text(), "groups: is empty"),
        (text(medium(), kind="NodeGroup"), "kind: 'NodeGroup' is not 'NodeGroups'"),
        (text(medium(), apiVersion="v1"), "apiVersion: 'v1' is not 'fairlead.dev/v1alpha1'"),
        (text(medium(), spec={}), "unknown field `spec`"),
        (text("medium"), r"groups\[0\].*Expected `object`"),
        ("apiVersion: fairlead.dev/v1alpha1\nkind: NodeGroups\n", "required field `groups`"),
        (text(medium(), medium()), "node group medium: there are two of that name"),
        ("[" * 5000, "groups.yaml: is nested too deeply|is neither YAML"),
        (ANCHORS, "its anchors unfold to too much"),
    ],
    ids=[
        "empty",
        "text",
        "no-yaml",
        "no-date",
        "no-group",
        "kind",
        "version",
        "field",
        "no-object",
        "groups",
        "twice",
        "deep",
        "anchors",
    ],
)
def test_a_file_that_cannot_be_used_says_why(wrong: str, said: str) -> None:
    with pytest.raises(FairleadError, match=said) as refused:
        read_file(wrong, "groups.yaml")
    assert isinstance(refused.value, BadInput | BadObject)
