"""Charts of a sweep: one for each column, over the first parameter, the others' combinations as lines.

Where the first parameter's values are not all numbers, lines are groups of bars. All charts have the same
lines, in the same colours. What is too much to be told apart is not drawn, and `about` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeGuard, TypeVar

from fairlead.simulation.report.chart import (
    DASHES,
    FEW,
    HATCHES,
    HEIGHT,
    Cell,
    Chart,
    Key,
    bar_keys,
    bar_marker,
    base_layout,
    plain,
    series_colour,
)
from fairlead.simulation.report.measures import Column, column
from fairlead.simulation.report.sweep_rows import in_words, names_of, settings_of, shown, varying
from fairlead.simulation.report.words import availability, counted, money, number, share, span, unit_of
from fairlead.simulation.sweep import table as swept
from fairlead.simulation.sweep.parameters import Value, spelling
from fairlead.simulation.sweep.table import Row, Table

_MOST_LINES = 8
_MOST_BARS = 36
_MOST_CATEGORIES = 12
_MOST_VALUES = 100
_MOST_TICKS = 8
_FITTING = 30
_FITTING_TICK = 18
_LABELS_SIDE_BY_SIDE = 34
"""So many letters of labels fit below a chart on a phone; more are turned."""
_LETTER = 7
_LEFT = 5
"""Letters that are left of what all labels begin or end with."""
_TIMES = ((120.0, 1.0, "seconds"), (7200.0, 60.0, "minutes"), (3 * 86400.0, 3600.0, "hours"))
"""Up to how long, the seconds of a unit, and its name; beyond these, days."""
_BEGINS = (0.9999, 0.9995, 0.999, 0.995, 0.99, 0.98, 0.95, 0.9, 0.8, 0.5)
"""Where an axis of availability may begin."""

Cells = Sequence[Sequence[swept.Cell | None]]
"""By line, then by value."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Axes:
    """Where rows are drawn: the values of `first`, and the combinations of `others` that have lines."""

    first: str
    others: tuple[str, ...]
    numeric: bool
    values: tuple[Value, ...]
    of_values: int
    lines: tuple[tuple[Value, ...], ...]
    of_lines: int

    @property
    def dodged(self) -> bool:
        """Whether points of one value can lie on each other."""
        return self.numeric and len(self.lines) > 1


