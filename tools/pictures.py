"""Screenshots of the dashboard, of an embedded cluster with something to see in every view.

``python -m tools.pictures`` makes the pictures of the documentation again; ``--all FOLDER`` makes one of
every view, light and dark, wide and as narrow as a phone, to be looked at after a change of the page.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.async_api import Page, async_playwright

from fairlead.client.api import Client
from fairlead.client.config import load
from fairlead.client.connection import Connection
from fairlead.doors.crds import ensure_crds
from fairlead.kube.resources import known
from fairlead.policy.names import POLICIES
from fairlead.rig.nodes import node_object
from fairlead.world.clock import WallClock
from fairlead.world.kubelet import Pace
from fairlead.world.world import World
from tools.browser import find

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs" / "pictures"
SIZES = {"wide": (1440, 900), "phone": (400, 800)}
PRIORITY = "fairlead.dev/priority-annotation"
LOADED = "() => ![...document.querySelectorAll('.loading')].some((one) => one.checkVisibility())"
_SETTLES_S, _STILL_S = 8.0, 1.5

CHANGES = [["lose-tier", "spot-first/spot"], ["add-nodes", "general=4"]]
VIEWS = {
    "map": "#/map?by=tier:spot-first",
    "map-gangs": "#/map?by=zone&colour=gang",
    "map-node": "#/map?by=group&colour=workload&node=general-a1",
    "map-table": "#/map?table=1&sort=-cpu",
    "queue": "#/queue",
    "gang": "#/queue?gang=ml/eval",
    "decisions": "#/decisions",
    "preempted": "#/decisions?kinds=preempted,moved",
    "policies": "#/policies?policy=spot-first",
    "whatif": "#/whatif",
    "whatif-answer": f"#/whatif?changes={quote(json.dumps(CHANGES))}",
    "pod-waits": "#/pods/shop/report",
    "pod-runs": "#/pods/shop/{web}",
    "pod-missing": "#/pods/shop/nothing",
}
SHOWN = {
    "map": ("map", False),
    "decisions": ("decisions", False),
    "pod": ("pod-waits", True),
    "whatif": ("whatif-answer", False),
}
"""The documentation's: name of the file → view, and whether dark."""


def nodes() -> Iterator[dict[str, Any]]:
    """Three zones of on-demand and spot nodes, one pool with GPUs, and a node in each kind of trouble."""
    for zone in "abc":
        where = {"topology.kubernetes.io/zone": f"eu-west-1{zone}"}
        for number in range(1, 4):
            yield _node(f"general-{zone}{number}", "general", 8, "0.192", where, capacity="on-demand")
        for number in range(1, 5):
            yield _node(f"spot-{zone}{number}", "spot", 8, "0.071", where, capacity="spot")
        yield _node(f"gpu-{zone}1", "gpu", 32, "3.06", where, capacity="on-demand", gpus=4)


def _node(
    name: str, group: str, cpu: int, price: str, where: dict[str, str], *, capacity: str, gpus: int = 0
) -> dict[str, Any]:
    labels = {
        **where,
        "eks.amazonaws.com/nodegroup": group,
        "node.kubernetes.io/capacity": capacity,
        "node.kubernetes.io/instance-type": {
            "general": "m5.2xlarge",
            "spot": "m5.2xlarge",
            "gpu": "p3.8xlarge",
        }[group],
        "fairlead.dev/price-per-hour": price,
    }
    extended = {"nvidia.com/gpu": gpus} if gpus else None
    return node_object(name, cpu=cpu, memory=f"{cpu * 4}Gi", labels=labels, extended=extended)


POLICY = {
    "apiVersion": "fairlead.dev/v1alpha1",
    "kind": "PlacementPolicy",
    "metadata": {"name": "spot-first"},
    "spec": {
        "match": {"namespaces": ["shop"]},
        "tiers": [
            {
                "name": "spot",
                "nodes": {"node.kubernetes.io/capacity": "spot"},
                "volatile": True,
                "spread": ["topology.kubernetes.io/zone"],
            },
            {"name": "on-demand", "nodes": {"eks.amazonaws.com/nodegroup": "general"}, "min": "30%"},
        ],
        "singleReplica": "on-demand",
    },
}


