"""NodePools judged by a real API server with Karpenter's definitions, and by Karpenter itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.cloud.karpenter import Provider, node_pools
from fairlead.nodegroups.file import read_file
from support.autoscaled import autoscaled
from support.cluster import Cluster, Host
from support.manifests import scheduled_pod

pytestmark = [pytest.mark.real, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = (ROOT / "examples" / "node-groups.yaml").read_text()
POOLS = "/apis/karpenter.sh/v1/nodepools"
ODD: list[dict[str, Any]] = [
    {"name": "plain", "instanceTypes": ["t3a.medium"]},
    {"name": "2-all", "instanceTypes": ["t4g.medium"], "volatile": True, "zones": ["test-zone-a"]},
    {"name": "own", "resources": {"cpu": 2, "memory": "8Gi"}},
    {
        "name": "said",
        "instanceTypes": ["t3a.medium"],
        "labels": {"size": "medium", "example.com/Kind": "a.b_c", "empty": ""},
        "taints": ["size=medium:NoSchedule", "gpu:NoExecute", "soft=1:PreferNoSchedule"],
    },
]


@pytest.fixture(scope="module")
def karpenter() -> Iterator[Host]:
    with autoscaled("real") as host:
        yield host


@pytest.fixture
def own(karpenter: Host) -> Iterator[Cluster]:
    cluster = Cluster(karpenter)
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.mark.parametrize("provider", ["aws", "kwok"])
def test_a_pool_of_every_kind_of_group_is_accepted(own: Cluster, provider: Provider) -> None:
    document = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "NodeGroups", "groups": ODD}
    odd = read_file(yaml.safe_dump(document), "odd")
    for made in node_pools(odd, provider=provider, node_class="default", note=print):
        answer = own.wire.request("POST", POOLS, made, dryRun="All", fieldValidation="Strict")
        assert answer.ok()["spec"]["limits"] == made["spec"]["limits"]


def test_pods_of_each_group_get_nodes_of_its_size_from_none(own: Cluster) -> None:
    of = read_file(EXAMPLE, "example")
    for made in node_pools(of, provider="kwok", node_class="default", note=print):
        own.wire.request("POST", POOLS, made).ok()
        own.owns(f"{POOLS}/{made['metadata']['name']}")
    for each in of:
        tolerations = [{"key": "size", "value": each.name, "effect": "NoSchedule"}]
        spec = {"nodeSelector": each.labels, "tolerations": tolerations}
        own.create(scheduled_pod(f"wants-{each.name}", spec=spec))
    sizes = {}
    for each in of:
        bound = own.wait(
            lambda name=each.name: own.get("Pod", f"wants-{name}")["spec"].get("nodeName"),
            f"a node of group {each.name}",
        )
        node = own.get("Node", bound)
        assert {"key": "size", "value": each.name, "effect": "NoSchedule"} in node["spec"]["taints"]
        labels = node["metadata"]["labels"]
        sizes[labels["size"]] = labels["node.kubernetes.io/instance-type"]
    # 2 cpus with 2Gi each, 4 with 4Gi each.
    assert sizes == {"medium": "c-2x-amd64-linux", "large": "s-4x-amd64-linux"}
