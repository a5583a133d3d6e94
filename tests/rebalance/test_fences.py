"""A rebalancer whose lease ended while it stood still: what it then decides is not sent."""

from __future__ import annotations

from pathlib import Path

import yaml

from fairlead.doors.rebalancer.door import RebalancerDoor, Settings
from support.cluster import Cluster
from support.policies import plain_policy, serve_policies
from support.scheduler import aside
from support.stands_still import TERMS, StandsStill, leading


async def test_a_tier_whose_node_it_sees_lost_after_its_lease_ended_is_not_marked(
    cluster: Cluster, tmp_path: Path
) -> None:
    await aside(serve_policies, cluster)
    (node,) = await aside(cluster.add_nodes, 1, labels={"capacity": "spot"})
    own = {"test": cluster.namespace}
    tiers = [{"name": name, "nodes": own | {"capacity": name}} for name in ("spot", "on-demand")]
    file = tmp_path / "policies.yaml"
    file.write_text(yaml.safe_dump(plain_policy("web", *tiers)))
    plan = StandsStill(cluster.host, cluster.path("Lease", "rebalancer"), "/nodes?", seconds=40)
    settings = Settings(lease="rebalancer", terms=TERMS)
    async with leading(cluster, plan, lambda context: RebalancerDoor(context, settings), str(file)) as until:
        await until("synced")
        plan.armed = True
        await aside(cluster.delete, "Node", node)
        await until("lease_lost")
    assert plan.stood_s
    assert plan.sent == []
    assert await aside(cluster.names, "ConfigMap") == ["kube-root-ca.crt"]
