"""The file: results in words, tables and charts, with all that a browser needs to show them.

Nothing in it leads elsewhere: style, script and data are in the file, and its content security policy forbids
the rest. All text of results is data that their author chose: it is escaped, and what would not print is
spelt out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby

import msgspec

from fairlead.errors import BadInput
from fairlead.kube.printable import printable
from fairlead.simulation.report import charts, comparison, words
from fairlead.simulation.report.charts import Chart, Key, Named
from fairlead.simulation.report.plotly_script import PlotlyScript
from fairlead.simulation.report.tables import Table, tables
from fairlead.simulation.simulate.result import Result, decode

MOST = 8
"""So many results can be told apart beside each other."""

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def page(results: Sequence[Result], files: Sequence[str], script: PlotlyScript, version: str) -> str:
    """One file with all results; `files` is where each was read, to call those that are called alike.

    `version` is Fairlead's.
    """
    if not results:
        raise BadInput("a report needs at least one result")
    if len(results) > MOST:
        raise BadInput(f"a report compares up to {MOST} results, not {len(results)}")
    # As they are in files: a report of a result is the same, whether or not it was written in between.
    named = tuple(
        zip(
            called(results, files),
            (decode(one.encode(), one.scenario) for one in results),
            strict=True,
        )
    )
    drawn = tuple(_charts(named))
    title = " and ".join(dict.fromkeys(result.scenario for _, result in named))
    return "".join(
        (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="color-scheme" content="light dark">\n',
            f"<title>{_text(title)}: simulation report</title>\n",
            f"<style>\n{_own('page.css')}</style>\n</head>\n<body>\n",
            f"<header>\n<p>Fairlead simulation report</p>\n<h1>{_text(title)}</h1>\n",
            f"{_played(named)}</header>\n<main>\n",
            _cards(named[0][1]) if len(named) == 1 else _compared(named),
            _figures(named, drawn),
            *(_section(one) for one in tables(named)),
            _notes(named),
            f"</main>\n<footer>\n<p>Made by Fairlead {_text(version)}, drawn by plotly.js "
            f"{_text(script.version)}. This file needs no network.</p>\n</footer>\n",
            f'<script type="application/json" id="charts">{_json(drawn)}</script>\n',
            f"<script>\n{_inline(script.code)}\n</script>\n<script>\n{_own('page.js')}</script>\n</body>\n</html>\n",
        )
    )


def called(results: Sequence[Result], files: Sequence[str]) -> list[str]:
    """What to call results so that each is told from the others: the least that does."""
    ways = (
        [one.scenario for one in results],
        [f"{one.scenario}, seed {one.seed}" for one in results],
        [name.replace("\\", "/").rpartition("/")[2].removesuffix(".json") for name in files],
        list(files),
        [f"{place}: {name}" for place, name in enumerate(files, 1)],
    )
    return next(names for names in ways if len(set(names)) == len(names))


def _charts(named: Named) -> Iterator[Chart]:
    yield from charts.utilisation(named)
    yield from charts.pending(named)
    yield from charts.cost(named)
    yield from charts.at_the_end(named)
    yield from charts.nodes(named)
    yield from charts.ready(named)


def _played(named: Named) -> str:
    if len(named) == 1:
        return f"<p>{_text(_facts(*named[0]))}</p>\n"
    items = "".join(
        f"<li><strong>{_text(name)}</strong>: {_text(_facts(name, result))}</li>\n" for name, result in named
    )
    return f"<ul>\n{items}</ul>\n"


def _facts(name: str, result: Result) -> str:
    """What a result is of, as far as its name does not say so."""
    facts = [f"{words.span(result.duration_s)} of virtual time"]
    if result.scenario not in name:
        facts.append(f"scenario {result.scenario}")
    if f"seed {result.seed}" not in name:
        facts.append(f"seed {result.seed}")
    return ", ".join(facts)


def _cards(result: Result) -> str:
    cards = "".join(
        f'<div class="card"><dt>{_text(one.label)}</dt><dd class="value">{_text(one.value)}</dd>'
        f"<dd>{_text(one.sentence)}</dd></div>\n"
        for one in words.headlines(result)
    )
    return f'<section aria-label="Headline numbers">\n<dl class="cards">\n{cards}</dl>\n</section>\n'


def _compared(named: Named) -> str:
    found = comparison.rows(named)
    differing = [one for one in found if one.differs]
    same = [one for one in found if not one.differs]
    first = named[0][0]
    parts = ["<section>\n<h2>Differences</h2>\n"]
    if differing:
        parts.append(
            f"<p>Each result beside the first, {_text(first)}. "
            "Better and worse are said of each number by itself.</p>\n"
        )
        parts += [f'<p class="note">{_text(one)}</p>\n' for one in comparison.incomparable(named)]
        parts.append(_compared_table("Differences", named, differing))
    else:
        parts.append("<p>No number differs.</p>\n")
    if same:
        parts.append(
            f"<details>\n<summary>{words.counted(len(same), 'number')} without a difference</summary>\n"
        )
        parts.append(_compared_table("Numbers without a difference", named, same))
        parts.append("</details>\n")
    parts.append('</section>\n<section>\n<h2>In words</h2>\n<div class="columns">\n')
    for name, result in named:
        items = "".join(
            f"<li><strong>{_text(one.label)}: {_text(one.value)}.</strong> {_text(one.sentence)}</li>\n"
            for one in words.headlines(result)
        )
        parts.append(f"<div>\n<h3>{_text(name)}</h3>\n<ul>\n{items}</ul>\n</div>\n")
    parts.append("</div>\n</section>\n")
    return "".join(parts)


def _compared_table(title: str, named: Named, rows: Iterable[comparison.Row]) -> str:
    first, *others = (_text(name) for name, _ in named)
    head = f'<td></td><th scope="col" class="number">{first}</th>' + "".join(
        f'<th scope="col" class="number"><div><span>{name}</span> <small>beside {first}</small></div></th>'
        for name in others
    )
    body = []
    part = f'th scope="rowgroup" colspan="{len(named) + 1}" class="part"'
    for section, members in groupby(rows, key=lambda one: one.section):
        body.append(f"<tbody>\n<tr><{part}>{_text(section)}</th></tr>\n")
        for row in members:
            cells = f'<td class="number">{_cell(row.cells[0])}</td>'
            cells += "".join(f'<td class="number"><div>{_cell(one)}</div></td>' for one in row.cells[1:])
            body.append(f'<tr><th scope="row">{_text(row.name)}</th>{cells}</tr>\n')
        body.append("</tbody>\n")
    return _scrolling(title, f"<thead><tr>{head}</tr></thead>\n{''.join(body)}")


def _cell(found: comparison.Cell) -> str:
    value = _text(found.value) or '<span class="soft">not there</span>'
    if not found.change:
        return f"<span>{value}</span>"
    change = f"{found.change}, {found.verdict}" if found.verdict else found.change
    return f'<span>{value}</span> <small class="{found.verdict or "soft"}">{_text(change)}</small>'


def _figures(named: Named, drawn: Sequence[Chart]) -> str:
    every = " and ".join(dict.fromkeys(words.span(result.series.every_s) for _, result in named))
    about = (
        f"Charts show samples, one every {every}: what is shorter may not show, but is counted in the tables."
    )
    parts = [
        f"<section>\n<h2>Charts</h2>\n<p>{_text(' '.join((about, charts.not_drawn(named))).strip())}</p>\n",
        "<noscript><p>Charts need JavaScript; each has its numbers below it.</p></noscript>\n",
        '<div class="figures">\n',
        *(_figure(place, chart) for place, chart in enumerate(drawn, 1)),
        "</div>\n</section>\n",
    ]
    return "".join(parts)


def _figure(place: int, chart: Chart) -> str:
    keys = "".join(f"<li>{_swatch(one)}{_text(one.name)}</li>" for one in chart.legend)
    legend = f'<ul class="legend">{keys}</ul>\n' if keys else ""
    begins = ' class="begins"' if chart.begins_row else ""
    headings, rows = chart.headings, chart.numbers
    return (
        f'<figure{begins}>\n<figcaption>\n<h3 id="title-{place}">{_text(chart.title)}</h3>\n'
        f"<p>{_text(chart.caption)}</p>\n</figcaption>\n{legend}"
        f'<div class="chart" id="chart-{place}" role="img" aria-labelledby="title-{place}" '
        f'style="height: {chart.layout["height"]}px"></div>\n'
        f"<details>\n<summary>In numbers</summary>\n{_table(chart.title, headings, rows, 1)}</details>\n"
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


def _section(table: Table) -> str:
    return (
        f"<section>\n<h2>{_text(table.title)}</h2>\n<p>{_text(table.about)}</p>\n"
        f"{_table(table.title, table.headings, table.rows, table.texts)}</section>\n"
    )


def _table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], texts: int) -> str:
    def kind(place: int) -> str:
        return "" if place < texts else ' class="number"'

    head = "".join(f'<th scope="col"{kind(place)}>{_text(one)}</th>' for place, one in enumerate(headings))
    body = "".join(
        f'<tr><th scope="row">{_text(row[0])}</th>'
        + "".join(f"<td{kind(place)}>{_text(one)}</td>" for place, one in enumerate(row[1:], 1))
        + "</tr>\n"
        for row in rows
    )
    return _scrolling(title, f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n")


def _scrolling(title: str, table: str) -> str:
    """A table that scrolls by itself where it is too wide; by keyboard, too."""
    said = f'class="wide" role="group" tabindex="0" aria-label="{_text(title)}"'
    return f"<div {said}>\n<table>\n{table}</table>\n</div>\n"


def _notes(named: Named) -> str:
    notes = [
        note if len(named) == 1 else f"{name}: {note}" for name, result in named for note in result.notes
    ]
    if not notes:
        return ""
    items = "".join(f"<li>{_text(one)}</li>\n" for one in notes)
    return f"<section>\n<h2>Notes</h2>\n<ul>\n{items}</ul>\n</section>\n"


def _text(text: str) -> str:
    return escape(printable(text, kept=words.FIRM))


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
