"""A node that is registered again may be of another tier: its pods go with it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from aiohttp import web

from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.doors.process import Context
from fairlead.feed.policies import LivePolicies
from fairlead.kube.resources import known
from support.odd_server import bookmark, frame, serving
from support.policies import policy
from support.units import node, pod
from support.wire import PATIENCE_S

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}


def versioned(thing: dict[str, Any], version: int, **metadata: Any) -> dict[str, Any]:
    return thing | {"metadata": thing["metadata"] | metadata | {"resourceVersion": str(version)}}


WAS = versioned(node("n1", labels={"capacity": "spot"}), 5, uid="one")
IS = versioned(node("n1", labels={"capacity": "on-demand"}), 11, uid="two")
POD = versioned(pod("web-1-a", on="n1", owner=OWNER, labels={"pod-template-hash": "1"}), 6)


@pytest.mark.parametrize(
    "happens",
    [[frame("DELETED", versioned(WAS, 10)), frame("ADDED", IS)], [frame("MODIFIED", IS)]],
    ids=["deleted and made", "all at once"],
)
async def test_pods_are_in_the_tier_that_their_node_now_is(happens: list[bytes]) -> None:
    listed = {known("Node").path(): frame("ADDED", WAS), known("Pod").path(): frame("ADDED", POD)}
    again, changed = asyncio.Event(), asyncio.Event()

    async def watch(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(listed.get(request.path, b"") + bookmark(9, initial_end=True))
        await again.wait()
        if request.path == known("Node").path():
            for line in happens:
                await response.write(line)
        await asyncio.Event().wait()
        return response

    async with asyncio.timeout(PATIENCE_S), serving(watch) as target, Connection(target) as connection:
        client = Client(connection, rng=random.Random(1))
        policies = LivePolicies(client, fixed=[policy("web")], cluster=False)
        context = Context(client, policies, "fairlead-system", random.Random(1))
        groups = context.groups
        groups.on_change(lambda _: changed.set())

        async def tier(wanted: str) -> None:
            while [pod.member.tier for one in groups.index.groups.values() for pod in one.values()] != [
                wanted
            ]:
                changed.clear()
                await changed.wait()

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(context.follow())]
            await groups.synced()
            await tier("spot")
            again.set()
            await tier("on-demand")
            for task in running:
                task.cancel()
