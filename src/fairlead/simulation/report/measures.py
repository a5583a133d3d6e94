"""What is measured, number by number: what each is called, in which words it is told, and what is better.

A number goes by its path, which columns of a sweep have too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from fairlead.simulation.report.chart import Words
from fairlead.simulation.report.words import amount, availability, available, money, number, share, span
from fairlead.simulation.simulate.result import GroupResult, ResourceResult, Result, WorkloadResult
from fairlead.simulation.sweep.parameters import parts_of

Better = Literal["less", "more", ""]
"""Which of two numbers is the better one by itself; "" where that depends."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Measure(Generic[T]):
    """One number of a part: its path there, its name, how it is put in words, and where it is found."""

    path: str
    name: str
    words: Words
    better: Better
    value: Callable[[T], float | None]


Measures = tuple[Measure[T], ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A number of results by its path. `part` and `name` are "" where only the path says what it is."""

    path: str
    part: str
    name: str
    words: Words
    better: Better
    resource: str = ""
    """Whose amount it is."""


def column(path: str) -> Column:
    """What is known of a number of results.

    >>> found = column("workloads.web.waits.max")
    >>> found.part, found.name, found.better, found.words is span
    ('workload web: waits', 'longest', 'less', True)
    """
    parts = parts_of(path)
    if len(parts) > 2 and parts[0] in _PARTS:
        kind, among = _PARTS[parts[0]]
        within = ".".join(parts[2:])
        part = f"{kind} {parts[1]}"
    else:
        among, within, part = (), ".".join(parts), ""
    for one in among:
        if one.path == within:
            return Column(path, part, one.name, one.words, one.better)
    if part and parts[0] == "resources":
        better: Better = "less" if within == "unusablePerNode" else ""
        name = {"capacity": CAPACITY, "unusablePerNode": "free but unusable, per node"}.get(within, "")
        return Column(path, part, name, partial(amount, parts[1]), better, parts[1])
    for section, measures in WHOLE.items():
        for each in measures:
            if each.path == within and (not part or parts[0] == "workloads"):
                return Column(
                    path, ": ".join(filter(None, (part, section))), each.name, each.words, each.better
                )
    return Column(path, part, "", span if within == "durationS" else number, "")


def _if_measured(value: Callable[[WorkloadResult], float]) -> Callable[[WorkloadResult], float | None]:
    return lambda one: None if one.availability is None else value(one)


CAPACITY = "capacity at the end"
WHOLE: dict[str, Measures[Result]] = {
    "pods": (
        Measure("pods.arrived", "arrived", number, "", lambda one: one.pods.arrived),
        Measure("pods.placed", "placed", number, "", lambda one: one.pods.placed),
        Measure("pods.finished", "finished", number, "more", lambda one: one.pods.finished),
        Measure("pods.pending", "pending at the end", number, "less", lambda one: one.pods.pending),
        Measure("pods.running", "running at the end", number, "", lambda one: one.pods.running),
        Measure("pods.evicted", "evicted", number, "less", lambda one: one.pods.evicted),
        Measure("pods.moved", "moved", number, "less", lambda one: one.pods.moved),
    ),
    "waits": (
        Measure("waits.mean", "mean", span, "less", lambda one: one.waits.mean),
        Measure("waits.p50", "median", span, "less", lambda one: one.waits.p50),
        Measure("waits.p95", "95% of pods, at most", span, "less", lambda one: one.waits.p95),
        Measure("waits.p99", "99% of pods, at most", span, "less", lambda one: one.waits.p99),
        Measure("waits.max", "longest", span, "less", lambda one: one.waits.max),
    ),
    "cost": (
        Measure("cost", "in all", money, "less", lambda one: one.cost),
        Measure("costPerHour", "per hour", money, "less", lambda one: one.cost_per_hour),
    ),
}
RESOURCE: Measures[ResourceResult] = (
    Measure("used", "mean utilisation", share, "", lambda one: one.used),
    Measure("peakUsed", "highest utilisation", share, "", lambda one: one.peak_used),
    Measure("usedAtEnd", "utilisation at the end", share, "", lambda one: one.used_at_end),
    Measure("unusableShare", "free but unusable", share, "less", lambda one: one.unusable_share),
)
GROUP: Measures[GroupResult] = (
    Measure("nodeHours", "node hours", number, "", lambda one: one.node_hours),
    Measure("cost", "cost", money, "less", lambda one: one.cost),
    Measure("most", "most nodes", number, "", lambda one: one.most),
    Measure("atEnd", "nodes at the end", number, "", lambda one: one.at_end),
    Measure("taken", "nodes taken away", number, "", lambda one: one.taken),
)
WORKLOAD: Measures[WorkloadResult] = (
    Measure("availability", "availability", availability, "more", available),
    Measure("outages", "outages", number, "less", _if_measured(lambda one: one.outages)),
    Measure("belowS", "time below its minimum", span, "less", _if_measured(lambda one: one.below_s)),
    Measure("longestOutageS", "longest outage", span, "less", _if_measured(lambda one: one.longest_outage_s)),
    Measure("pods.finished", "finished", number, "more", lambda one: one.pods.finished),
    Measure("pods.pending", "pending at the end", number, "less", lambda one: one.pods.pending),
    Measure("pods.evicted", "evicted", number, "less", lambda one: one.pods.evicted),
    Measure("pods.moved", "moved", number, "less", lambda one: one.pods.moved),
    Measure("waits.p95", "95% of waits, at most", span, "less", lambda one: one.waits.p95),
)
_PARTS: dict[str, tuple[str, Iterable[Measure[Any]]]] = {
    "resources": ("resource", RESOURCE),
    "groups": ("node group", GROUP),
    "workloads": ("workload", WORKLOAD),
}
