"""The scheduler's writers on a cluster, and what they report, without a scheduler around them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK
from fairlead.client.connection import Connection
from fairlead.client.retry import Retry
from fairlead.doors.scheduler.binder import Binder
from fairlead.doors.scheduler.evictor import Evictor
from fairlead.doors.scheduler.statuses import Statuses
from fairlead.doors.scheduler.volumes import Volumes
from fairlead.engine.core.actions import BindPod, EvictPod
from fairlead.engine.core.events import Event
from support.faults import Faithful, FaultProxy, Plan
from support.scheduler import Ledger, Shop

__all__ = ["Writing", "writing"]


class Writing:
    """A binder, the statuses that it gives way to, and an evictor for a core that wants what it decided."""

    def __init__(self, client: Client, ledger: Ledger) -> None:
        self.ledger = ledger
        self.told: list[Event] = []
        self.bound: list[tuple[BindPod, float]] = []  # and how long it took, in seconds
        self.evicted: list[EvictPod] = []
        self.statuses = Statuses(client)
        self.volumes = Volumes(client)
        self.binder = Binder(
            client,
            self.volumes,
            self.statuses,
            tell=self.told.append,
            done=lambda bind, decided_at: self.bound.append((bind, WALL_CLOCK.now() - decided_at)),
        )
        self.evictor = Evictor(
            client,
            how="api",
            between_turns=_at_once,
            confirms=lambda evict, sending: True,
            is_spared=lambda uid: False,
            protected=lambda evictions: None,
            tell=self.told.append,
            done=self.evicted.append,
            refused=lambda evict, message, final: None,
        )


@asynccontextmanager
async def writing(ours: Shop, plan: Plan | None = None) -> AsyncIterator[Writing]:
    """Writers whose client sends every request once: what the plan does to it, they meet."""
    upstream, rng = kubeconfig.load(ours.cluster.kubeconfig), random.Random(1)
    ledger = Ledger(plan or Faithful())
    async with (
        FaultProxy(upstream, ledger) as proxy,
        Connection(proxy.target) as connection,
        asyncio.TaskGroup() as group,
    ):
        found = Writing(Client(connection, rng=rng, retry=Retry(rng, attempts=1)), ledger)
        parts = (found.binder.run(), found.statuses.run(), found.evictor.run())
        tasks = [group.create_task(part) for part in parts]
        yield found
        for task in tasks:
            task.cancel()


async def _at_once() -> None:
    """There is no core that could be in the middle of a turn."""
