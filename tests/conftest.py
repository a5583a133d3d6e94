"""Fixtures and options that all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

# `make verify` runs the counts that the product promises; `make test` a seeded part of them.
VERIFY = os.environ.get("FAIRLEAD_COUNTS") == "verify"

settings.register_profile(
    "test", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("verify", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("verify" if VERIFY else "test")


@pytest.fixture(scope="session")
def count() -> Callable[[int, int], int]:
    """How often to repeat: ``count(30, 300)`` is 30 in `make test` and 300 in `make verify`."""
    return lambda test, verify: verify if VERIFY else test
