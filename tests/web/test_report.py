"""Reports in the real Chromium, which has no network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairlead.simulation.report.page import page as report
from fairlead.simulation.report.plotly_script import plotly_script
from fairlead.simulation.simulate.result import Result
from support.browser import chromium
from support.reports import has_no_barrier, opened
from support.simulated import told

pytestmark = pytest.mark.slow

ONE = (told(services=2, notes=("a spot market was left out",)),)
TWO = (ONE[0], told("shop-cheap", services=2, price=0.25, outage_s=7200.0, every_s=300.0))
EIGHT = tuple(told(workload=f"w{'o' * 40}rkload", seed=seed) for seed in range(8))
WAYS = {"one": ONE, "two": TWO, "eight": EIGHT}


def written(folder: Path, results: tuple[Result, ...]) -> Path:
    file = folder / "report.html"
    file.write_text(report(results, [f"{place}.json" for place in range(len(results))], plotly_script(), "1"))
    return file


@pytest.mark.parametrize(
    ("way", "width", "dark"),
    [
        ("one", 1280, False),
        ("one", 400, True),
        ("two", 1280, True),
        ("two", 400, False),
        ("eight", 1280, False),
        ("eight", 400, True),
    ],
)
async def test_a_report_is_drawn_and_has_no_barrier(tmp_path: Path, way: str, width: int, dark: bool) -> None:
    file = written(tmp_path, WAYS[way])
    async with chromium() as browser, opened(browser, file, width=width, dark=dark) as page:
        charts = await page.locator(".chart").count()
        expected = {"one": 8, "two": 10, "eight": 15}
        assert charts == expected[way]
        await has_no_barrier(page, charts)


async def test_what_is_read_is_what_the_result_says(tmp_path: Path) -> None:
    async with chromium() as browser, opened(browser, written(tmp_path, ONE)) as page:
        (result,) = ONE
        text = re.sub(r"\s", " ", await page.inner_text("main"))
        assert f"{result.pods.placed} of {result.pods.arrived}" in text
        assert f"{result.cost:,.2f}" in text
        for one in result.workloads:
            if one.availability is not None and one.availability < 1:
                assert f"{one.availability:.4%}" in text
        assert "a spot market was left out" in text
        charts = "[...document.querySelectorAll('.chart')]"
        lines = await page.evaluate(
            f"Object.fromEntries({charts}.flatMap((one) => one.data.map((each) => [each.name, each.y])))"
        )
        assert lines["cpu"] == [round(one, 6) for one in result.series.values["used:cpu"]]


async def test_charts_follow_light_and_dark_while_they_are_open(tmp_path: Path) -> None:
    colour = "getComputedStyle(document.querySelector('#chart-1 .scatterlayer .js-line')).stroke"
    async with chromium() as browser, opened(browser, written(tmp_path, ONE)) as page:
        light = await page.evaluate(colour)
        await page.emulate_media(color_scheme="dark")
        await page.wait_for_selector("html[data-drawn=dark]")
        assert light == "rgb(0, 114, 178)"
        assert await page.evaluate(colour) == "rgb(74, 163, 223)"


async def test_a_hostile_name_is_text_wherever_it_stands(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)><a href='https://example.com'>x</a></script>"
    results = (told(name, workload=name, waiting={name: 2}), told("other", workload=name))
    async with chromium() as browser, opened(browser, written(tmp_path, results)) as page:
        assert await page.locator("a, image, img").count() == 0
        assert name in await page.inner_text("h1")
        await page.locator("#chart-1").hover()
        await page.wait_for_selector("#chart-1 .hoverlayer .legendtext")
        assert name[:20] in (await page.locator("#chart-1 .hoverlayer").text_content() or "")
