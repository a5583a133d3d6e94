"""When batch work arrives and how long each of it runs, drawn from the scenario's seed.

Times have milliseconds, as in objects of a cluster. Each stream draws from a source of its own, named after
it: what one draws does not depend on the others. They are drawn with Python's generator, whose sequence is
the same on every platform and version.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fairlead.simulation.scenario.model import Arrivals
from fairlead.simulation.scenario.pod_trace import TracedPod


@dataclass(frozen=True, slots=True)
class Arrival:
    """One pod, or one gang of `pods`, that comes. `runs_for_s` None: until the end."""

    at_s: float
    name: str
    pods: int
    runs_for_s: float | None
    traced: TracedPod | None = None


def arrivals_of(
    stream: Arrivals, seed: int, duration_s: float, traces: Mapping[str, tuple[TracedPod, ...]]
) -> Iterator[Arrival]:
    """What arrives, in order of time, until the scenario's end."""
    source = random.Random(f"{seed}/arrivals/{stream.name}")
    until_s = min(duration_s, stream.until if stream.until is not None else math.inf)
    if stream.trace:
        for number, one in enumerate(traces[stream.trace]):
            if one.at_s + stream.start > until_s or (stream.count is not None and number >= stream.count):
                return
            name = one.name or f"{stream.name}-{number}"
            yield Arrival(one.at_s + stream.start, name, one.pods, one.runs_for_s, one)
        return
    for number, at_s in enumerate(_times(stream, source)):
        if at_s > until_s or (stream.count is not None and number >= stream.count):
            return
        yield Arrival(at_s, f"{stream.name}-{number}", stream.pods, _run_time(stream, source))


def _times(stream: Arrivals, source: random.Random) -> Iterator[float]:
    if stream.at:
        yield from sorted(stream.at)
        return
    at_s = float(stream.start)
    if stream.every is not None:
        while True:
            yield at_s
            at_s += stream.every
    assert stream.per_hour is not None
    while True:
        at_s += source.expovariate(stream.per_hour / 3600)
        yield round(at_s, 3)


def _run_time(stream: Arrivals, source: random.Random) -> float:
    mean = float(stream.runs_for)
    match stream.run_times:
        case "exponential":
            return round(source.expovariate(1 / mean), 3) if mean else 0.0
        case "uniform":
            return round(source.uniform(0.0, 2 * mean), 3)
        case _:
            return mean
