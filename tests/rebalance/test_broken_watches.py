"""Watches that break off where nothing ever happens must not keep the rebalancer from its work."""

from __future__ import annotations

from pathlib import Path

from fairlead.client.config import load
from support.door import kubeconfig_of
from support.faults import FaultProxy
from support.rebalancing import PACE, Rebalanced
from support.scheduler import aside

QUIET = {"storageclasses", "persistentvolumes"}


async def test_it_goes_on_although_most_of_what_it_watches_has_nothing_to_tell(
    corner: Rebalanced, tmp_path: Path
) -> None:
    own = corner.corner
    await aside(own.nodes, spot=0, on_demand=1)
    tiers = own.tier("spot", volatile=True), own.tier("on-demand", min=1)
    patient = {"after": "1s", "coolDown": "1s"}
    await aside(corner.policies, own.policy("web", *tiers, rebalance=PACE, fallback=patient))
    async with FaultProxy(load(corner.cluster.kubeconfig)) as proxy:
        door = corner.door("rebalance", kubeconfig=kubeconfig_of(proxy.url, tmp_path))
        await aside(door.wait_for, "synced")
        await aside(own.deploy, "web", 3)
        await aside(corner.lies, "web", on_demand=3)
        assert proxy.cut_all() > 5
        # Where nothing happens: what else is broken is soon mended by events.
        await aside(
            corner.cluster.wait,
            lambda: {one["resource"] for one in door.log("watch_broken")} >= QUIET,
            "quiet watches to break",
        )
        await aside(own.nodes, spot=1, on_demand=0)
        await aside(corner.lies, "web", spot=2, on_demand=1)
