"""Policies for tests, and clusters that serve them."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from fairlead.doors.crds import ensure_crds
from fairlead.policy.names import API_VERSION, POLICIES
from fairlead.policy.rule.model import PlacementPolicy, read_policy
from support.cluster import Cluster

__all__ = ["add_policy", "plain_policy", "policy", "serve_policies"]

SPOT = {"name": "spot", "nodes": {"capacity": "spot"}, "volatile": True}
ON_DEMAND = {"name": "on-demand", "nodes": {"capacity": "on-demand"}, "min": "30%"}


def plain_policy(name: str = "web", *tiers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A policy as it is written; spot first and 30% on demand unless told otherwise."""
    return {
        "apiVersion": API_VERSION,
        "kind": POLICIES.kind,
        "metadata": {"name": name},
        "spec": {"tiers": copy.deepcopy(list(tiers) or [SPOT, ON_DEMAND]), **spec},
    }


def policy(name: str = "web", *tiers: dict[str, Any], **spec: Any) -> PlacementPolicy:
    """The same, read."""
    return read_policy(plain_policy(name, *tiers, **spec))


def serve_policies(cluster: Cluster) -> None:
    """Make the cluster serve policies and ledgers, as a door would."""

    async def ensure() -> None:
        async with cluster.client() as client:
            await ensure_crds(client)

    asyncio.run(ensure())


def add_policy(cluster: Cluster, plain: dict[str, Any]) -> dict[str, Any]:
    """Create it under a name of its own; it goes with the test."""
    plain["metadata"]["name"] = cluster.unique(plain["metadata"]["name"])
    made: dict[str, Any] = cluster.wire.request("POST", POLICIES.path(), plain).ok()
    cluster.owns(POLICIES.path(None, made["metadata"]["name"]))
    return made
