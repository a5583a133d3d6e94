"""A lease as real API servers and the embedded one keep it."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest

from fairlead.client.api import Client
from fairlead.client.election import ApiLease, Election, Terms
from fairlead.errors import LeaseLost
from fairlead.kube.resources import known
from fairlead.kube.workloads import Lease

if TYPE_CHECKING:
    from client.conftest import Through


class Renewed(ApiLease):
    """Says when the lease was written again after it was taken."""

    def __init__(self, client: Client, name: str, namespace: str) -> None:
        super().__init__(client, name, namespace)
        self.renewed = asyncio.Event()

    async def put(self, spec: dict[str, Any], old: Lease | None) -> Lease:
        lease = await super().put(spec, old)
        if old is not None:
            self.renewed.set()
        return lease


class Looked(ApiLease):
    """Says when somebody looked at the lease."""

    def __init__(self, client: Client, name: str, namespace: str, looked: asyncio.Event) -> None:
        super().__init__(client, name, namespace)
        self._looked = looked

    async def get(self) -> Lease | None:
        lease = await super().get()
        self._looked.set()
        return lease


class TestOnAcluster:
    async def test_a_lease_is_taken_renewed_and_released(self, through: Through) -> None:
        store = Renewed(through.client, "fairlead", through.namespace)
        election = Election(
            store,
            "me",
            rng=random.Random(1),
            terms=Terms(retry_s=0.05),
            on_resume=through.client.connection.reset,
        )
        fenced = through.client.fenced(election.fence)
        maps = known("ConfigMap")

        async def lead() -> None:
            first = await store.get()
            assert first is not None
            assert first.spec.holder_identity == election.identity
            assert first.spec.lease_duration_seconds == 15
            acquired = through.cluster.get("Lease", "fairlead")["spec"]["acquireTime"]
            await fenced.create(maps, {"metadata": {"name": "by-the-leader", "namespace": through.namespace}})
            await store.renewed.wait()
            assert through.cluster.get("Lease", "fairlead")["spec"]["acquireTime"] == acquired
            now = await store.get()
            assert now is not None
            assert first.spec.renew_time is not None
            assert now.spec.renew_time is not None
            assert now.spec.renew_time > first.spec.renew_time

        async with asyncio.timeout(20):
            await election.run(lead)
        released = await store.get()
        assert released is not None
        assert released.spec.holder_identity in ("", None)
        assert released.spec.lease_duration_seconds == 1  # as client-go leaves it
        with pytest.raises(LeaseLost):
            await fenced.create(maps, {"metadata": {"name": "too-late", "namespace": through.namespace}})

    async def test_of_several_one_leads_and_all_have_their_turn(self, through: Through) -> None:
        leading, most, turns = 0, 0, []
        waiting: dict[str, asyncio.Event] = {name: asyncio.Event() for name in "abcd"}

        async def candidate(name: str) -> None:
            store = Looked(through.client, "fairlead", through.namespace, waiting[name])
            election = Election(store, name, rng=random.Random(name), terms=Terms(retry_s=0.05))

            async def lead() -> None:
                nonlocal leading, most
                leading += 1
                most = max(most, leading)
                turns.append(name)
                # Long enough for everybody else to have tried, and so to lead too if anybody could.
                del waiting[name]
                for other in waiting.values():
                    other.clear()
                for other in list(waiting.values()):
                    await other.wait()
                leading -= 1

            await election.run(lead)

        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for name in "abcd":
                group.create_task(candidate(name))
        assert most == 1
        assert sorted(turns) == ["a", "b", "c", "d"]
