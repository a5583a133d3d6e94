from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fairlead.errors import BadInput, BadObject
from fairlead.nodegroups.aws import AutoScalingGroup, CloudState, EksNodegroup, EksTaint, Version, read_state
from fairlead.nodegroups.group import InstanceType

GROUPS = {
    "AutoScalingGroups": [
        {
            "AutoScalingGroupName": "eks-large-1",
            "MinSize": 0,
            "MaxSize": 3,
            "DesiredCapacity": 1,
            "AvailabilityZones": ["eu-west-1a"],
            "MixedInstancesPolicy": {"LaunchTemplate": {"Overrides": [{"InstanceType": "t3a.xlarge"}]}},
            "Instances": [{"InstanceId": "i-1", "InstanceType": "t3.xlarge"}],
            "Tags": [{"Key": "eks:nodegroup-name", "Value": "large", "PropagateAtLaunch": True}],
            "SuspendedProcesses": [{"ProcessName": "Launch"}],
        }
    ]
}
NODEGROUP = {
    "nodegroup": {
        "nodegroupName": "large",
        "clusterName": "prod",
        "status": "ACTIVE",
        "labels": {"size": "large"},
        "taints": [
            {"key": "size", "value": "large", "effect": "NO_SCHEDULE"},
            {"key": "a", "effect": "NO_EXECUTE"},
        ],
        "resources": {"autoScalingGroups": [{"name": "eks-large-1"}]},
        "diskSize": None,
        "health": {"issues": [{"code": "AsgInstanceLaunchFailures", "message": "no capacity"}]},
    }
}
TYPES = {
    "InstanceTypes": [
        {
            "InstanceType": "t3a.xlarge",
            "VCpuInfo": {"DefaultVCpus": 4},
            "MemoryInfo": {"SizeInMiB": 16384},
            "GpuInfo": {"Gpus": [{"Count": 2}]},
        }
    ]
}


def test_a_state_goes_to_json_and_back() -> None:
    group = AutoScalingGroup(
        "a", tags={"x": "y"}, zones=("z",), instance_types=(InstanceType(name="t3.small"),)
    )
    managed = EksNodegroup("g", "prod", taints=(EksTaint("k", "NO_SCHEDULE"),), disk_size=20)
    state = CloudState("prod", "eu-west-1", "1", (group,), (managed,), "denied", {"x": "allowed"}, "arn")
    written = json.loads(json.dumps(msgspec.to_builtins(state.to_plain())))
    assert (written["apiVersion"], written["kind"]) == ("fairlead.dev/v1alpha1", "CloudState")
    assert read_state([written]) == state


def test_answers_of_the_aws_cli_are_one_state_in_any_order() -> None:
    for documents in ([GROUPS, NODEGROUP, TYPES], [TYPES, NODEGROUP, GROUPS]):
        state = read_state(documents)
        assert state.cluster == "prod"
        [group] = state.auto_scaling_groups
        assert [kind.name for kind in group.instance_types] == ["t3a.xlarge", "t3.xlarge"]
        assert group.instance_types[0].capacity == {"cpu": "4", "memory": "16384Mi", "nvidia.com/gpu": "2"}
        assert (group.instances, group.suspended, group.nodegroup) == (1, ("Launch",), "large")
        managed = state.nodegroup_of(group)
        assert managed is not None
        assert [taint.value for taint in managed.taints] == ["large", None]
        assert managed.issues == ("AsgInstanceLaunchFailures: no capacity",)


def test_a_managed_group_is_found_from_either_side() -> None:
    managed = EksNodegroup("large", auto_scaling_groups=("eks-large-1",))
    state = CloudState(nodegroups=(managed,))
    assert state.nodegroup_of(AutoScalingGroup("eks-large-1")) == managed
    assert state.nodegroup_of(AutoScalingGroup("x", tags={"eks:nodegroup-name": "large"})) == managed
    assert state.nodegroup_of(AutoScalingGroup("x")) is None


@pytest.mark.parametrize("wrong", [{"kind": "Pod"}, {}, [1], "x"])
def test_anything_else_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(BadInput, match=r"dump\.json"):
        read_state([wrong], "dump.json")


@pytest.mark.parametrize(
    "wrong", [{"AutoScalingGroups": [{"MaxSize": 1}]}, {"nodegroup": {}}, {"AutoScalingGroups": ["x"]}]
)
def test_answers_with_a_hole_in_them_are_refused(wrong: Any) -> None:
    with pytest.raises((BadInput, BadObject)):
        read_state([wrong])


@pytest.mark.parametrize(
    ("text", "version"),
    [("1.32.1", (1, 32, 1)), ("v1.27", (1, 27, 0)), ("k8s.gcr.io/cluster-autoscaler:v1.13.1", (1, 13, 1)),
     ("r.io:5000/ca:v1.30.2-eks.1", (1, 30, 2)), ("r.io/ca:v1.30.2@sha256:00", (1, 30, 2))],
)  # fmt: skip
def test_versions_are_read_from_images(text: str, version: tuple[int, int, int]) -> None:
    assert Version.read(text) == version


def test_what_says_no_version_is_refused() -> None:
    with pytest.raises(BadInput, match="latest"):
        Version.read("ca:latest")
