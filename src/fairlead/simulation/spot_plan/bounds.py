"""How sure a share of time is that was counted on few outages: an interval for it, from the outages alone.

Time that was spent below the minimum is a sum over days, each of which weighs as long as it was below. Days
with an outage are taken as independent of each other, outages of one day are not: they count as one. The
interval is that of Fay and Feuer for a weighted sum of Poisson counts. What makes it honest is the weight
of what was not seen: with no outage at all, one of the longest kind could have been missed, and the upper
limit is three of it (the rule of three).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
"""Of each limit by itself: the truth is beyond it one time in twenty."""


@dataclass(frozen=True, slots=True)
class Limits:
    """From how much to how much, in seconds, and on how many independent days that rests."""

    least_s: float
    most_s: float
    independent: float


def limits_of(days_s: Sequence[float], longest_s: float) -> Limits:
    """Limits of the time below: given what each day with an outage had, and what a day could have had.

    >>> limits_of([], 600).most_s / 600  # none was seen
    2.99...
    >>> limits_of([60.0, 60.0, 60.0], 60).independent
    3.0
    """
    total = sum(days_s)
    squares = sum(each * each for each in days_s)
    worst = max([longest_s, *days_s])
    if worst <= 0:
        return Limits(0.0, 0.0, 0.0)
    least = 0.0
    if total > 0:
        least = squares / total * gamma_quantile(total * total / squares, 1 - CONFIDENCE)
    squares_most, total_most = squares + worst * worst, total + worst
    most = squares_most / total_most * gamma_quantile(total_most * total_most / squares_most, CONFIDENCE)
    return Limits(least, most, total * total / squares if squares else 0.0)


def gamma_quantile(shape: float, share: float) -> float:
    """Below which value a gamma-distributed one (scale 1) is with this probability.

    >>> round(gamma_quantile(1.0, 0.95), 4), round(gamma_quantile(10.0, 0.05), 4)
    (2.9957, 5.4254)
    """
    low, high = 0.0, shape + 1.0
    while _lower_gamma(shape, high) < share:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if _lower_gamma(shape, middle) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _lower_gamma(shape: float, x: float) -> float:
    """The regularised lower incomplete gamma function: a series, and above the mean a continued fraction."""
    if x <= 0:
        return 0.0
    front = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1:
        term = total = 1.0 / shape
        step = shape
        while abs(term) > abs(total) * 1e-15:
            step += 1
            term *= x / step
            total += term
        return front * total
    # Lentz's method.
    tiny = 1e-300
    b = x + 1 - shape
    c, d = 1 / tiny, 1 / b
    found = d
    for number in range(1, 100_000):
        a = -number * (number - shape)
        b += 2
        d = 1 / (a * d + b or tiny)
        c = b + a / c or tiny
        found *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return 1 - front * found
