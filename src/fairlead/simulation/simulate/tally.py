"""What is counted while a scenario is played: pods, nodes, money and time, event by event.

Both clusters report here, so that what a result says does not depend on which one played. All is integrated
between events; samples only read what is there.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fairlead.simulation.simulate.result import (
    Counts,
    GroupResult,
    Reason,
    ResourceResult,
    Result,
    Series,
    Waits,
    WorkloadResult,
)

Amounts = Mapping[str, int]
"""Whole amounts by resource, as the engine counts them: cpu in thousandths, memory in bytes."""

Left = Literal["finished", "evicted", "moved", "removed"]

_THOUSANDTHS = "cpu"
_NOT_SHARED = ("pods",)


@dataclass(slots=True)
class _Node:
    group: str
    capacity: Amounts
    price: float
    used: dict[str, int] = field(default_factory=dict)
    there: bool = True


@dataclass(slots=True)
class _Pod:
    workload: str
    amounts: Amounts
    since: float
    node: _Node | None = None
    ready: bool = False


@dataclass(slots=True)
class _Group:
    nodes: int = 0
    most: int = 0
    node_s: float = 0.0
    cost: float = 0.0
    taken: int = 0
    since: float = 0.0
    price: float = 0.0
    """Of all its nodes, per hour."""

    def pass_time(self, at: float) -> None:
        passed = at - self.since
        self.node_s += passed * self.nodes
        self.cost += passed * self.price / 3600
        self.since = at


@dataclass(slots=True)
class _Workload:
    kind: str
    arrived: int = 0
    placed: int = 0
    finished: int = 0
    evicted: int = 0
    moved: int = 0
    pending: int = 0
    running: int = 0
    ready: int = 0
    minimum: int | None = None
    waits: array[float] = field(default_factory=lambda: array("d"))
    first_at: float | None = None
    """When it first had its minimum."""
    down_since: float | None = None
    below_s: float = 0.0
    outages: int = 0
    longest_s: float = 0.0

    def look(self, at: float) -> None:
        """Its number of ready pods, or its minimum, may have changed."""
        if self.minimum is None:
            return
        if self.ready >= self.minimum:
            if self.first_at is None:
                self.first_at = at
            if self.down_since is not None:
                self._up(at)
                self.down_since = None
        elif self.first_at is not None and self.down_since is None:
            self.down_since = at

    def end(self, at: float) -> None:
        if self.down_since is not None:
            self._up(at)
            self.down_since = at

    def _up(self, at: float) -> None:
        assert self.down_since is not None
        passed = at - self.down_since
        if passed > 0:
            self.below_s += passed
            self.longest_s = max(self.longest_s, passed)
            self.outages += 1


class Tally:
    """Counts from time 0 on. Times never go back.

    Invariant: what nodes hold is the sum over the pods on them.
    """

    def __init__(self, sample_every_s: float, groups: tuple[str, ...] = ()) -> None:
        self._every_s = sample_every_s
        self._nodes: dict[str, _Node] = {}
        self._pods: dict[str, _Pod] = {}
        self._groups: dict[str, _Group] = {name: _Group() for name in groups}
        self._workloads: dict[str, _Workload] = {}
        self._since = 0.0
        self._capacity: dict[str, int] = {}
        self._used: dict[str, int] = {}
        self._capacity_s: dict[str, float] = {}
        self._used_s: dict[str, float] = {}
        self._peak: dict[str, float] = {}
        self._pending = 0
        self._shapes: dict[tuple[tuple[str, int], ...], int] = {}
        self._samples: dict[str, array[float]] = {}
        self._taken_samples = 0

    # What happens

    def workload(self, name: str, kind: str, minimum: int | None = None) -> None:
        """A workload is there; what has a minimum is measured against it from when it first has it."""
        self._workloads[name] = _Workload(kind, minimum=minimum)

    def minimum(self, at: float, name: str, minimum: int | None) -> None:
        """Another minimum."""
        found = self._workloads[name]
        found.minimum = minimum
        found.look(at)

    def node_came(self, at: float, name: str, group: str, capacity: Amounts, price: float) -> None:
        """A node can take pods. `price` is per hour."""
        self._pass(at)
        self._nodes[name] = _Node(group, capacity, price)
        for resource, amount in capacity.items():
            self._capacity[resource] = self._capacity.get(resource, 0) + amount
        found = self._groups.setdefault(group, _Group(since=at))
        found.pass_time(at)
        found.nodes += 1
        found.most = max(found.most, found.nodes)
        found.price += price

    def node_left(self, at: float, name: str, *, taken: bool = False) -> None:
        """A node is gone; `taken`: a market or a fault took it."""
        node = self._nodes.pop(name, None)
        if node is None:
            return
        self._pass(at)
        node.there = False  # what its pods hold counts no more, whenever they leave
        for resource, amount in node.capacity.items():
            self._capacity[resource] -= amount
        for resource, amount in node.used.items():
            self._used[resource] -= amount
        found = self._groups[node.group]
        found.pass_time(at)
        found.nodes -= 1
        found.price -= node.price
        found.taken += taken

    def came(self, at: float, uid: str, workload: str, amounts: Amounts) -> None:
        """A pod was created."""
        self._pods[uid] = _Pod(workload, amounts, at)
        found = self._workloads[workload]
        found.arrived += 1
        found.pending += 1
        self._pending += 1
        shape = tuple(sorted(amounts.items()))
        self._shapes[shape] = self._shapes.get(shape, 0) + 1

    def bound(self, at: float, uid: str, node: str) -> None:
        """A pod was given its node."""
        pod = self._pods[uid]
        self._pass(at)
        pod.node = self._nodes.get(node) or _Node("", {}, 0.0, there=False)
        found = self._workloads[pod.workload]
        found.pending -= 1
        found.running += 1
        found.placed += 1
        # In milliseconds, as all times are: what floats add to that differs between the clusters.
        found.waits.append(round(at - pod.since, 3))
        self._pending -= 1
        self._take(pod, 1)

    def ready(self, at: float, uid: str, ready: bool = True) -> None:
        """A pod became ready, or is so no more."""
        pod = self._pods[uid]
        if pod.ready is ready:
            return
        pod.ready = ready
        found = self._workloads[pod.workload]
        found.ready += 1 if ready else -1
        found.look(at)

    def left(self, at: float, uid: str, how: Left) -> None:
        """A pod holds nothing any more."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        found = self._workloads[pod.workload]
        if pod.node is not None:
            self._pass(at)
            self._take(pod, -1)
            found.running -= 1
        else:
            found.pending -= 1
            self._pending -= 1
        if pod.ready:
            found.ready -= 1
            found.look(at)
        match how:
            case "finished":
                found.finished += 1
            case "evicted":
                found.evicted += 1
            case "moved":
                found.moved += 1
            case "removed":
                pass

    def known(self, uid: str) -> bool:
        """Whether a pod was counted and has not left."""
        return uid in self._pods

    @property
    def pending(self) -> int:
        """Pods that have no node now."""
        return self._pending

    # Reading

    def sample(self, at: float) -> None:
        """Note how it is now."""
        self._pass(at)
        row: dict[str, float] = {
            "pending": self._pending,
            "running": sum(one.running for one in self._workloads.values()),
            "nodes": len(self._nodes),
            "costPerHour": sum(one.price for one in self._groups.values()),
        }
        for name in self._shared():
            row[f"used:{name}"] = (
                self._used.get(name, 0) / self._capacity[name] if self._capacity[name] else 0.0
            )
        for name, group in self._groups.items():
            row[f"nodes:{name}"] = group.nodes
        for name, workload in self._workloads.items():
            if workload.minimum is not None:
                row[f"ready:{name}"] = workload.ready
        for name, value in row.items():
            held = self._samples.get(name)
            if held is None:
                held = self._samples[name] = array("d", bytes(8 * self._taken_samples))
            held.append(value)
        self._taken_samples += 1
        for name, held in self._samples.items():
            if name not in row:
                held.append(0.0)

    def result(
        self,
        at: float,
        *,
        scenario: str,
        seed: int,
        waiting: Mapping[str, int],
        notes: tuple[str, ...] = (),
    ) -> Result:
        """What came of it by now; `waiting` is why pods have no node, and how many."""
        self._pass(at)
        for group in self._groups.values():
            group.pass_time(at)
        for workload in self._workloads.values():
            workload.end(at)
        cost = sum(group.cost for group in self._groups.values())
        listed = list(self._workloads.items())
        whole = np.concatenate([np.empty(0), *(np.array(one.waits) for _, one in listed)])
        return Result(
            scenario=scenario,
            seed=seed,
            duration_s=at,
            pods=_counts(*(one for _, one in listed)),
            waits=_waits(whole),
            cost=cost,
            cost_per_hour=cost * 3600 / at if at else 0.0,
            groups=tuple(
                GroupResult(
                    name=name,
                    node_hours=one.node_s / 3600,
                    cost=one.cost,
                    most=one.most,
                    at_end=one.nodes,
                    taken=one.taken,
                )
                for name, one in sorted(self._groups.items())
            ),
            resources=tuple(self._resource(name) for name in self._shared()),
            workloads=tuple(_workload(name, one, at) for name, one in sorted(listed)),
            waiting=tuple(
                Reason(text=text, pods=pods)
                for text, pods in sorted(waiting.items(), key=lambda one: (-one[1], one[0]))
            ),
            series=Series(
                every_s=self._every_s,
                values={name: tuple(held) for name, held in sorted(self._samples.items())},
            ),
            notes=notes,
        )

    # Inside

    def _pass(self, at: float) -> None:
        passed = at - self._since
        if passed <= 0:
            return
        self._since = at
        for resource, amount in self._capacity.items():
            if not amount:
                continue
            used = self._used.get(resource, 0)
            self._capacity_s[resource] = self._capacity_s.get(resource, 0.0) + passed * amount
            self._used_s[resource] = self._used_s.get(resource, 0.0) + passed * used
            share = used / amount
            if share > self._peak.get(resource, 0.0):
                self._peak[resource] = share

    def _take(self, pod: _Pod, sign: int) -> None:
        node = pod.node
        if node is None or not node.there:
            return
        for resource, amount in pod.amounts.items():
            node.used[resource] = node.used.get(resource, 0) + sign * amount
            self._used[resource] = self._used.get(resource, 0) + sign * amount

    def _shared(self) -> list[str]:
        return [name for name in sorted(self._capacity) if name not in _NOT_SHARED]

    def _resource(self, name: str) -> ResourceResult:
        unit = 1000 if name == _THOUSANDTHS else 1
        capacity, used_s, capacity_s = (
            self._capacity[name],
            self._used_s.get(name, 0.0),
            self._capacity_s.get(name, 0.0),
        )
        unusable = self._unusable(name)
        having = sum(1 for node in self._nodes.values() if node.capacity.get(name))
        return ResourceResult(
            name=name,
            capacity=capacity / unit,
            used=used_s / capacity_s if capacity_s else 0.0,
            peak_used=self._peak.get(name, 0.0),
            used_at_end=self._used.get(name, 0) / capacity if capacity else 0.0,
            unusable_share=unusable / capacity if capacity else 0.0,
            unusable_per_node=unusable / unit / having if having else 0.0,
        )

    def _unusable(self, name: str) -> float:
        """What is free of a resource, but not for a pod drawn from those that arrived and ask for it."""
        shapes = [(shape, number) for shape, number in self._shapes.items() if name in dict(shape)]
        nodes = [node for node in self._nodes.values() if node.capacity.get(name)]
        if not shapes or not nodes:
            return 0.0
        asked = sorted({resource for shape, _ in shapes for resource, _ in shape})
        free = np.array(
            [[node.capacity.get(one, 0) - node.used.get(one, 0) for one in asked] for node in nodes],
            dtype=np.int64,
        )
        of_it = np.maximum(free[:, asked.index(name)], 0)
        lost = 0.0
        for shape, number in shapes:
            wanted = dict(shape)
            fits = np.all(free >= np.array([wanted.get(one, 0) for one in asked], dtype=np.int64), axis=1)
            lost += number * float(of_it[~fits].sum())
        return lost / sum(number for _, number in shapes)


