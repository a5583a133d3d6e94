"""What-ifs as the server has them worked out: who may ask, how much, one at a time, as long as one waits."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fairlead.client.config import load
from fairlead.web.whatif import LARGEST, MOST
from support.cluster import Cluster, Host
from support.faults import Answer, Faithful, FaultProxy, RequestFault
from support.manifests import deployment
from support.what_ifs import User, user_of

SPEC = {"schedulerName": "default-scheduler"}


@pytest.fixture
async def user(embedded_host: Host) -> AsyncIterator[User]:
    async with user_of(embedded_host.kubeconfig) as found:
        yield found


@asynccontextmanager
async def filled(cluster: Cluster) -> AsyncIterator[list[str]]:
    """Two nodes of this test's own, with two pods of a Deployment on one of them."""

    def fill() -> list[str]:
        first = cluster.add_nodes(1, cpu=4)
        spec = {**SPEC, "nodeSelector": {"test": cluster.namespace}}
        cluster.create(deployment("web", 2, pods={**spec, **_asking("1")}))
        cluster.wait(lambda: _homes(cluster) == first * 2, "the pods to be placed")
        return [*first, *cluster.add_nodes(1, cpu=4)]

    yield await asyncio.to_thread(fill)


def _asking(cpu: str) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {"containers": [container]}


def _homes(cluster: Cluster) -> list[str]:
    return [pod["spec"].get("nodeName", "") for pod in cluster.list("Pod")["items"]]


@pytest.fixture
async def cluster_of_ours(embedded_host: Host) -> AsyncIterator[Cluster]:
    cluster = Cluster(embedded_host)
    try:
        yield cluster
    finally:
        await asyncio.to_thread(cluster.close)


async def test_the_answer_has_both_outcomes_and_what_becomes_of_each_node_and_pod(
    user: User, cluster_of_ours: Cluster
) -> None:
    cluster = cluster_of_ours
    async with filled(cluster) as (full, empty):
        end, said = await user.ask(("remove-node", full))
        found = end["answer"]
        assert found["changes"] == [f"remove node {full}"]
        assert found["with"]["nodes"] == found["without"]["nodes"] - 1
        assert found["with"]["evicted"] == 2
        drawn = found["map"]
        assert drawn["marks"] == {full: "gone"}
        names = [row[0] for row in drawn["nodes"]]
        assert full in names
        assert empty in names
        assert [row[1] for row in drawn["pods"]["evicted"]] == [full, full]
        assert [row[1] for row in drawn["pods"]["comes"]] == [empty, empty]
        assert said[0] == "reading the cluster"
        assert said[-1].startswith(("playing with the changes", "playing the cluster as it is: "))
        assert await asyncio.to_thread(_homes, cluster) == [full, full]


async def test_nothing_is_worked_out_without_a_session(user: User) -> None:
    async with aiohttp.ClientSession() as nobody:
        other = User(user.board, nobody)
        assert "open the address" in await other.refused(401, json={"changes": [["drain", "n"]]})
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert "other pages" in await user.refused(403, json={"changes": [["drain", "n"]]}, headers=headers)


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ({}, "this is no what-if"),
        ({"changes": []}, "nothing is to be done"),
        ({"changes": "drain"}, "this is no what-if"),
        ({"changes": [["drain", "n"]], "more": 1}, "this is no what-if"),
        ({"changes": [["drain", "n"]] * (MOST + 1)}, f"these are {MOST + 1} changes"),
    ],
)
async def test_what_is_no_what_if_is_refused(user: User, sent: dict[str, Any], problem: str) -> None:
    assert problem in await user.refused(400, json=sent)


async def test_a_body_is_bounded(user: User) -> None:
    large = json.dumps({"changes": [["apply", "#" * LARGEST]]})
    assert "more than" in await user.refused(413, data=large)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("drain", "nowhere"), "there is no node 'nowhere'"),
        (("reboot", "n"), "there is no change 'reboot'; there are add-nodes"),
        (("add-nodes", "large"), "add-nodes large: write GROUP=N"),
        (("add-nodes", "large=1000000"), "more than the 5000 that can be added"),
        (("scale", "shop/web=100001"), "more than the 100000"),
        (("lose-zone", "mars"), "there is no zone 'mars'"),
        (("apply", "kind: [}"), "apply: is neither YAML nor JSON"),
        (("apply", ""), "apply: there is no object"),
        (("apply", "kind: Pod"), "apply: Pod (no name): metadata.name: is missing"),
        (("policy", "{kind: Pod, metadata: {name: a}}"), "this is a Pod, not a PlacementPolicy"),
    ],
)
async def test_what_is_wrong_with_a_change_is_said_of_that_change(
    user: User, cluster_of_ours: Cluster, change: tuple[str, str], problem: str
) -> None:
    async with filled(cluster_of_ours) as (_, empty):
        end, _ = await user.ask(("drain", empty), change)
    assert end["wrong"]["change"] == 1
    assert problem in end["wrong"]["why"]
    assert "\n" not in end["wrong"]["why"]


