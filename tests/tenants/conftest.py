"""What tests of tenants on a cluster share."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cluster import Cluster
from support.tenancy import Tenancy


@pytest.fixture
def tenancy(cluster: Cluster, tmp_path: Path) -> Tenancy:
    return Tenancy(cluster, tmp_path)
