from __future__ import annotations

from typing import Any

import pytest
import yaml

from fairlead.cloud.karpenter import Provider, node_pools
from fairlead.errors import BadObject
from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.file import read_file

Obj = dict[str, Any]


def groups(*said: Obj) -> tuple[NodeGroup, ...]:
    document = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "NodeGroups", "groups": list(said)}
    return read_file(yaml.safe_dump(document), "groups.yaml")


def group(**more: Any) -> Obj:
    return {"name": "medium", "instanceTypes": ["t3a.medium"], "max": 5, **more}


def pools(
    *of: NodeGroup, provider: Provider = "aws", node_class: str = "default"
) -> tuple[dict[str, Obj], list[str]]:
    said: list[str] = []
    made = node_pools(of, provider=provider, node_class=node_class, note=said.append)
    return {each["metadata"]["name"]: each["spec"] for each in made}, said


def pool(provider: Provider = "aws", **more: Any) -> Obj:
    return pools(*groups(group(**more)), provider=provider)[0]["medium"]


def requirements(spec: Obj) -> dict[str, list[str]]:
    listed = spec["template"]["spec"]["requirements"]
    assert {each["operator"] for each in listed} == {"In"}
    return {each["key"]: each["values"] for each in listed}


def test_labels_and_taints_are_those_of_the_group() -> None:
    spec = pool(labels={"size": "medium"}, taints=["size=medium:NoSchedule", "gpu:NoExecute"])
    assert spec["template"]["metadata"] == {"labels": {"size": "medium"}}
    assert spec["template"]["spec"]["taints"] == [
        {"key": "size", "value": "medium", "effect": "NoSchedule"},
        {"key": "gpu", "effect": "NoExecute"},
    ]


def test_the_maximum_is_said_in_nodes_and_in_what_they_have() -> None:
    assert pool()["limits"] == {"nodes": "5", "cpu": "10", "memory": "20Gi"}


def test_of_several_types_the_largest_bounds_the_limits() -> None:
    spec = pool(instanceTypes=["m5.large", "r5.large", "m5.xlarge"], max=2)
    assert spec["limits"] == {"nodes": "2", "cpu": "8", "memory": "32Gi"}


def test_on_AWS_it_is_the_groups_instance_types_of_an_EC2NodeClass() -> None:
    spec = pool(instanceTypes=["t4g.medium", "t4g.large"], zones=["eu-west-1a"], volatile=True)
    assert spec["template"]["spec"]["nodeClassRef"] == {
        "group": "karpenter.k8s.aws",
        "kind": "EC2NodeClass",
        "name": "default",
    }
    assert requirements(spec) == {
        "node.kubernetes.io/instance-type": ["t4g.medium", "t4g.large"],
        "kubernetes.io/arch": ["arm64"],
        "kubernetes.io/os": ["linux"],
        "karpenter.sh/capacity-type": ["spot"],
        "topology.kubernetes.io/zone": ["eu-west-1a"],
    }


def test_without_instance_types_any_of_that_size_will_do() -> None:
    resources = {"cpu": 4, "memory": "16Gi", "nvidia.com/gpu": 1}
    found = requirements(pool(instanceTypes=[], resources=resources))
    assert found["karpenter.k8s.aws/instance-cpu"] == ["4"]
    assert found["karpenter.k8s.aws/instance-memory"] == ["16384"]
    assert found["karpenter.k8s.aws/instance-gpu-count"] == ["1"]


@pytest.mark.parametrize(
    ("resources", "cpu", "memory", "limits"),
    [
        ({"cpu": "500m", "memory": "1Gi"}, "1", "1024", {"nodes": "10", "cpu": "10", "memory": "10Gi"}),
        ({"cpu": 3, "memory": "7Gi"}, "4", "8192", {"nodes": "10", "cpu": "40", "memory": "80Gi"}),
        ({"cpu": "1930m", "memory": "3500M"}, "2", "4096", {"nodes": "10", "cpu": "20", "memory": "40Gi"}),
    ],
)
def test_a_size_that_EC2_does_not_have_is_the_next_one_and_so_many_of_it_may_come(
    resources: Obj, cpu: str, memory: str, limits: Obj
) -> None:
    found, notes = pools(*groups(group(instanceTypes=[], resources=resources, max=10)))
    named = requirements(found["medium"])
    assert named["karpenter.k8s.aws/instance-cpu"] == [cpu]
    assert named["karpenter.k8s.aws/instance-memory"] == [memory]
    assert found["medium"]["limits"] == limits
    assert len(notes) == 1
    assert f"its nodes will have {cpu} cpus" in notes[0]


def test_a_size_beyond_what_is_known_of_EC2_is_asked_for_as_it_is_and_noted() -> None:
    found, notes = pools(*groups(group(instanceTypes=[], resources={"cpu": "447500m", "memory": "24Ti"})))
    assert requirements(found["medium"])["karpenter.k8s.aws/instance-cpu"] == ["448"]
    assert found["medium"]["limits"]["cpu"] == str(5 * 448)
    assert len(notes) == 1
    assert "whether nodes come is not known" in notes[0]


@pytest.mark.parametrize("kind", ["t3a.medium", "x9.small"])
def test_limits_count_what_machines_have_even_if_pods_may_use_less_of_it(kind: str) -> None:
    limits = pool(instanceTypes=[kind], resources={"cpu": "1930m", "memory": "4Gi"})["limits"]
    assert limits == {"nodes": "5", "cpu": "10", "memory": "20Gi"}
    known = pool(resources={"memory": "3Gi"})["limits"]
    assert known["memory"] == "20Gi"


