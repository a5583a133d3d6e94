"""A fresh API server for each test."""

from __future__ import annotations

import pytest

from fairlead.world.api import Api
from support.embedded import embedded_api


@pytest.fixture
def api() -> Api:
    return embedded_api()