async def test_one_is_worked_out_at_a_time_and_ends_when_its_browser_goes_away(user: User) -> None:
    async with user.asking(("add-nodes", "none=1")) as first:
        process = await user.process_of(first)
        # Stopped, it never ends by itself.
        os.kill(process.pid, signal.SIGSTOP)
        assert "another what-if is being worked out" in await user.refused(
            503, json={"changes": [["drain", "n"]]}
        )
        first.close()
    assert await process.wait() == -signal.SIGKILL
    end, _ = await user.ask(("add-nodes", "none=1"))
    assert "there is no node group 'none'" in end["wrong"]["why"]


async def test_the_page_goes_on_while_one_is_worked_out_and_the_server_ends_with_it_under_way(
    user: User,
) -> None:
    async with user.asking(("add-nodes", "none=1")) as answer:
        process = await user.process_of(answer)
        os.kill(process.pid, signal.SIGSTOP)
        async with user.session.get(f"{user.board.url}/dashboard/api/state") as state:
            assert state.status == 200
        await user.board.stop()
        assert await process.wait() == -signal.SIGKILL
        answer.close()
    await user.board.start(scheduler=False)


async def test_a_process_that_takes_too_much_memory_is_no_harm(user: User, cluster_of_ours: Cluster) -> None:
    labels = {"eks.amazonaws.com/nodegroup": cluster_of_ours.namespace}
    await asyncio.to_thread(cluster_of_ours.add_nodes, 1, labels=labels)
    user.board.door._server._what_if._memory = 60 * 2**20
    end, _ = await user.ask(("add-nodes", f"{cluster_of_ours.namespace}=5000"))
    assert "takes more memory than it may have here, 60 MiB" in end["wrong"]["why"]


async def test_a_process_that_is_killed_is_told_of(user: User) -> None:
    async with user.asking(("add-nodes", "none=1")) as answer:
        (await user.process_of(answer)).kill()
        lines = [json.loads(line) async for line in answer.content if line.strip()]
    assert "ended by the system" in lines[-1]["wrong"]["why"]


async def test_the_page_knows_the_flags_that_ask_the_same_on_a_command_line(embedded_host: Host) -> None:
    kubeconfig = str(embedded_host.kubeconfig)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "fairlead", "dashboard", "--kubeconfig", kubeconfig, "--pdb=best-effort"),
        *("--listen", "127.0.0.1:0", "--system-namespace=mine"),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        address = (await process.stdout.readline()).decode().split()[-1]
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            await (await session.get(address)).read()
            async with session.get(f"{address.partition('/open')[0]}/api/state") as answer:
                state = await answer.json()
    finally:
        process.terminate()
        await process.communicate()
    flags = state["flags"]
    assert dict(zip(flags[::2], flags[1::2], strict=True)) == {
        "--kubeconfig": kubeconfig,
        "--pdb": "best-effort",
        "--system-namespace": "mine",
    }


class Compacted(Faithful):
    """The first pages of DaemonSets are gone before they are read to the end."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if "/daemonsets" not in path:
            return None
        self.paths.append(path)
        return Answer(410, "Expired") if len(self.paths) == 1 else None


async def test_a_list_that_is_compacted_away_while_it_is_read_is_read_again(
    cluster_of_ours: Cluster, tmp_path: Path
) -> None:
    cluster, plan = cluster_of_ours, Compacted()
    async with filled(cluster) as (full, _), FaultProxy(load(cluster.kubeconfig), plan) as proxy:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(_kubeconfig(proxy.target.server.url)))
        async with user_of(kubeconfig) as user:
            end, _ = await user.ask(("remove-node", full))
    assert [("limit=" in path) for path in plan.paths] == [True, False]
    assert end["answer"]["without"]["placed"] == 2
    assert end["answer"]["with"]["evicted"] == 2


def _kubeconfig(url: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "proxy",
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        "clusters": [{"name": "proxy", "cluster": {"server": url}}],
        "users": [{"name": "proxy", "user": {}}],
    }
