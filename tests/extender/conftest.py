"""Fixtures of the extender's tests: the real kube-scheduler, told to call an extender."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead.rig.processes import free_ports
from support.cluster import Cluster, RealHost
from support.extender import Extended, calling, extended


@pytest.fixture(scope="module")
def port(real_host: RealHost) -> Iterator[int]:
    """Where kube-scheduler calls."""
    (own,) = free_ports(1)
    with calling(real_host.plane, own):
        yield own


@pytest.fixture
def corner(real_host: RealHost, port: int) -> Iterator[Extended]:
    """The test's own nodes, policies and extender."""
    cluster = Cluster(real_host)
    with extended(cluster, port) as own:
        yield own
    cluster.close()
