"""Tables of results: workloads, node groups, resources, and what waits at the end.

Of several results, each row says whose it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fairlead.simulation.report.charts import Named
from fairlead.simulation.report.words import amount, availability, available, money, number, share, span
from fairlead.simulation.simulate.result import Result

Cells = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """The first `texts` columns are text, the first of these names the row; the others are numbers."""

    title: str
    about: str
    headings: Cells
    rows: tuple[Cells, ...]
    texts: int = 1


def tables(named: Named) -> tuple[Table, ...]:
    """All that have a row."""
    found = (_availability(named), _workloads(named), _groups(named), _resources(named), _waiting(named))
    return tuple(one for one in found if one.rows)


def _availability(named: Named) -> Table:
    return _table(
        "Evictions and outages",
        "An outage is a time in which fewer pods were ready than the workload's minimum, after it first had "
        "that many.",
        ("workload", "minimum", "availability", "outages", "longest", "in all", "evicted", "moved"),
        named,
        lambda result: (
            (
                one.name,
                "none" if one.min_available is None else number(one.min_available),
                "" if (had := available(one)) is None else availability(had),
                "" if one.availability is None else number(one.outages),
                "" if one.availability is None else span(one.longest_outage_s),
                "" if one.availability is None else span(one.below_s),
                number(one.pods.evicted),
                number(one.pods.moved),
            )
            for one in result.workloads
            if one.availability is not None or one.pods.evicted or one.pods.moved
        ),
    )


def _workloads(named: Named) -> Table:
    return _table(
        "Workloads",
        "A pod that comes again after an eviction has arrived, and waits, again.",
        (
            *("workload", "kind", "arrived", "placed", "finished", "pending", "running"),
            *("median wait", "95% at most", "longest wait"),
        ),
        named,
        lambda result: (
            (
                one.name,
                one.kind,
                number(one.pods.arrived),
                number(one.pods.placed),
                number(one.pods.finished),
                number(one.pods.pending),
                number(one.pods.running),
                *(
                    (span(one.waits.p50), span(one.waits.p95), span(one.waits.max))
                    if one.pods.placed
                    else ("", "", "")
                ),
            )
            for one in result.workloads
        ),
        texts=2,
    )


def _groups(named: Named) -> Table:
    return _table(
        "Node groups",
        "Cost is in the unit of the scenario's prices; nodes were taken away by markets or faults.",
        ("group", "node hours", "cost", "most nodes", "at the end", "taken away"),
        named,
        lambda result: (
            (
                one.name,
                number(one.node_hours, 1),
                money(one.cost),
                number(one.most),
                number(one.at_end),
                number(one.taken),
            )
            for one in result.groups
        ),
    )


def _resources(named: Named) -> Table:
    return _table(
        "Resources",
        "In use is what pods asked for. Free but unusable, at the end, is what a pod drawn from all that "
        "arrived could not have had.",
        (
            "resource",
            "capacity",
            "mean use",
            "highest use",
            "use at the end",
            "free but unusable",
            "of that, per node",
        ),
        named,
        lambda result: (
            (
                one.name,
                amount(one.name, one.capacity),
                share(one.used),
                share(one.peak_used),
                share(one.used_at_end),
                share(one.unusable_share),
                amount(one.name, one.unusable_per_node),
            )
            for one in result.resources
        ),
    )


def _waiting(named: Named) -> Table:
    return _table(
        "Why pods wait at the end",
        "What kept pods from each node, without what differs from pod to pod.",
        ("reason", "pods"),
        named,
        lambda result: ((one.text, number(one.pods)) for one in result.waiting),
    )


def _table(
    title: str,
    about: str,
    headings: Cells,
    named: Named,
    rows: Callable[[Result], Iterable[Cells]],
    *,
    texts: int = 1,
) -> Table:
    if len(named) == 1:
        return Table(title, about, headings, tuple(rows(named[0][1])), texts)
    whole: dict[str, list[Cells]] = {}
    for name, result in named:
        for first, *rest in rows(result):
            whole.setdefault(first, []).append((first, name, *rest))
    return Table(
        title,
        about,
        (headings[0], "result", *headings[1:]),
        tuple(row for key in sorted(whole) for row in whole[key]),
        texts + 1,
    )
