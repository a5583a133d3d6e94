"""A leader whose lease ended while it stood still: what it then decides is not sent."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fairlead.client.clock import WALL_CLOCK, Clock
from support.faults import FrameFault, RequestFault
from support.scheduler import Shop, aside, in_process

LEASE = "fairlead-scheduler"


@dataclass
class StandsStill:
    """Once `armed`, the scheduler stands still for longer than its lease just before it sees the next pod.

    Only its clock moves on; another replica holds the lease by then.
    """

    ours: Shop
    armed: bool = False
    stood_s: float = 0.0
    sent: list[str] = field(default_factory=list)
    """What was sent afterwards, but for the lease itself."""

    @property
    def clock(self) -> Clock:
        return replace(WALL_CLOCK, now=lambda: WALL_CLOCK.now() + self.stood_s)

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if self.stood_s and method != "GET" and "/leases" not in path:
            self.sent.append(f"{method} {path}")
        return None

    def on_frame(self, path: str) -> FrameFault | None:
        if self.armed and not self.stood_s and "/pods?" in path:
            self.stood_s = 60.0
            wire = self.ours.cluster.host.wire()
            lease = self.ours.cluster.path("Lease", LEASE)
            held = wire.request("GET", lease).ok()
            held["spec"] |= {"holderIdentity": "another", "leaseDurationSeconds": 3600}
            wire.request("PUT", lease, held).ok()
            wire.close()
        return None


@pytest.mark.parametrize(
    "pod",
    [{"cpu": "1"}, {"cpu": "9"}, {"cpu": "2", "priority": 9}],
    ids=["to-bind", "to-hold", "to-evict-for"],
)
async def test_nothing_is_written_for_a_pod_that_it_sees_after_its_lease_ended(
    ours: Shop, pod: dict[str, Any]
):
    await aside(ours.cluster.add_nodes, 1, cpu=2)
    plan = StandsStill(ours)
    async with in_process(ours, plan, clock=plan.clock, leaderElection__enabled=True) as running:
        await aside(ours.add, "before", priority=1)
        await aside(ours.bound, "before")
        await aside(ours.events, "before", "Scheduled")
        plan.armed = True
        await aside(ours.add, "a", **pod)

        def deposed() -> bool:
            return b"fairlead_leader 0.0" in running.scheduler.metrics.text()

        await aside(ours.cluster.wait, deposed, "the scheduler to know that it does not lead")
    assert plan.stood_s
    assert plan.sent == []
    assert not (await aside(ours.nodes_of))["a"]
