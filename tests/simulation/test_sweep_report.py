"""Reports of sweeps: what the file says is what the table says, and the same table gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fairlead.simulation.report import comparison
from fairlead.simulation.report.measures import column
from fairlead.simulation.report.plotly_script import PlotlyScript
from fairlead.simulation.report.sweep_page import sweep_page
from fairlead.simulation.report.sweep_rows import best
from fairlead.simulation.report.words import span
from fairlead.simulation.simulate.result import Result
from fairlead.simulation.sweep.columns import value_at
from fairlead.simulation.sweep.grid import grid
from fairlead.simulation.sweep.parameters import Parameter, parameter
from fairlead.simulation.sweep.table import Numbers, Table, table
from support.reports import HOSTILE, ReportText, drawn_in
from support.simulated import told

SCRIPT = PlotlyScript("var Plotly;", "4.0.0")

Play = Callable[[dict[str, Any]], Numbers | None]


def swept(
    play: Play, *varied: str | Parameter, columns: Sequence[str] = ("cost",)
) -> tuple[list[Any], Table]:
    parameters = [parameter(one) if isinstance(one, str) else one for one in varied]
    points = grid(parameters)
    ended = {one.id: numbers for one in points if (numbers := play(dict(one.settings))) is not None}
    return parameters, table(points, ended, columns)


def html(
    play: Play, *varied: str | Parameter, columns: Sequence[str] = ("cost",), scenario: str = "shop"
) -> str:
    parameters, found = swept(play, *varied, columns=columns)
    return sweep_page(scenario, parameters, found, SCRIPT, "0.1.0")


def read(play: Play, *varied: str | Parameter, columns: Sequence[str] = ("cost",)) -> ReportText:
    found = ReportText()
    found.feed(html(play, *varied, columns=columns))
    return found


def said(play: Play, *varied: str | Parameter, columns: Sequence[str] = ("cost",)) -> str:
    ((_, text),) = best(swept(play, *varied, columns=columns)[1])
    return text.replace("\N{NO-BREAK SPACE}", " ")


def by_nodes(settings: dict[str, Any]) -> Numbers:
    return {
        "cost": settings["nodes"] * 2,
        "waits.p95": 7200 / settings["nodes"] + 60 * settings.get("seed", 0),
    }


NODES = "nodes=2,4,3"
BOTH = ("cost", "waits.p95")


def test_the_same_table_gives_the_same_bytes() -> None:
    assert html(by_nodes, NODES, "seed=1..3", columns=BOTH) == html(
        by_nodes, NODES, "seed=1..3", columns=BOTH
    )


def test_all_rows_are_there_with_their_mean_least_and_most() -> None:
    page = read(by_nodes, NODES, "seed=1..3", columns=BOTH)
    assert page.tables["All rows"] == [
        ["nodes", "runs", "cost", "waits.p95"],
        ["2", "3", "4.00", "1 h 2 min1 h 1 min to 1 h 3 min"],
        ["4", "3", "8.00", "32 min31 min to 33 min"],
        ["3", "3", "6.00", "42 min41 min to 43 min"],
    ]
    assert "9 runs, none failed. What was varied:" in page.text
    assert "nodes: 2, 4, 3" in page.text
    many = read(by_nodes, "nodes=1..200")
    assert len(many.tables["All rows"]) == 201
    assert "nodes: 1, 2, 3, …, 200 (200 values)" in many.text


def test_numbers_are_drawn_on_an_axis_of_numbers_with_ranges_from_least_to_most() -> None:
    _, waits = drawn_in(html(by_nodes, NODES, "seed=0..2", columns=BOTH))
    (line,) = waits["data"]
    assert (line["type"], line["x"], line["y"]) == ("scatter", [2, 3, 4], [61, 41, 31])
    assert line["error_y"]["array"] == line["error_y"]["arrayminus"] == [1] * 3
    titles = waits["layout"]["xaxis"]["title"]["text"], waits["layout"]["yaxis"]["title"]["text"]
    assert titles == ("nodes", "waits.p95 (minutes)")
    assert "error_y" not in drawn_in(html(by_nodes, NODES))[0]["data"][0]


def test_words_are_drawn_as_groups_of_bars_one_for_each_combination_of_the_others() -> None:
    (chart,) = drawn_in(html(by_nodes, "tiers.spot.min=0,30%,pdb", NODES, "group.spot.min=1,2"))
    assert [(one["type"], one["name"]) for one in chart["data"]] == [
        ("bar", f"nodes={nodes}, group.spot.min={least}") for nodes in (2, 4, 3) for least in (1, 2)
    ]
    assert chart["data"][0]["x"] == ["0", "30%", "pdb"]
    assert chart["layout"]["xaxis"]["type"] == "category"
    assert len({(one["marker"]["color"], one["marker"]["pattern"]["shape"]) for one in chart["data"]}) == 6


def test_long_names_are_cut_where_they_are_alike() -> None:
    weeks = ",".join(f"traces/of/last/year/week-{week}-of-the-year.csv" for week in range(12))
    (chart,) = drawn_in(html(lambda _: {"cost": 1}, f"a.trace={weeks}"))
    labels = chart["layout"]["xaxis"]["ticktext"]
    assert labels[11] == "…week-11-of-t…"
    assert len(set(labels)) == 12
    assert chart["data"][0]["x"][11] == "traces/of/last/year/week-11-of-the-year.csv"


def test_values_that_are_alike_but_for_their_kind_are_told_apart() -> None:
    (chart,) = drawn_in(html(lambda _: {"cost": 1}, 'a.b=5,"5",true,null'))
    assert chart["data"][0]["x"] == ["5", '"5"', "true", "null"]


def test_of_many_combinations_some_are_drawn_and_the_table_has_all() -> None:
    varied = (NODES, "seed=1,2", "a.b=1..10", "c.d=x,y")
    page = read(by_nodes, *varied)
    assert "8 of 20 combinations are drawn, spread evenly over all. The table has all rows." in page.text
    assert len(page.tables["All rows"]) == 61
    (chart,) = drawn_in(html(by_nodes, *varied))
    names = [one["name"] for one in chart["data"]]
    assert (len(names), names[0], names[-1]) == (8, "b=1, d=x", "b=10, d=y")
    # No two lines' points lie on each other, and each is nearer to its own value than to the next.
    places = sorted(x for one in chart["data"] for x in one["x"])
    assert len(set(places)) == 24
    assert all(abs(x - round(x)) < 0.2 for x in places)


def test_of_many_values_some_are_drawn() -> None:
    assert "100 of 300 values are drawn" in read(by_nodes, "nodes=1..300").text
    words = read(lambda _: {"cost": 1}, f"a.b={','.join(f'w{number}' for number in range(40))}", "c.d=1..9")
    assert "3 of 9 combinations are drawn" in words.text
    assert "12 of 40 values are drawn" in words.text


def test_a_run_that_failed_is_a_gap_and_is_said() -> None:
    def play(settings: dict[str, Any]) -> Numbers | None:
        return None if settings["nodes"] == 4 else by_nodes(settings)

    page = read(play, NODES)
    assert "3 runs, 1 failed." in page.text
    assert page.tables["All rows"][2] == ["4", "1", "none"]
    (chart,) = drawn_in(html(play, NODES))
    assert chart["data"][0]["y"] == [4, 6, None]
    nothing = read(lambda _: None, NODES, "seed=1,2")
    assert "6 runs, 6 failed." in nothing.text
    assert "No run has a number." in nothing.text


def test_a_sweep_over_nothing_but_seeds_is_one_row() -> None:
    page = read(lambda settings: {"cost": settings["seed"]}, "seed=1..4")
    assert page.tables["All rows"] == [["runs", "cost"], ["4", "2.501.00 to 4.00"]]
    assert "Nothing but the seed was varied" in page.text


# The best row of a column


def test_the_best_row_is_the_least_or_the_most_as_comparisons_know_it() -> None:
    assert said(by_nodes, NODES) == "the least is 4.00, with nodes=2; the most is 8.00."
    finished = ("pods.finished",)
    text = said(lambda s: {"pods.finished": s["nodes"]}, NODES, columns=finished)
    assert text == "the most is 4, with nodes=4; the least is 2."
    assert best(swept(lambda s: {"pods.placed": s["nodes"]}, NODES, columns=("pods.placed",))[1]) == []


def test_rows_that_read_the_same_are_equally_good() -> None:
    text = said(lambda s: {"cost": max(s["nodes"], 6.001)}, "nodes=1..9")
    assert (
        text
        == "the least is 6.00, with nodes=1, or nodes=2, or nodes=3, or in 3 other rows; the most is 9.00."
    )
    assert said(lambda _: {"cost": 2.001}, NODES) == "2.00 in every row."


def test_a_best_row_whose_seeds_reach_into_others_is_not_praised_without_a_word() -> None:
    text = said(lambda s: {"cost": s["nodes"] + 1.2 * s["seed"]}, "nodes=1..4", "seed=0,1", "a.b=7")
    assert text == (
        "the least is 1.60, with nodes=1; the most is 4.60. "
        "Its seeds reach from 1.00 to 2.20; the range of 1 other row overlaps with that."
    )


def test_a_best_row_with_failed_runs_says_so() -> None:
    text = said(lambda s: None if (s["nodes"], s["seed"]) == (2, 1) else by_nodes(s), NODES, "seed=0..2")
    assert text.endswith("1 of its 3 runs failed.")


def numbers_of(plain: Any, path: str = "") -> list[str]:
    """Every column that a result has."""
    if isinstance(plain, dict):
        within = {key: one for key, one in plain.items() if key not in ("series", "waiting", "notes")}
        return [each for key, one in within.items() for each in numbers_of(one, f"{path}.{key}".strip("."))]
    if isinstance(plain, list | tuple):
        return [each for one in plain for each in numbers_of(one, f"{path}.{one['name']}")]
    return [path] if isinstance(plain, int | float) else []


def test_of_each_number_a_sweep_says_what_a_comparison_says() -> None:
    result: Result = told()
    plain = result.to_dict()
    told_there = {(one.section, one.name): one.cells[0].value for one in comparison.rows([("a", result)] * 2)}
    for path in numbers_of(plain):
        of = column(path)
        value = value_at(plain, path)
        assert value is not None
        if (of.part, of.name) in told_there:
            assert told_there.pop((of.part, of.name)) == of.words(value), path
        assert (of.words is span) == (path.endswith("S") or ".waits." in f".{path}"), path
    # What has no minimum has no outages: their rows are of the workload that has one.
    assert told_there == {}


# What the file must never do


def test_text_of_a_sweep_is_shown_and_never_run() -> None:
    hostile = Parameter(HOSTILE, (HOSTILE,), (HOSTILE, f"{HOSTILE}2", 3))
    columns = (f'workloads."{HOSTILE}".outages',)
    for varied in ((hostile, NODES), (NODES, hostile), (hostile,)):
        text = html(lambda _: {columns[0]: 1}, *varied, columns=columns, scenario=HOSTILE)
        assert text.count("<script") == text.count("</script>") == 3
        assert "<img" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_plotly_is_given_no_tag_to_read() -> None:
    link = '<a href="https://example.com">x</a>'
    linked = Parameter(link, (link,), (link, "b"))
    columns = (f"workloads.'{link}'.outages",)
    for varied in ((linked, NODES), (NODES, linked), (linked,)):
        drawn = str(drawn_in(html(lambda _: {columns[0]: 1}, *varied, columns=columns)))
        assert "<a" not in drawn
        assert "&lt;a" in drawn


@pytest.mark.parametrize(
    "columns", [("waits.p95",), ("workloads.web.availability",), ("resources.cpu.used",)]
)
@pytest.mark.parametrize("value", [0.0, 0.2, 0.999999, 1.0])
def test_no_axis_is_without_a_range_or_begins_above_its_least_value(
    columns: tuple[str], value: float
) -> None:
    (chart,) = drawn_in(html(lambda _: {columns[0]: value}, NODES, columns=columns))
    axis = chart["layout"]["yaxis"]
    begin, end = axis.get("range", (0, 1.1))
    assert begin <= value <= end
    if begin:
        assert (
            f"The axis begins at {100 * begin:g}%, not at 0."
            in read(lambda _: {columns[0]: value}, NODES, columns=columns).text
        )
