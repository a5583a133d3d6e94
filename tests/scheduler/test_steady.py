"""No change, no action: a steady cluster sees no writes but Lease renewals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from support.scheduler import Shop, aside, in_process


@pytest.mark.slow
async def test_a_steady_cluster_sees_no_writes_but_lease_renewals(
    ours: Shop, count: Callable[[int, int], int]
):
    await aside(ours.cluster.add_nodes, 3, cpu=1)
    flags = {"leaderElection__enabled": True, "systemNamespace": ours.cluster.namespace}
    async with in_process(ours, drift__interval="1s", drift__settle=0, **flags) as running:
        await aside(ours.add, "runs", priority=5)
        await aside(ours.add, "too-big", cpu="64")
        await aside(ours.add, "lonely", gang="g", minimum=2)
        await aside(ours.bound, "runs")
        await aside(ours.held, "too-big")
        # Events go out after what they tell of: the cluster is steady once all three are told.
        await aside(ours.events, "runs", "Scheduled")
        await aside(ours.events, "too-big", "FailedScheduling")
        await aside(ours.events, "lonely", "WaitingForGang")
        before = len(running.ledger.writes)
        await asyncio.sleep(count(5, 60))
        after = running.ledger.writes[before:]
        assert [write for write in after if "/leases/" not in write] == []
        assert after


async def test_heartbeats_and_labels_of_others_change_nothing(ours: Shop):
    node, *_ = await aside(ours.cluster.add_nodes, 1, cpu=1)
    async with in_process(ours) as running:
        await aside(ours.add, "runs")
        await aside(ours.bound, "runs")
        await aside(ours.events, "runs", "Scheduled")
        await aside(ours.add, "too-big", cpu="64")
        await aside(ours.held, "too-big")
        await aside(ours.events, "too-big", "FailedScheduling")
        before = len(running.ledger.writes)
        for beat in range(5):
            patch = {"metadata": {"annotations": {"beat": str(beat)}}}
            await aside(ours.cluster.patch, "Node", node, patch)
        # A pod that comes after the heartbeats is bound after they were looked at.
        await aside(ours.add, "small", cpu="0")
        await aside(ours.bound, "small")
        await aside(ours.events, "small", "Scheduled")
        about_others = [write for write in running.ledger.writes[before:] if "small" not in write]
        [told] = [write for write in about_others if write.endswith("/events")]
        assert about_others == [told]  # that of the small pod, whose name its address does not carry
