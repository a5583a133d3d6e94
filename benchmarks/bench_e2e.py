"""How fast does a backlog of pods get its nodes on a real API server?

Three contenders, alternating, each on a fresh control plane with the same nodes and pods: a loop that
does nothing but post bindings (the ceiling), kube-scheduler with its client limit lifted, and Fairlead.
The clock runs from the start of the contender's process to the last bind, as a watch shows it, so each
pays for its own start, listing and planning. Ratios are taken within one run: machines differ.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.rows import Row, main
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
PATIENCE_S = 300.0

CONTENDERS = ("ceiling", "kube-scheduler", "fairlead")
SCHEDULER_NAMES = {"ceiling": "nobody", "kube-scheduler": "default-scheduler", "fairlead": "fairlead"}


@dataclass(frozen=True, slots=True)
class Result:
    """One contender's run. Times are from its process' start; CPU is its own."""

    pods: int
    last_bind_s: float
    binding_s: float
    last_event_s: float
    events: int
    cpu_s: float
    memory_mb: float

    @property
    def rate(self) -> float:
        return self.pods / self.last_bind_s


def run(
    nodes: int = 5000, pods: int = 10_000, rounds: int = 3, only: tuple[str, ...] = CONTENDERS
) -> list[Row]:
    """Let the contenders take turns, and compare."""
    found: dict[str, list[Result]] = {name: [] for name in only}
    for number in range(rounds):
        for name in only:
            result = contend(name, nodes, pods)
            found[name].append(result)
            print(
                f"round {number + 1}: {name}: {result.rate:.0f} pods/s to the last bind "
                f"({pods / result.binding_s:.0f} while binding), CPU {result.cpu_s:.1f} s, "
                f"{result.memory_mb:.0f} MB, {result.events} events after {result.last_event_s:.1f} s",
                file=sys.stderr,
                flush=True,
            )
    return rows(found, nodes, pods)


def rows(found: dict[str, list[Result]], nodes: int, pods: int) -> list[Row]:
    size = f"{nodes} nodes, {pods} pods"
    rates = {name: statistics.median(one.rate for one in results) for name, results in found.items()}
    made = [
        Row(f"{name}, {size}", f"{rates[name]:.0f} pods/s", "", True) for name in found if name != "fairlead"
    ]
    if "fairlead" not in found:
        return made
    ours = found["fairlead"]
    made.append(Row(f"fairlead, {size}", f"{rates['fairlead']:.0f} pods/s", "", True))
    if "kube-scheduler" in rates:
        ratio, target = rates["fairlead"] / rates["kube-scheduler"], 3.0 if nodes >= 5000 else 2.5
        made.append(Row("  against kube-scheduler", f"{ratio:.2f}x", f"≥ {target:g}x", ratio >= target))
    if "ceiling" in rates:
        ratio = rates["fairlead"] / rates["ceiling"]
        made.append(Row("  against the bind-only ceiling", f"{ratio:.0%}", "≥ 75%", ratio >= 0.75))
    lag = max(one.last_event_s / one.last_bind_s for one in ours)
    made.append(Row("  last event, in bind times", f"{lag:.1f}x", "≤ 4x", lag <= 4))
    written = min(one.events for one in ours)
    made.append(Row("  events written", f"{written} of {pods}", "all", written >= pods))
    return made


def contend(name: str, nodes: int, pods: int) -> Result:
    """One contender on a control plane of its own."""
    # Nodes need no kubelet here: nothing may taint them, and pods need no service account.
    plane = ControlPlane(apiserver_args=["--disable-admission-plugins=TaintNodesByCondition,ServiceAccount"])
    with plane:
        create_nodes(
            plane.api, [node_object(f"node-{index:05}", cpu=32, memory="128Gi") for index in range(nodes)]
        )
        asyncio.run(create_pods(plane.kubeconfig, pods, SCHEDULER_NAMES[name]))
        with observed(plane.kubeconfig, pods) as observer:
            began = time.monotonic()
            with started(name, plane, nodes) as pid:
                first, last = observer()
                events = 0 if name == "ceiling" else pods
                count, last_event = wait_for_events(plane, events)
                cpu_s, memory_mb = usage(pid)
        return Result(
            pods, last - began, max(last - first, 1e-9), last_event - began, count, cpu_s, memory_mb
        )


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
        if keep := os.environ.get("BENCH_LOG"):
            Path(keep).write_bytes(log.read_bytes())


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
    while count < wanted:
        listing = plane.api.get("/api/v1/events?limit=1")
        now = len(listing["items"]) + listing["metadata"].get("remainingItemCount", 0)
        if now != count:
            count, since = now, time.monotonic()
        elif time.monotonic() - since > 15.0:
            break
        time.sleep(0.1)
    return count, since


# Pods


def pod(index: int, scheduler: str) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "200Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{index:05}", "labels": {"app": f"app-{index // 100}"}},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "image", "resources": {"requests": requests}}],
        },
    }


async def create_pods(config: Path, number: int, scheduler: str) -> None:
    async with Connection(kubeconfig.load(config), in_flight=IN_FLIGHT) as connection:
        client = Client(connection)
        left = iter(range(number))

        async def create() -> None:
            for index in left:
                await client.create(POD, pod(index, scheduler), NAMESPACE)

        await asyncio.gather(*(create() for _ in range(IN_FLIGHT)))


# Watching


@contextmanager
def observed(config: Path, pods: int) -> Iterator[Callable[[], tuple[float, float]]]:
    """Watches binds from a process of its own; call the result for the times of the first and last."""
    here, there = multiprocessing.Pipe()
    observer = multiprocessing.get_context("spawn").Process(
        target=_observe, args=(config, pods, there), daemon=True
    )
    observer.start()
    try:
        if not here.poll(PATIENCE_S):
            raise RuntimeError("the observer did not start")
        here.recv()

        def result() -> tuple[float, float]:
            if not here.poll(PATIENCE_S):
                raise RuntimeError("not all pods were bound")
            first, last = here.recv()
            return first, last

        yield result
    finally:
        observer.terminate()
        observer.join()


def _observe(config: Path, pods: int, pipe: Any) -> None:
    asyncio.run(_watch(config, pods, pipe))


async def _watch(config: Path, pods: int, pipe: Any) -> None:
    async with Connection(kubeconfig.load(config)) as connection:
        client = Client(connection)
        version = (await client.list(POD, NAMESPACE)).resource_version
        path = object_path(POD, NAMESPACE, query={"watch": "true", "resourceVersion": version})
        first, bound = 0.0, 0
        async with connection.stream(path, inactivity_s=PATIENCE_S) as stream:
            pipe.send("ready")
            lines = Lines(1 << 20)
            while bound < pods:
                for line in lines.feed(await stream.read()):
                    # Without kubelets a pod changes once: when it is bound, or is said to be held.
                    if isinstance(line, bytes) and b'"nodeName":"' in line:
                        first = first or time.monotonic()
                        bound += 1
        pipe.send((first, time.monotonic()))


# The ceiling


async def bind_only(config: Path, nodes: int) -> None:
    """Bind every pod, to one node after the other, as fast as the API server takes it."""
    async with Connection(kubeconfig.load(config), in_flight=IN_FLIGHT) as connection:
        client = Client(connection)
        listed = await client.list(POD, NAMESPACE)
        path = object_path(
            POD, NAMESPACE, query={"watch": "true", "resourceVersion": listed.resource_version}
        )
        async with connection.stream(path, inactivity_s=PATIENCE_S) as stream:
            left = iter(enumerate(listed.items))

            async def drain() -> None:
                while await stream.read():
                    pass

            async def bind() -> None:
                for index, item in left:
                    metadata = item["metadata"]
                    await client.bind(
                        metadata["name"], NAMESPACE, f"node-{index % nodes:05}", uid=metadata["uid"]
                    )

            watching = asyncio.ensure_future(drain())
            await asyncio.gather(*(bind() for _ in range(IN_FLIGHT)))
            await asyncio.sleep(PATIENCE_S)  # until whoever measures has read what we used
            watching.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--bind-only", type=Path, metavar="KUBECONFIG", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.bind_only:
        uvloop.run(bind_only(asked.bind_only, asked.nodes))
    else:
        main(lambda: run(asked.nodes, asked.pods, asked.rounds, tuple(asked.only)))
