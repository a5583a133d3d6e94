"""The API server takes what admission gives a pod, and an unchanged scheduler understands it."""

from __future__ import annotations

from typing import Any

from fairlead.policy.decide.admission import patched
from fairlead.policy.names import LEDGERS
from fairlead.policy.rule.choice import Choice
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Tiers
from fairlead.policy.rule.workloads import Workload
from fairlead.policy.slots.ledger import Ledger
from fairlead.policy.slots.placing import Placing, place
from support.cluster import Cluster
from support.members import KEY, a_deployment
from support.policies import policy, serve_policies

JOB = Workload("Job", "batch/v1", "default", "work", job=True)


def admitted(
    cluster: Cluster, found: PlacementPolicy, tier: int, workload: Workload | None = None, **spec: Any
) -> dict[str, Any]:
    """A pod, as admission leaves it, that only this test's nodes can take."""
    plain = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "web-", "labels": {"app": "web", "pod-template-hash": "r1"}},
        "spec": {
            "containers": [{"name": "c", "image": "none"}],
            "nodeSelector": {"test": cluster.namespace},
            **spec,
        },
    }
    placing = Placing(3, Choice(tier, "rule"), "token")
    return cluster.create(patched(plain, found, placing, workload or a_deployment()))


def node_of(cluster: Cluster, pod: dict[str, Any]) -> str:
    name = pod["metadata"]["name"]
    found: str = cluster.wait(
        lambda: cluster.get("Pod", name)["spec"].get("nodeName", ""), f"the binding of {name}"
    )
    return found


def test_pods_land_on_the_nodes_of_their_tier(cluster: Cluster) -> None:
    spot, base, burst = cluster.add_nodes(3)
    cluster.patch("Node", spot, {"metadata": {"labels": {"capacity": "spot", "pool": "x"}}})
    cluster.patch("Node", burst, {"spec": {"taints": [{"key": "virtual", "effect": "NoSchedule"}]}})
    tiers = policy(
        "web",
        {"name": "spot", "nodes": {"capacity": "spot", "pool": "x"}, "spread": ["zone"]},
        {"name": "base"},
        {
            "name": "burst",
            "names": [burst, "elsewhere"],
            "tolerations": [{"key": "virtual", "operator": "Exists"}],
        },
    )
    one_of_two = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "absent", "operator": "DoesNotExist"}]},
                    {"matchExpressions": [{"key": "absent", "operator": "Exists"}]},
                ]
            }
        }
    }
    pods = [admitted(cluster, tiers, tier, affinity=one_of_two) for tier in (0, 1, 2)]
    assert [node_of(cluster, pod) for pod in pods] == [spot, base, burst]


def test_a_job_pod_goes_on_to_a_further_tier_when_its_own_has_no_node(cluster: Cluster) -> None:
    (safe,) = cluster.add_nodes(1)
    cluster.patch("Node", safe, {"metadata": {"labels": {"capacity": "on-demand"}}})
    assert node_of(cluster, admitted(cluster, policy(), 0, JOB)) == safe


def test_exclusive_pods_have_a_node_each(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    tenant = policy("web", {"name": "premium", "nodes": {"test": cluster.namespace}, "exclusive": True})
    first, second = (node_of(cluster, admitted(cluster, tenant, 0)) for _ in range(2))
    assert first != second


def test_a_ledger_survives_the_api_servers_schema(cluster: Cluster) -> None:
    serve_policies(cluster)
    found = policy()
    ledger = Ledger(KEY)
    for number in range(3):
        ledger, _ = place(
            ledger, found, a_deployment(), Tiers(found.spec.tiers), token=f"t{number}", now=1000.5
        )
    data = ledger.to_object()
    data["metadata"] = {"name": data["metadata"]["name"], "namespace": cluster.namespace}
    made = cluster.wire.request("POST", LEDGERS.path(cluster.namespace), data).ok()
    assert Ledger.from_object(made).entries == ledger.entries
