"""What the end-to-end benchmark stands on: control planes, contenders, and an observer of binds and events.

Each contender gets a fresh control plane without kubelets or controllers: nothing but it and the API
server works. Binds are seen by a watch in a process of its own, which costs every contender the same. Events
are listed and watched there from the last bind on, so that binds are not measured under that watch.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence, Set
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.e2e_accounts import (
    IN_FLIGHT,
    KUBE_SCHEDULER_BURST,
    KUBE_SCHEDULER_QPS,
    Requests,
    requests_in,
)
from benchmarks.e2e_accounts import NAMESPACE as SYSTEM_NAMESPACE
from benchmarks.e2e_workloads import ZONE, ZONES
from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.client.lines import Lines
from fairlead.client.wire import object_path
from fairlead.kube.resources import Resource, known
from fairlead.rig.controlplane import ControlPlane
from fairlead.rig.nodes import create_nodes, node_object

POD, EVENT = known("Pod"), known("Event")
SCHEDULED = "reason=Scheduled"
NAMESPACE = "default"
PATIENCE_S = 600.0
QUIET_S = 15.0  # no further Scheduled event for this long: what is missing was dropped

CONTENDERS = ("ceiling", "kube-scheduler", "fairlead")
SCHEDULER_NAMES = {"ceiling": "nobody", "kube-scheduler": "default-scheduler", "fairlead": "fairlead"}


@contextmanager
def control_plane(nodes: int, *, cpu: int = 32) -> Iterator[ControlPlane]:
    """A control plane with nodes. Nothing taints them, and pods need no service account."""
    plane = ControlPlane(apiserver_args=["--disable-admission-plugins=TaintNodesByCondition,ServiceAccount"])
    with plane:
        made = [
            node_object(f"node-{index:05}", cpu=cpu, memory="128Gi", labels={ZONE: f"zone-{index % ZONES}"})
            for index in range(nodes)
        ]
        create_nodes(plane.api, made)
        yield plane


@contextmanager
def started(name: str, plane: ControlPlane, kubeconfig: Path, nodes: int) -> Iterator[int]:
    """The contender's process, as the account of `kubeconfig`; its id."""
    if name == "kube-scheduler":
        connection = {
            "kubeconfig": str(kubeconfig),
            "qps": KUBE_SCHEDULER_QPS,
            "burst": KUBE_SCHEDULER_BURST,
        }
        yield plane.start_scheduler({"clientConnection": connection}).pid
        return
    if name == "ceiling":
        command = ["-m", "benchmarks.bench_e2e", f"--bind-only={kubeconfig}", f"--nodes={nodes}"]
    else:
        command = [
            *("-m", "fairlead", "scheduler", "--leader-elect=false", f"--in-flight={IN_FLIGHT}"),
            *(f"--kubeconfig={kubeconfig}", f"--system-namespace={SYSTEM_NAMESPACE}"),
        ]
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


def requests(plane: ControlPlane) -> Requests:
    """What flow control did with the contender's requests so far."""
    return requests_in(plane.api.get("/metrics")["message"])


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


@dataclass(frozen=True, slots=True)
class Observer:
    """Waits for pods. `bound` is called first; times are those of the machine's monotonic clock."""

    bound: Callable[[], dict[str, float]]
    """When each pod was seen with its node."""
    scheduled: Callable[[], dict[str, float]]
    """When a Scheduled event of each pod was seen; without the pods whose event did not come."""


@contextmanager
def observed(config: Path, number: int, prefix: str = "pod-") -> Iterator[Observer]:
    """Watch the binds and events of pods whose names begin with `prefix`, from a process of its own."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_observe, args=(config, number, prefix, there), daemon=True
    )
    process.start()

    def wait(what: str) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while not here.poll(0.2):
            if not process.is_alive() or time.monotonic() > deadline:
                raise RuntimeError(what)
        return here.recv()

    try:
        wait("the observer did not start")
        yield Observer(
            lambda: wait("not all pods were bound"), lambda: wait("the observer did not report events")
        )
    finally:
        process.terminate()
        process.join()


def _observe(config: Path, number: int, prefix: str, pipe: Any) -> None:
    asyncio.run(_report(config, number, prefix, pipe))


async def _report(config: Path, number: int, prefix: str, pipe: Any) -> None:
    async with Connection(kubeconfig.load(config)) as connection:
        pipe.send(bound := await _binds(connection, number, prefix, pipe))
        pipe.send(await _events(connection, bound.keys()))


async def _binds(connection: Connection, number: int, prefix: str, pipe: Any) -> dict[str, float]:
    named = re.compile(rb'"name":"(%b[^"]*)"' % prefix.encode())
    bound: dict[str, float] = {}
    version = (await Client(connection).list(POD, NAMESPACE)).resource_version
    pipe.send("ready")
    async with aclosing(_lines(connection, POD, version)) as lines:
        async for line in lines:
            if b'"nodeName":"' in line and (found := named.search(line)):
                bound.setdefault(found[1].decode(), time.monotonic())
                if len(bound) >= number:
                    break
    return bound


class _Pod(msgspec.Struct):
    name: str


class _Event(msgspec.Struct):
    involvedObject: _Pod  # noqa: N815 (the field's own name)


class _Change(msgspec.Struct):
    object: _Event


async def _events(connection: Connection, pods: Set[str]) -> dict[str, float]:
    listed = await Client(connection).list(EVENT, NAMESPACE, fields=SCHEDULED, kind=_Event)
    now = time.monotonic()
    seen = {one.involvedObject.name: now for one in listed.items if one.involvedObject.name in pods}
    read = msgspec.json.Decoder(_Change).decode
    async with aclosing(_lines(connection, EVENT, listed.resource_version, SCHEDULED)) as lines:
        while len(seen) < len(pods):
            try:
                line = await asyncio.wait_for(anext(lines), QUIET_S)
            except TimeoutError:
                break
            if (name := read(line).object.involvedObject.name) in pods:
                seen.setdefault(name, time.monotonic())
    return seen


async def _lines(
    connection: Connection, resource: Resource, version: str, fields: str = ""
) -> AsyncGenerator[bytes, None]:
    """The lines of a watch. A busy API server ends the watch of a slow reader: it goes on where it was."""
    versioned = re.compile(rb'"resourceVersion":"(\d+)"')
    while True:
        query = {"watch": "true", "resourceVersion": version, "fieldSelector": fields}
        path = object_path(resource, NAMESPACE, query=query)
        async with connection.stream(path, inactivity_s=PATIENCE_S) as stream:
            lines = Lines(1 << 20)
            while chunk := await stream.read():
                for line in lines.feed(chunk):
                    if isinstance(line, bytes):
                        if seen := versioned.search(line):
                            version = seen[1].decode()
                        yield line


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