def deployment(
    name: str,
    replicas: int,
    *,
    cpu: str,
    memory: str = "1Gi",
    priority: int = 0,
    gang: str = "",
    gpus: int = 0,
    exclusive: bool = False,
) -> dict[str, Any]:
    """A Deployment whose pods our scheduler places."""
    said = {"priority": str(priority)} if priority else {}
    if gang:
        said["pod-group"] = gang
    if exclusive:
        said["fairlead.dev/capacity"] = "exclusive"
    requests = {"cpu": cpu, "memory": memory} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    resources = {"requests": requests, "limits": {"nvidia.com/gpu": str(gpus)} if gpus else {}}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": said},
                "spec": {"schedulerName": "fairlead", "containers": [container]},
            },
        },
    }


class Scene:
    """The cluster while it is being filled."""

    def __init__(self, world: World, client: Client) -> None:
        self.world = world
        self.client = client

    async def fill(self) -> None:
        """Workloads of a shop, gangs that train, batch work that makes room, and trouble."""
        deploy = known("Deployment")
        for name in ("shop", "ml", "batch"):
            labels = {PRIORITY: "honour"}
            await self.client.create(known("Namespace"), {"metadata": {"name": name, "labels": labels}})
        await self.client.create(POLICIES, POLICY)
        for one in nodes():
            await self.client.create(known("Node"), one)
        await self._until(lambda: len(self.world.all("Node")) >= 24 and self._ready() >= 24)
        waves = [
            ("shop", deployment("web", 12, cpu="1500m", memory="3Gi", priority=100)),
            ("shop", deployment("cart", 6, cpu="1", memory="4Gi", priority=100)),
            ("shop", deployment("checkout", 4, cpu="2", memory="2Gi", priority=1000)),
            ("shop", deployment("admin", 1, cpu="500m", priority=50)),
            ("batch", deployment("thumbnails", 98, cpu="2", memory="5Gi", priority=1)),
            ("batch", deployment("nightly", 3, cpu="500m", priority=1, exclusive=True)),
            ("ml", deployment("train", 6, cpu="4", memory="16Gi", priority=500, gang="train", gpus=2)),
        ]
        for namespace, body in waves:
            await self.client.create(deploy, body, namespace)
            await self._settled()
        # Now it is nearly full: what is more important takes the room of batch work.
        await self.client.create(deploy, deployment("search", 8, cpu="3", memory="4Gi", priority=200), "shop")
        await self._settled()
        await self.client.create(
            deploy, deployment("eval", 3, cpu="4", memory="16Gi", priority=500, gang="eval", gpus=2), "ml"
        )
        report = deployment("report", 1, cpu="24", memory="8Gi", priority=300)
        pod = {"metadata": {"name": "report", "annotations": {"priority": "300"}}}
        pod["spec"] = report["spec"]["template"]["spec"]
        await self.client.create(known("Pod"), pod, "shop")
        self.world.unready_node("spot-c4")
        await self.client.patch(known("Node"), "general-c3", None, {"spec": {"unschedulable": True}})
        await self._settled()

    def _ready(self) -> int:
        return sum(
            any(
                one["type"] == "Ready" and one["status"] == "True"
                for one in node["status"].get("conditions", [])
            )
            for node in self.world.all("Node")
        )

    async def _settled(self) -> None:
        """Wait until nothing has changed for a moment."""
        change = asyncio.Event()
        stop = self.world.store.subscribe(lambda _: change.set())
        try:
            # Heartbeats and leases change something for ever.
            async with asyncio.timeout(_SETTLES_S):
                with contextlib.suppress(TimeoutError):
                    while True:
                        change.clear()
                        await asyncio.wait_for(change.wait(), _STILL_S)
        except TimeoutError:
            pass
        finally:
            stop()

    async def _until(self, goal: Callable[[], bool]) -> None:
        await self.world.wait_until(goal)


