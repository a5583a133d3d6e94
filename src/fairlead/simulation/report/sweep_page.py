"""The file of a sweep: what was varied, which rows are best, all rows, and a chart for each column."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.simulation.report import sweep_charts
from fairlead.simulation.report.chart import Cell
from fairlead.simulation.report.document import document, escaped, figures, table_of
from fairlead.simulation.report.measures import column
from fairlead.simulation.report.plotly_script import PlotlyScript
from fairlead.simulation.report.sweep_rows import best, shown
from fairlead.simulation.report.words import counted
from fairlead.simulation.sweep.parameters import Parameter, Value, spelling
from fairlead.simulation.sweep.table import Row, Table

_MOST_SPELT = 12


def sweep_page(
    scenario: str, parameters: Sequence[Parameter], table: Table, script: PlotlyScript, version: str
) -> str:
    """One file with a whole sweep; `parameters` have the seed, too. `version` is Fairlead's."""
    on = sweep_charts.axes(table)
    drawn = tuple(sweep_charts.charts(table, on)) if on is not None else ()
    charts = figures(sweep_charts.about(table, on), drawn) if on is not None else ""
    return document(
        "sweep report",
        scenario,
        about=_varied(parameters, table),
        main=f"{_failures(table)}{_best(table)}{_rows(table)}{charts}",
        drawn=drawn,
        script=script,
        version=version,
    )


def _varied(parameters: Sequence[Parameter], table: Table) -> str:
    items = "".join(
        f"<li><strong>{escaped(one.path)}</strong>: {escaped(_values(one.values))}</li>\n"
        for one in parameters
    )
    failed = sum(row.failed for row in table.rows)
    runs = counted(sum(row.runs for row in table.rows), "run")
    said = f"{failed:,} failed" if failed else "none failed"
    return f"<p>{runs}, {said}. What was varied:</p>\n<ul>\n{items}</ul>\n"


def _values(values: Sequence[Value]) -> str:
    """All values; of many, the first and the last."""
    texts = [spelling(one) for one in values]
    if len(texts) <= _MOST_SPELT:
        return ", ".join(texts)
    return f"{', '.join(texts[:3])}, …, {texts[-1]} ({len(texts):,} values)"


def _failures(table: Table) -> str:
    if not any(row.failed for row in table.rows):
        return ""
    return (
        '<section>\n<p class="note">Some runs failed. Numbers are of the others; the column <em>failed</em> '
        "says how many runs a row lacks.</p>\n</section>\n"
    )


def _best(table: Table) -> str:
    found = best(table)
    if not found:
        return ""
    by = ", by the mean over seeds" if table.seeds else ""
    items = "".join(f"<li><strong>{escaped(name)}</strong>: {escaped(said)}</li>\n" for name, said in found)
    about = f"Each column by itself{by}. Columns of which neither more nor less is better are left out."
    return (
        f"<section>\n<h2>Best rows</h2>\n<p>{about}</p>\n"
        f'<div class="columns">\n<div>\n<ul>\n{items}</ul>\n</div>\n</div>\n</section>\n'
    )


def _rows(table: Table) -> str:
    some_failed = any(row.failed for row in table.rows)
    headings = [
        *table.paths,
        *(["runs"] if table.seeds else []),
        *(["failed"] if some_failed else []),
        *table.columns,
    ]
    words = [column(path).words for path in table.columns]

    def cells(row: Row) -> list[Cell]:
        line: list[Cell] = [spelling(value) for _, value in row.parameters]
        line += [f"{row.runs:,}"] if table.seeds else []
        line += [f"{row.failed:,}"] if some_failed else []
        shown_cells = zip(row.cells, words, strict=True)
        return line + [shown(cell, its, seeds=table.seeds) for cell, its in shown_cells]

    numbers = {
        place for place in range(len(headings)) if place >= len(table.paths) or _all_numbers(table, place)
    }
    about = "A mean over the row's seeds, and below it the least and the most." if table.seeds else ""
    if not table.paths:
        about += " Nothing but the seed was varied, so there is nothing to draw."
    return (
        "<section>\n<h2>All rows</h2>\n"
        + (f"<p>{about}</p>\n" if about else "")
        + table_of("All rows", headings, [cells(row) for row in table.rows], numbers)
        + "</section>\n"
    )


def _all_numbers(table: Table, place: int) -> bool:
    values = (row.parameters[place][1] for row in table.rows)
    return all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
