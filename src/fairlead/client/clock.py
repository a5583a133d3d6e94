"""The time that the client reads, injected so that tests can bend it.

`now` must go on while the machine is suspended, or a leader would wake up believing its lease is
young: Linux' CLOCK_MONOTONIC stops then, CLOCK_BOOTTIME does not. Waiting is left to the event loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


def _boot_time() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _utc() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """`now` only ever grows and is for durations, in seconds; `wall` is for what others will read."""

    now: Callable[[], float] = _boot_time if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
    wall: Callable[[], datetime] = _utc


WALL_CLOCK = Clock()
