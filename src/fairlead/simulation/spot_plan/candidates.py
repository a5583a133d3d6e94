"""The policies that a plan chooses from, and each as the object that a cluster takes.

A candidate keeps some pods on on-demand nodes for good and has the rest on spot, in one of these shapes:

* ``one``: one tier of all pools; which of them its nodes come from is the autoscaler's choice, which takes
  the cheapest.
* ``ordered``: a tier for each of some pools, cheapest first: all go to the first that can be had.
* ``capped``: the same, each with a max, so that pods are spread evenly and losing one pool costs its part.

With ``fallback`` pods without spot go to on-demand nodes meanwhile; without it they wait for spot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from fairlead.policy.names import API_VERSION, POLICIES
from fairlead.simulation.scenario.pods import NAME_LABEL
from fairlead.simulation.spot_plan.model import PlanSpec, SpotPool

Obj = dict[str, Any]
Shape = Literal["none", "one", "ordered", "capped"]

ZONE = "topology.kubernetes.io/zone"
ON_DEMAND = "on-demand"
_MOST_TIERS = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """`base` pods stay on on-demand; `pools` are indexes, in the order in which they are tried.

    Invariant: ``one`` has all pools, because its tier is known by labels that all have.
    """

    base: int
    pools: tuple[int, ...] = ()
    shape: Shape = "none"
    fallback: bool = False

    def shares(self, replicas: int) -> tuple[int, ...]:
        """How many of the other pods belong to each pool; with one tier all are of the first."""
        rest = replicas - self.base
        if self.shape != "capped":
            return (rest, *(0 for _ in self.pools[1:])) if self.pools else ()
        limit = self.limit(replicas)
        return tuple(min(limit, max(0, rest - limit * number)) for number in range(len(self.pools)))

    def limit(self, replicas: int) -> int:
        """The max of each tier of a capped one."""
        return -(-(replicas - self.base) // len(self.pools))


def all_on_demand(replicas: int) -> Candidate:
    """Every pod on on-demand nodes."""
    return Candidate(replicas)


def candidates(replicas: int, minimum: int, prices: Sequence[float], room: int | None) -> Iterator[Candidate]:
    """What is tried; `room` is how many pods on-demand nodes can take, None for any number.

    More pods on on-demand than the workload needs at least cost more and give nothing.
    """
    order = sorted(range(len(prices)), key=lambda pool: (prices[pool], pool))
    most = replicas if room is None else min(room, replicas)
    sets = [
        chosen for size in range(1, min(len(order), _MOST_TIERS) + 1) for chosen in combinations(order, size)
    ]
    for base in range(min(minimum, most) + 1):
        if base == replicas:
            continue
        for fallback in (False, True):
            if fallback and base >= most:
                continue
            yield Candidate(base, tuple(order), "one", fallback)
            for chosen in sets:
                yield Candidate(base, chosen, "ordered", fallback)
                if len(chosen) > 1:
                    yield Candidate(base, chosen, "capped", fallback)
    if most == replicas:
        yield all_on_demand(replicas)


def policy_of(candidate: Candidate, name: str, spec: PlanSpec, *, base: int | str | None = None) -> Obj:
    """A candidate as a PlacementPolicy; `base` is how its on-demand min is spelt, if not as a number."""
    workload = spec.workload
    match: Obj = {
        "namespaces": [workload.namespace],
        "labels": dict(workload.labels) or {NAME_LABEL: workload.name},
    }
    tiers: list[Obj] = []
    if candidate.shape == "one":
        one: Obj = {"name": "spot", "nodes": common_labels(spec.pools), "volatile": True}
        if len({pool.zone for pool in spec.pools}) > 1:
            one["spread"] = [ZONE]
        tiers.append(one)
    elif candidate.shape != "none":
        for number, share in zip(candidate.pools, candidate.shares(workload.replicas), strict=True):
            pool = spec.pools[number]
            tier: Obj = {"name": pool.name, "nodes": labels_of(pool), "volatile": True}
            if candidate.shape == "capped":
                tier["max"] = share
            tiers.append(tier)
    if candidate.base or candidate.fallback or not tiers:
        steady: Obj = {"name": ON_DEMAND, "nodes": dict(spec.on_demand.labels)}
        if candidate.base and tiers:
            steady["min"] = candidate.base if base is None else base
            if not candidate.fallback:
                steady["max"] = candidate.base
        tiers.append(steady)
    return {
        "apiVersion": API_VERSION,
        "kind": POLICIES.kind,
        "metadata": {"name": name},
        "spec": {"match": match, "tiers": tiers},
    }


def in_words(candidate: Candidate, spec: PlanSpec) -> str:
    """What a candidate does, in a line."""
    replicas = spec.workload.replicas
    if not candidate.pools:
        return f"all {replicas} on on-demand"
    names = [spec.pools[number].name for number in candidate.pools]
    match candidate.shape:
        case "one":
            where = "in one spot tier"
        case "ordered":
            where = "on " + ", then ".join(names)
        case _:
            shares = candidate.shares(replicas)
            where = "on " + ", ".join(f"{name} (at most {n})" for name, n in zip(names, shares, strict=True))
    then = "then on-demand" if candidate.fallback else "and waiting where there is none"
    return f"{candidate.base} on on-demand, {replicas - candidate.base} {where}, {then}"


def labels_of(pool: SpotPool) -> dict[str, str]:
    """Labels by which a pool's nodes are known from all others."""
    return {**pool.labels, **({ZONE: pool.zone} if pool.zone else {})}


def common_labels(pools: Sequence[SpotPool]) -> dict[str, str]:
    """Labels that the nodes of all pools have."""
    first, *others = [labels_of(pool) for pool in pools]
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
