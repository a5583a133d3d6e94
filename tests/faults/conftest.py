"""Fixtures of the fault suite."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from support.cluster import Host
from support.crash_points import Story, enumerate_crashes, thinned


@pytest.fixture
def crash_everywhere(
    real_host: Host,
    tmp_path: Path,
    count: Callable[[int, int], int],
    record_property: Callable[[str, object], None],
) -> Callable[..., None]:
    """Play a story once for each crash point: at every write or, in `make test`, at three of them."""

    def play(story: type[Story], *, varying: tuple[str, ...] = ()) -> None:
        found = enumerate_crashes(
            story,
            real_host,
            tmp_path,
            quiet_s=count(1, 4) / 2,
            choose=list if count(0, 1) else partial(thinned, heart=story.heart),
            varying=varying,
        )
        record_property("crash points", found.row())

    return play