def test_the_node_class_can_be_another() -> None:
    found, _ = pools(*groups(group()), node_class="gpu")
    assert found["medium"]["template"]["spec"]["nodeClassRef"]["name"] == "gpu"


def test_on_KWOK_it_is_the_providers_type_of_that_size() -> None:
    spec = pool("kwok")
    assert spec["template"]["spec"]["nodeClassRef"] == {
        "group": "karpenter.kwok.sh",
        "kind": "KWOKNodeClass",
        "name": "default",
    }
    assert requirements(spec) == {
        "karpenter.kwok.sh/instance-cpu": ["2"],
        "karpenter.kwok.sh/instance-memory": ["4Gi"],
        "kubernetes.io/arch": ["amd64"],
        "kubernetes.io/os": ["linux"],
        "karpenter.sh/capacity-type": ["on-demand"],
    }


@pytest.mark.parametrize(
    ("resources", "picked", "limits"),
    [
        ({"cpu": "1930m", "memory": "3Gi"}, ("2", "4Gi"), ("10", "20Gi")),
        ({"cpu": 2, "memory": "2Gi"}, ("2", "4Gi"), ("10", "20Gi")),
        ({"cpu": 1, "memory": "60Gi"}, ("8", "64Gi"), ("40", "320Gi")),
        ({"cpu": 3, "memory": "1Gi"}, ("4", "8Gi"), ("20", "40Gi")),
    ],
)
def test_a_size_that_KWOK_does_not_have_is_the_next_one_and_noted(
    resources: Obj, picked: tuple[str, str], limits: tuple[str, str]
) -> None:
    found, notes = pools(*groups(group(instanceTypes=[], resources=resources)), provider="kwok")
    spec = found["medium"]
    named = requirements(spec)
    assert (named["karpenter.kwok.sh/instance-cpu"], named["karpenter.kwok.sh/instance-memory"]) == (
        [picked[0]],
        [picked[1]],
    )
    assert (spec["limits"]["cpu"], spec["limits"]["memory"]) == limits
    assert len(notes) == 1
    assert f"its nodes will have {picked[0]} cpus and {picked[1]} of memory" in notes[0]


def test_what_Karpenter_leaves_out_is_noted() -> None:
    _, notes = pools(*groups(group(desired=2, zones=["eu-west-1a", "test-zone-b"])), provider="kwok")
    assert len(notes) == 2
    assert "desired: 2 is left out" in notes[0]
    assert "zones" in notes[1]
    assert requirements(pool("kwok", zones=["eu-west-1a", "test-zone-b"]))["topology.kubernetes.io/zone"] == [
        "test-zone-b"
    ]


@pytest.mark.parametrize(
    ("key", "noted"),
    [
        ("node-role.kubernetes.io/worker", True),
        ("app.kubernetes.io/name", True),
        ("x-k8s.io/a", True),
        ("node.kubernetes.io/lifecycle", False),
        ("node-restriction.kubernetes.io/a", False),
        ("topology.kubernetes.io/region", False),
        ("example.com/karpenter.sh", False),
        ("k8s.example.com/a", False),
    ],
)
def test_a_label_that_older_versions_of_Karpenter_refuse_is_noted(key: str, noted: bool) -> None:
    found, notes = pools(*groups(group(labels={key: "x"})))
    assert found["medium"]["template"]["metadata"]["labels"] == {key: "x"}
    assert [f"labels.{key}: older versions" in note for note in notes] == [True] * noted


@pytest.mark.parametrize(
    ("provider", "wrong", "said"),
    [
        ("aws", {"min": 1}, "node group medium: min: 1: Karpenter brings nodes only for pods that wait"),
        ("kwok", {"min": 1}, "a NodePool has no minimum; write min: 0"),
        ("aws", {"labels": {"karpenter.sh/nodepool": "x"}}, "labels.karpenter.sh/nodepool: is a label"),
        ("aws", {"labels": {"kubernetes.io/hostname": "x"}}, "labels.kubernetes.io/hostname: is a label"),
        ("aws", {"labels": {"my-karpenter.sh/x": "x"}}, "labels.my-karpenter.sh/x: is a label"),
        ("aws", {"labels": {"karpenter.k8s.aws/x": "x"}}, "labels.karpenter.k8s.aws/x: is a label"),
        ("kwok", {"labels": {"karpenter.kwok.sh/x": "x"}}, "labels.karpenter.kwok.sh/x: is a label"),
        (
            "aws",
            {"labels": {f"l{n}": "x" for n in range(101)}},
            "labels: there are 101: a NodePool takes 100",
        ),
        (
            "kwok",
            {"resources": {"nvidia.com/gpu": 1}},
            "resources.nvidia.com/gpu: no type of Karpenter's KWOK",
        ),
        ("kwok", {"resources": {"cpu": 1000}}, "no type of Karpenter's KWOK provider has 1000 cpus"),
    ],
)
def test_what_Karpenter_cannot_do_is_refused_with_the_reason(
    provider: Provider, wrong: Obj, said: str
) -> None:
    with pytest.raises(BadObject, match=said):
        pool(provider, **wrong)
