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


def age(duration_s: float) -> str:
    """About how long something has lasted, as kubectl shows ages.

    >>> age(0.4), age(119), age(600), age(3 * 3600), age(9 * 86400)
    ('0s', '119s', '10m', '3h', '9d')
    """
    passed = max(0, int(duration_s))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if passed >= 2 * size:
            return f"{passed // size}{unit}"
    return f"{passed}s"
