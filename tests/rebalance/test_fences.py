"""A rebalancer whose lease ended while it stood still: what it then decides is not sent."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import yaml
from structlog.testing import capture_logs

from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.client.election import Terms
from fairlead.doors.policies import LivePolicies
from fairlead.doors.rebalancer.door import RebalancerDoor, Settings
from fairlead.doors.running import Surroundings
from support.cluster import Cluster
from support.faults import FaultProxy
from support.policies import plain_policy, serve_policies
from support.scheduler import aside
from support.stands_still import StandsStill

# The fence closes half a minute after a renewal; ten seconds pass until the process itself finds out.
TERMS = Terms(lease_s=60, renew_s=2, retry_s=10, margin_s=30, least_s=5)


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
    async with (
        FaultProxy(kubeconfig.load(cluster.kubeconfig), plan) as proxy,
        Connection(proxy.target) as connection,
    ):
        client = Client(connection)
        policies = LivePolicies(client, file=str(file), clock=plan.clock)
        around = Surroundings(client, policies, cluster.namespace, random.Random(1), plan.clock)
        door = RebalancerDoor(around, Settings(lease="rebalancer", terms=TERMS))
        with capture_logs() as said:

            async def until(event: str) -> None:
                await aside(cluster.wait, lambda: any(one["event"] == event for one in said), event)

            tasks = [asyncio.ensure_future(one.run()) for one in (policies, door)]
            await until("synced")
            plan.armed = True
            await aside(cluster.delete, "Node", node)
            await until("lease_lost")
        door.stop()
        await tasks[1]
        tasks[0].cancel()
    assert plan.sent == []
    assert await aside(cluster.names, "ConfigMap") == ["kube-root-ca.crt"]
