"""Screenshots of reports: ``python -m tools.report_pictures`` makes those of the documentation again.

``--all FOLDER`` makes one of each whole report, light and dark, wide and as narrow as a phone, to be looked
at after a change of the page.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace as with_fields
from playwright.async_api import Browser, async_playwright

from fairlead.simulation.report.page import page as report
from fairlead.simulation.report.plotly_script import plotly_script
from fairlead.simulation.scenario.material import load
from fairlead.simulation.simulate.result import Result
from fairlead.simulation.simulate.simulation import simulate
from tools.browser import find
from tools.pictures import DOCS, ROOT, SIZES

SCENARIO = ROOT / "examples" / "simulate" / "spot.yaml"
WIDTH = 1100
HEIGHTS = {"report": 820, "report-compared": 760}
"""The documentation's pictures, and how much of each report they show."""


def played(seed: int) -> Result:
    """What the scenario comes to with a seed."""
    material = load(SCENARIO)
    spec = with_fields(material.scenario.spec, seed=seed)
    return simulate(replace(material, scenario=with_fields(material.scenario, spec=spec)))


async def main(folder: Path | None) -> None:
    """Play, report and take the pictures."""
    browser_path = find()
    if browser_path is None:
        raise SystemExit("there is no Chromium: python -m tools.browser")
    results = [played(1), played(7)]
    with TemporaryDirectory() as temporary:
        reports = {name: Path(temporary, f"{name}.html") for name in HEIGHTS}
        for name, shown in zip(HEIGHTS, (results[:1], results), strict=True):
            files = [f"{place}.json" for place in range(len(shown))]
            reports[name].write_text(report(shown, files, plotly_script(), "0.1.0"))
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=browser_path, args=["--no-sandbox", "--disable-gpu", "--no-first-run"]
            )
            for name, file in reports.items():
                if folder is None:
                    await _shoot(browser, file, DOCS / f"{name}.png", (WIDTH, HEIGHTS[name]))
                    continue
                for size, window in SIZES.items():
                    for dark in (False, True):
                        picture = folder / f"{name}-{size}-{'dark' if dark else 'light'}.png"
                        await _shoot(browser, file, picture, window, dark=dark, whole=True)
            await browser.close()


async def _shoot(
    browser: Browser,
    file: Path,
    picture: Path,
    window: tuple[int, int],
    *,
    dark: bool = False,
    whole: bool = False,
) -> None:
    width, height = window
    page = await browser.new_page(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    )
    await page.goto(file.as_uri())
    await page.wait_for_selector("html[data-drawn]")
    await page.screenshot(path=picture, full_page=whole)
    await page.close()
    print(picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Take pictures of reports.")
    parser.add_argument(
        "--all", metavar="FOLDER", type=Path, help="whole reports, instead of the documentation's pictures"
    )
    all_of_them = parser.parse_args().all
    (all_of_them or DOCS).mkdir(parents=True, exist_ok=True)
    asyncio.run(main(all_of_them))
