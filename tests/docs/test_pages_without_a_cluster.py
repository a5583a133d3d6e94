"""Every page whose commands need no cluster works from top to bottom, and prints what it shows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support.page_runner import work_through
from support.pages import ROOT, Page, pages, read_page


@pytest.mark.parametrize("page", [page for page in pages() if not page.clusters], ids=lambda page: page.name)
def test_the_page_works_from_top_to_bottom(page: Page, tmp_path: Path) -> None:
    work_through(page, tmp_path)


def test_the_readme_names_the_two_commands() -> None:
    commands = [step.command for step in read_page(ROOT / "README.md").steps]
    assert "make demo" in commands
    assert "make test" in commands


@pytest.mark.parametrize(
    "target",
    [
        *("demo", "test", "verify", "check", "coverage", "bench", "e2e", "soak", "controlplane"),
        *("docs", "release", "release-test"),
    ],
)
def test_make_help_lists_the_target(target: str) -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(rf"^  {target} +\S", done.stdout, re.MULTILINE)
