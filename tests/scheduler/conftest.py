"""Fixtures for tests of the scheduler as a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.cluster import Cluster
from support.scheduler import Shop, shop


@pytest.fixture
def ours(cluster: Cluster) -> Iterator[Shop]:
    """The test's own corner of each kind of cluster."""
    with shop(cluster) as own:
        yield own


@pytest.fixture
def real(real_host: object) -> Iterator[Shop]:
    """The same, on the real control plane only."""
    cluster = Cluster(real_host)  # type: ignore[arg-type]  # the fixture's type is the host's
    with shop(cluster) as own:
        yield own
    cluster.close()
