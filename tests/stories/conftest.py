"""The fixture of stories: what users of other schedulers for gangs expect, told in our own words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.cluster import Cluster
from support.stories import Story


@pytest.fixture
def story(cluster: Cluster) -> Iterator[Story]:
    """The test's own corner of each kind of cluster."""
    own = Story(cluster)
    try:
        yield own
    finally:
        own.close()