def axes(table: Table) -> Axes | None:
    """Where a table's rows are drawn; None where it has no parameter but the seed."""
    if not table.paths:
        return None
    first, *others = varying(table) or table.paths[:1]
    values: dict[str, Value] = {}
    lines: dict[tuple[str, ...], tuple[Value, ...]] = {}
    for row in table.rows:
        settings = dict(row.parameters)
        values.setdefault(spelling(settings[first]), settings[first])
        combination = tuple(settings[one] for one in others)
        lines.setdefault(tuple(map(spelling, combination)), combination)
    numbers = [one for one in values.values() if _is_number(one)]
    numeric = len(numbers) == len(values)
    drawn: Sequence[Value] = sorted(numbers) if numeric else list(values.values())
    drawn = _spread(drawn, _MOST_VALUES if numeric else _MOST_CATEGORIES)
    most = _MOST_LINES if numeric else min(_MOST_LINES, max(2, _MOST_BARS // len(drawn)))
    combinations = _spread(list(lines.values()), most)
    return Axes(first, tuple(others), numeric, tuple(drawn), len(values), tuple(combinations), len(lines))


def about(table: Table, on: Axes) -> str:
    """What is drawn, and what is not."""
    figure = "line" if on.numeric else "bar"
    if len(on.others) == 1:
        said = [f"Each column over {on.first}, with a {figure} for each {on.others[0]}."]
    elif on.others:
        *rest, last = on.others
        what = f"{', '.join(rest)} and {last}"
        said = [f"Each column over {on.first}, with a {figure} for each combination of {what}."]
    else:
        said = [f"Each column over {on.first}."]
    if table.seeds and on.numeric:
        said.append("Points are means over seeds, with a bar from the least to the most.")
        if on.dodged:
            said.append("Points of one value stand slightly apart, so that their bars can be told apart.")
    elif table.seeds:
        said.append("Bars are means over seeds, with a line from the least to the most.")
    if len(on.lines) < on.of_lines:
        said.append(
            f"{len(on.lines)} of {counted(on.of_lines, 'combination')} are drawn, spread evenly over all."
        )
    if len(on.values) < on.of_values:
        said.append(
            f"{len(on.values)} of {counted(on.of_values, 'value')} are drawn, spread evenly over all."
        )
    if len(on.lines) < on.of_lines or len(on.values) < on.of_values:
        said.append("The table has all rows.")
    return " ".join(said)


def charts(table: Table, on: Axes) -> Iterator[Chart]:
    """A chart for each column."""
    found = {_place(row, on): row for row in table.rows}
    names = names_of(table.paths)
    called = [settings_of(tuple(zip(on.others, combination, strict=True)), names) for combination in on.lines]
    for place, path in enumerate(table.columns):
        cells = [
            [_cell(found, (spelling(value), *map(spelling, line)), place) for value in on.values]
            for line in on.lines
        ]
        yield _chart(column(path), on, called, cells, seeds=table.seeds)


def _chart(of: Column, on: Axes, called: Sequence[str], cells: Cells, *, seeds: bool) -> Chart:
    there = [cell for line in cells for cell in line if cell is not None]
    least = min((cell.least for cell in there), default=0.0)
    most = max((cell.most for cell in there), default=0.0)
    size, unit = _unit(of, most)
    data = [
        _trace(of, on, place, called[place], line, size=size, seeds=seeds) for place, line in enumerate(cells)
    ]
    layout = base_layout(
        plain(_fitted(on.first, _FITTING)),
        plain(_fitted(of.path, _FITTING)) + unit,
        HEIGHT + _LETTER * _turned(on),
    )
    layout |= {"hovermode": "closest"} | ({} if on.numeric else {"barmode": "group", "bargap": 0.25})
    layout["xaxis"] |= _values_axis(on)
    layout["yaxis"] |= {"rangemode": "tozero", "tickformat": ",~g"}
    caption = [in_words(of)]
    if of.words in (share, availability):
        layout["yaxis"]["tickformat"] = ".4~%"
    if not most:  # plotly.js would centre a line of zeros
        layout["yaxis"]["range"] = [0, 1.05]
    elif of.words is number and 1 < most <= FEW:
        layout["yaxis"]["dtick"] = 1  # there is no half of a pod
    elif of.words is availability:
        begin = next((one for one in _BEGINS if one <= least - (1 - least) * 0.05), 0.0) if least < 1 else 0.0
        layout["yaxis"]["range"] = [begin, round(1 + (1 - begin) * 0.04, 6)]
        if begin:
            caption.append(f"The axis begins at {100 * begin:g}%, not at 0.")
    if not there:
        caption.append("No run has a number.")
    keys: tuple[Key, ...] = ()
    if len(called) > 1 and on.numeric:
        keys = tuple(
            Key(name, trace["line"]["color"], trace["line"]["dash"])
            for name, trace in zip(called, data, strict=True)
        )
    elif len(called) > 1:
        keys = bar_keys(called, data)
    numbers = tuple(
        (spelling(value), *(shown(line[place], of.words, seeds=seeds) for line in cells))
        for place, value in enumerate(on.values)
    )
    headings = (on.first, *(called if len(called) > 1 else (of.path,)))
    return Chart(of.path, " ".join(filter(None, caption)), data, layout, keys, headings, numbers)


def _trace(
    of: Column,
    on: Axes,
    place: int,
    name: str,
    cells: Sequence[swept.Cell | None],
    *,
    size: float,
    seeds: bool,
) -> dict[str, Any]:
    colour = series_colour(place)

    def scaled(values: Sequence[float | None]) -> list[float | None]:
        return [None if one is None else round(one / size, 6) for one in values]

    texts = []
    for value, cell in zip(on.values, cells, strict=True):
        said: Cell = shown(cell, of.words, seeds=seeds)
        texts.append(
            plain(f"{spelling(value)}: {said if isinstance(said, str) else f'{said[0]}, {said[1]}'}")
        )
    trace: dict[str, Any] = {
        "name": plain(name),
        "y": scaled([None if cell is None else cell.mean for cell in cells]),
        "text": texts,
        "hovertemplate": "%{text}" + ("" if name else "<extra></extra>"),
    }
    if on.numeric:
        trace |= {
            "type": "scatter",
            "mode": "lines+markers",
            "cliponaxis": False,
            "x": _beside(on, place) if seeds else list(on.values),
            "line": {"color": colour, "width": 2, "dash": DASHES[place % len(DASHES)]},
            "marker": {"color": colour, "size": 6},
        }
    else:
        trace |= {
            "type": "bar",
            "x": [plain(spelling(one)) for one in on.values],
            "textposition": "none",
            "marker": bar_marker(colour, HATCHES[place % len(HATCHES)]),
        }
    if seeds:
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": scaled([None if one is None else max(0.0, one.most - one.mean) for one in cells]),
            "arrayminus": scaled([None if one is None else max(0.0, one.mean - one.least) for one in cells]),
            "thickness": 1.5,
            "width": 4,
            "color": colour if on.numeric else "var(--text)",
        }
    return trace


def _beside(on: Axes, place: int) -> list[float]:
    """The values of a line, so little beside those of the others that no two lines' bars hide each other."""
    values = [float(one) for one in on.values if _is_number(one)]
    gap = min((b - a for a, b in pairwise(values)), default=0.0)
    step = min(gap * 0.3 / len(on.lines), (values[-1] - values[0]) * 0.012)
    return [round(one + step * (place - (len(on.lines) - 1) / 2), 9) for one in values]


def _values_axis(on: Axes) -> dict[str, Any]:
    if not on.numeric:
        return {
            "type": "category",
            "showgrid": False,
            "tickangle": -90 if _turned(on) else 0,
            "tickvals": [plain(spelling(one)) for one in on.values],
            "ticktext": [plain(one) for one in _labels(on)],
        }
    values = [one for one in on.values if _is_number(one)]
    gaps = [b - a for a, b in pairwise(values)]
    if len(values) <= _MOST_TICKS and all(one * 2 * _MOST_TICKS >= values[-1] - values[0] for one in gaps):
        return {"type": "linear", "tickvals": values, "ticktext": [spelling(one) for one in values]}
    return {"type": "linear", "tickformat": ",~g"}


def _labels(on: Axes) -> list[str]:
    """Values below an axis: where one is too long, without most of what all begin and end with."""
    texts = [spelling(one) for one in on.values]
    if len(texts) < 2 or all(len(one) <= _FITTING_TICK for one in texts):
        return [_fitted(one, _FITTING_TICK) for one in texts]
    begin = max(0, _same(texts) - _LEFT)
    end = max(0, _same([one[::-1] for one in texts]) - _LEFT)
    return [
        _fitted(f"{'…' * bool(begin)}{one[begin : len(one) - end]}{'…' * bool(end)}", _FITTING_TICK)
        for one in texts
    ]


def _same(texts: Sequence[str]) -> int:
    """With how many letters all begin."""
    least, most = min(texts), max(texts)
    return next((place for place, (a, b) in enumerate(zip(least, most, strict=False)) if a != b), len(least))


def _turned(on: Axes) -> int:
    """How many letters the longest label has where labels do not fit side by side, else 0."""
    labels = [] if on.numeric else _labels(on)
    if sum(map(len, labels)) + len(labels) <= _LABELS_SIDE_BY_SIDE:
        return 0
    return max(map(len, labels))


def _unit(of: Column, most: float) -> tuple[float, str]:
    """The size of the unit in which a column is drawn, and how the axis' title ends."""
    if of.words is span:
        size, unit = next(((size, unit) for up_to, size, unit in _TIMES if most <= up_to), (86400.0, "days"))
        return size, f" ({unit})"
    if of.words is money:
        return 1.0, " (unit of prices)"
    if of.resource:
        size, unit = unit_of(of.resource)
        return size, f" ({unit})" if unit else ""
    return 1.0, ""


def _cell(found: Mapping[tuple[str, ...], Row], at: tuple[str, ...], place: int) -> swept.Cell | None:
    row = found.get(at)
    return None if row is None else row.cells[place]


def _place(row: Row, on: Axes) -> tuple[str, ...]:
    settings = dict(row.parameters)
    return tuple(spelling(settings[one]) for one in (on.first, *on.others))


def _spread(among: Sequence[T], most: int) -> Sequence[T]:
    """So many, from the first to the last.

    >>> _spread("abcdefghi", 3), _spread("ab", 3)
    (['a', 'e', 'i'], 'ab')
    """
    if len(among) <= most:
        return among
    return [among[step * (len(among) - 1) // (most - 1)] for step in range(most)]


def _fitted(text: str, most: int) -> str:
    """A text without its middle where it is too long.

    >>> _fitted("nodeGroups.big.nodes", 11)
    'nodeG…nodes'
    """
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def _is_number(value: Value) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
