"""How fast do pods get their nodes on a real API server, beside kube-scheduler and beside the ceiling?

The contenders take turns, each on a fresh control plane with the same nodes and pods: a loop that does
nothing but post bindings (the ceiling), kube-scheduler with its client limit lifted, and Fairlead. For a
backlog the clock runs from the start of the contender's process to the last bind, so each pays for its
own start, listing and planning. Ratios are taken within one run: machines differ.

``--rate N`` offers N pods a second and measures create → bound; ``--rate max`` offers as many as the API
server takes. ``--gangs`` is a backlog of gangs of three, ``--preemption`` a full cluster that higher pods
arrive at.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.e2e_rig import (
    CONTENDERS,
    SCHEDULER_NAMES,
    bind_only,
    cluster_cpu_s,
    control_plane,
    create,
    observed,
    pod,
    started,
    usage,
    wait_for_events,
)
from benchmarks.rows import Row, main

SCHEDULERS = CONTENDERS[1:]


@dataclass(frozen=True, slots=True)
class Backlog:
    """One contender's run. Times are from its process' start; CPU is its own but for `all_cpu_s`."""

    pods: int
    last_bind_s: float
    binding_s: float
    last_event_s: float
    events: int
    cpu_s: float
    memory_mb: float
    all_cpu_s: float  # with the API server's and etcd's, to the last bind

    @property
    def rate(self) -> float:
        return self.pods / self.last_bind_s


def run() -> list[Row]:
    """Everything, at the stated sizes."""
    return [
        *run_backlog(5000, 10_000, 3),
        *run_backlog(1000, 5000, 3),
        *run_arrivals(5000, 2000, 3, 100.0),
        *run_arrivals(5000, 10_000, 3, 0.0),
        *run_gangs(1000, 1000, 3),
        *run_preemption(1000, 3),
    ]


def run_backlog(nodes: int, pods: int, rounds: int, only: Sequence[str] = CONTENDERS) -> list[Row]:
    """A backlog for each contender in turn."""
    found: dict[str, list[Backlog]] = {name: [] for name in only}
    for number in range(rounds):
        for name in only:
            result = backlog(name, nodes, plain(name, pods))
            found[name].append(result)
            say(
                f"round {number + 1}: {name}: {result.rate:.0f} pods/s to the last bind "
                f"({pods / result.binding_s:.0f} while binding), CPU {result.cpu_s:.1f} s, "
                f"{result.all_cpu_s:.1f} s with the API server's to the last bind, "
                f"{result.memory_mb:.0f} MB, {result.events} events after {result.last_event_s:.1f} s"
            )
    return backlog_rows(found, f"{nodes} nodes, {pods} pods", 3.0 if nodes >= 5000 else 2.5)


def run_gangs(nodes: int, gangs: int, rounds: int) -> list[Row]:
    """A backlog of gangs of three; kube-scheduler takes the same pods one by one."""
    found: dict[str, list[Backlog]] = {name: [] for name in SCHEDULERS}
    for _ in range(rounds):
        for name in SCHEDULERS:
            pods = [
                pod(
                    f"pod-{gang:05}-{member}",
                    SCHEDULER_NAMES[name],
                    annotations={"pod-group": f"g{gang}", "pod-group-min-member": "3"},
                )
                for gang in range(gangs)
                for member in range(3)
            ]
            found[name].append(backlog(name, nodes, pods))
    return backlog_rows(found, f"{nodes} nodes, {gangs} gangs of 3", 1.0)


def run_arrivals(nodes: int, pods: int, rounds: int, rate: float) -> list[Row]:
    """Pods arrive while the scheduler runs; `rate` 0 is as fast as the API server takes them."""
    p99: dict[str, list[float]] = {name: [] for name in SCHEDULERS}
    done: dict[str, list[float]] = {name: [] for name in SCHEDULERS}
    for number in range(rounds):
        for name in SCHEDULERS:
            latencies, all_s = arrivals(name, nodes, plain(name, pods), rate)
            p99[name].append(latencies[int(len(latencies) * 0.99)])
            done[name].append(pods / all_s)
            say(
                f"round {number + 1}: {name}: create → bound "
                f"p50 {latencies[len(latencies) // 2] * 1e3:.1f} ms, "
                f"p99 {p99[name][-1] * 1e3:.1f} ms, {done[name][-1]:.0f} pods/s with all events"
            )
    made = []
    theirs, ours = (statistics.median(p99[name]) for name in SCHEDULERS)
    if rate:
        for name, value in zip(SCHEDULERS, (theirs, ours), strict=True):
            made.append(Row(f"create → bound at {rate:g}/s, p99, {name}", f"{value * 1e3:.1f} ms", "", True))
        made.append(Row("  against kube-scheduler", f"{ours / theirs:.2f}x", "≤ 1x", ours <= theirs))
        return made
    their_rate, our_rate = (statistics.median(done[name]) for name in SCHEDULERS)
    made.append(
        Row("sustained arrivals, events included, kube-scheduler", f"{their_rate:.0f} pods/s", "", True)
    )
    made.append(Row("sustained arrivals, events included, fairlead", f"{our_rate:.0f} pods/s", "", True))
    ratio = our_rate / their_rate
    return [*made, Row("  against kube-scheduler", f"{ratio:.2f}x", "≥ 1x", ratio >= 1)]


def run_preemption(nodes: int, rounds: int) -> list[Row]:
    """Nodes full of low pods, four each; then one high pod for each node."""
    found: dict[str, list[float]] = {name: [] for name in SCHEDULERS}
    for number in range(rounds):
        for name in SCHEDULERS:
            found[name].append(nodes / preemption(name, nodes))
            say(f"round {number + 1}: {name}: {found[name][-1]:.0f} preemptors/s")
    theirs, ours = (statistics.median(found[name]) for name in SCHEDULERS)
    size = f"{nodes} nodes, {4 * nodes} + {nodes} pods"
    return [
        Row(f"preemption, {size}, kube-scheduler", f"{theirs:.0f} pods/s", "", True),
        Row(f"preemption, {size}, fairlead", f"{ours:.0f} pods/s", "", True),
        Row("  against kube-scheduler", f"{ours / theirs:.2f}x", "≥ 1x", ours >= theirs),
    ]


def backlog_rows(found: dict[str, list[Backlog]], size: str, target: float) -> list[Row]:
    rates = {name: statistics.median(one.rate for one in results) for name, results in found.items()}
    made = [Row(f"{name}, {size}", f"{rate:.0f} pods/s", "", True) for name, rate in rates.items()]
    if "fairlead" not in found:
        return made
    if "kube-scheduler" in rates:
        ratio = rates["fairlead"] / rates["kube-scheduler"]
        made.append(Row("  against kube-scheduler", f"{ratio:.2f}x", f"≥ {target:g}x", ratio >= target))
    if "ceiling" in rates:
        ratio = rates["fairlead"] / rates["ceiling"]
        made.append(Row("  against the bind-only ceiling", f"{ratio:.0%}", "≥ 75%", ratio >= 0.75))
    # What other work on the machine cannot spoil: CPU of contender, API server and etcd together.
    for name, results in found.items():
        cost = statistics.median(one.all_cpu_s / one.pods for one in results)
        made.append(Row(f"  CPU a pod, {name}, API server and etcd", f"{cost * 1000:.2f} ms", "", True))
    ours = found["fairlead"]
    lag = max(one.last_event_s / one.last_bind_s for one in ours)
    made.append(Row("  last event, in bind times", f"{lag:.1f}x", "≤ 4x", lag <= 4))
    written, pods = min(one.events for one in ours), ours[0].pods
    made.append(Row("  events written", f"{written} of {pods}", "all", written >= pods))
    return made


def backlog(name: str, nodes: int, pods: list[dict[str, Any]]) -> Backlog:
    """One contender with everything there before it starts."""
    with control_plane(nodes) as plane:
        asyncio.run(create(plane.kubeconfig, pods))
        with observed(plane.kubeconfig, len(pods)) as observer:
            began, before = time.monotonic(), cluster_cpu_s(plane)
            with started(name, plane, nodes) as pid:
                bound = observer().values()
                all_cpu_s = cluster_cpu_s(plane) - before + usage(pid)[0]
                count, last_event = wait_for_events(plane, 0 if name == "ceiling" else len(pods))
                cpu_s, memory_mb = usage(pid)
        first, last = min(bound), max(bound)
        return Backlog(
            pods=len(pods),
            last_bind_s=last - began,
            binding_s=max(last - first, 1e-9),
            last_event_s=last_event - began,
            events=count,
            cpu_s=cpu_s,
            memory_mb=memory_mb,
            all_cpu_s=all_cpu_s,
        )


def arrivals(name: str, nodes: int, pods: list[dict[str, Any]], rate: float) -> tuple[list[float], float]:
    """(create → bound of each pod, sorted; seconds from the first creation to the last event)."""
    with control_plane(nodes) as plane, started(name, plane, nodes):
        # The first pod is not measured: it says that the scheduler is there.
        with observed(plane.kubeconfig, 1, "first") as observer:
            asyncio.run(create(plane.kubeconfig, [pod("first", SCHEDULER_NAMES[name])]))
            observer()
        with observed(plane.kubeconfig, len(pods)) as observer:
            sent = asyncio.run(create(plane.kubeconfig, pods, rate))
            bound = observer()
            _, last_event = wait_for_events(plane, len(pods) + 1)
    return sorted(bound[one] - sent[one] for one in sent), last_event - min(sent.values())


def preemption(name: str, nodes: int) -> float:
    """Seconds until every high pod has taken the place of a low one."""
    scheduler = SCHEDULER_NAMES[name]
    with control_plane(nodes, cpu=4) as plane:
        for level, value in (("low", 1), ("high", 1000)):
            made = {"metadata": {"name": level}, "value": value}
            plane.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", made)
        low = [
            pod(
                f"low-{node:05}-{index}",
                scheduler,
                cpu="1",
                nodeName=f"node-{node:05}",
                priorityClassName="low",
            )
            for node in range(nodes)
            for index in range(4)
        ]
        asyncio.run(create(plane.kubeconfig, low))
        high = [
            pod(f"pod-{index:05}", scheduler, cpu="1", priorityClassName="high") for index in range(nodes)
        ]
        asyncio.run(create(plane.kubeconfig, high))
        with observed(plane.kubeconfig, nodes) as observer:
            began = time.monotonic()
            with started(name, plane, nodes):
                return max(observer().values()) - began


def plain(name: str, number: int) -> list[dict[str, Any]]:
    """Pods as a hundred Deployments make them at the same time: no two neighbours are alike."""
    return [
        pod(f"pod-{index:05}", SCHEDULER_NAMES[name], app=f"app-{index % 100}") for index in range(number)
    ]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _asked(arguments: argparse.Namespace) -> list[Row]:
    if arguments.gangs:
        return run_gangs(arguments.nodes, arguments.gangs, arguments.rounds)
    if arguments.preemption:
        return run_preemption(arguments.nodes, arguments.rounds)
    if arguments.rate:
        rate = 0.0 if arguments.rate == "max" else float(arguments.rate)
        return run_arrivals(arguments.nodes, arguments.pods, arguments.rounds, rate)
    return run_backlog(arguments.nodes, arguments.pods, arguments.rounds, tuple(arguments.only))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--rate", metavar="N|max", help="pods a second, offered while the scheduler runs")
    parser.add_argument("--gangs", type=int, metavar="N", help="a backlog of so many gangs of three")
    parser.add_argument("--preemption", action="store_true", help="one high pod for each of the full nodes")
    parser.add_argument("--bind-only", type=Path, metavar="KUBECONFIG", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.bind_only:
        uvloop.run(bind_only(asked.bind_only, asked.nodes))
    else:
        main(lambda: _asked(asked))