@asynccontextmanager
async def cluster() -> AsyncIterator[tuple[Scene, Path]]:
    """An embedded cluster on the wall clock."""
    world = World(clock=WallClock(), pace=Pace(start=timedelta(seconds=0.3), stop=timedelta(seconds=0.3)))
    async with await world.serve() as serving, Connection(load(serving.kubeconfig)) as connection:
        client = Client(connection)
        await ensure_crds(client)
        await client.create(known("Namespace"), {"metadata": {"name": "fairlead-system"}})
        yield Scene(world, client), serving.kubeconfig


@asynccontextmanager
async def program(*arguments: str, until: str) -> AsyncIterator[str]:
    """A command of Fairlead's while it runs: the line in which it says a word."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "fairlead",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        while until not in (line := (await process.stdout.readline()).decode()):
            if not line:
                raise RuntimeError(f"fairlead {' '.join(arguments)} ended")
        drain = asyncio.create_task(process.stdout.read())
        yield line
    finally:
        process.terminate()
        await process.wait()
        drain.cancel()


async def main(folder: Path | None) -> None:
    """Fill a cluster and take the pictures."""
    browser_path = find()
    if browser_path is None:
        raise SystemExit("there is no Chromium: python -m tools.browser")
    async with (
        cluster() as (scene, kubeconfig),
        program(
            "serve",
            "--doors=scheduler,rebalance",
            f"--kubeconfig={kubeconfig}",
            f"--config={_configuration(kubeconfig.parent)}",
            until="synced",
        ),
        program("dashboard", f"--kubeconfig={kubeconfig}", until="dashboard:") as line,
        async_playwright() as playwright,
    ):
        arguments = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        browser = await playwright.chromium.launch(executable_path=browser_path, args=arguments)
        context = await browser.new_context(viewport={"width": 1440, "height": 900}, device_scale_factor=1)
        page = await context.new_page()
        await page.goto(line.split()[-1])
        await page.wait_for_selector(".card")
        await scene.fill()
        web = next(
            pod["metadata"]["name"]
            for pod in scene.world.all("Pod", "shop")
            if "web" in pod["metadata"]["name"]
        )
        if folder is None:
            for name, (view, dark) in SHOWN.items():
                await _shoot(page, VIEWS[view].format(web=web), DOCS / f"{name}.png", dark=dark)
        else:
            for size, (width, height) in SIZES.items():
                await page.set_viewport_size({"width": width, "height": height})
                for dark in (False, True):
                    for name, view in VIEWS.items():
                        file = folder / f"{name}-{size}-{'dark' if dark else 'light'}.png"
                        await _shoot(page, view.format(web=web), file, dark=dark, whole=size == "phone")
        await browser.close()


async def _shoot(page: Page, view: str, file: Path, *, dark: bool, whole: bool = False) -> None:
    await page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")
    await page.goto(f"{page.url.partition('#')[0]}{view}")
    await page.wait_for_selector(".view h1")
    if "changes=" in view:
        await page.click(".whatif-form .primary")
        await page.wait_for_selector(".answer .headline")
    await page.wait_for_function(LOADED)
    await asyncio.sleep(1.2)
    await page.screenshot(path=file, full_page=whole)
    print(file)


def _configuration(folder: Path) -> Path:
    file = folder / "fairlead.yaml"
    file.write_text("apiVersion: fairlead.dev/v1alpha1\nkind: FairleadConfiguration\ngangs: {settle: 1s}\n")
    return file


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Take pictures of the dashboard.")
    parser.add_argument(
        "--all", metavar="FOLDER", type=Path, help="every view, instead of the documentation's"
    )
    all_views = parser.parse_args().all
    (all_views or DOCS).mkdir(parents=True, exist_ok=True)
    asyncio.run(main(all_views))
