"""The site builds without a warning, asks no other host for anything, and its reference covers the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.reference import BehindError, commands, labels_in_code, reasons_in_code

from support.browser import chromium
from support.pages import ROOT
from tools import reference

READ = ("index.html", "start.html", "concepts.html", "reference/cli.html", "how-to/spot.html")

# What a browser loads by itself, as opposed to links that a reader follows.
_LOADED = re.compile(
    r"<(?:script|img|iframe|source|object|embed)\b[^>]*?(?:src|data)=\"([^\"]+)\""
    r"|<link\b(?=[^>]*rel=\"(?:stylesheet|preload|icon|prefetch|preconnect)\")[^>]*href=\"([^\"]+)\""
    r"|url\(['\"]?([^)'\"]+)"
    r"|@import\s+['\"]([^'\"]+)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    sphinx = ["-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "--fresh-env"]
    done = subprocess.run(
        [sys.executable, *sphinx, "-d", str(folder / "doctrees"), "docs", str(folder / "html")],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr
    return folder / "html"


def test_every_page_of_the_folder_is_on_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).exists(), page


def test_no_file_of_the_site_loads_anything_from_elsewhere(site: Path) -> None:
    for file in site.rglob("*"):
        if file.suffix in (".html", ".css"):
            loaded = ["".join(found) for found in _LOADED.findall(file.read_text())]
            foreign = [one for one in loaded if re.match(r"(https?:)?//", one)]
            assert not foreign, f"{file.relative_to(site)}: {foreign}"


@pytest.mark.slow
async def test_a_browser_that_reads_the_site_asks_for_files_of_it_only(site: Path) -> None:
    asked: list[str] = []
    async with chromium() as browser:
        page = await browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        for name in READ:
            await page.goto((site / name).as_uri())
        await page.goto(f"{(site / 'search.html').as_uri()}?q=gang")
        await page.wait_for_selector("#search-results li")
    assert len(asked) > len(READ)
    assert [url for url in asked if not url.startswith(site.as_uri())] == []


def test_pictures_say_what_they_show_and_follow_the_colour_scheme() -> None:
    pictures = list((ROOT / "docs" / "pictures").glob("*.svg"))
    assert pictures
    for picture in pictures:
        text = picture.read_text()
        assert "<title" in text, picture
        assert "<desc" in text, picture
        assert "prefers-color-scheme: dark" in text, picture


def test_the_reference_has_every_command(site: Path) -> None:
    text = (site / "reference" / "cli.html").read_text()
    for name, _ in commands():
        assert f"<h2>{name}<a" in text or f"<h1>{name}<a" in text, name


def test_a_label_that_nothing_is_said_of_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "labels_in_code", lambda: labels_in_code() | {"fairlead.dev/new"})
    with pytest.raises(BehindError, match=r"what fairlead\.dev/new means"):
        reference.labels()


def test_a_reason_that_the_code_no_longer_gives_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "reasons_in_code", lambda: reasons_in_code() - {"Preempted"})
    with pytest.raises(BehindError, match="speaks of Preempted"):
        reference.events()


def test_what_kubectl_shows_of_events_is_among_the_reasons_found() -> None:
    assert {"Scheduled", "FailedScheduling", "Preempted", "WaitingForGang"} <= reasons_in_code()
