"""What the end-to-end benchmark stands on: control planes, contenders, pods, and an observer of binds.

Each contender gets a fresh control plane without kubelets or controllers: nothing but it and the API
server works. Binds are seen by a watch in a process of its own, which costs every contender the same.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.client.lines import Lines
from fairlead.client.wire import object_path
from fairlead.kube.resources import known
from fairlead.rig.controlplane import ControlPlane
from fairlead.rig.nodes import create_nodes, node_object

POD = known("Pod")
NAMESPACE = "default"
IN_FLIGHT = 64
PATIENCE_S = 600.0

CONTENDERS = ("ceiling", "kube-scheduler", "fairlead")
SCHEDULER_NAMES = {"ceiling": "nobody", "kube-scheduler": "default-scheduler", "fairlead": "fairlead"}


@contextmanager
def control_plane(nodes: int, *, cpu: int = 32) -> Iterator[ControlPlane]:
    """A control plane with nodes. Nothing taints them, and pods need no service account."""
    plane = ControlPlane(apiserver_args=["--disable-admission-plugins=TaintNodesByCondition,ServiceAccount"])
    with plane:
        made = [node_object(f"node-{index:05}", cpu=cpu, memory="128Gi") for index in range(nodes)]
        create_nodes(plane.api, made)
        yield plane


@contextmanager
def started(name: str, plane: ControlPlane, nodes: int) -> Iterator[int]:
    """The contender's process; its id."""
    if name == "kube-scheduler":
        yield plane.start_scheduler(qps=5000, burst=10_000).pid
        return
    if name == "ceiling":
        command = ["-m", "benchmarks.bench_e2e", "--bind-only", str(plane.kubeconfig), "--nodes", str(nodes)]
    else:
        command = ["-m", "fairlead", "scheduler", f"--kubeconfig={plane.kubeconfig}", "--leader-elect=false"]
    log = plane.folder / f"{name}.log"
    with log.open("wb") as file:
        process = subprocess.Popen([sys.executable, *command], stderr=file, cwd=Path(__file__).parents[1])
    try:
        yield process.pid
        if process.poll() not in (None, 0):
            raise RuntimeError(f"{name} ended early: {log.read_text()[-2000:]}")
    finally:
        process.terminate()
        process.wait()


def cluster_cpu_s(plane: ControlPlane) -> float:
    """What the API server and etcd have used so far."""
    return sum(usage(plane.programs[name].pid)[0] for name in ("etcd", "kube-apiserver"))


