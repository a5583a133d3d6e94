"""Options of the differential tests: ``pytest tests/engine/differential --cases 10000``."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=int, help="how many pods to judge, instead of the usual number")
    parser.addoption("--first-seed", type=int, help="the first state's seed")
