"""What a candidate policy would have come to on given joint states: its cost, and when it was below.

A walk from change to change of the market, with counts of pods for state: no cluster is played, so that
hundreds of candidates take seconds. It follows what the components do, in the time that they take:

* Pods of lost nodes are recreated when their nodes' absence is noticed, and skip a tier that has no node
  left.
* A tier that has no room within `after` is given up; its pods go to the next tier, or wait for it where
  there is none.
* A pod whose tier is back returns as the rebalancer has it: at once where its node was reordered (an
  autoscaler keeps an order for `provision`); else one pod tries the tier, and others follow only as far as
  that pod's node has room.
* No pod is moved while that would leave less than the minimum ready.

What it leaves out: on which node of a pool a pod is, other workloads, and the exact moment of each try.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from fairlead.simulation.spot_plan.candidates import Candidate
from fairlead.simulation.spot_plan.joint_states import JointStates

DAY_S = 86400.0

# Kubernetes and Cluster Autoscaler as they come, and a policy's defaults.
NOTICED_S = 41.0
"""Until pods of a node that is gone are deleted (the pod garbage collector's quarantine) and recreated."""
_SCAN_S = 10.0
_START_S = 2.0
_AFTER_S = 120.0
_PROVISION_S = 900.0
_IDLE_S = 600.0
_YOUNGEST_S = 300.0


@dataclass(frozen=True, slots=True)
class Terms:
    """The workload and its nodes in numbers. `room` is how many pods on-demand nodes can take."""

    replicas: int
    minimum: int
    per_node: int
    boot_s: float
    ready_after_s: float
    on_demand_price: float
    prices: tuple[float, ...]
    room: int | None = None

    @property
    def comes_s(self) -> float:
        """From a pod that waits to one that is ready, on a new node."""
        return _SCAN_S + self.boot_s + self.starts_s

    @property
    def starts_s(self) -> float:
        """The same on a node that is there."""
        return _START_S + self.ready_after_s


@dataclass(frozen=True, slots=True)
class Course:
    """What came of it. `measured_s` is the time from when the minimum was first reached."""

    cost: float
    length_s: float
    measured_s: float
    outages: tuple[tuple[float, float], ...]
    lost: int
    """Pods that lost their node."""

    @property
    def cost_per_hour(self) -> float:
        """On average."""
        return self.cost * 3600 / self.length_s

    @property
    def below_s(self) -> float:
        """Time with less than the minimum ready."""
        return sum(end - begin for begin, end in self.outages)

    @property
    def availability(self) -> float:
        """Share of the time with at least the minimum ready."""
        return 1 - self.below_s / self.measured_s if self.measured_s > 0 else 0.0

    def days(self) -> list[float]:
        """Of each day that has any, the time below."""
        found: dict[int, float] = {}
        for begin, end in self.outages:
            for day in range(int(begin // DAY_S), -int(-end // DAY_S)):
                part_s = min(end, (day + 1) * DAY_S) - max(begin, day * DAY_S)
                found[day] = found.get(day, 0.0) + part_s
        return [each for _, each in sorted(found.items())]


def course(states: JointStates, candidate: Candidate, terms: Terms) -> Course:
    """Walk through the states."""
    return _Walk(states, candidate, terms).walk()


def worst_day_s(states: JointStates, candidate: Candidate, terms: Terms) -> float:
    """How long the workload could be below its minimum in a day that was not seen; 0: it never can be."""
    if candidate.base >= terms.minimum or not candidate.pools:
        return 0.0
    room = terms.replicas if terms.room is None else terms.room
    if candidate.fallback and room >= terms.minimum:
        return NOTICED_S + _AFTER_S + terms.comes_s
    return min(DAY_S, states.longest_s(candidate.pools) + NOTICED_S + terms.comes_s)


@dataclass(slots=True)
class _Pool:
    """One pool, as the pods of this workload see it. `booting` are those of `pods` that are not ready."""

    number: int
    price: float
    pods: int = 0
    booting: int = 0
    generation: int = 0
    marked: bool = False
    """Known to have nothing."""
    gone_at: float = 0.0
    """When nodes were last taken, or asked for where there were none."""
    on_order: int = 0
    """For how many pods nodes are on order since then, for a while."""
    of: list[int] = field(default_factory=list)
    """Of its pods, how many belong to each pool."""


class _Walk:
    """See the module. Invariant: every replica is in a pool, on on-demand, seeking or waiting."""

    def __init__(self, states: JointStates, candidate: Candidate, terms: Terms) -> None:
        self._states, self._candidate, self._terms = states, candidate, terms
        tiers = len(candidate.pools)
        self._pools = [
            _Pool(number, terms.prices[number], of=[0] * max(1, tiers)) for number in candidate.pools
        ]
        self._fallen = [0] * max(1, tiers)
        """Pods on on-demand beyond the base, by the pool that they belong to."""
        self._waiting = [0] * max(1, tiers)
        self._capacity = [0] * tiers
        self._steady = self._nodes(candidate.base)
        """On-demand nodes. Nothing packs pods together: a node goes when its last pod has left."""
        self._booted = self._steady
        """Those of them that have booted: only on these is there room at once."""
        self._ready = 0
        self._now = 0.0
        self._cost = 0.0
        self._first: float | None = None
        self._down: float | None = None
        self._outages: list[tuple[float, float]] = []
        self._lost = 0
        self._due: list[tuple[float, int, tuple[str, int, int, int]]] = []
        self._sequence = 0

    def walk(self) -> Course:
        """To the end of the states."""
        terms, candidate = self._terms, self._candidate
        self._at(terms.comes_s, "ready", -1, candidate.base, 0)
        if self._pools:
            self._capacity = self._capacities(self._states.nodes[0])
        for own, share in enumerate(candidate.shares(terms.replicas)):
            if share:
                self._at(0.0, "seek", own, share, 0)
        for step in range(1, len(self._states.at_s)):
            self._at(self._states.at_s[step], "market", step, 0, 0)
        end = self._states.end_s
        while self._due and self._due[0][0] < end:
            at_s, _, (what, first, second, third) = heapq.heappop(self._due)
            self._pass(at_s)
            match what:
                case "market":
                    self._market(self._states.nodes[first])
                case "seek":
                    self._seek(first, second)
                case "ready":
                    self._becomes_ready(first, second, third)
                case "booted":
                    self._booted = min(self._steady, self._booted + first)
                case "nodes":
                    self._nodes_come(first)
                case "back":
                    self._back(first, second)
            self._look()
        self._pass(end)
        if self._down is not None and end > self._down:
            self._outages.append((self._down, end))
        measured_s = end - self._first if self._first is not None else 0.0
        return Course(self._cost, end, measured_s, tuple(self._outages), self._lost)

    # What happens

    def _market(self, nodes: tuple[int, ...]) -> None:
        capacity, before = self._capacities(nodes), self._capacity
        self._capacity = capacity
        for tier, pool in enumerate(self._pools):
            if pool.pods > capacity[tier]:
                self._lose(tier, pool.pods - capacity[tier])
        for tier, pool in enumerate(self._pools):
            if capacity[tier] > before[tier]:
                gone_s = self._now - pool.gone_at
                ordered = pool.on_order if gone_s + self._terms.boot_s < _PROVISION_S else 0
                if ordered:
                    self._at(self._now + self._terms.boot_s, "nodes", tier, 0, 0)
                lag_s = max(_YOUNGEST_S, min(gone_s / 2, _PROVISION_S)) if pool.on_order else _YOUNGEST_S
                self._take_waiting(tier)
                self._at(self._now + lag_s, "back", tier, ordered, 0)

    def _lose(self, tier: int, number: int) -> None:
        pool = self._pools[tier]
        self._lost += number
        booting = min(pool.booting, number)
        pool.booting -= booting
        self._ready -= number - booting
        pool.pods -= number
        pool.gone_at, pool.on_order = self._now, number
        if not pool.pods:
            pool.generation += 1
            pool.marked = True
        for own in reversed(range(len(pool.of))):
            lost = min(pool.of[own], number)
            pool.of[own] -= lost
            number -= lost
            if lost:
                self._at(self._now + NOTICED_S, "seek", own, lost, 0)

    def _seek(self, own: int, number: int) -> None:
        """Pods without a node look for one, from their own tier on."""
        left = (
            self._seek_one_tier(number) if self._candidate.shape == "one" else self._seek_tiers(own, number)
        )
        self._waiting[own] += left

    def _seek_tiers(self, own: int, number: int) -> int:
        delay_s, left = 0.0, number
        tiers = len(self._pools)
        may_try = [own]
        if self._candidate.shape == "ordered":
            may_try = [*range(own, tiers), *range(own)]
        for tier in may_try:
            pool = self._pools[tier]
            if pool.marked and not pool.pods:
                continue
            taken = min(left, self._capacity[tier] - pool.pods)
            if taken > 0:
                self._place(tier, own, taken, delay_s)
                left -= taken
            if not left:
                return 0
            delay_s += _AFTER_S + _SCAN_S
            pool.gone_at, pool.on_order = self._now, left
            pool.marked = pool.marked or not pool.pods
        left = self._fall(own, left, delay_s)
        # What cannot go on waits for its own tier, whatever is known of that.
        taken = min(left, self._capacity[own] - self._pools[own].pods)
        if taken > 0:
            self._place(own, own, taken, 0.0)
            left -= taken
        return left

    def _seek_one_tier(self, number: int) -> int:
        """An autoscaler asks the cheapest pool first, and does not know which can give nodes."""
        delay_s, left = 0.0, number
        empty = not any(pool.pods for pool in self._pools)
        began = self._first is not None
        if empty and self._candidate.fallback and began:
            return self._fall(0, left, 0.0)
        for tier, pool in enumerate(self._pools):
            taken = min(left, self._capacity[tier] - pool.pods)
            if taken > 0:
                self._place(tier, 0, taken, delay_s)
                left -= taken
            if not left:
                return 0
            if self._candidate.fallback:
                return self._fall(0, left, _AFTER_S + _SCAN_S)
            delay_s += _PROVISION_S
        return self._fall(0, left, delay_s)

    def _fall(self, own: int, number: int, delay_s: float) -> int:
        """To on-demand, as far as that is allowed and there are nodes; what is left waits."""
        if not self._candidate.fallback:
            return number
        used = self._candidate.base + sum(self._fallen)
        room = number if self._terms.room is None else max(0, self._terms.room - used)
        taken = min(number, room)
        if taken:
            beside = max(0, min(taken, self._booted * self._terms.per_node - used))
            self._fallen[own] += taken
            more = max(0, self._nodes(used + taken) - self._steady)
            self._steady += more
            if more:
                self._at(self._now + delay_s + _SCAN_S + self._terms.boot_s, "booted", more, 0, 0)
            if beside:
                self._at(self._now + delay_s + self._terms.starts_s, "ready", -1, beside, 0)
            if taken > beside:
                self._at(self._now + delay_s + self._terms.comes_s, "ready", -1, taken - beside, 0)
        return number - taken

    def _place(self, tier: int, own: int, number: int, delay_s: float) -> None:
        pool = self._pools[tier]
        beside = 0 if pool.booting else min(number, -pool.pods % self._terms.per_node)
        pool.pods += number
        pool.booting += number
        pool.of[own] += number
        pool.marked = False
        if beside:
            self._at(self._now + delay_s + self._terms.starts_s, "ready", tier, beside, pool.generation)
        if number > beside:
            due = self._now + delay_s + self._terms.comes_s
            self._at(due, "ready", tier, number - beside, pool.generation)

    def _becomes_ready(self, tier: int, number: int, generation: int) -> None:
        if tier >= 0:
            pool = self._pools[tier]
            if pool.generation != generation:
                return
            number = min(number, pool.booting)
            pool.booting -= number
        self._ready += number

    def _take_waiting(self, tier: int) -> None:
        """Pods that waited for a tier have their nodes on order."""
        pool = self._pools[tier]
        for own in range(len(self._waiting)):
            mine = own == tier or self._candidate.shape == "one"
            taken = min(self._waiting[own], self._capacity[tier] - pool.pods)
            if taken > 0 and mine:
                self._waiting[own] -= taken
                self._place(tier, own, taken, 0.0)

    def _nodes_come(self, tier: int) -> None:
        """Nodes that were on order come: the tier is known to have some, and takes pods that wait.

        Without such nodes a tier to which no pod belongs stays marked: only its own pods try one again.
        """
        pool = self._pools[tier]
        if not self._capacity[tier]:
            return
        pool.marked = False
        if self._candidate.shape != "ordered":
            return
        for own, waiting in enumerate(self._waiting):
            taken = min(waiting, self._capacity[tier] - pool.pods)
            if taken > 0:
                self._waiting[own] -= taken
                pool.pods += taken
                pool.booting += taken
                pool.of[own] += taken
                due = self._now + self._terms.starts_s
                self._at(due, "ready", tier, taken, pool.generation)

    def _back(self, tier: int, reordered: int) -> None:
        """Pods that belong to a tier come back to it.

        `reordered` is for how many pods there were nodes on order when the pool had some again.
        """
        candidate, pool = self._candidate, self._pools[tier]
        own = 0 if candidate.shape == "one" else tier
        room = self._capacity[tier] - pool.pods
        per_node = self._terms.per_node
        there = self._pools if candidate.shape == "one" else [pool]
        empty = not any(one.pods for one in there)
        beside = per_node if empty else sum(-one.pods % per_node for one in there)
        room = min(room, max(beside, reordered))
        if room <= 0:
            return
        if self._ready - 1 < self._terms.minimum:
            if self._fallen[own] and self._terms.minimum < self._terms.replicas:
                self._at(self._now + _YOUNGEST_S, "back", tier, reordered, 0)
            return
        moved = min(room, self._fallen[own])
        self._fallen[own] -= moved
        used = candidate.base + sum(self._fallen)
        holding = max(self._nodes(used), min(self._steady, self._nodes(candidate.base) + sum(self._fallen)))
        self._cost += (self._steady - holding) * self._terms.on_demand_price * _IDLE_S / 3600
        self._steady = holding
        self._booted = min(self._booted, holding)
        room -= moved
        if candidate.shape == "ordered":
            for other in self._pools:
                some = (
                    min(room, other.of[own] - min(other.booting, other.of[own])) if other is not pool else 0
                )
                if some > 0:
                    other.of[own] -= some
                    other.pods -= some
                    moved += some
                    room -= some
                    self._cost += self._nodes(some) * other.price * _IDLE_S / 3600
        # One at a time, each ready before the next goes: never more than one is missing.
        if moved:
            pool.pods += moved
            pool.of[own] += moved
            pool.marked = False

    # Counting

    def _capacities(self, nodes: tuple[int, ...]) -> list[int]:
        return [nodes[pool.number] * self._terms.per_node for pool in self._pools]

    def _nodes(self, pods: int) -> int:
        return -(-pods // self._terms.per_node)

    def _pass(self, at_s: float) -> None:
        passed_s = at_s - self._now
        if passed_s > 0:
            rate = self._steady * self._terms.on_demand_price
            for pool in self._pools:
                rate += self._nodes(pool.pods) * pool.price
            self._cost += rate * passed_s / 3600
        self._now = at_s

    def _look(self) -> None:
        if self._ready >= self._terms.minimum:
            if self._first is None:
                self._first = self._now
            if self._down is not None:
                if self._now > self._down:
                    self._outages.append((self._down, self._now))
                self._down = None
        elif self._first is not None and self._down is None:
            self._down = self._now

    def _at(self, at_s: float, what: str, first: int, second: int, third: int) -> None:
        if what == "ready" and not second:
            return
        self._sequence += 1
        heapq.heappush(self._due, (max(at_s, self._now), self._sequence, (what, first, second, third)))
