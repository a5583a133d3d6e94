"""Ledgers as a webhook keeps them, without the webhook."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import yaml

from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.doors.process import Context
from fairlead.doors.webhook.ledgers import Ledgers, Wish
from fairlead.doors.webhook.metrics import Metrics
from fairlead.feed.policies import LivePolicies
from fairlead.policy.groups.member import GroupKey, Place
from fairlead.policy.rule.split import Tiers
from support.cluster import Cluster
from support.manifests import deployment
from support.members import a_deployment
from support.policies import plain_policy, policy

__all__ = ["kept", "wishes_of_one_group"]


@asynccontextmanager
async def kept(client: Client, folder: Path, clock: Clock = WALL_CLOCK) -> AsyncIterator[Ledgers]:
    """Ledgers as a webhook keeps them."""
    (folder / "policies.yaml").write_text(yaml.safe_dump(plain_policy()))
    policies = LivePolicies(client, file=str(folder / "policies.yaml"))
    context = Context(client, policies, "fairlead-system", random.Random(1))
    ledgers = Ledgers(client, context.watches, context.groups, Metrics(), clock=clock)
    tasks = [asyncio.ensure_future(one) for one in (context.follow(), ledgers.run())]
    await context.groups.synced()
    await ledgers.synced()
    try:
        yield ledgers
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def wishes_of_one_group(served: Cluster) -> list[Wish]:
    """Four pods of a Deployment that want a slot."""
    used = policy()
    # A ledger goes with its workload, so that must be there.
    uid = served.create(deployment("web", 0))["metadata"]["uid"]
    workload = replace(a_deployment(10), namespace=served.namespace, uid=uid)
    place = Place(used, workload, GroupKey(used.name, served.namespace, "Deployment/web", "r1"))
    return [Wish("web-", place, Tiers(used.spec.tiers), f"token-{number}") for number in range(4)]