def _counts(*of: _Workload) -> Counts:
    return Counts(
        arrived=sum(one.arrived for one in of),
        placed=sum(one.placed for one in of),
        finished=sum(one.finished for one in of),
        evicted=sum(one.evicted for one in of),
        moved=sum(one.moved for one in of),
        pending=sum(one.pending for one in of),
        running=sum(one.running for one in of),
    )


def _waits(waits: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Waits:
    if not len(waits):
        return Waits()
    ordered = np.sort(waits)

    def at(share: float) -> float:
        # The nearest rank: a wait that a pod had.
        return float(ordered[min(len(ordered) - 1, int(np.ceil(share * len(ordered))) - 1)])

    return Waits(mean=float(ordered.mean()), p50=at(0.5), p95=at(0.95), p99=at(0.99), max=float(ordered[-1]))


def _workload(name: str, one: _Workload, at: float) -> WorkloadResult:
    availability = None
    if one.minimum is not None:
        measured = at - one.first_at if one.first_at is not None else 0.0
        availability = 1.0 - one.below_s / measured if measured > 0 else 0.0
    return WorkloadResult(
        name=name,
        kind=one.kind,
        pods=_counts(one),
        waits=_waits(np.array(one.waits)),
        min_available=one.minimum,
        availability=availability,
        below_s=one.below_s,
        outages=one.outages,
        longest_outage_s=one.longest_s,
    )
