"""The file of results: in words, tables and charts, several beside each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from fairlead.errors import BadInput
from fairlead.simulation.report import charts, comparison, words
from fairlead.simulation.report.chart import Chart
from fairlead.simulation.report.charts import Named
from fairlead.simulation.report.document import document, escaped, figures, scrolling, section
from fairlead.simulation.report.plotly_script import PlotlyScript
from fairlead.simulation.report.tables import tables
from fairlead.simulation.simulate.result import Result, decode

MOST = 8
"""So many results can be told apart beside each other."""


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
    parts = (
        _cards(named[0][1]) if len(named) == 1 else _compared(named),
        _figures(named, drawn),
        *(section(one) for one in tables(named)),
        _notes(named),
    )
    return document(
        "simulation report",
        title,
        about=_played(named),
        main="".join(parts),
        drawn=drawn,
        script=script,
        version=version,
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
        return f"<p>{escaped(_facts(*named[0]))}</p>\n"
    items = "".join(
        f"<li><strong>{escaped(name)}</strong>: {escaped(_facts(name, result))}</li>\n"
        for name, result in named
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
        f'<div class="card"><dt>{escaped(one.label)}</dt><dd class="value">{escaped(one.value)}</dd>'
        f"<dd>{escaped(one.sentence)}</dd></div>\n"
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
            f"<p>Each result beside the first, {escaped(first)}. "
            "Better and worse are said of each number by itself.</p>\n"
        )
        parts += [f'<p class="note">{escaped(one)}</p>\n' for one in comparison.incomparable(named)]
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
            f"<li><strong>{escaped(one.label)}: {escaped(one.value)}.</strong> {escaped(one.sentence)}</li>\n"
            for one in words.headlines(result)
        )
        parts.append(f"<div>\n<h3>{escaped(name)}</h3>\n<ul>\n{items}</ul>\n</div>\n")
    parts.append("</div>\n</section>\n")
    return "".join(parts)


def _compared_table(title: str, named: Named, rows: Iterable[comparison.Row]) -> str:
    first, *others = (escaped(name) for name, _ in named)
    head = f'<td></td><th scope="col" class="number">{first}</th>' + "".join(
        f'<th scope="col" class="number"><div><span>{name}</span> <small>beside {first}</small></div></th>'
        for name in others
    )
    body = []
    part = f'th scope="rowgroup" colspan="{len(named) + 1}" class="part"'
    for part_of, members in groupby(rows, key=lambda one: one.section):
        body.append(f"<tbody>\n<tr><{part}>{escaped(part_of)}</th></tr>\n")
        for row in members:
            cells = f'<td class="number">{_cell(row.cells[0])}</td>'
            cells += "".join(f'<td class="number"><div>{_cell(one)}</div></td>' for one in row.cells[1:])
            body.append(f'<tr><th scope="row">{escaped(row.name)}</th>{cells}</tr>\n')
        body.append("</tbody>\n")
    return scrolling(title, f"<thead><tr>{head}</tr></thead>\n{''.join(body)}")


def _cell(found: comparison.Cell) -> str:
    value = escaped(found.value) or '<span class="soft">not there</span>'
    if not found.change:
        return f"<span>{value}</span>"
    change = f"{found.change}, {found.verdict}" if found.verdict else found.change
    return f'<span>{value}</span> <small class="{found.verdict or "soft"}">{escaped(change)}</small>'


def _figures(named: Named, drawn: Sequence[Chart]) -> str:
    every = " and ".join(dict.fromkeys(words.span(result.series.every_s) for _, result in named))
    about = (
        f"Charts show samples, one every {every}: what is shorter may not show, but is counted in the tables."
    )
    return figures(" ".join((about, charts.not_drawn(named))).strip(), drawn)


def _notes(named: Named) -> str:
    notes = [
        note if len(named) == 1 else f"{name}: {note}" for name, result in named for note in result.notes
    ]
    if not notes:
        return ""
    items = "".join(f"<li>{escaped(one)}</li>\n" for one in notes)
    return f"<section>\n<h2>Notes</h2>\n<ul>\n{items}</ul>\n</section>\n"
