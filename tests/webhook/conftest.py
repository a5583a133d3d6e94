"""Fixtures of the webhook's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.admission import Tiered, tiered
from support.cluster import Cluster
from support.policies import serve_policies


@pytest.fixture
def corner(cluster: Cluster) -> Iterator[Tiered]:
    """The test's own nodes, policies and webhooks, on each kind of cluster."""
    with tiered(cluster) as own:
        yield own


@pytest.fixture
def served(cluster: Cluster) -> Cluster:
    """A cluster that knows policies and ledgers."""
    serve_policies(cluster)
    return cluster
