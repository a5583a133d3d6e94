"""A node that is registered anew may be of another tier: its pods go with it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from aiohttp import web

from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.doors import grouping
from fairlead.doors.grouping import GroupsOfPods
from fairlead.doors.owners import OwnersOfPods
from fairlead.doors.policies import LivePolicies
from fairlead.kube.pod import PodSpec
from fairlead.kube.resources import known
from fairlead.policy.groups import GroupKey, Member
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
        owners = OwnersOfPods(client)
        groups = GroupsOfPods(client, policies, owners, changed=lambda _: changed.set())

        async def tier(wanted: str) -> None:
            while [member.tier for key in groups.groups() for member in groups.members(key)] != [wanted]:
                changed.clear()
                await changed.wait()

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(one.run()) for one in (owners, groups)]
            await groups.synced()
            await tier("spot")
            again.set()
            await tier("on-demand")
            for task in running:
                task.cancel()


async def test_pods_on_nodes_that_never_were_are_not_remembered_by_node_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Counter[str]()
    monkeypatch.setattr(grouping, "_SPECS", 10)
    monkeypatch.setattr(grouping, "_spec_of", lambda name: made.update([name]) or PodSpec(node_name=name))
    number, seen = 30, asyncio.Event()

    def added(index: int, version: int) -> bytes:
        one = pod(f"web-1-{index}", on=f"never-{index}", owner=OWNER, labels={"pod-template-hash": "1"})
        return frame("ADDED" if version < 1000 else "MODIFIED", versioned(one, version))

    async def watch(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if request.path == known("Pod").path():
            for index in range(number):
                await response.write(added(index, 100 + index))
        await response.write(bookmark(900, initial_end=True))
        if request.path == known("Pod").path():
            await response.write(added(number - 1, 1000) + added(0, 1001) + added(number, 1002))
        await asyncio.Event().wait()
        return response

    def shown(_key: GroupKey, member: Member, _node: str) -> None:
        if member.name == f"web-1-{number}":
            seen.set()

    async with asyncio.timeout(PATIENCE_S), serving(watch) as target, Connection(target) as connection:
        client = Client(connection, rng=random.Random(1))
        policies = LivePolicies(client, fixed=[policy("web")], cluster=False)
        owners = OwnersOfPods(client)
        groups = GroupsOfPods(client, policies, owners, shown=shown)
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(one.run()) for one in (owners, groups)]
            await seen.wait()
            for task in running:
                task.cancel()
    assert made[f"never-{number - 1}"] == 1, "one of the last"
    assert made["never-0"] == 2, "forgotten"
