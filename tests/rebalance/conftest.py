"""Fixtures of the rebalancer's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.rebalancing import Rebalanced, rebalanced


@pytest.fixture
def corner(cluster: Cluster, tmp_path: Path) -> Iterator[Rebalanced]:
    """The test's own nodes, webhook and rebalancer, on each kind of cluster."""
    with rebalanced(cluster, tmp_path) as own:
        yield own
