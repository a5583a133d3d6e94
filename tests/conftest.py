"""Fixtures and options that all tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
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


# What takes longest, much of it waiting: a worker that began it last would work on alone.
LONGEST = (
    "tests/rebalance/test_from_nothing.py",
    "tests/deploy/test_rights.py",
    "tests/deploy/test_as_shipped.py",
    "tests/docs/test_pages_on_a_cluster.py",
    "tests/simulation/test_against_reality.py",
    "tests/doors/",
    "tests/cloud/test_karpenter_for_real.py",
    "tests/cloud/test_doctor_on_karpenter.py",
    "tests/rig/test_controlplane.py",
    "tests/rebalance/test_on_a_cluster.py",
    "tests/deploy/",
    "tests/engine/differential/",
    "tests/faults/",
)


def pytest_configure(config: pytest.Config) -> None:
    """Look for no garbage while tests are collected: that would be half of the work, and there is none.

    A shell has what it runs in the background ignore interrupts; what tests interrupt must not do the same.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not config.getoption("numprocesses", None):  # whoever only hands out tests collects none
        gc.disable()


def pytest_collection_finish() -> None:
    """What there is by now stays until the end: it is not looked through again."""
    gc.enable()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Among several workers, which each take file after file, begin with the longest."""
    if not hasattr(config, "workerinput"):
        return
    weights: Counter[str] = Counter()
    for item in items:
        weights[file_of(item)] += 20 if {"real", "slow"} & {mark.name for mark in item.iter_markers()} else 1

    def rank(item: pytest.Item) -> tuple[int, int]:
        file = file_of(item)
        listed = (place for place, name in enumerate(LONGEST) if file.startswith(name))
        return next(listed, len(LONGEST)), -weights[file]

    items.sort(key=rank)


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


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


# What tests record as rows of a table, by the name of the property, and the table's head.
TABLES = {
    "as shipped": ("component", "runs as", "ready after", "decided"),
    "crash points": ("story", "writes", "played", "took", "of which"),
}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what tests have recorded; see tests/deploy/test_as_shipped.py and tests/faults."""
    for table, head in TABLES.items():
        rows = [
            value
            for found in terminalreporter.getreports("passed")
            for name, value in found.user_properties
            if name == table
        ]
        if rows:
            rows.insert(0, head)
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            terminalreporter.section(table)
            for row in rows:
                cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
                terminalreporter.write_line("  ".join(cells).rstrip())
