"""Fixtures and options that all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import HealthCheck, settings

from support.rig import on_one_line

if TYPE_CHECKING:
    # Imported by the fixtures that need it: most tests need neither cluster.
    from support.cluster import Cluster, Host

# `make verify` runs the counts that the product promises; `make test` a seeded part of them.
VERIFY = os.environ.get("FAIRLEAD_COUNTS") == "verify"

settings.register_profile(
    "test", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("verify", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("verify" if VERIFY else "test")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    on_one_line(report)
    return report


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """A command that is run in this process says where its logs go: that must not concern the next test."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def count() -> Callable[[int, int], int]:
    """How often to repeat: ``count(30, 300)`` is 30 in `make test` and 300 in `make verify`."""
    return lambda test, verify: verify if VERIFY else test


@pytest.fixture(scope="session")
def real_host() -> Iterator[Host]:
    """The real control plane that all tests of a run share."""
    from support.cluster import RealHost

    host = RealHost()
    yield host
    host.stop()


@pytest.fixture(scope="session")
def embedded_host() -> Iterator[Host]:
    """The embedded cluster, served over HTTP, that all tests of a run share."""
    from support.cluster import EmbeddedHost

    host = EmbeddedHost()
    yield host
    host.stop()


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)], scope="session")
def host(request: pytest.FixtureRequest) -> Host:
    """Each kind of cluster in turn."""
    found: Host = request.getfixturevalue(f"{request.param}_host")
    return found


@pytest.fixture
def cluster(host: Host) -> Iterator[Cluster]:
    """A namespace of the test's own on each kind of cluster: the same test must pass on both."""
    from support.cluster import Cluster

    own = Cluster(host)
    yield own
    own.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what tests have recorded as rows of a table; see tests/deploy/test_as_shipped.py."""
    rows = [
        value
        for found in terminalreporter.getreports("passed")
        for name, value in found.user_properties
        if name == "as shipped"
    ]
    if rows:
        rows.insert(0, ("component", "runs as", "ready after", "decided"))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        terminalreporter.section("as shipped")
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            terminalreporter.write_line("  ".join(cells).rstrip())
