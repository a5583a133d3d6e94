"""How fast do pods get their nodes on a real API server, beside kube-scheduler and beside the ceiling?

The contenders take turns, each on a fresh control plane with the same nodes and pods: a loop that does
nothing but post bindings (the ceiling), kube-scheduler with its client limit lifted, and Fairlead. Their
accounts, rights, flow control and limits are equal: see e2e_accounts.py. Ratios are taken within one run:
machines differ.

For a backlog the clock runs from the start of the contender's process, so each pays for its own start,
listing and planning, to two moments: the last bind, and the last pod's Scheduled event seen in the API. The
latter is the headline: binding first and writing events afterwards gains nothing there. A scheduler that
drops events is timed to the last event that it wrote, and how many pods have one is reported.

--workload constrained has zone spread and anti-affinity on hostname and zone in place of plain pods.
--rate N offers N pods a second and measures create → bound; --rate max offers as many as the API server
takes. --gangs is a backlog of gangs of three, --preemption a full cluster that higher pods arrive at.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.e2e_accounts import PRIORITY_LEVEL, Requests, conditions, contender_kubeconfig
from benchmarks.e2e_rig import (
    CONTENDERS,
    SCHEDULER_NAMES,
    bind_only,
    cluster_cpu_s,
    control_plane,
    create,
    observed,
    requests,
    started,
    usage,
)
from benchmarks.e2e_workloads import WORKLOADS, gangs_of_three, pod
from benchmarks.rows import Row, main

SCHEDULERS = CONTENDERS[1:]


@dataclass(frozen=True, slots=True)
class Targets:
    """What Fairlead has to reach: times kube-scheduler's rate to the last bind and to the last event."""

    to_bind: float
    to_event: float


LARGE, SMALL = Targets(3.0, 2.0), Targets(2.5, 2.0)
NO_SLOWER = Targets(1.0, 1.0)
OF_CEILING = 0.75
VERSUS = "fairlead against kube-scheduler"
EVENT_LAG = 2.0  # the last event, in times that the last bind took


@dataclass(frozen=True, slots=True)
class Backlog:
    """One contender's run. Times are from its process' start; CPU is its own but for `all_cpu_s`."""

    pods: int
    last_bind_s: float
    last_event_s: float
    with_event: int  # distinct pods with a Scheduled event
    cpu_s: float
    memory_mb: float
    all_cpu_s: float  # with the API server's and etcd's, until all binds and events were seen
    requests: Requests

    @property
    def bind_rate(self) -> float:
        return self.pods / self.last_bind_s

    @property
    def event_rate(self) -> float:
        return self.pods / self.last_event_s


def run() -> list[Row]:
    """Everything, at the stated sizes."""
    return [
        *run_backlog("plain", 5000, 10_000, 3),
        *run_backlog("plain", 1000, 5000, 3),
        *run_backlog("constrained", 5000, 10_000, 3),
        *run_arrivals("plain", 5000, 2000, 3, 100.0),
        *run_arrivals("plain", 5000, 10_000, 3, 0.0),
        *run_gangs(1000, 1000, 3),
        *run_preemption(1000, 3),
    ]


def run_backlog(
    workload: str, nodes: int, pods: int, rounds: int, only: Sequence[str] = CONTENDERS
) -> list[Row]:
    """A backlog for each contender in turn."""
    found: dict[str, list[Backlog]] = {name: [] for name in only}
    for number in range(rounds):
        for name in only:
            result = backlog(name, nodes, WORKLOADS[workload](SCHEDULER_NAMES[name], pods))
            found[name].append(result)
            say(f"round {number + 1}: {name}: {described(result)}")
    size = f"{nodes} nodes, {pods} {workload} pods"
    return backlog_rows(found, size, LARGE if nodes >= 5000 else SMALL)


def run_gangs(nodes: int, gangs: int, rounds: int) -> list[Row]:
    """A backlog of gangs of three; kube-scheduler takes the same pods one by one."""
    found: dict[str, list[Backlog]] = {name: [] for name in SCHEDULERS}
    for number in range(rounds):
        for name in SCHEDULERS:
            result = backlog(name, nodes, gangs_of_three(SCHEDULER_NAMES[name], gangs))
            found[name].append(result)
            say(f"round {number + 1}: {name}: {described(result)}")
    return backlog_rows(found, f"{nodes} nodes, {gangs} gangs of 3", NO_SLOWER)


