from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from fairlead.cloud.kwok import config_maps
from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.file import read_file

ROOT = Path(__file__).resolve().parents[2]


def example() -> tuple[NodeGroup, ...]:
    return read_file((ROOT / "examples" / "node-groups.yaml").read_text(), "example")


def templates(*groups: NodeGroup) -> dict[str, dict[str, Any]]:
    _, found = config_maps(groups, "kube-system")
    listed = yaml.safe_load(found["data"]["templates"])
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    return {node["metadata"]["name"]: node for node in listed["items"]}


def test_there_are_two_in_the_namespace_of_the_autoscaler() -> None:
    config, templates = config_maps(example(), "scaling")
    assert [each["metadata"] for each in (config, templates)] == [
        {"name": "kwok-provider-config", "namespace": "scaling"},
        {"name": "kwok-provider-templates", "namespace": "scaling"},
    ]
    assert (list(config["data"]), list(templates["data"])) == (["config"], ["templates"])
    assert yaml.safe_load(config["data"]["config"]) == {
        "apiVersion": "v1alpha1",
        "readNodesFrom": "configmap",
        "nodegroups": {"fromNodeLabelKey": "fairlead.dev/node-group"},
        "nodes": {"skipTaint": True},
        "configmap": {"name": "kwok-provider-templates"},
    }


def test_every_template_carries_the_label_that_the_configuration_names() -> None:
    config, _ = config_maps(example(), "kube-system")
    key = yaml.safe_load(config["data"]["config"])["nodegroups"]["fromNodeLabelKey"]
    assert {name: node["metadata"]["labels"][key] for name, node in templates(*example()).items()} == {
        "medium": "medium",
        "large": "large",
    }


def test_a_template_is_the_node_that_the_group_would_bring() -> None:
    node = templates(*example())["medium"]
    assert node["metadata"]["labels"]["size"] == "medium"
    starting = "startup-taint.cluster-autoscaler.kubernetes.io/fairlead-unregistered"
    assert node["spec"] == {
        "taints": [
            {"key": "size", "value": "medium", "effect": "NoSchedule"},
            {"key": starting, "effect": "NoSchedule"},
        ]
    }
    assert node["status"]["allocatable"] == {"cpu": "2", "memory": "4Gi", "pods": "17"}
    assert node["status"]["capacity"] == node["status"]["allocatable"]


def test_annotations_bound_the_group_and_let_KWOK_play_its_kubelets() -> None:
    document = {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "NodeGroups",
        "groups": [{"name": "own", "resources": {"cpu": 1, "memory": "1Gi"}, "min": 1, "max": 3}],
    }
    node = templates(*read_file(yaml.safe_dump(document), "own"))["own"]
    assert node["metadata"]["annotations"] == {
        "kwok.x-k8s.io/node": "fake",
        "cluster-autoscaler.kwok.nodegroup/min-count": "1",
        "cluster-autoscaler.kwok.nodegroup/max-count": "3",
        "cluster-autoscaler.kwok.nodegroup/desired-count": "1",
    }


def test_no_template_has_a_hostname_because_all_its_nodes_would_have_the_same() -> None:
    for node in templates(*example()).values():
        assert "kubernetes.io/hostname" not in node["metadata"]["labels"]
        assert "providerID" not in node["spec"]
