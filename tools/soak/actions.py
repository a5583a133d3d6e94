"""What a soak does, drawn from its seed alone: the same seed gives the same actions, whatever comes of them.

A run is a row of cycles: a storm of load and faults, then a quiet point. Times count from a cycle's start.
The drawing keeps a picture of its own of what exists (`Drawn`), never the cluster's, so that it can be
replayed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

NAMESPACE = "soak"
STORM_S = 60.0

FLEET = {"f-spot": 4, "f-safe": 4, "k-spot": 2, "k-safe": 2, "x": 3}
"""Nodes by pool. Pods of Fairlead's scheduler use f and x, those of kube-scheduler k: they share no room."""
NODE_CPU = 8

SCHEDULERS = ("scheduler-a", "scheduler-b")
WEBHOOKS = ("webhook-a", "webhook-b")
DOORS = (*SCHEDULERS, *WEBHOOKS, "rebalancer")

_MOST_CPU_MILLI = {
    "f": 26_000,
    "k": 14_000,
    "x": 6_000,
}  # less than half of the room: at a quiet point all of it fits


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that is done, at a moment of a cycle."""

    cycle: int
    at: float
    do: str
    what: dict[str, Any]

    def data(self) -> dict[str, Any]:
        """As it is logged."""
        return asdict(self)

    @property
    def is_fault(self) -> bool:
        """Whether it is a fault and not load."""
        return self.do in FAULTS


@dataclass(slots=True)
class Drawn:
    """What exists after the actions drawn so far, and how many names were given."""

    named: int = 0
    workloads: dict[str, dict[str, Any]] = field(default_factory=dict)
    nodes: dict[str, list[str]] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)
    tainted: list[str] = field(default_factory=list)

    def name(self, kind: str) -> str:
        """A name that was never used."""
        self.named += 1
        return f"{kind}-{self.named}"


def fleet(drawn: Drawn) -> Iterator[tuple[str, str]]:
    """The pool and name of each node that is missing, which then counts as there."""
    for pool, number in FLEET.items():
        there = drawn.nodes.setdefault(pool, [])
        while len(there) < number:
            there.append(drawn.name(f"node-{pool}"))
            yield pool, there[-1]


def draw_cycle(seed: int, cycle: int, drawn: Drawn, *, storm_s: float = STORM_S) -> list[Action]:
    """The actions of one cycle, in order; `drawn` goes along."""
    rng = random.Random(f"{seed}/{cycle}")
    found: list[Action] = []
    at = 0.5
    while at < storm_s:
        found.append(Action(cycle, round(at, 2), *_load(rng, drawn)))
        at += rng.expovariate(1 / 1.2)
    at = rng.uniform(2, 8)
    while at < storm_s - 4:
        do, what = _fault(rng, drawn)
        found.append(Action(cycle, round(at, 2), do, what))
        at += rng.uniform(2, 9)
    found.sort(key=lambda action: action.at)
    return found + [Action(cycle, storm_s, do, what) for do, what in _restore(drawn)]


# Load


def _load(rng: random.Random, drawn: Drawn) -> tuple[str, dict[str, Any]]:
    choices = [(_create, 10), (_scale, 10), (_delete, 5), (_node, 3), (_pods, 2), (_policy, 0.4)]
    for _ in range(50):
        (make,) = rng.choices([one for one, _ in choices], [weight for _, weight in choices])
        found = make(rng, drawn)
        if found is not None:
            return found
    return "nothing", {}


_SHAPES = {
    # kind: pool, cpu of a pod in milli, how many pods
    "plain": ("f", (100, 250, 500, 1000), (1, 8)),
    "split": ("f", (100, 250, 500), (1, 10)),
    "kube": ("k", (100, 250, 500), (1, 10)),
    "gang": ("f", (250, 500, 1000), (2, 6)),
    "gangjob": ("f", (250, 500, 1000), (2, 6)),
    "job": ("f", (100, 250, 500), (1, 6)),
    "exclusive": ("x", (500,), (1, 1)),
    "guest": ("x", (250,), (1, 2)),
    # More than there is, and what pushes it aside: both leave before a quiet point.
    "filler": ("f", (1000, 2000), (30, 45)),
    "urgent": ("f", (2000, 6000), (1, 3)),
    "urgentgang": ("f", (3000, 5000), (2, 4)),
}
_KINDS = tuple(_SHAPES)
_WEIGHTS = (10, 10, 8, 6, 3, 4, 2, 2, 5, 5, 4)
_PASSING = ("filler", "urgent", "urgentgang")


def _create(rng: random.Random, drawn: Drawn) -> tuple[str, dict[str, Any]] | None:
    (kind,) = rng.choices(_KINDS, _WEIGHTS)
    pool, cpus, (least, most) = _SHAPES[kind]
    cpu, replicas = rng.choice(cpus), rng.randint(least, most)
    if kind in _PASSING:
        if sum(one["kind"] == kind for one in drawn.workloads.values()) >= 2:
            return None
    elif _asked(drawn, pool) + cpu * replicas > _MOST_CPU_MILLI[pool]:
        return None
    priority = {"filler": -10, "urgent": 1000, "urgentgang": 500, "exclusive": 50}.get(
        kind, rng.choice((0, 0, 0, 10, 100))
    )
    what: dict[str, Any] = {
        "name": drawn.name(kind),
        "kind": kind,
        "pool": pool,
        "cpu": cpu,
        "replicas": replicas,
        "priority": priority,
    }
    if kind in ("job", "gangjob"):
        what["runs_s"] = rng.randint(2, 20)
    if kind in ("plain", "split") and replicas > 1 and rng.random() < 0.4:
        what["budget"] = rng.choice(("50%", "80%"))
    drawn.workloads[what["name"]] = what
    return "create", dict(what)


def _asked(drawn: Drawn, pool: str) -> int:
    return sum(
        one["cpu"] * one["replicas"]
        for one in drawn.workloads.values()
        if one["pool"] == pool and one["kind"] not in _PASSING
    )


def _scale(rng: random.Random, drawn: Drawn) -> tuple[str, dict[str, Any]] | None:
    elastic = [one for one in drawn.workloads.values() if one["kind"] in ("plain", "split", "kube", "filler")]
    if not elastic:
        return None
    one = rng.choice(elastic)
    replicas = rng.randint(0 if rng.random() < 0.1 else 1, 12)
    more = one["cpu"] * (replicas - one["replicas"])
    if one["kind"] != "filler" and _asked(drawn, one["pool"]) + more > _MOST_CPU_MILLI[one["pool"]]:
        return None
    one["replicas"] = replicas
    return "scale", {"name": one["name"], "replicas": replicas}


def _delete(rng: random.Random, drawn: Drawn) -> tuple[str, dict[str, Any]] | None:
    if len(drawn.workloads) < 6:
        return None
    name = rng.choice(list(drawn.workloads))
    gone = drawn.workloads.pop(name)
    return "delete", {"name": name, "kind": gone["kind"]}


def _pods(rng: random.Random, drawn: Drawn) -> tuple[str, dict[str, Any]] | None:
    """Somebody deletes some pods of a workload, or rolls it out again."""
    there = [
        one["name"] for one in drawn.workloads.values() if one["kind"] in ("plain", "split", "kube", "gang")
    ]
    if not there:
        return None
    name = rng.choice(there)
    if rng.random() < 0.4 and not name.startswith("gang"):
        return "rollout", {"name": name, "revision": drawn.name("r")}
    return "delete_pods", {"name": name, "number": rng.randint(1, 3)}


def _policy(rng: random.Random, drawn: Drawn) -> tuple[str, dict[str, Any]] | None:
    return "policy", {"name": rng.choice(("split", "kube")), "min": rng.choice(("20%", "30%", "50%", 1, 2))}


def _node(rng: random.Random, drawn: Drawn) -> tuple[str, dict[str, Any]] | None:
    pool = rng.choice(list(FLEET))
    nodes = [one for one in drawn.nodes[pool] if one not in drawn.closed and one not in drawn.tainted]
    change = rng.choice(("cordon", "taint", "remove", "add", "open"))
    if change == "add":
        if len(drawn.nodes[pool]) > FLEET[pool]:
            return None
        drawn.nodes[pool].append(drawn.name(f"node-{pool}"))
        return "add_node", {"name": drawn.nodes[pool][-1], "pool": pool}
    if change == "open":
        shut = drawn.closed + drawn.tainted
        if not shut:
            return None
        node = rng.choice(shut)
        drawn.closed, drawn.tainted = (
            [one for one in held if one != node] for held in (drawn.closed, drawn.tainted)
        )
        return "open", {"name": node}
    if len(nodes) < 2:
        return None
    node = rng.choice(nodes)
    if change == "remove":
        drawn.nodes[pool].remove(node)
        return "remove_node", {"name": node}
    (drawn.closed if change == "cordon" else drawn.tainted).append(node)
    return change, {"name": node}


def _restore(drawn: Drawn) -> Iterator[tuple[str, dict[str, Any]]]:
    """Before a quiet point: what was too much leaves, closed nodes are opened, lost ones replaced."""
    for name, one in list(drawn.workloads.items()):
        if one["kind"] in _PASSING:
            del drawn.workloads[name]
            yield "delete", {"name": name, "kind": one["kind"]}
    for node in drawn.closed + drawn.tainted:
        yield "open", {"name": node}
    drawn.closed.clear()
    drawn.tainted.clear()
    for pool, name in fleet(drawn):
        yield "add_node", {"name": name, "pool": pool}


# Faults

FAULTS: dict[str, int] = {
    # what happens to requests through a door's proxy, for a while
    "bind_conflict": 3,
    "too_many_requests": 3,
    "server_errors": 3,
    "lost_requests": 3,
    "lost_replies": 4,
    "events_refused": 1,
    "lease_blocked": 1,
    # what happens to its watches
    "watch_cut": 3,
    "watch_frozen": 2,
    "watch_duplicated": 2,
    "watch_dropped": 2,
    "watch_delayed": 3,
    "watch_expired": 2,
    # what happens to programs and nodes
    "kill_leader": 2,
    "kill_webhook": 2,
    "kill_rebalancer": 1,
    "freeze": 3,
    "restart_apiserver": 1,
    "remove_chosen_node": 3,
}
"""The list, with how often each is drawn. Which scheduler leads is known only when it is to be killed."""

FOR_A_WHILE = (
    "bind_conflict",
    "too_many_requests",
    "server_errors",
    "lost_requests",
    "lost_replies",
    "events_refused",
)


def _fault(rng: random.Random, drawn: Drawn) -> tuple[str, dict[str, Any]]:
    (do,) = rng.choices(list(FAULTS), list(FAULTS.values()))
    for_s = round(rng.uniform(2, 15), 1)
    match do:
        case "bind_conflict" | "lease_blocked":
            return do, {"door": rng.choice(SCHEDULERS), "for_s": for_s}
        case "kill_leader" | "kill_webhook" | "kill_rebalancer":
            named = {"kill_webhook": rng.choice(WEBHOOKS), "kill_rebalancer": "rebalancer"}.get(do, "leader")
            return do, {"door": named, "away_s": round(rng.uniform(0.5, 8), 1)}
        case "freeze":
            return do, {"door": rng.choice(("leader", *DOORS)), "for_s": round(rng.uniform(1, 22), 1)}
        case "restart_apiserver":
            return do, {"away_s": round(rng.uniform(0, 3), 1)}
        case "remove_chosen_node":
            # Binds are on their way while their node is deleted.
            pool = rng.choice(("f-spot", "f-safe"))
            open_ones = [
                one for one in drawn.nodes[pool] if one not in drawn.closed and one not in drawn.tainted
            ]
            if len(open_ones) < 2:
                return "watch_cut", {"door": rng.choice(DOORS), "for_s": for_s}
            node = rng.choice(open_ones)
            drawn.nodes[pool].remove(node)
            return do, {"name": node, "for_s": 1.5}
        case _:
            return do, {"door": rng.choice(DOORS), "for_s": for_s}
