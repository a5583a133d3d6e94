"""The HTML file: what all reports have in common, with all that a browser needs to show them.

Nothing in it leads elsewhere: style, script and data are in the file, and its content security policy forbids
the rest. All text is data that some author chose: it is escaped, and what would not print is spelt out.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from html import escape
from importlib.resources import files

import msgspec

from fairlead.kube.printable import printable
from fairlead.simulation.report.chart import Cell, Chart, Key
from fairlead.simulation.report.plotly_script import PlotlyScript
from fairlead.simulation.report.tables import Table
from fairlead.simulation.report.words import FIRM

_MANY_ROWS = 40
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def document(
    kind: str,
    title: str,
    *,
    about: str,
    main: str,
    drawn: Iterable[Chart],
    script: PlotlyScript,
    version: str,
) -> str:
    """The whole file: `about`, below its title, and `main` are HTML; `drawn` are the charts of its figures.

    `version` is Fairlead's.
    """
    return "".join(
        (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="color-scheme" content="light dark">\n',
            f"<title>{escaped(title)}: {kind}</title>\n",
            f"<style>\n{_own('page.css')}</style>\n</head>\n<body>\n",
            f"<header>\n<p>Fairlead {kind}</p>\n<h1>{escaped(title)}</h1>\n{about}</header>\n",
            f"<main>\n{main}</main>\n",
            f"<footer>\n<p>Made by Fairlead {escaped(version)}, drawn by plotly.js "
            f"{escaped(script.version)}. This file needs no network.</p>\n</footer>\n",
            f'<script type="application/json" id="charts">{_json(drawn)}</script>\n',
            f"<script>\n{_inline(script.code)}\n</script>\n<script>\n{_own('page.js')}</script>\n</body>\n</html>\n",
        )
    )


def figures(about: str, drawn: Sequence[Chart]) -> str:
    """The section of all charts."""
    return (
        f"<section>\n<h2>Charts</h2>\n<p>{escaped(about)}</p>\n"
        "<noscript><p>Charts need JavaScript; each has its numbers below it.</p></noscript>\n"
        '<div class="figures">\n'
        + "".join(_figure(place, chart) for place, chart in enumerate(drawn, 1))
        + "</div>\n</section>\n"
    )


def section(table: Table) -> str:
    """A section with a table."""
    numbers = range(table.texts, len(table.headings))
    return (
        f"<section>\n<h2>{escaped(table.title)}</h2>\n<p>{escaped(table.about)}</p>\n"
        f"{table_of(table.title, table.headings, table.rows, numbers)}</section>\n"
    )


def table_of(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[Cell]], numbers: Container[int]
) -> str:
    """A table whose first column names the rows; `numbers` are the places of columns of numbers."""

    def kind(place: int) -> str:
        return ' class="number"' if place in numbers else ""

    head = "".join(f'<th scope="col"{kind(place)}>{escaped(one)}</th>' for place, one in enumerate(headings))
    body = "".join(
        f'<tr><th scope="row"{kind(0)}>{_cell(row[0])}</th>'
        + "".join(f"<td{kind(place)}>{_cell(one)}</td>" for place, one in enumerate(row[1:], 1))
        + "</tr>\n"
        for row in rows
    )
    inner = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n"
    return scrolling(title, inner, tall=len(rows) > _MANY_ROWS)


def scrolling(title: str, table: str, *, tall: bool = False) -> str:
    """A table that scrolls by itself where it is too wide, or too tall; by keyboard, too."""
    said = f'class="wide{" tall" if tall else ""}" role="group" tabindex="0" aria-label="{escaped(title)}"'
    return f"<div {said}>\n<table>\n{table}</table>\n</div>\n"


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return escaped(cell)
    value, below = cell
    return f'{escaped(value)}<br><small class="soft">{escaped(below)}</small>' if below else escaped(value)


def _figure(place: int, chart: Chart) -> str:
    keys = "".join(f"<li>{_swatch(one)}{escaped(one.name)}</li>" for one in chart.legend)
    legend = f'<ul class="legend">{keys}</ul>\n' if keys else ""
    begins = ' class="begins"' if chart.begins_row else ""
    numbers = table_of(chart.title, chart.headings, chart.numbers, range(1, len(chart.headings)))
    return (
        f'<figure{begins}>\n<figcaption>\n<h3 id="title-{place}">{escaped(chart.title)}</h3>\n'
        f"<p>{escaped(chart.caption)}</p>\n</figcaption>\n{legend}"
        f'<div class="chart" id="chart-{place}" role="img" aria-labelledby="title-{place}" '
        f'style="height: {chart.layout["height"]}px"></div>\n'
        f"<details>\n<summary>In numbers</summary>\n{numbers}</details>\n"
        "</figure>\n"
    )


def _swatch(key: Key) -> str:
    if key.hatch:
        mark = f'<rect width="24" height="12" fill="{key.colour}"/>'
        lines = _HATCHING.get(key.hatch, "")
        mark += f'<path d="{lines}" stroke="var(--panel)" stroke-width="1.5" fill="none"/>' if lines else ""
    else:
        dashes = _DASHING.get(key.dash, "")
        said = f' stroke-dasharray="{dashes}"' if dashes else ""
        mark = f'<path d="M0 6H24" stroke="{key.colour}" stroke-width="2.5"{said}/>'
    return f'<svg viewBox="0 0 24 12" width="24" height="12" aria-hidden="true">{mark}</svg>'


_DASHING = {"dash": "6 3", "dot": "2 3", "dashdot": "6 3 2 3", "longdash": "10 3", "longdashdot": "10 3 2 3"}
_HATCHING = {
    "/": "M2 12L8 0M10 12L16 0M18 12L24 0",
    "\\": "M2 0L8 12M10 0L16 12M18 0L24 12",
    "x": "M2 12L8 0M10 12L16 0M18 12L24 0M2 0L8 12M10 0L16 12M18 0L24 12",
    ".": "M3 3h2M11 3h2M19 3h2M7 9h2M15 9h2",
    "-": "M0 3H24M0 9H24",
    "|": "M4 0V12M12 0V12M20 0V12",
    "+": "M0 6H24M4 0V12M12 0V12M20 0V12",
}


def escaped(text: str) -> str:
    """Text as HTML that shows it."""
    return escape(printable(text, kept=FIRM))


def _json(drawn: Iterable[Chart]) -> str:
    data = [{"data": chart.data, "layout": chart.layout} for chart in drawn]
    return _inline(msgspec.json.encode(data, order="sorted").decode(), "\\u003c")


def _inline(code: str, less: str = "\\x3c") -> str:
    """Code within a script element, which nothing but its end tag may end."""
    return (
        code.replace("</script", f"{less}/script")
        .replace("<!--", f"{less}!--")
        .replace("<script", f"{less}script")
    )


def _own(name: str) -> str:
    return files("fairlead.simulation.report").joinpath(name).read_text("utf-8")
