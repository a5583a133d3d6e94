"""One pass, for a CronJob: it ends whether or not another rebalancer leads."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from structlog.testing import capture_logs

from fairlead.client.api import Client
from fairlead.client.election import Terms
from fairlead.doors.process import Context, serve_doors
from fairlead.doors.rebalancer.door import RebalancerDoor, Settings
from fairlead.feed.policies import LivePolicies
from support.cluster import Cluster
from support.policies import policy
from support.wire import PATIENCE_S

QUICK = Terms(lease_s=2.0, renew_s=1.5, retry_s=0.5, margin_s=0.1, least_s=0.05)


async def once(cluster: Cluster, client: Client) -> list[dict[str, Any]]:
    """What a rebalancer says of the lease that is to act once, and has ended."""
    policies = LivePolicies(client, fixed=(policy(),))
    context = Context(client, policies, cluster.namespace, random.Random(1))
    door = RebalancerDoor(context, Settings(once=True, terms=QUICK))
    with capture_logs() as logs:
        async with asyncio.timeout(PATIENCE_S):
            await serve_doors([door], context, stopping=asyncio.Event())
    return [dict(one) for one in logs if one["event"] in ("leading", "not_acted")]


def held(cluster: Cluster, lease_s: int) -> None:
    """Somebody took the lease for so long."""
    made = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "fairlead-rebalancer"},
    }
    cluster.create(made | {"spec": {"holderIdentity": "other", "leaseDurationSeconds": lease_s}})


async def test_it_gives_up_when_another_leads(cluster: Cluster) -> None:
    held(cluster, 3600)
    async with cluster.client() as client:
        (said,) = await once(cluster, client)
    assert (said["reason"], said["holder"]) == ("another rebalancer leads", "other")


async def test_it_acts_when_the_other_has_died(cluster: Cluster) -> None:
    held(cluster, 1)
    async with cluster.client() as client:
        (said,) = await once(cluster, client)
    assert said["event"] == "leading"
