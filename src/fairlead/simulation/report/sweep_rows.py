"""Rows of a sweep in words: what each is called, its numbers, and which is the best one of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairlead.simulation.report.chart import Cell, Words
from fairlead.simulation.report.measures import Column, column
from fairlead.simulation.report.words import counted
from fairlead.simulation.sweep import table as swept
from fairlead.simulation.sweep.parameters import Value, parts_of, spelling
from fairlead.simulation.sweep.table import Row, Table

_MOST_NAMED = 3

Settings = Sequence[tuple[str, Value]]


def varying(table: Table) -> list[str]:
    """The parameters that have more than one value, without the seed."""
    values: dict[str, set[str]] = {}
    for row in table.rows:
        for path, value in row.parameters:
            values.setdefault(path, set()).add(spelling(value))
    return [path for path in table.paths if len(values[path]) > 1]


def names_of(paths: Sequence[str]) -> dict[str, str]:
    """What paths are called: as many of their last parts as tell each from the others.

    >>> names_of(["nodeGroups.big.nodes", "nodeGroups.old.nodes", "seed"]).values()
    dict_values(['big.nodes', 'old.nodes', 'seed'])
    """
    ends = {path: _ends(path) for path in paths}
    taken = [end for each in ends.values() for end in each]
    return {path: next((end for end in each if taken.count(end) == 1), path) for path, each in ends.items()}


def settings_of(settings: Settings, names: Mapping[str, str], between: str = ", ") -> str:
    """Parameters with their values: ``big.nodes=2, ranking=pack``."""
    return between.join(f"{names[path]}={spelling(value)}" for path, value in settings)


def in_words(of: Column) -> str:
    """What a column is, and what is better."""
    what = ": ".join(filter(None, (of.part, of.name)))
    said = [f"{what[0].upper()}{what[1:]}."] if what else []
    return " ".join([*said, *([f"{of.better.capitalize()} is better."] if of.better else [])])


def shown(cell: swept.Cell | None, words: Words, *, seeds: bool) -> Cell:
    """A cell's number; its mean, with the least and the most below it, where the seed is varied."""
    if cell is None:
        return "none"
    if not seeds or cell.least == cell.most:
        return words(cell.mean)
    return words(cell.mean), f"{words(cell.least)} to {words(cell.most)}"


def best(table: Table) -> list[tuple[str, str]]:
    """Each column of which it is known what is better, and which row is the best one."""
    if len(table.rows) < 2:
        return []
    said = []
    for place, path in enumerate(table.columns):
        of = column(path)
        cells = [(row, cell) for row in table.rows if (cell := row.cells[place]) is not None]
        if of.better and cells:
            said.append((path, _best(table, of, cells)))
    return said


def _best(table: Table, of: Column, cells: Sequence[tuple[Row, swept.Cell]]) -> str:
    means = [cell.mean for _, cell in cells]
    first, last = (min(means), max(means)) if of.better == "less" else (max(means), min(means))
    if of.words(first) == of.words(last):
        return f"{of.words(first)} in every row."
    # What reads the same is the same for a reader.
    equal = [(row, cell) for row, cell in cells if of.words(cell.mean) == of.words(first)]
    names, paths = names_of(table.paths), varying(table)
    called = [
        settings_of([one for one in row.parameters if one[0] in paths], names, " and ")
        for row, _ in equal[:_MOST_NAMED]
    ]
    left = len(equal) - len(called)
    called += [f"in {counted(left, 'other row')}"] if left else []
    extreme, opposite = ("least", "most") if of.better == "less" else ("most", "least")
    said = [
        f"the {extreme} is {of.words(first)}, with {', or '.join(called)}; "
        f"the {opposite} is {of.words(last)}."
    ]
    if len(equal) > 1:
        return said[0]
    ((row, cell),) = equal
    if cell.least < cell.most:
        overlapping = sum(
            1
            for other, its in cells
            if other is not row and its.least <= cell.most and cell.least <= its.most
        )
        if overlapping:
            reach = f"{of.words(cell.least)} to {of.words(cell.most)}"
            ranges = "the range" if overlapping == 1 else "the ranges"
            said.append(
                f"Its seeds reach from {reach}; {ranges} of {counted(overlapping, 'other row')} "
                f"{'overlaps' if overlapping == 1 else 'overlap'} with that."
            )
    if row.failed:
        said.append(f"{row.failed:,} of its {counted(row.runs, 'run')} failed.")
    return " ".join(said)


def _ends(path: str) -> list[str]:
    """A path's last part, its last two parts, and so on."""
    parts = [f'"{one}"' if "." in one else one for one in parts_of(path)]
    return [".".join(parts[at:]) for at in range(len(parts) - 1, -1, -1)]
