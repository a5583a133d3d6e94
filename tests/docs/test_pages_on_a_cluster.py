"""Every page that works on a cluster works from top to bottom, on one cluster, and prints what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.page_clusters import REAL
from support.page_runner import work_through
from support.pages import Page, pages

ON_A_CLUSTER = [page for page in pages() if page.clusters]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.real] * (page.cluster in REAL)) for page in ON_A_CLUSTER],
    ids=lambda page: page.name,
)
def test_the_page_works_from_top_to_bottom(page: Page, tmp_path: Path) -> None:
    work_through(page, tmp_path)


@pytest.mark.parametrize(
    "page", [page for page in ON_A_CLUSTER if page.cluster != "aws"], ids=lambda page: page.name
)
def test_the_page_names_its_cluster_before_it_changes_one(page: Page) -> None:
    """Until then its commands meet a kubeconfig that is not there, so they would fail."""
    assert page.names_its_cluster, f"{page.name} needs `export KUBECONFIG=…` before its first command"
