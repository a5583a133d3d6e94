"""Work that is done only while a lease is held: it ends with the lease, and begins again with the next."""

from __future__ import annotations

import asyncio

import pytest

from fairlead.client.api import Client
from fairlead.client.election import Terms
from fairlead.doors.leader import lead
from fairlead.errors import LeaseLost
from fairlead.kube.resources import known
from support.cluster import Cluster
from support.wire import PATIENCE_S

LEASE = "work"
QUICK = Terms(retry_s=0.05)
MAPS = known("ConfigMap")


def holder(cluster: Cluster) -> str:
    return str(cluster.get("Lease", LEASE)["spec"].get("holderIdentity") or "")


def take_away(cluster: Cluster) -> None:
    """Another held the lease, and has released it already."""
    cluster.patch("Lease", LEASE, {"spec": {"holderIdentity": ""}})


async def test_work_writes_as_the_leader_and_the_lease_is_free_when_it_returns(cluster: Cluster) -> None:
    held: list[str] = []

    async def work(client: Client) -> None:
        await client.create(MAPS, {"metadata": {"name": "made", "namespace": cluster.namespace}})
        held.append(holder(cluster))

    async with cluster.client() as client, asyncio.timeout(PATIENCE_S):
        await lead(client, LEASE, cluster.namespace, work, terms=QUICK, instance="me")
    assert [one.partition("_")[0] for one in held] == ["me"]
    assert holder(cluster) == ""
    assert "made" in cluster.names("ConfigMap")


async def test_work_whose_lease_was_lost_ends_and_is_done_again_once_the_lease_is_free(
    cluster: Cluster,
) -> None:
    clients: list[Client] = []
    ended: list[int] = []

    async def work(client: Client) -> None:
        clients.append(client)
        if len(clients) == 1:
            take_away(cluster)
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(len(clients))

    async with cluster.client() as client, asyncio.timeout(PATIENCE_S):
        await lead(client, LEASE, cluster.namespace, work, terms=QUICK)
        assert len(clients) == 2
        assert ended == [1], "the first had ended before the second began"
        for number, former in enumerate(clients):
            made = {"metadata": {"name": f"by-{number}", "namespace": cluster.namespace}}
            with pytest.raises(LeaseLost):
                await former.create(MAPS, made)
    assert cluster.names("ConfigMap") == ["kube-root-ca.crt"]


async def test_work_of_several_tasks_that_the_fence_stopped_is_done_again(cluster: Cluster) -> None:
    calls: list[Client] = []

    async def refused() -> None:
        raise LeaseLost("not written")

    async def work(client: Client) -> None:
        calls.append(client)
        if len(calls) == 1:
            async with asyncio.TaskGroup() as group:
                group.create_task(refused())
                group.create_task(asyncio.Event().wait())

    async with cluster.client() as client, asyncio.timeout(PATIENCE_S):
        await lead(client, LEASE, cluster.namespace, work, terms=QUICK)
    assert len(calls) == 2


async def test_other_errors_of_the_work_come_out_and_the_lease_is_free(cluster: Cluster) -> None:
    async def fails() -> None:
        raise ValueError("as it is")

    async def work(client: Client) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())

    async with cluster.client() as client, asyncio.timeout(PATIENCE_S):
        with pytest.raises(ExceptionGroup) as raised:
            await lead(client, LEASE, cluster.namespace, work, terms=QUICK)
    assert raised.group_contains(ValueError, match="as it is")
    assert holder(cluster) == ""
