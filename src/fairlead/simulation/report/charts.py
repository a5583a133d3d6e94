"""Charts of results.

One result has a line for each resource or group; of several, each has a line in the same chart, or a chart
beside the others' on the same scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.simulation.report.chart import (
    DASHES,
    FEW,
    HATCHES,
    HEIGHT,
    Chart,
    Key,
    Words,
    bar_keys,
    bar_marker,
    base_layout,
    plain,
    series_colour,
)
from fairlead.simulation.report.words import (
    availability,
    available,
    counted,
    money,
    number,
    share,
    worst_first,
)
from fairlead.simulation.simulate.result import Result

_SHARE = "share of capacity"
_MOST_POINTS = 1200
_MOST_GROUPS = 7
_MOST_WORKLOADS = 12
_TIMES = (
    (7200.0, 60.0, "minutes", (1, 2, 5, 10, 15, 30)),
    (3 * 86400.0, 3600.0, "hours", (1, 2, 3, 6, 12)),
    (math.inf, 86400.0, "days", (1, 2, 7, 14, 28, 91, 364)),
)
"""Up to how long, the seconds of a unit, its name, and how far apart its ticks may be."""
_MOST_TICKS = 8

Named = Sequence[tuple[str, Result]]
"""Results, each with what it is called."""


@dataclass(frozen=True, slots=True)
class _Line:
    """Values over time."""

    name: str
    values: Sequence[float]
    every_s: float


def utilisation(named: Named) -> Iterator[Chart]:
    """The share of each resource that pods asked for."""
    resources = _resources(named)
    about = "What pods asked for, as a share of what nodes had."
    if len(named) == 1:
        ((_, result),) = named
        lines = [_line(result, f"used:{one}", one) for one in resources]
        yield _over_time(
            named, lines, "Utilisation", about, axis=_SHARE, words=share, each="resource", percent=True
        )
        return
    for resource in resources:
        lines = [_line(result, f"used:{resource}", name) for name, result in named]
        title = f"Utilisation: {resource}"
        yield _over_time(named, lines, title, about, axis=_SHARE, words=share, percent=True)


def pending(named: Named) -> Iterator[Chart]:
    """How many pods wait for a node."""
    lines = [_line(result, "pending", name) for name, result in named]
    about = "Pods that have been created and have no node."
    yield _over_time(named, lines, "Pending pods", about, axis="pending pods", words=number)


def nodes(named: Named) -> Iterator[Chart]:
    """The nodes of each group, one on top of the other."""
    groups = _groups(named)
    highest = max((max(_line(result, "nodes", "").values, default=0) for _, result in named), default=0)
    for place, (name, result) in enumerate(named):
        lines = [_line(result, f"nodes:{one}", one) for one in groups]
        if len(lines) > _MOST_GROUPS:
            rest = lines[_MOST_GROUPS - 1 :]
            summed = tuple(map(sum, zip(*(one.values for one in rest), strict=True)))
            lines = [*lines[: _MOST_GROUPS - 1], _Line(f"{len(rest)} others", summed, rest[0].every_s)]
        title = "Nodes by group" if len(named) == 1 else f"Nodes by group: {name}"
        yield _over_time(
            named,
            lines,
            title,
            "Nodes that can take pods, the groups on top of each other.",
            axis="nodes",
            words=number,
            each="node group",
            stacked=True,
            highest=highest,
            begins_row=place == 0 and len(named) > 1,
        )


def cost(named: Named) -> Iterator[Chart]:
    """What all nodes cost, over time and in all by group."""
    if not any(result.cost for _, result in named):
        return
    lines = [_line(result, "costPerHour", name) for name, result in named]
    about = "What all nodes cost per hour, in the unit of the scenario's prices."
    yield _over_time(named, lines, "Cost over time", about, axis="cost per hour", words=money)
    groups = _groups(named)
    bars = []
    for place, (name, result) in enumerate(named):
        costs = {one.name: one.cost for one in result.groups}
        bars.append(
            _bar(
                name,
                [costs.get(one, 0.0) for one in groups],
                groups,
                money,
                colour=series_colour(place),
                hatch=HATCHES[place % len(HATCHES)],
            )
        )
    layout = base_layout("cost in all", "node group", height=_bar_height(len(groups) * len(named)))
    layout |= {"barmode": "group", "bargap": 0.3, "hovermode": "closest"}
    layout["yaxis"] |= {"autorange": "reversed", "type": "category"}
    layout["xaxis"] |= {"rangemode": "tozero"}
    rows = tuple(
        (group, *(money(one.cost) for _, result in named for one in result.groups if one.name == group))
        for group in groups
    )
    yield Chart(
        "Cost by group",
        "Over the whole time, in the unit of the scenario's prices.",
        bars,
        layout,
        bar_keys([name for name, _ in named], bars) if len(named) > 1 else (),
        ("group", *(name if len(named) > 1 else "cost" for name, _ in named)),
        rows,
    )


def at_the_end(named: Named) -> Iterator[Chart]:
    """What of each resource is used, free, and free but unusable."""
    resources = _resources(named)
    labels, used, usable, unusable, rows = [], [], [], [], []
    for resource in resources:
        for name, result in named:
            one = next((each for each in result.resources if each.name == resource), None)
            if one is None:
                continue
            label = resource if len(named) == 1 else f"{resource}, {name}"
            free = max(0.0, 1 - one.used_at_end)
            lost = min(free, one.unusable_share)
            labels.append(label)
            used.append(one.used_at_end)
            usable.append(free - lost)
            unusable.append(lost)
            rows.append((label, share(one.used_at_end), share(free - lost), share(lost)))
    if not labels:
        return
    bars = [
        _bar("in use", used, labels, share, colour="var(--series-1)", hatch=""),
        _bar("free and usable", usable, labels, share, colour="var(--free)", hatch=""),
        _bar("free but unusable", unusable, labels, share, colour="var(--series-2)", hatch="/"),
    ]
    layout = base_layout(_SHARE, "resource", height=_bar_height(len(labels)))
    layout |= {"barmode": "stack", "bargap": 0.35, "hovermode": "closest"}
    layout["xaxis"] |= {"range": [0, 1], "tickformat": ".0%"}
    layout["yaxis"] |= {"autorange": "reversed", "type": "category"}
    yield Chart(
        "Capacity at the end",
        "Free but unusable: a pod drawn from all that arrived could not have it, because the node lacks "
        "something else that the pod asks for.",
        bars,
        layout,
        bar_keys(("in use", "free and usable", "free but unusable"), bars),
        ("resource", "in use", "free and usable", "free but unusable"),
        tuple(rows),
    )


def ready(named: Named) -> Iterator[Chart]:
    """The ready pods of each workload that has a minimum."""
    for workload in _measured(named)[:_MOST_WORKLOADS]:
        lines, minima, said = [], [], []
        for name, result in named:
            one = next((each for each in result.workloads if each.name == workload), None)
            had = None if one is None else available(one)
            if one is None or one.min_available is None or had is None:
                continue
            lines.append(_line(result, f"ready:{workload}", name if len(named) > 1 else "ready pods"))
            minima.append(one.min_available)
            text = f"t least {one.min_available:,} ready for {availability(had)} of the time."
            said.append(f"A{text}" if len(named) == 1 else f"{name}: a{text}")
        yield _over_time(
            named,
            lines,
            f"Ready pods: {workload}",
            " ".join(said),
            axis="ready pods",
            words=number,
            minima=sorted(set(minima)),
            keep=min,
        )


def not_drawn(named: Named) -> str:
    """Which workloads have no chart, "" where all have one."""
    number_of = len(_measured(named))
    if number_of <= _MOST_WORKLOADS:
        return ""
    return (
        f"The {_MOST_WORKLOADS} of {counted(number_of, 'workload')} with the lowest availability are drawn; "
        "the tables have all."
    )


# What is drawn


def _resources(named: Named) -> list[str]:
    return list(dict.fromkeys(one.name for _, result in named for one in result.resources))


def _groups(named: Named) -> list[str]:
    """Those that were there longest first."""
    hours: dict[str, float] = {}
    for _, result in named:
        for one in result.groups:
            hours[one.name] = hours.get(one.name, 0.0) + one.node_hours
    return sorted(hours, key=lambda name: (-hours[name], name))


def _measured(named: Named) -> list[str]:
    ranked = sorted(
        (available(one) or 0.0, place, one.name)
        for _, result in named
        for place, one in enumerate(worst_first(result))
    )
    return list(dict.fromkeys(name for _, _, name in ranked))


def _line(result: Result, key: str, name: str) -> _Line:
    values = result.series.values.get(key, ())
    if not values:
        values = (0.0,) * len(result.series.values.get("nodes", ()))
    return _Line(name, values, result.series.every_s)


# How it is drawn


def _over_time(
    named: Named,
    lines: Sequence[_Line],
    title: str,
    about: str,
    *,
    axis: str,
    words: Words,
    each: str = "result",
    percent: bool = False,
    stacked: bool = False,
    highest: float | None = None,
    begins_row: bool = False,
    minima: Iterable[int] = (),
    keep: Callable[[Sequence[float]], float] = max,
) -> Chart:
    longest_s = max(result.duration_s for _, result in named)
    _, unit_s, unit, steps = next(one for one in _TIMES if longest_s <= one[0])
    step = next((one for one in steps if longest_s / unit_s / one <= _MOST_TICKS), steps[-1])
    data: list[dict[str, Any]] = []
    keys: list[Key] = []
    for place, line in enumerate(lines):
        if stacked and not any(line.values):
            continue  # a group of another result
        values, every_s = thinned(line, keep)
        key = Key(line.name, series_colour(place), DASHES[place % len(DASHES)])
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines",
            "name": plain(line.name),
            "x": [round(at * every_s / unit_s, 6) for at in range(len(values))],
            "y": [round(one, 6) for one in values],
            "line": {"color": key.colour, "width": 2, "shape": "hv", "dash": key.dash},
        }
        if stacked:
            hatch = HATCHES[place % len(HATCHES)]
            key = Key(line.name, key.colour, hatch=hatch or "none")
            trace["stackgroup"] = "all"
            trace["line"] |= {"width": 0, "dash": "solid"}
            trace["fillcolor"] = key.colour
            if hatch:
                trace["fillpattern"] = {
                    "shape": hatch,
                    "bgcolor": key.colour,
                    "fgcolor": "var(--panel)",
                    "fillmode": "replace",
                    "size": 6,
                }
        data.append(trace)
        keys.append(key)
    for least in minima:
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"minimum {least:,}",
                "x": [0, round(longest_s / unit_s, 6)],
                "y": [least, least],
                "hoverinfo": "skip",
                "line": {"color": "var(--bad)", "width": 1.5, "dash": "dot"},
            }
        )
        keys.append(Key(f"minimum of {least:,}", "var(--bad)", "dot"))
    layout = base_layout(f"time ({unit})", axis)
    layout["xaxis"] |= {
        "range": [0, round(longest_s / unit_s, 6)],
        "dtick": step,
        "unifiedhovertitle": {"text": f"after %{{x:,.2f}} {unit}"},
    }
    layout["yaxis"] |= {"rangemode": "tozero", "tickformat": ".0%" if percent else ",~g"}
    most = max((value for line in lines for value in line.values), default=0) if highest is None else highest
    if highest is not None or not most:  # plotly.js would centre a line of zeros
        layout["yaxis"]["range"] = [0, round(max(1.0, most) * 1.05, 6)]
    if words is number and most <= FEW:
        layout["yaxis"]["dtick"] = 1  # there is no half of a pod
    if percent:
        layout["yaxis"] |= {"hoverformat": ".1%", "range": [0, 1.02], "dtick": 0.2}
    thin = max((math.ceil(len(line.values) / _MOST_POINTS) for line in lines), default=1)
    if thin > 1:
        kept = "lowest" if keep is min else "highest"
        about = f"{about} Each point is the {kept} of {thin} samples."
    return Chart(
        title,
        about,
        data,
        layout,
        tuple(keys) if len(keys) > 1 else (),
        (each, "at the start", "lowest", "mean", "highest", "at the end"),
        tuple((line.name, *_summary(line.values, words)) for line in lines),
        begins_row,
    )


def thinned(line: _Line, keep: Callable[[Sequence[float]], float]) -> tuple[Sequence[float], float]:
    """Few enough values to draw, and the time between two: of neighbours the one that matters most."""
    size = math.ceil(len(line.values) / _MOST_POINTS)
    if size <= 1:
        return line.values, line.every_s
    values = [keep(line.values[at : at + size]) for at in range(0, len(line.values), size)]
    return values, line.every_s * size


def _summary(values: Sequence[float], words: Words) -> tuple[str, ...]:
    if not values:
        return ("",) * 5
    mean = math.fsum(values) / len(values)
    return tuple(words(one) for one in (values[0], min(values), mean, max(values), values[-1]))


def _bar(
    name: str, values: Sequence[float], labels: Sequence[str], words: Words, *, colour: str, hatch: str
) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": plain(name),
        "x": [round(one, 6) for one in values],
        "y": [plain(one) for one in labels],
        "text": [words(one) for one in values],
        "textposition": "none",
        "hovertemplate": "%{y}: %{text}",
        "marker": bar_marker(colour, hatch),
    }


def _bar_height(bars: int) -> int:
    return max(HEIGHT, 110 + 30 * bars)
