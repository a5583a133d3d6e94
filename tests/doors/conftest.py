"""Fixtures of the stories that are the same behind every door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.doors import Behind, behind
from support.rebalancing import Rebalanced

REAL = pytest.mark.real


# For a whole module: to have kube-scheduler ask an extender it must be restarted.
@pytest.fixture(
    scope="module",
    params=[
        "webhook-embedded",
        "scheduler-embedded",
        pytest.param("webhook-real", marks=REAL),
        pytest.param("scheduler-real", marks=REAL),
        pytest.param("extender-real", marks=REAL),
    ],
)
def door(request: pytest.FixtureRequest) -> Iterator[Behind]:
    """Each door in turn, on each kind of cluster that can have it."""
    name, _, kind = request.param.partition("-")
    with behind(name, request.getfixturevalue(f"{kind}_host")) as found:
        yield found


@pytest.fixture
def corner(door: Behind, tmp_path: Path) -> Iterator[Rebalanced]:
    """The test's own nodes and processes behind the door."""
    cluster = Cluster(door.host)
    try:
        with door.corner(cluster, tmp_path) as own:
            yield own
    finally:
        cluster.close()
