"""Reports: what the file says is what the result says, and the same results give the same bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from fairlead.errors import BadInput
from fairlead.simulation.report import charts, comparison
from fairlead.simulation.report.page import MOST, called, page
from fairlead.simulation.report.plotly_script import PlotlyScript, plotly_script
from fairlead.simulation.report.words import headlines
from fairlead.simulation.simulate.result import Result, decode
from fairlead.simulation.simulate.tally import Tally
from support.reports import HOSTILE, ReportText, drawn_in
from support.simulated import HOUR_S, told

SCRIPT = PlotlyScript("var Plotly;", "4.0.0")


def html(*results: Result, files: tuple[str, ...] = ()) -> str:
    names = files or tuple(f"{place}.json" for place in range(len(results)))
    return page(results, names, SCRIPT, "0.1.0")


def read(*results: Result) -> ReportText:
    found = ReportText()
    found.feed(html(*results))
    return found


def drawn(*results: Result) -> list[dict[str, Any]]:
    return drawn_in(html(*results))


def test_the_same_results_give_the_same_bytes_whether_or_not_they_were_in_a_file() -> None:
    # To two digits, a cost that was rounded to six before is another one.
    result = replace(told(), cost=0.13499999996)
    again = decode(result.encode(), "a.json")
    assert html(result) == html(result) == html(again)
    assert html(result, told(seed=2)) == html(again, told(seed=2))


def test_the_tables_have_the_numbers_of_the_result() -> None:
    result = told()
    tables = read(result).tables
    (web,) = (one for one in result.workloads if one.name == "web")
    assert web.availability == pytest.approx(1 - 1800 / (24 * HOUR_S - 60))
    assert tables["Evictions and outages"][1] == [
        "web", "2", f"{web.availability:.4%}", "1", "30 min", "30 min", "2", "0",
    ]  # fmt: skip
    assert tables["Workloads"][1:] == [
        ["train", "arrivals", "2", "0", "0", "2", "0", "", "", ""],
        ["web", "Deployment", "5", "5", "0", "0", "3", "2 min", "30 min", "30 min"],
    ]
    assert tables["Node groups"][1:] == [
        ["on-demand", "24", "12.00", "1", "1", "0"],
        ["spot", "8", "1.00", "1", "0", "1"],
    ]
    assert tables["Resources"][1][:2] == ["cpu", "4 cores"]
    assert tables["Resources"][2][:2] == ["memory", "16 GiB"]
    assert tables["Why pods wait at the end"][1:] == [["gang: Insufficient cpu", "2"]]


def test_the_headline_is_in_words() -> None:
    said = {one.label: (one.value, one.sentence) for one in headlines(told())}
    assert said["Placed"][0] == "5 of 7"
    assert said["Pending at the end"] == ("2", "The reason: gang: Insufficient cpu.")
    assert said["Cost"][0] == "13.00"
    sentence = said["Availability"][1].replace("\N{NO-BREAK SPACE}", " ")
    assert sentence == "web was below its minimum of 2 ready pods once, for 30 min in all."
    assert said["Evicted"][1].startswith("2 pods evicted and 0 moved by the rebalancer; 1 node taken away")


def test_an_outage_however_short_is_never_shown_as_full_availability() -> None:
    result = told(outage_s=0.001, hours=240)
    assert decode(result.encode(), "a.json").workloads[1].availability == pytest.approx(1)
    assert "web was below its minimum of 2 ready pods once" in read(result).text
    assert read(result).tables["Evictions and outages"][1][2] == ">99.9999%"


def test_every_axis_of_every_chart_has_a_title() -> None:
    found = drawn(told(), told(seed=2))
    titles = [
        (one["layout"]["xaxis"]["title"]["text"], one["layout"]["yaxis"]["title"]["text"]) for one in found
    ]
    assert len(titles) == 9  # cpu, memory, pending, cost twice, capacity, nodes of each, ready
    assert all(x and y for x, y in titles)
    assert titles[0] == ("time (hours)", "share of capacity")


def test_no_axis_has_half_a_pod_or_node() -> None:
    titles = {one["layout"]["yaxis"]["title"]["text"]: one["layout"]["yaxis"] for one in drawn(told())}
    assert [titles[name]["dtick"] for name in ("pending pods", "nodes", "ready pods")] == [1, 1, 1]
    many = {
        one["layout"]["yaxis"]["title"]["text"]: one["layout"]["yaxis"] for one in drawn(told(services=9))
    }
    assert "dtick" not in many["nodes"]


def test_a_result_without_nodes_or_samples_has_a_report() -> None:
    empty = Tally(60.0).result(0.0, scenario="empty", seed=1, waiting={})
    assert "0 of 0" in read(empty).text
    assert "No number differs." in read(empty, empty).text


def test_charts_draw_the_series_of_the_result() -> None:
    result = told()
    values = {trace["name"]: trace for one in drawn(result) for trace in one["data"]}
    assert values["cpu"]["y"] == [round(one, 6) for one in result.series.values["used:cpu"]]
    assert values["ready pods"]["y"] == list(result.series.values["ready:web"])
    assert values["cpu"]["x"][-1] == 24
    assert values["minimum 2"]["y"] == [2, 2]


def test_of_a_long_series_the_lowest_number_of_ready_pods_is_still_drawn() -> None:
    result = told(every_s=10.0, outage_s=15.0)
    (chart,) = charts.ready([("shop", result)])
    assert len(result.series.values["ready:web"]) > 8000
    assert len(chart.data[0]["y"]) < 1300
    assert min(chart.data[0]["y"][5:]) == 1
    assert "Each point is the lowest of 8 samples." in chart.caption
    assert chart.numbers[0][2] == "1"


def test_of_many_workloads_the_least_available_are_drawn_and_the_others_named_as_missing() -> None:
    result = told(services=30)
    found = [one.title for one in charts.ready([("shop", result)])]
    assert len(found) == 12
    assert found[0] == "Ready pods: web"
    assert "The 12 of 30 workloads with the lowest availability are drawn" in read(result).text


# Several


def test_what_differs_comes_before_what_does_not() -> None:
    before, after = told(), told("shop-cheap", price=0.25, outage_s=3600.0)
    rows = read(before, after).tables
    differing = {row[0]: row[1:] for row in rows["Differences"] if len(row) > 1}
    assert differing["in all"] == ["13.00", "6.50 −6.50 (−50%), better"]  # noqa: RUF001 (a minus sign)
    assert differing["availability"][1].endswith(" points, worse")
    assert differing["longest outage"] == ["30 min", "1 h +30 min (+100%), worse"]
    same = {row[0] for row in rows["Numbers without a difference"]}
    assert {"arrived", "evicted"} <= same
    text = html(before, after)
    assert text.index(">Differences<") < text.index("without a difference") < text.index(">Charts<")


def test_equal_results_have_no_difference() -> None:
    assert not any(one.differs for one in comparison.rows([("a", told()), ("b", told())]))
    assert "No number differs." in read(told(), told()).text


def test_results_of_different_spans_are_not_compared_without_a_word() -> None:
    assert "The results are of different spans of time" in read(told(), told(hours=48)).text
    assert "different spans" not in read(told(), told(seed=2)).text


def test_what_one_result_lacks_is_said() -> None:
    rows = read(told(), told(workload="api")).tables["Differences"]
    assert ["availability", "not there", "97.9152%"] in rows


def test_results_are_called_by_the_least_that_tells_them_apart() -> None:
    assert called([told("a"), told("b")], ["x.json", "y.json"]) == ["a", "b"]
    assert called([told(), told(seed=2)], ["x.json", "y.json"]) == ["shop, seed 1", "shop, seed 2"]
    assert called([told(), told()], ["x/before.json", "x/after.json"]) == ["before", "after"]
    assert called([told(), told()], ["x/a.json", "y/a.json"]) == ["x/a.json", "y/a.json"]
    assert called([told(), told()], ["a.json", "a.json"]) == ["1: a.json", "2: a.json"]


def test_more_results_than_can_be_told_apart_are_refused() -> None:
    html(*(told(seed=seed) for seed in range(MOST)))
    with pytest.raises(BadInput, match="up to 8 results, not 9"):
        html(*(told(seed=seed) for seed in range(MOST + 1)))


# What the file must never do


def test_text_of_a_result_is_shown_and_never_run() -> None:
    result = told(HOSTILE, workload=HOSTILE, waiting={HOSTILE: 1}, notes=(HOSTILE,))
    for text in (html(result), html(result, told()), html(result, result, files=(HOSTILE, "x"))):
        assert text.count("<script") == text.count("</script>") == 3
        assert "<img" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert read(result).text.count("<script>alert(1)") >= 5


def test_plotly_is_given_no_tag_to_read() -> None:
    result = told(workload='<a href="https://example.com">x</a>')
    texts = json.dumps(drawn(result, told("other", workload="<b>")))
    assert "<a" not in texts
    assert "<b>" not in texts


def test_the_file_forbids_itself_to_load_anything() -> None:
    assert "content=\"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'" in html(
        told()
    )


def test_nothing_but_the_script_makes_the_file_large() -> None:
    script = plotly_script()
    assert "Licensed under the MIT license" in script.code[:500]
    assert f"plotly.js v{script.version}" in script.code[:500]
    whole = page([told(every_s=10.0, services=20)], ["a.json"], script, "0.1.0")
    assert len(whole) - len(script.code) < 1_000_000
    assert f"plotly.js {script.version}" in whole