def run_arrivals(workload: str, nodes: int, pods: int, rounds: int, rate: float) -> list[Row]:
    """Pods arrive while the scheduler runs; `rate` 0 is as fast as the API server takes them."""
    p99: dict[str, list[float]] = {name: [] for name in SCHEDULERS}
    done: dict[str, list[float]] = {name: [] for name in SCHEDULERS}
    with_event: dict[str, list[int]] = {name: [] for name in SCHEDULERS}
    for number in range(rounds):
        for name in SCHEDULERS:
            made = WORKLOADS[workload](SCHEDULER_NAMES[name], pods)
            latencies, all_s, seen = arrivals(name, nodes, made, rate)
            p99[name].append(latencies[int(len(latencies) * 0.99)])
            done[name].append(pods / all_s)
            with_event[name].append(seen)
            say(
                f"round {number + 1}: {name}: create → bound "
                f"p50 {latencies[len(latencies) // 2] * 1e3:.1f} ms, "
                f"p99 {p99[name][-1] * 1e3:.1f} ms, {done[name][-1]:.0f} pods/s to the last of {seen} events"
            )
    size = f"{nodes} nodes, {pods} {workload} pods"
    rows = []
    if rate:
        theirs, ours = (statistics.median(p99[name]) for name in SCHEDULERS)
        for name, value in zip(SCHEDULERS, (theirs, ours), strict=True):
            what = f"create → bound at {rate:g}/s, p99, {size}, {name}"
            rows.append(Row(what, f"{value * 1e3:.1f} ms", "", True))
        rows.append(Row(f"  {VERSUS}", f"{ours / theirs:.2f}x", "≤ 1x", ours <= theirs))
    else:
        what = f"sustained arrivals to the last event, {size}"
        rows += rate_rows(what, {name: statistics.median(done[name]) for name in SCHEDULERS}, 1.0)
    return [*rows, *event_rows(with_event, pods)]


def run_preemption(nodes: int, rounds: int) -> list[Row]:
    """Nodes full of low pods, four each; then one high pod for each node."""
    found: dict[str, list[float]] = {name: [] for name in SCHEDULERS}
    for number in range(rounds):
        for name in SCHEDULERS:
            found[name].append(nodes / preemption(name, nodes))
            say(f"round {number + 1}: {name}: {found[name][-1]:.0f} preemptors/s")
    what = f"preemption to the last bind, {nodes} nodes, {4 * nodes} + {nodes} pods"
    return rate_rows(what, {name: statistics.median(found[name]) for name in SCHEDULERS}, 1.0)


def backlog_rows(found: Mapping[str, Sequence[Backlog]], size: str, targets: Targets) -> list[Row]:
    """The table of a backlog, from the results of each contender's rounds; the headline comes first."""
    schedulers = [name for name in SCHEDULERS if name in found]
    to_event = {name: statistics.median(one.event_rate for one in found[name]) for name in schedulers}
    to_bind = {name: statistics.median(one.bind_rate for one in found[name]) for name in found}
    rows = rate_rows(f"to the last event, {size}", to_event, targets.to_event)
    rows += event_rows({name: [one.with_event for one in found[name]] for name in schedulers}, pods_of(found))
    rows += rate_rows(f"to the last bind, {size}", to_bind, targets.to_bind)
    if "fairlead" in found and "ceiling" in found:
        share = to_bind["fairlead"] / to_bind["ceiling"]
        target = f"≥ {OF_CEILING:.0%}"
        rows.append(
            Row("  fairlead against the bind-only ceiling", f"{share:.0%}", target, share >= OF_CEILING)
        )
    if "fairlead" in found:
        lag = max(one.last_event_s / one.last_bind_s for one in found["fairlead"])
        target = f"≤ {EVENT_LAG:g}x"
        rows.append(Row("  last event of fairlead, in bind times", f"{lag:.1f}x", target, lag <= EVENT_LAG))
    # What other work on the machine cannot spoil: CPU of contender, API server and etcd together. To the last
    # event, or a scheduler that writes its events after its binds would seem cheaper than it is.
    for name, results in found.items():
        cost = statistics.median(one.all_cpu_s / one.pods for one in results)
        rows.append(Row(f"  CPU a pod, {name}, API server and etcd", f"{cost * 1000:.2f} ms", "", True))
    for name, results in found.items():
        rows.append(Row(f"  account and limit of {name}", conditions(name), "", True))
        rows.append(flow_row(name, results))
    return rows


def pods_of(found: Mapping[str, Sequence[Backlog]]) -> int:
    return next(iter(found.values()))[0].pods


def rate_rows(what: str, rates: Mapping[str, float], target: float) -> list[Row]:
    """Each contender's rate and, where both schedulers ran, the ratio with its target."""
    rows = [Row(f"{what}, {name}", f"{rate:.0f} pods/s", "", True) for name, rate in rates.items()]
    if set(SCHEDULERS) <= rates.keys():
        ratio = rates["fairlead"] / rates["kube-scheduler"]
        rows.append(Row(f"  {VERSUS}", f"{ratio:.2f}x", f"≥ {target:g}x", ratio >= target))
    return rows


def event_rows(with_event: Mapping[str, Sequence[int]], pods: int) -> list[Row]:
    """How many pods have a Scheduled event, in each contender's worst round.

    kube-scheduler drops events while its queue of 1,000 is full, so there is no target for it.
    """
    rows = []
    for name, counts in with_event.items():
        target = "all" if name == "fairlead" else ""
        ok = not target or min(counts) == pods
        rows.append(Row(f"  pods with a Scheduled event, {name}", f"{min(counts)} of {pods}", target, ok))
    return rows


