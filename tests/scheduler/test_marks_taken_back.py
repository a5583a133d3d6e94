"""The mark on a pod whose gang stays is taken back, but never a mark that was made again meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.clock import Clock
from fairlead.client.connection import Connection
from fairlead.doors.scheduler.evictor import Evictor
from fairlead.engine.core.actions import EvictPod, SparePod
from fairlead.engine.snapshot.evicted import CONDITION
from fairlead.kube.resources import known
from support.cluster import Cluster
from support.faults import Faithful, FaultProxy, Plan
from support.manifests import pod
from support.meanwhile import Held, Meanwhile
from support.wire import PATIENCE_S


class Marking:
    """An evictor whose core decides what `spared` says, and a pod that it marks."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self.cluster = cluster
        self.client = client
        began = datetime.now(UTC)
        self.spared = False
        self.evictor = Evictor(
            client,
            how="api",
            between_turns=lambda: asyncio.sleep(0),
            confirms=self._confirms,
            is_spared=lambda uid: self.spared,
            protected=lambda evictions: None,
            tell=lambda event: None,
            done=lambda evict: None,
            refused=lambda evict, message, final: None,
            # It stands still: a mark that is made again is the same to the byte.
            clock=Clock(wall=lambda: began),
        )
        made = cluster.create(pod("member", spec={"schedulerName": "nobody"}))
        self.key, self.uid = f"{cluster.namespace}/member", made["metadata"]["uid"]

    def _confirms(self, evict: EvictPod, sending: bool) -> bool:
        return not sending  # marked, and then the eviction itself is not wanted

    async def mark(self, message: str = "first") -> None:
        self.spared = False
        self.evictor.put([EvictPod(self.key, self.uid, "node", "unit", "unit", message, gang="gang")])
        async with asyncio.timeout(PATIENCE_S):
            await self.evictor.idle()

    async def spare(self) -> None:
        self.spared = True
        self.evictor.spare(SparePod(self.key, self.uid))
        async with asyncio.timeout(PATIENCE_S):
            await self.evictor.idle()

    def conditions(self) -> dict[str, tuple[str, str]]:
        """Status and message of both conditions of the mark."""
        found = self.cluster.get("Pod", "member")["status"].get("conditions", [])
        kinds = (CONDITION, "DisruptionTarget")
        return {one["type"]: (one["status"], one["message"]) for one in found if one["type"] in kinds}

    def write(self, **condition: Any) -> None:
        """Change one condition of the mark, as another process would."""
        wire = self.cluster.host.wire()
        body = {"status": {"conditions": [{"type": CONDITION, "status": "True", **condition}]}}
        path = self.cluster.path("Pod", "member", "status")
        wire.request("PATCH", path, body, content_type="application/strategic-merge-patch+json").ok()
        wire.close()


@asynccontextmanager
async def marking(cluster: Cluster, plan: Plan) -> AsyncIterator[Marking]:
    upstream = kubeconfig.load(cluster.kubeconfig)
    async with FaultProxy(upstream, plan) as proxy, Connection(proxy.target) as connection:
        own = Marking(cluster, Client(connection))
        running = asyncio.create_task(own.evictor.run())
        await own.mark()
        assert set(own.conditions().values()) == {("True", "first")}
        yield own
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_the_mark_of_a_gang_that_stays_is_taken_back(cluster: Cluster) -> None:
    async with marking(cluster, Faithful()) as own:
        await own.spare()
        assert {status for status, _ in own.conditions().values()} == {"False"}


async def test_a_mark_that_was_made_again_before_the_write_arrived_stays(cluster: Cluster) -> None:
    plan = Meanwhile("/pods/member/status", lambda: None)
    plan.done = True
    async with marking(cluster, plan) as own:

        def made_again() -> None:
            own.spared = False
            own.write(reason="Gang", message="second")

        plan.happens, plan.done = made_again, False
        await own.spare()
        assert plan.done
        assert own.conditions()[CONDITION] == ("True", "second")


async def test_a_mark_of_the_pod_alone_is_not_taken_back_with_its_gang_s(cluster: Cluster) -> None:
    async with marking(cluster, Faithful()) as own:
        own.write(reason="Pod", message="by itself")
        await own.spare()
        assert own.conditions()[CONDITION] == ("True", "by itself")


async def test_a_pod_that_changed_meanwhile_still_loses_its_mark(cluster: Cluster) -> None:
    plan = Meanwhile("/pods/member/status", lambda: None)
    plan.done = True
    async with marking(cluster, plan) as own:
        plan.happens, plan.done = lambda: own.write(message="of the kubelet"), False
        await own.spare()
        assert plan.done
        assert {status for status, _ in own.conditions().values()} == {"False"}


async def test_a_mark_made_again_while_the_old_one_is_being_taken_back_comes_after_it(
    cluster: Cluster,
) -> None:
    plan = Held("PATCH none")
    async with marking(cluster, plan) as own:
        plan.request = "/pods/member/status"
        sparing = asyncio.create_task(own.spare())
        async with plan.meanwhile():
            marking_again = asyncio.create_task(own.mark("first"))
            for _ in range(3):  # a mark that did not wait would have been written before these are answered
                await own.client.get(known("Pod"), "member", cluster.namespace)
        await sparing
        await marking_again
        assert set(own.conditions().values()) == {("True", "first")}
