"""Fixtures for tests that talk to a cluster, directly and through the fault proxy."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from fairlead.client.api import Client
from fairlead.client.config import load
from fairlead.client.connection import Connection
from fairlead.client.retry import Retry
from support.cluster import Cluster
from support.faults import FaultProxy


@dataclass(frozen=True)
class Through:
    """A cluster, seen straight (`client`) and through the proxy (`faulty`)."""

    namespace: str
    client: Client
    proxy: FaultProxy
    faulty: Client
    cluster: Cluster


@pytest.fixture
async def through(cluster: Cluster) -> AsyncIterator[Through]:
    target = load(cluster.kubeconfig)
    async with (
        Connection(target) as connection,
        FaultProxy(target) as proxy,
        Connection(proxy.target) as faulty,
    ):
        rng = random.Random(1)
        patient = Retry(rng, first_s=0.01)
        yield Through(
            cluster.namespace,
            Client(connection, rng=rng),
            proxy,
            Client(faulty, rng=rng, retry=patient),
            cluster,
        )
    # After a long test the API server has closed the test's own idle connection: begin a new one.
    cluster.wire.close()