def usage(pid: int) -> tuple[float, float]:
    """(CPU seconds, peak memory in MB) of a process that still runs."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(stat[11]) + int(stat[12])
    status = Path(f"/proc/{pid}/status").read_text()
    peak_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return ticks / os.sysconf("SC_CLK_TCK"), peak_kb / 1024


def wait_for_events(plane: ControlPlane, wanted: int) -> tuple[int, float]:
    """Wait until that many events are there, or no more come; how many, and since when."""
    count, since = 0, time.monotonic()
    api = plane.api.another()  # the plane's own connection has been idle for long
    while count < wanted:
        listing = api.get("/api/v1/events?limit=1")
        now = len(listing["items"]) + listing["metadata"].get("remainingItemCount", 0)
        if now != count:
            count, since = now, time.monotonic()
        elif time.monotonic() - since > 15.0:
            break
        time.sleep(0.1)
    api.close()
    return count, since


def pod(name: str, scheduler: str, *, app: str = "app", cpu: str = "100m", **more: Any) -> dict[str, Any]:
    """A pod; `annotations` go into its metadata, the rest into its spec."""
    metadata = {"name": name, "labels": {"app": app}, "annotations": more.pop("annotations", {})}
    resources = {"requests": {"cpu": cpu, "memory": "200Mi"}}
    spec = {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 0,  # nobody plays the kubelet: what is deleted must go by itself
        "containers": [{"name": "main", "image": "image", "resources": resources}],
        **more,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def create(config: Path, pods: Sequence[dict[str, Any]], rate: float = 0.0) -> dict[str, float]:
    """Create pods, as fast as it goes or `rate` a second; when each was sent."""
    sent: dict[str, float] = {}
    async with Connection(kubeconfig.load(config), in_flight=IN_FLIGHT) as connection:
        client = Client(connection)
        left = iter(enumerate(pods))
        began = time.monotonic()

        async def work() -> None:
            for index, one in left:
                if rate:
                    await asyncio.sleep(max(0.0, began + index / rate - time.monotonic()))
                sent[one["metadata"]["name"]] = time.monotonic()
                await client.create(POD, one, NAMESPACE)

        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    return sent


@contextmanager
def observed(config: Path, number: int, prefix: str = "pod-") -> Iterator[Callable[[], dict[str, float]]]:
    """Watches binds from a process of its own; call the result to wait for when each pod was bound."""
    here, there = multiprocessing.Pipe()
    observer = multiprocessing.get_context("spawn").Process(
        target=_observe, args=(config, number, prefix, there), daemon=True
    )
    observer.start()

    def wait(what: str) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while not here.poll(0.2):
            if not observer.is_alive() or time.monotonic() > deadline:
                raise RuntimeError(what)
        return here.recv()

    try:
        wait("the observer did not start")
        yield lambda: wait("not all pods were bound")
    finally:
        observer.terminate()
        observer.join()


def _observe(config: Path, number: int, prefix: str, pipe: Any) -> None:
    asyncio.run(_watch(config, number, prefix, pipe))


async def _watch(config: Path, number: int, prefix: str, pipe: Any) -> None:
    named = re.compile(rb'"name":"(%b[^"]*)"' % prefix.encode())
    versioned = re.compile(rb'"resourceVersion":"(\d+)"')
    bound: dict[str, float] = {}
    async with Connection(kubeconfig.load(config)) as connection:
        version = (await Client(connection).list(POD, NAMESPACE)).resource_version
        # A busy API server ends the watch of whoever reads too slowly: it goes on where it was.
        for opened in itertools.count():
            path = object_path(POD, NAMESPACE, query={"watch": "true", "resourceVersion": version})
            async with connection.stream(path, inactivity_s=PATIENCE_S) as stream:
                if not opened:
                    pipe.send("ready")
                lines = Lines(1 << 20)
                while chunk := await stream.read():
                    for line in lines.feed(chunk):
                        if not isinstance(line, bytes):
                            continue
                        if seen := versioned.search(line):
                            version = seen[1].decode()
                        if b'"nodeName":"' in line and (found := named.search(line)):
                            bound.setdefault(found[1].decode(), time.monotonic())
                    if len(bound) >= number:
                        pipe.send(bound)
                        return


async def bind_only(config: Path, nodes: int) -> None:
    """The ceiling: bind every pod, to one node after the other, as fast as the API server takes it."""
    async with Connection(kubeconfig.load(config), in_flight=IN_FLIGHT) as connection:
        client = Client(connection)
        listed = await client.list(POD, NAMESPACE)
        query = {"watch": "true", "resourceVersion": listed.resource_version}
        async with connection.stream(
            object_path(POD, NAMESPACE, query=query), inactivity_s=PATIENCE_S
        ) as stream:
            left = iter(enumerate(listed.items))

            async def drain() -> None:
                while await stream.read():
                    pass

            async def bind() -> None:
                for index, item in left:
                    metadata = item["metadata"]
                    node = f"node-{index % nodes:05}"
                    await client.bind(metadata["name"], NAMESPACE, node, uid=metadata["uid"])

            watching = asyncio.ensure_future(drain())
            await asyncio.gather(*(bind() for _ in range(IN_FLIGHT)))
            await asyncio.sleep(PATIENCE_S)  # until whoever measures has read what we used
            watching.cancel()
