"""Durations as Kubernetes users spell them: ``90s``, ``10m``, ``1h30m``; plain numbers are seconds."""

from __future__ import annotations

import functools
import re

Duration = str | int | float

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")


@functools.lru_cache(maxsize=1024)
def seconds(duration: Duration) -> float:
    """A duration in seconds; ValueError says what is wrong with it.

    >>> seconds("1h30m"), seconds("500ms"), seconds(5)
    (5400.0, 0.5, 5.0)
    """
    if isinstance(duration, str):
        text = duration.strip()
        if _DURATION.fullmatch(text) is None:
            raise ValueError(f"{duration!r} is not a duration like 90s, 10m or 1h30m")
        return float(
            sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+)(ms|s|m|h)", text))
        )
    if duration < 0:
        raise ValueError(f"{duration!r} is negative")
    return float(duration)
