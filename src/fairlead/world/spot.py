"""Spot nodes: what a market takes away, and when, by schedule or by a recorded trace.

Pools are all or nothing more often than not: a trace gives how many nodes can be had at each moment,
and whatever is beyond that goes, newest first, at once or after a notice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from fairlead.errors import BadInput
from fairlead.world.controllers.writes import Again, Delete, Emit, Obj, Patch, View, Write
from fairlead.world.objects import labels_of
from fairlead.world.pools import Pools

# On a node that will be taken away, until it is.
INTERRUPTION = "fairlead.dev/interruption"
_COMPONENT = "spot-market"
_MARKET = "market"


@dataclass(frozen=True, slots=True)
class Supply:
    """From `after` (since the market opened) on, `nodes` nodes of the pool can be had."""

    after: timedelta
    nodes: int


@dataclass(frozen=True, slots=True)
class Notice:
    """A node that will be gone at a time."""

    node: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Trace:
    """A recorded market: how many nodes could be had at each probe, `gap_s` apart."""

    gap_s: float
    nodes: tuple[int, ...]

    def supply(self, *, start: int = 0, probes: int | None = None, scale: int = 1) -> list[Supply]:
        """The supply from the `start`-th probe on: only the changes. A recorded node stands for `scale`."""
        found: list[Supply] = []
        last: int | None = None
        end = len(self.nodes) if probes is None else start + probes
        for index, nodes in enumerate(self.nodes[start:end]):
            if nodes != last:
                found.append(Supply(timedelta(seconds=index * self.gap_s), nodes * scale))
                last = nodes
        return found


def read_trace(path: Path) -> Trace:
    """A trace from its file."""
    try:
        text = path.read_text()
    except OSError as error:
        raise BadInput(f"spot trace {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"spot trace {path}: not a trace: {error!r}") from error
    return trace_of(text, str(path))


def trace_of(text: str, called: str) -> Trace:
    """A trace: ``{"metadata": {"gap_seconds": N}, "data": [nodes available at each probe, …]}``."""
    try:
        data = json.loads(text)
        trace = Trace(float(data["metadata"]["gap_seconds"]), tuple(int(number) for number in data["data"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"spot trace {called}: not a trace: {error!r}") from error
    if not (trace.gap_s > 0 and trace.nodes) or min(trace.nodes) < 0:
        raise BadInput(f"spot trace {called}: needs a positive gap_seconds, and data of 0 or more nodes")
    return trace


class SpotMarket:
    """Sets the supply of node groups over time and takes away what is beyond it.

    `notice` is how long before its end a node gets its notice: it is cordoned and tainted, then gone. `stop`
    silences a node's kubelet: nothing on it runs from then on. A group's supply may be given per zone
    (`zone`); then only nodes of that zone are taken for it.
    """

    name = _COMPONENT
    watches = ("Node",)

    def __init__(
        self, pools: Pools, stop: Callable[[str, datetime], None], notice: timedelta = timedelta()
    ) -> None:
        self._pools = pools
        self._stop = stop
        self._notice = notice
        self.wake: Callable[[str], None] = lambda key: None
        self._plans: dict[tuple[str, str], list[tuple[datetime, int]]] = {}
        self._supply: dict[tuple[str, str], int] = {}
        self._noticed: dict[str, Notice] = {}

    def follow(self, group: str, supply: Iterable[Supply], opened: datetime, *, zone: str = "") -> None:
        """Let a group's supply go as given, from `opened` on."""
        plan = sorted((opened + each.after, each.nodes) for each in supply)
        self._plans[(group, zone)] = plan
        self.wake(_MARKET)

    def take(self, node: str, now: datetime, notice: timedelta | None = None) -> None:
        """Take one node away, after the notice."""
        at = now + (self._notice if notice is None else notice)
        self._noticed.setdefault(node, Notice(node, at))
        self.wake(_MARKET)

    # As a controller

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """Whether a node came that is too many already, or went by itself."""
        if new is None and old is not None:
            self._noticed.pop(old["metadata"]["name"], None)
        return [_MARKET] if old is None and self._supply else []

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Change supply as planned, give notice, and take what is due."""
        looks: list[datetime] = []
        for (group, zone), plan in self._plans.items():
            while plan and plan[0][0] <= now:
                self._supply[(group, zone)] = plan.pop(0)[1]
            if plan:
                looks.append(plan[0][0])
        self._limit()
        for (group, zone), number in self._supply.items():
            self._shrink(view, group, zone, number, now)
        writes: list[Write] = []
        for notice in list(self._noticed.values()):
            node = view.get("Node", "", notice.node)
            if node is None:
                del self._noticed[notice.node]
            elif notice.at <= now:
                del self._noticed[notice.node]
                self._stop(notice.node, now)
                writes += [
                    Emit(
                        node,
                        "SpotInterrupted",
                        f"spot node {notice.node} was taken away",
                        _COMPONENT,
                        "Warning",
                    ),
                    Delete(node),
                ]
            else:
                looks.append(notice.at)
                writes += _tell(node, notice)
        return [*writes, Again(min(looks))] if looks else writes

    def _limit(self) -> None:
        totals: dict[str, int] = {}
        for (group, _), number in self._supply.items():
            totals[group] = totals.get(group, 0) + number
        for group, number in totals.items():
            self._pools.set_supply(group, number)

    def _shrink(self, view: View, group: str, zone: str, number: int, now: datetime) -> None:
        nodes = [
            name for name in self._pools.nodes(group) if not zone or _zone(view.get("Node", "", name)) == zone
        ]
        staying = [name for name in nodes if name not in self._noticed]
        for name in reversed(staying[max(0, number) :]):
            self._noticed[name] = Notice(name, now + self._notice)


def _zone(node: Obj | None) -> str:
    return labels_of(node).get("topology.kubernetes.io/zone", "") if node is not None else ""


def _tell(node: Obj, notice: Notice) -> list[Write]:
    spec = node.get("spec") or {}
    taints = spec.get("taints") or []
    if any(taint["key"] == INTERRUPTION for taint in taints):
        return []
    taint = {"key": INTERRUPTION, "value": "spot", "effect": "NoSchedule"}
    meta = {"resourceVersion": node["metadata"]["resourceVersion"]}
    said = f"spot node {notice.node} will be taken away at {notice.at:%H:%M:%S}"
    return [
        Patch(node, {"metadata": meta, "spec": {"unschedulable": True, "taints": [*taints, taint]}}),
        Emit(node, "SpotInterruptionNotice", said, _COMPONENT, "Warning"),
    ]