def flow_row(name: str, results: Sequence[Backlog]) -> Row:
    """Whether a contender's requests, at least one for each pod, all went to the one priority level."""
    levels = ", ".join(sorted({one.requests.level for one in results}))
    dispatched = min(one.requests.dispatched for one in results)
    rejected = sum(one.requests.rejected for one in results)
    measured = f"{levels or 'none'}: {dispatched} requests, {rejected} rejected"
    ok = levels == PRIORITY_LEVEL and dispatched >= results[0].pods
    return Row(f"  priority level of {name}", measured, PRIORITY_LEVEL, ok)


def described(result: Backlog) -> str:
    events = f"{result.event_rate:.0f} pods/s to the last of {result.with_event} events, "
    return (
        f"{events if result.with_event else ''}{result.bind_rate:.0f} pods/s to the last bind, "
        f"CPU {result.cpu_s:.1f} s, {result.all_cpu_s:.1f} s with the API server's and etcd's, "
        f"{result.memory_mb:.0f} MB"
    )


def backlog(name: str, nodes: int, pods: list[dict[str, Any]]) -> Backlog:
    """One contender with everything there before it starts."""
    with control_plane(nodes) as plane:
        kubeconfig = contender_kubeconfig(name, plane)
        asyncio.run(create(plane.kubeconfig, pods))
        with observed(plane.kubeconfig, len(pods)) as observer:
            began, before = time.monotonic(), cluster_cpu_s(plane)
            with started(name, plane, kubeconfig, nodes) as pid:
                bound = observer.bound()
                events = {} if name == "ceiling" else observer.scheduled()
                cpu_s, memory_mb = usage(pid)
                all_cpu_s = cluster_cpu_s(plane) - before + cpu_s
                flow = requests(plane)
        last_bind = max(bound.values())
        return Backlog(
            pods=len(pods),
            last_bind_s=last_bind - began,
            last_event_s=max(events.values(), default=last_bind) - began,
            with_event=len(events),
            cpu_s=cpu_s,
            memory_mb=memory_mb,
            all_cpu_s=all_cpu_s,
            requests=flow,
        )


def arrivals(
    name: str, nodes: int, pods: list[dict[str, Any]], rate: float
) -> tuple[list[float], float, int]:
    """(create → bound of each pod, sorted; seconds from the first creation to the last event; its pods)."""
    with control_plane(nodes) as plane, started(name, plane, contender_kubeconfig(name, plane), nodes):
        # The first pod is not measured: it says that the scheduler is there.
        with observed(plane.kubeconfig, 1, "first") as observer:
            asyncio.run(create(plane.kubeconfig, [pod("first", SCHEDULER_NAMES[name])]))
            observer.bound()
        with observed(plane.kubeconfig, len(pods)) as observer:
            sent = asyncio.run(create(plane.kubeconfig, pods, rate))
            bound, events = observer.bound(), observer.scheduled()
    last = max(*bound.values(), *events.values())
    return sorted(bound[one] - sent[one] for one in sent), last - min(sent.values()), len(events)


def preemption(name: str, nodes: int) -> float:
    """Seconds until every high pod has taken the place of a low one."""
    scheduler = SCHEDULER_NAMES[name]
    with control_plane(nodes, cpu=4) as plane:
        kubeconfig = contender_kubeconfig(name, plane)
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
            with started(name, plane, kubeconfig, nodes):
                return max(observer.bound().values()) - began


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, checked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_e2e",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--workload", choices=WORKLOADS, default="plain", help="which pods (default: plain)")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--rate", type=_rate, metavar="N|max", help="pods a second, offered while the scheduler runs"
    )
    mode.add_argument("--gangs", type=int, metavar="N", help="a backlog of N gangs of three")
    mode.add_argument("--preemption", action="store_true", help="one high pod for each of the full nodes")
    mode.add_argument("--bind-only", type=Path, metavar="KUBECONFIG", help=argparse.SUPPRESS)
    found = parser.parse_args(given)
    if found.workload != "plain" and (found.gangs or found.preemption):
        parser.error("--workload does not go with --gangs or --preemption, which have their own pods")
    if found.only != CONTENDERS and (found.gangs or found.preemption or found.rate is not None):
        parser.error("--only is for a plain or constrained backlog: the rest compares both schedulers")
    return found


def _rate(text: str) -> float:
    """Pods a second; 0 is as many as the API server takes."""
    if text == "max":
        return 0.0
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not rate > 0:
        raise argparse.ArgumentTypeError(f"neither max nor a number above 0: {text}")
    return rate


def _asked(arguments: argparse.Namespace) -> list[Row]:
    nodes, pods, rounds = arguments.nodes, arguments.pods, arguments.rounds
    if arguments.gangs:
        return run_gangs(nodes, arguments.gangs, rounds)
    if arguments.preemption:
        return run_preemption(nodes, rounds)
    if arguments.rate is not None:
        return run_arrivals(arguments.workload, nodes, pods, rounds, arguments.rate)
    return run_backlog(arguments.workload, nodes, pods, rounds, tuple(arguments.only))


if __name__ == "__main__":
    asked = arguments_of()
    if asked.bind_only:
        uvloop.run(bind_only(asked.bind_only, asked.nodes))
    else:
        main(lambda: _asked(asked))
