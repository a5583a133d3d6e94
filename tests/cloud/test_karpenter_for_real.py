"""NodePools judged by a real API server with Karpenter's definitions, and by Karpenter itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from fairlead.cloud.karpenter import Provider, node_pools
from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.file import read_file
from support.cluster import Cluster
from support.manifests import scheduled_pod

pytestmark = [pytest.mark.real, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = (ROOT / "examples" / "node-groups.yaml").read_text()
POOLS = "/apis/karpenter.sh/v1/nodepools"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
ALONE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "alone"}}}
        ]
    }
}
ODD: list[dict[str, Any]] = [
    {"name": "plain", "instanceTypes": ["t3a.medium"]},
    {"name": "2-all", "instanceTypes": ["t4g.medium"], "volatile": True, "zones": ["test-zone-a"]},
    {"name": "own", "resources": {"cpu": 2, "memory": "8Gi"}},
    {
        "name": "said",
        "instanceTypes": ["t3a.medium"],
        "labels": {
            "size": "medium",
            "example.com/Kind": "a.b_c",
            "empty": "",
            "node-role.kubernetes.io/worker": "yes",
        },
        "taints": ["size=medium:NoSchedule", "gpu:NoExecute", "soft=1:PreferNoSchedule"],
    },
]


@pytest.mark.parametrize("provider", ["aws", "kwok"])
def test_a_pool_of_every_kind_of_group_is_accepted(own: Cluster, provider: Provider) -> None:
    document = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "NodeGroups", "groups": ODD}
    odd = read_file(yaml.safe_dump(document), "odd")
    for made in node_pools(odd, provider=provider, node_class="default", note=print):
        answer = own.wire.request("POST", POOLS, made, dryRun="All", fieldValidation="Strict")
        assert answer.ok()["spec"]["limits"] == made["spec"]["limits"]


@dataclass(frozen=True)
class Pools:
    """The example's groups under names of the test's own, with Karpenter told of them."""

    cluster: Cluster
    groups: tuple[NodeGroup, ...]

    @classmethod
    def of(cls, cluster: Cluster) -> Pools:
        groups = tuple(
            msgspec.structs.replace(
                group, name=cluster.unique(group.name), labels={"test": cluster.namespace} | group.labels
            )
            for group in read_file(EXAMPLE, "example")
        )
        for made in node_pools(groups, provider="kwok", node_class="default", note=print):
            cluster.wire.request("POST", POOLS, made).ok()
            cluster.owns(f"{POOLS}/{made['metadata']['name']}")
        return cls(cluster, groups)

    def ask(self, name: str, group: NodeGroup, **more: Any) -> None:
        """A pod that wants a node of the group."""
        tolerations = [
            {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in group.taints
        ]
        spec = {"nodeSelector": group.labels, "tolerations": tolerations, **more}
        self.cluster.create(scheduled_pod(name, spec=spec, labels={"app": "alone"}))

    def homes(self) -> dict[str, str]:
        """The nodes of the pods that have one."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self.cluster.list("Pod")["items"]
            if pod["spec"].get("nodeName")
        }

    def claims(self, group: NodeGroup) -> int:
        """How many nodes Karpenter has asked for."""
        asked = self.cluster.wire.request(
            "GET", CLAIMS, labelSelector=f"karpenter.sh/nodepool={group.name}"
        ).ok()
        return len(asked["items"])

    def refused(self) -> set[str]:
        """The pods that Karpenter says will get no node because of a limit."""
        events = self.cluster.list("Event")["items"]
        return {event["involvedObject"]["name"] for event in events if " limits " in event["message"]}


def test_pods_of_each_group_get_nodes_of_its_size_from_none(own: Cluster) -> None:
    pools = Pools.of(own)
    for group in pools.groups:
        pools.ask(f"wants-{group.labels['size']}", group)
    own.wait(lambda: len(pools.homes()) == 2, "both pods to have a node")
    nodes = {name: own.get("Node", node) for name, node in pools.homes().items()}
    # 2 cpus with 2Gi each, 4 with 4Gi each.
    assert {
        name: node["metadata"]["labels"]["node.kubernetes.io/instance-type"] for name, node in nodes.items()
    } == {"wants-medium": "c-2x-amd64-linux", "wants-large": "s-4x-amd64-linux"}
    for size in ("medium", "large"):
        node = nodes[f"wants-{size}"]
        assert node["metadata"]["labels"]["size"] == size
        assert {"key": "size", "value": size, "effect": "NoSchedule"} in node["spec"]["taints"]


def test_no_more_nodes_come_than_the_maximum_however_many_pods_come_at_once(own: Cluster) -> None:
    pools = Pools.of(own)
    (_, large) = pools.groups
    names = {f"alone-{number}" for number in range(large.max + 2)}
    for name in sorted(names):
        pools.ask(name, large, affinity=ALONE)
    own.wait(lambda: len(pools.homes()) == large.max, f"{large.max} pods to have nodes")
    own.wait(lambda: names - pools.homes().keys() <= pools.refused(), "Karpenter to say why the others wait")
    assert len(set(pools.homes().values())) == large.max
    assert pools.claims(large) == large.max
