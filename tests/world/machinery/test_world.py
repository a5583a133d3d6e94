from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest
import yaml

from fairlead.world.clock import VirtualClock, WallClock
from fairlead.world.kubelet import Pace
from fairlead.world.world import NotReached, World
from support.manifests import deployment
from support.worlds import node, ready, seconds, world


def test_a_condition_that_never_holds_is_reported_after_the_limit() -> None:
    cluster = world(1)
    start = cluster.clock.now()
    with pytest.raises(NotReached):
        cluster.run_until(lambda: False, limit=seconds(600))
    assert cluster.clock.now() == start + seconds(600)


def test_nothing_happens_between_two_calls() -> None:
    cluster = world(1)
    cluster.create(deployment("web", 3))
    before = cluster.store.rv
    assert cluster.all("ReplicaSet") == []
    assert cluster.store.rv == before


def test_an_hour_of_a_busy_cluster_takes_seconds() -> None:
    cluster = world(20, cpu=16, events=())
    for number in range(10):
        cluster.create(deployment(f"web-{number}", 20))
    cluster.run_until(lambda: len(ready(cluster)) == 200)
    steps = 0
    end = cluster.clock.now() + seconds(3600)
    assert isinstance(cluster.clock, VirtualClock)
    while cluster.clock.step(end):
        cluster.runner.drain()
        steps += 1
    assert steps < 100  # nothing ticks while nothing happens


async def test_on_the_wall_clock_the_cluster_lives_by_itself_and_answers_over_http() -> None:
    cluster = World([node("n1")], clock=WallClock(), pace=Pace(start=seconds(0)))
    async with await cluster.serve() as serving, aiohttp.ClientSession() as session, asyncio.timeout(30):
        config = yaml.safe_load(serving.kubeconfig.read_text())
        assert config["clusters"][0]["cluster"]["server"] == serving.url
        path = f"{serving.url}/apis/apps/v1/namespaces/default/deployments"
        async with session.post(path, json=deployment("web", 3)) as answer:
            assert answer.status == 201
        await cluster.wait_until(lambda: len(ready(cluster, app="web")) == 3)
        async with session.get(f"{serving.url}/api/v1/namespaces/default/pods") as answer:
            items = json.loads(await answer.text())["items"]
        assert [item["status"]["phase"] for item in items] == ["Running"] * 3
        folder = serving.kubeconfig.parent
        assert folder.exists()
    assert not folder.exists()


async def test_on_the_wall_clock_a_condition_that_never_holds_is_reported() -> None:
    cluster = World(clock=WallClock())
    async with await cluster.serve():
        with pytest.raises(NotReached):
            await cluster.wait_until(lambda: False, limit=seconds(0.05))


async def test_a_kubeconfig_that_was_asked_for_stays(tmp_path: Path) -> None:
    cluster = World(clock=WallClock())
    async with await cluster.serve(kubeconfig=tmp_path / "config"):
        pass
    assert (tmp_path / "config").exists()


async def test_on_the_wall_clock_nodes_renew_their_leases() -> None:
    cluster = World([node("n1")], clock=WallClock())
    seen = asyncio.Event()
    cluster.store.subscribe(lambda change: seen.set() if change.resource.kind == "Lease" else None)
    async with await cluster.serve(), asyncio.timeout(30):
        await seen.wait()
    lease = cluster.get("Lease", "n1", "kube-node-lease") or {}
    assert lease["spec"]["holderIdentity"] == "n1"


async def test_virtual_time_is_not_served() -> None:
    with pytest.raises(TypeError, match="WallClock"):
        await World().serve()
