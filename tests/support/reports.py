"""What a report says: its tables, its text and its charts, without a browser and in one without a network."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page

from support.browser import PATIENCE_MS

__all__ = ["HOSTILE", "ReportText", "drawn_in", "has_no_barrier", "opened"]

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\x1b[2J\u202e"


class ReportText(HTMLParser):
    """The rows of all tables, by what is said of each table; and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.text = ""
        self.tags: list[str] = []
        self._rows: list[list[str]] = []
        self._script = self._cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._script = tag in ("script", "style")
        if (dict(attrs).get("class") or "").startswith("wide"):
            self._rows = self.tables.setdefault(dict(attrs)["aria-label"] or "", [])
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._cell = True
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._script = False
        elif tag in ("td", "th"):
            self._cell = False
            self._rows[-1][-1] = self._rows[-1][-1].strip()

    def handle_data(self, data: str) -> None:
        if self._script:
            return
        text = data.replace("\N{NO-BREAK SPACE}", " ")
        self.text += text
        if self._cell:
            self._rows[-1][-1] += text


def drawn_in(html: str) -> list[dict[str, Any]]:
    """The charts of a report, as plotly.js takes them."""
    data = re.search(r'id="charts">(.*?)</script>', html, re.DOTALL)
    assert data is not None
    found: list[dict[str, Any]] = json.loads(data[1])
    return found


@asynccontextmanager
async def opened(
    browser: Browser, file: Path, *, width: int = 1280, dark: bool = False
) -> AsyncIterator[Page]:
    """The file, drawn. At the end it must have said nothing on the console, and asked for nothing."""
    context = await browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        offline=True,
    )
    problems: list[str] = []
    try:
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"uncaught: {error}"))
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(file.as_uri())
        await page.wait_for_selector(f"html[data-drawn={'dark' if dark else 'light'}]")
        yield page
        assert problems == []
        assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    finally:
        await context.close()


async def has_no_barrier(page: Page, charts: int) -> None:
    """Charts are drawn, their axes have titles, nothing is wider than the window, and axe finds nothing."""
    for place in range(1, charts + 1):
        chart = page.locator(f"#chart-{place}")
        assert await chart.locator(".scatterlayer .trace, .barlayer .trace").count() >= 1, place
        assert await chart.locator(".xtitle").text_content(), place
        assert await chart.locator(".ytitle").text_content(), place
    over = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert over <= 0
    for details in await page.locator("summary").all():
        await details.click()
    found = await Axe().run(page)
    bad = found.response["violations"]
    assert not bad, [(one["id"], [node["html"] for node in one["nodes"]]) for one in bad]
