"""Options of the differential tests: ``pytest tests/engine/differential --cases 10000``; and their oracle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.differential.oracle import Oracle, running_oracle
from support.rig import programs


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=int, help="how many pods to judge, instead of the usual number")
    parser.addoption("--first-seed", type=int, help="the first state's seed")


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """The real kube-scheduler; who asks it clears away what was asked before."""
    programs("etcd", "kube-apiserver", "kube-scheduler")
    with running_oracle() as found:
        yield found
