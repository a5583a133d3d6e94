"""A sweep's table: from what runs came to, to rows, and from rows to JSON lines and CSV.

Rows are in the grid's order. Where the seed is varied, a row is of all runs that differ in nothing else.
Sums are exact before they are rounded, so it does not matter in which order runs ended, nor where.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from fairlead.simulation.sweep.grid import SEED, Point
from fairlead.simulation.sweep.parameters import Value, spelling

Numbers = Mapping[str, float | None]
"""What one run came to, by column."""

_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Cell:
    """What the runs of a row have in a column."""

    mean: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Row:
    """The parameters without the seed, how many runs there are, how many of them failed, and the columns.

    A cell is None where no run has a number.
    """

    parameters: tuple[tuple[str, Value], ...]
    runs: int
    failed: int
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with what they have in common. `seeds`: whether a row is of several seeds."""

    paths: tuple[str, ...]
    columns: tuple[str, ...]
    seeds: bool
    rows: tuple[Row, ...]


def table(points: Sequence[Point], numbers: Mapping[str, Numbers], columns: Sequence[str]) -> Table:
    """The table of what runs came to, by the ids of their points; a run that failed is not in there."""
    shapes: dict[str, Point] = {}
    found: dict[str, list[Numbers | None]] = {}
    for point in points:
        shape = point.without_seed()
        shapes.setdefault(shape.id, shape)
        found.setdefault(shape.id, []).append(numbers.get(point.id))
    paths = [path for path, _ in points[0].settings]
    return Table(
        tuple(path for path in paths if path != SEED),
        tuple(columns),
        SEED in paths,
        tuple(_row(shapes[shape], runs, columns) for shape, runs in found.items()),
    )


def to_json_lines(of: Table) -> str:
    """Each row as an object in a line of its own."""
    return "".join(msgspec.json.encode(_plain(row, of)).decode() + "\n" for row in of.rows)


def to_csv(of: Table) -> str:
    """With a heading. Where the seed is varied, each column is three: its mean, least and most."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    spread = [f"{column}.{part}" for column in of.columns for part in ("mean", "min", "max")]
    writer.writerow([*of.paths, "runs", "failed", *(spread if of.seeds else of.columns)])
    for row in of.rows:
        cells: list[float | None] = []
        for cell in row.cells:
            three = (cell.mean, cell.least, cell.most) if cell is not None else (None, None, None)
            cells += three if of.seeds else three[:1]
        writer.writerow([*(_text(value) for _, value in row.parameters), row.runs, row.failed, *cells])
    return out.getvalue()


def to_texts(of: Table) -> tuple[list[str], list[list[str]]]:
    """Headings and cells for a table that people read; ``mean (least to most)`` where the seed is varied."""
    some_failed = any(row.failed for row in of.rows)
    headings = [*of.paths, *(["runs"] if of.seeds else []), *(["failed"] if some_failed else []), *of.columns]
    lines = []
    for row in of.rows:
        line = [_text(value) for _, value in row.parameters]
        line += [str(row.runs)] if of.seeds else []
        line += [str(row.failed or "")] if some_failed else []
        lines.append(line + [_shown(cell, of.seeds) for cell in row.cells])
    return headings, lines


def _row(point: Point, found: Sequence[Numbers | None], columns: Iterable[str]) -> Row:
    ended = [one for one in found if one is not None]
    cells = [_cell([value for one in ended if (value := one[column]) is not None]) for column in columns]
    return Row(point.settings, len(found), len(found) - len(ended), tuple(cells))


def _cell(values: Sequence[float]) -> Cell | None:
    if not values:
        return None
    return Cell(_rounded(math.fsum(values) / len(values)), _rounded(min(values)), _rounded(max(values)))


def _rounded(value: float) -> float:
    whole = round(value, _DIGITS)
    return int(whole) if whole == int(whole) else whole


def _plain(row: Row, of: Table) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for column, cell in zip(of.columns, row.cells, strict=True):
        if cell is not None and of.seeds:
            results[column] = {"mean": cell.mean, "min": cell.least, "max": cell.most}
        else:
            results[column] = cell.mean if cell is not None else None
    parameters = dict(row.parameters)
    return {"parameters": parameters, "runs": row.runs, "failed": row.failed, "results": results}


def _text(value: Value) -> str:
    return value if isinstance(value, str) else spelling(value)


def _shown(cell: Cell | None, seeds: bool) -> str:
    if cell is None:
        return "-"
    if not seeds or cell.least == cell.most:
        return f"{cell.mean:.6g}"
    return f"{cell.mean:.6g} ({cell.least:.6g} to {cell.most:.6g})"
