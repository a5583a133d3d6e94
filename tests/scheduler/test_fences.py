"""A leader whose lease ended while it stood still: what it then decides is not sent."""

from __future__ import annotations

from typing import Any

import pytest

from support.scheduler import InProcess, Shop, aside, in_process
from support.stands_still import StandsStill


def leads(running: InProcess) -> bool:
    return b"fairlead_leader 1.0" in running.scheduler.metrics()


@pytest.mark.parametrize(
    "pod",
    [{"cpu": "1"}, {"cpu": "9"}, {"cpu": "2", "priority": 9}],
    ids=["to-bind", "to-hold", "to-evict-for"],
)
async def test_nothing_is_written_for_a_pod_that_it_sees_after_its_lease_ended(
    ours: Shop, pod: dict[str, Any]
):
    await aside(ours.cluster.add_nodes, 1, cpu=2)
    plan = StandsStill(ours.cluster.host, ours.cluster.path("Lease", "fairlead-scheduler"), "/pods?")
    async with in_process(ours, plan, clock=plan.clock, leaderElection__enabled=True) as running:
        await aside(ours.add, "before", priority=1)
        await aside(ours.bound, "before")
        await aside(ours.events, "before", "Scheduled")
        assert leads(running)
        plan.armed = True
        await aside(ours.add, "a", **pod)
        await aside(
            ours.cluster.wait, lambda: not leads(running), "the scheduler to know that it does not lead"
        )
    assert plan.stood_s
    assert plan.sent == []
    assert not (await aside(ours.nodes_of))["a"]
