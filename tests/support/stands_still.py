"""A leader that stands still for longer than its lease, as on a suspended machine, and is deposed then."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from structlog.testing import capture_logs

from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.connection import Connection
from fairlead.client.election import Terms
from fairlead.doors.process import Context, Door
from fairlead.feed.policies import LivePolicies
from support.cluster import Cluster, Host
from support.faults import FaultProxy, FrameFault, RequestFault

__all__ = ["TERMS", "StandsStill", "leading"]

# The fence closes half a minute after a renewal; ten seconds pass until the process itself finds out.
TERMS = Terms(lease_s=60, renew_s=2, retry_s=10, margin_s=30, least_s=5)


@dataclass
class StandsStill:
    """Once `armed`, the process that goes by `clock` stands still just before it gets a frame of the watch.

    Only its clock moves on. By then another replica holds the lease that lives at `lease`.
    """

    host: Host
    lease: str
    watch: str
    seconds: float = 60.0
    armed: bool = False
    stood_s: float = 0.0
    sent: list[str] = field(default_factory=list)
    """The writes that were sent afterwards, but for those of leases."""

    @property
    def clock(self) -> Clock:
        return replace(WALL_CLOCK, now=lambda: WALL_CLOCK.now() + self.stood_s)

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if self.stood_s and method != "GET" and "/leases" not in path:
            self.sent.append(f"{method} {path}")
        return None

    def on_frame(self, path: str) -> FrameFault | None:
        if self.armed and not self.stood_s and self.watch in path:
            self.stood_s = self.seconds
            wire = self.host.wire()
            held = wire.request("GET", self.lease).ok()
            held["spec"] |= {"holderIdentity": "another", "leaseDurationSeconds": 3600}
            wire.request("PUT", self.lease, held).ok()
            wire.close()
        return None


@asynccontextmanager
async def leading(
    cluster: Cluster, plan: StandsStill, door_of: Callable[[Context], Door], file: str = ""
) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
    """A door in this process that goes by the plan's clock; call what is yielded to wait for a log line."""
    async with (
        FaultProxy(kubeconfig.load(cluster.kubeconfig), plan) as proxy,
        Connection(proxy.target) as connection,
    ):
        client = Client(connection)
        policies = LivePolicies(client, file=file, clock=plan.clock)
        context = Context(client, policies, cluster.namespace, random.Random(1), plan.clock)
        door = door_of(context)
        running = [asyncio.ensure_future(one) for one in (context.follow(), door.run())]
        with capture_logs() as said:

            async def until(event: str) -> None:
                seen = f"it to say {event}"
                await asyncio.to_thread(
                    cluster.wait, lambda: any(one["event"] == event for one in said), seen
                )

            yield until
        door.stop()
        await running[1]
        running[0].cancel()
        await asyncio.wait(running)
