"""The scheduler's writers on a cluster, and what they report, without a scheduler around them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.client.retry import Retry
from fairlead.doors.scheduler.binder import Binder, Bound
from fairlead.doors.scheduler.evictor import Evictor
from fairlead.doors.scheduler.statuses import Statuses
from fairlead.doors.scheduler.volumes import Volumes
from fairlead.engine.core.actions import EvictPod
from fairlead.engine.core.events import Event
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.kube.pod import Pod
from support.faults import Faithful, FaultProxy, Plan
from support.scheduler import Ledger, Shop

__all__ = ["Writing", "writing"]


class Writing:
    """A binder, the statuses that it gives way to, and an evictor for a core that wants what it decided."""

    def __init__(self, client: Client, ledger: Ledger) -> None:
        self.ledger = ledger
        self.told: list[Event] = []
        self.bound: list[Bound] = []
        self.evicted: list[EvictPod] = []
        self.waiting: dict[str, Pod] = {}
        self.statuses = Statuses(client, self.waiting.get)
        self.binder = Binder(
            client,
            Volumes(client, Snapshot().storage),
            self.statuses,
            tell=self.told.append,
            done=self.bound.append,
            trim=lambda pod: pod,
        )
        self.evictor = Evictor(
            client,
            how="api",
            between_turns=_at_once,
            confirms=lambda evict, *, sending=False: True,
            is_spared=lambda uid: False,
            budgets=lambda evict: (),
            allowed=lambda budget: 0,
            respect=True,
            tell=self.told.append,
            done=self.evicted.append,
            refused=lambda evict, message, *, final: None,
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
