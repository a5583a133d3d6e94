"""Plays a scenario: on the cluster that has all it asks for, and no more than that."""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from fairlead.engine.planning.settings import Settings
from fairlead.simulation.scenario.material import Material
from fairlead.simulation.scenario.model import Planning
from fairlead.simulation.simulate.batch_cluster import BatchCluster
from fairlead.simulation.simulate.result import Result
from fairlead.simulation.simulate.streams import arrivals_of
from fairlead.simulation.simulate.tally import Tally
from fairlead.simulation.simulate.whole_cluster import WholeCluster

_SAMPLES = 240

_Ending = tuple[Mapping[str, int], tuple[str, ...]]
"""Why pods wait at the end, and what could not be played."""

Say = Callable[[float, float, int], None]
"""Receives the virtual time that has passed, all there is, and how many pods wait."""


def simulate(material: Material, say: Say = lambda *_: None) -> Result:
    """Play a scenario to its end. The same material gives the same result, to the byte."""
    scenario = material.scenario
    spec = scenario.spec
    duration_s = float(spec.duration)
    every_s = float(spec.sample_every) if spec.sample_every is not None else duration_s / _SAMPLES
    tally = Tally(every_s, tuple(one.name for one in material.groups))
    with _uncollected():
        waiting, notes = (_play_batch if is_batch(material) else _play_whole)(material, tally, every_s, say)
    return tally.result(
        duration_s, scenario=scenario.metadata.name, seed=spec.seed, waiting=_by_reason(waiting), notes=notes
    )


def is_batch(material: Material) -> bool:
    """Whether nothing but Fairlead's scheduler has anything to do in a scenario."""
    spec = material.scenario.spec
    ours = all((one.scheduler or spec.scheduler) == "fairlead" for one in spec.arrivals)
    others = (spec.workloads, material.policies, spec.markets, spec.faults, material.objects)
    return ours and not any(others) and spec.autoscaler is None


def settings_of(planning: Planning) -> Settings:
    """What the scheduler is told."""
    return Settings(
        capacity=planning.capacity,
        order=planning.order,
        ranking=planning.ranking,
        settle_s=float(planning.settle),
        reserve_after_s=float(planning.reserve_after),
    )


def _play_batch(material: Material, tally: Tally, every_s: float, say: Say) -> _Ending:
    spec = material.scenario.spec
    duration_s = float(spec.duration)
    for one in spec.arrivals:
        tally.workload(one.name, "arrivals")
    streams = [(one, arrivals_of(one, spec.seed, duration_s, material.pods or {})) for one in spec.arrivals]
    cluster = BatchCluster(material.groups, streams, settings_of(spec.planning), tally)
    return _run(cluster, tally, every_s, duration_s, say), ()


def _play_whole(material: Material, tally: Tally, every_s: float, say: Say) -> _Ending:
    spec = material.scenario.spec
    duration_s = float(spec.duration)
    cluster = WholeCluster(material, settings_of(spec.planning), tally)
    try:
        return _run(cluster, tally, every_s, duration_s, say), tuple(cluster.notes)
    finally:
        cluster.close()


def _run(
    cluster: BatchCluster | WholeCluster, tally: Tally, every_s: float, end_s: float, say: Say
) -> Mapping[str, int]:
    """Play to the end, with samples from the beginning on; why pods wait then."""

    def look() -> None:
        now_s = cluster.now_s
        tally.sample(now_s)
        say(now_s, end_s, tally.pending)
        if now_s + every_s <= end_s:
            cluster.call_at(now_s + every_s, look)

    cluster.call_at(0.0, look)
    cluster.run_until(end_s)
    return cluster.waiting()


_NODES = re.compile(r"(?:(gang) [^:]*: .*?; )?0/\d+ nodes are available: (.*?)\.(?: .*)?$", re.DOTALL)
_NUMBER = re.compile(r"\b\d+ (?=[a-zA-Z(])")


def _by_reason(waiting: Mapping[str, int]) -> Counter[str]:
    """Reasons without what differs from pod to pod: names, numbers of nodes, and who might be evicted.

    >>> _by_reason({"0/5 nodes are available: 2 Insufficient cpu, 3 Too many pods. preemption: …": 4})
    Counter({'Insufficient cpu, Too many pods': 4})
    >>> _by_reason({"gang a/b: 1 of 4 members fit; 0/5 nodes are available: 5 Insufficient cpu.": 4})
    Counter({'gang: Insufficient cpu': 4})
    """
    found: Counter[str] = Counter()
    for text, number in waiting.items():
        said = _NODES.match(text)
        reason = text
        if said is not None:
            reason = ", ".join(sorted({_NUMBER.sub("", one) for one in said[2].split(", ")}))
            reason = f"{said[1]}: {reason}" if said[1] else reason
        found[reason or "not tried yet"] += number
    return found


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the collector, which would look through all pods again and again, and find next to nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
