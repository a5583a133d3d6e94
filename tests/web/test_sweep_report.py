"""Reports of sweeps in the real Chromium, which has no network."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from fairlead.simulation.report.plotly_script import plotly_script
from fairlead.simulation.report.sweep_page import sweep_page
from fairlead.simulation.sweep.grid import Point, grid
from fairlead.simulation.sweep.parameters import parameter
from fairlead.simulation.sweep.table import Numbers, table
from support.browser import chromium
from support.reports import has_no_barrier, opened

pytestmark = pytest.mark.slow

COLUMNS = ("pods.pending", "waits.p95", "workloads.web.availability")
FILES = ",".join(f"traces/week-{week}-of-the-year.csv" for week in range(30))
WAYS = {
    "lines": ("nodeGroups.big.nodes=2..6", "planning.ranking=spread,pack", "seed=1..5"),
    "bars": ("policies.web.spec.tiers.on-demand.min=0,30%,pdb", "nodeGroups.big.nodes=2..4", "seed=1..3"),
    "many": ("nodeGroups.big.nodes=1..20", "arrivals.train.perHour=1..30", "planning.ranking=spread,pack"),
    "files": (f"arrivals.train.trace={FILES}", "planning.ranking=spread,pack"),
    "seeds": ("seed=1..9",),
}


def numbers(point: Point) -> Numbers | None:
    """What a run came to: drawn from its name; one in twenty has failed."""
    drawn = crc32(point.id.encode())
    if drawn % 20 == 0:
        return None
    return dict(zip(COLUMNS, (drawn % 30, drawn % 7919, 1 - drawn % 101 / 1000), strict=True))


def written(folder: Path, *varied: str, scenario: str = "shop") -> Path:
    parameters = [parameter(one) for one in varied]
    points = grid(parameters)
    ended = {one.id: found for one in points if (found := numbers(one)) is not None}
    file = folder / "sweep.html"
    text = sweep_page(scenario, parameters, table(points, ended, COLUMNS), plotly_script(), "1")
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("way", "width", "dark"),
    [
        ("lines", 1280, False),
        ("lines", 400, True),
        ("bars", 1280, True),
        ("bars", 400, False),
        ("many", 1280, False),
        ("many", 400, True),
        ("files", 400, False),
        ("seeds", 400, False),
    ],
)
async def test_a_report_is_drawn_and_has_no_barrier(tmp_path: Path, way: str, width: int, dark: bool) -> None:
    file = written(tmp_path, *WAYS[way])
    async with chromium() as browser, opened(browser, file, width=width, dark=dark) as page:
        charts = await page.locator(".chart").count()
        assert charts == (0 if way == "seeds" else len(COLUMNS))
        await has_no_barrier(page, charts)


async def test_means_are_drawn_with_their_least_and_most(tmp_path: Path) -> None:
    file = written(tmp_path, *WAYS["lines"])
    async with chromium() as browser, opened(browser, file) as page:
        assert await page.locator("#chart-2 .errorbars .errorbar").count() == 10
        assert await page.locator("#chart-2 .scatterlayer .js-line").count() == 2
        shown = await page.locator("#chart-2 .xtick text").all_text_contents()
        assert shown == ["2", "3", "4", "5", "6"]
        assert await page.locator("figure").nth(1).locator(".legend li").all_inner_texts() == [
            "ranking=spread",
            "ranking=pack",
        ]


async def test_a_table_of_many_rows_keeps_its_heading_in_sight(tmp_path: Path) -> None:
    async with chromium() as browser, opened(browser, written(tmp_path, *WAYS["many"])) as page:
        rows = page.locator("[aria-label='All rows']")
        assert await rows.locator("tbody tr").count() == 1200
        await rows.evaluate("(one) => one.scrollTo(0, 5000)")
        heading = await rows.locator("thead th").first.bounding_box()
        box = await rows.bounding_box()
        assert heading is not None
        assert box is not None
        assert abs(heading["y"] - box["y"]) < 3
        assert box["height"] < 900


async def test_a_hostile_name_is_text_wherever_it_stands(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)><a href='https://example.com'>x</a></script>"
    file = written(tmp_path, f'a.b="{name}",b', f'c.d="{name}",2', scenario=name)
    async with chromium() as browser, opened(browser, file) as page:
        assert await page.locator("a, image, img").count() == 0
        assert name in await page.inner_text("h1")
        await page.locator("#chart-1 .barlayer .point").first.hover(force=True)
        await page.wait_for_selector("#chart-1 .hoverlayer .hovertext")
        assert name[:20] in (await page.locator("#chart-1 .hoverlayer").text_content() or "")
