"""Fixtures of burst's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.burst import Bursting, bursting
from support.cluster import Cluster


@pytest.fixture(params=["scheduler", "webhook"])
def either(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Bursting]:
    """The test's own corner on each kind of cluster, with burst placing pods or steering them."""
    with bursting(cluster, request.param) as own:
        yield own


@pytest.fixture
def ours(cluster: Cluster) -> Iterator[Bursting]:
    """The same, with burst placing pods."""
    with bursting(cluster, "scheduler") as own:
        yield own
