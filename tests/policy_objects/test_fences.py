"""A writer of statuses whose lease ended while it stood still: what it then finds out is not written."""

from __future__ import annotations

from fairlead.doors.policy_status import LEASE, StatusDoor
from fairlead.policy.names import POLICIES
from support.cluster import Cluster
from support.policies import add_policy, plain_policy, serve_policies
from support.scheduler import aside
from support.stands_still import TERMS, StandsStill, leading


async def test_the_status_of_a_policy_that_it_sees_changed_after_its_lease_ended_is_not_written(
    cluster: Cluster,
) -> None:
    await aside(serve_policies, cluster)
    name = (await aside(add_policy, cluster, plain_policy("web")))["metadata"]["name"]
    plan = StandsStill(cluster.host, cluster.path("Lease", LEASE), f"/{POLICIES.plural}?", seconds=40)
    async with leading(cluster, plan, lambda context: StatusDoor(context, terms=TERMS)) as until:

        def observed() -> int:
            status = cluster.get(POLICIES, name).get("status") or {}
            return int(status.get("observedGeneration", 0))

        await aside(cluster.wait, observed, "the first status")
        plan.armed = True
        await aside(cluster.patch, POLICIES, name, {"spec": {"singleReplica": "spot"}})
        await until("lease_lost")
    assert plan.stood_s
    assert plan.sent == []
    assert await aside(observed) == 1
