"""How long does a simulation take, and how much memory: a day of a large cluster, and a production trace?

Each is played in a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import yaml

from benchmarks.rows import Row, main
from fairlead.simulation.scenario.material import load
from fairlead.simulation.scenario.model import API_VERSION, KIND
from fairlead.simulation.scenario.pod_trace import TracedPod, write_pod_trace
from fairlead.simulation.simulate.result import Result
from fairlead.simulation.simulate.simulation import simulate

DAY_S = 86_400
CLASSES = 700


def run() -> list[Row]:
    """All rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("day", "million"), help="one of the rows")
    given = parser.parse_args()
    rows = []
    if given.only in (None, "day"):
        rows += _row("100,000 pods over a day on 5,000 nodes", _day(100_000, 5_000), 180, 2048)
    if given.only == "million":
        rows += _row("1,000,000 pods over a day on 10,000 nodes", _day(1_000_000, 10_000), 1200, 8192)
    return rows


def _row(what: str, scenario: tuple[dict[str, Any], str], most_s: float, most_mb: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        spec, trace = scenario
        (Path(folder) / "pods.csv").write_text(trace)
        file = Path(folder) / "scenario.yaml"
        document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "bench"}, "spec": spec}
        file.write_text(yaml.safe_dump(document))
        with get_context("spawn").Pool(1) as pool:
            cpu_s, wall_s, mb, result = pool.apply(_play, (str(file),))
    pods = result.pods
    said = f"{wall_s:.1f} s ({cpu_s:.1f} s CPU), {mb:.0f} MB; {pods.placed} of {pods.arrived} placed"
    target = f"≤ {most_s:.0f} s, ≤ {most_mb} MB"
    return [Row(what, said, target, wall_s <= most_s and mb <= most_mb and pods.placed > 0.99 * pods.arrived)]


def _play(file: str) -> tuple[float, float, float, Result]:
    cpu, wall = time.process_time(), time.perf_counter()
    result = simulate(load(Path(file)))
    mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return time.process_time() - cpu, time.perf_counter() - wall, mb, result


def _day(pods: int, nodes: int) -> tuple[dict[str, Any], str]:
    """Pods of many classes, in turn, at random times; about two thirds of the nodes' cpu is asked for."""
    source = random.Random(1)
    mean_s = 0.6 * nodes * 16 * DAY_S / pods / 1.4
    traced = [
        TracedPod(
            at_s=round(source.random() * DAY_S, 3),
            runs_for_s=round(source.expovariate(1 / mean_s), 3),
            name=f"pod-{number}",
            pods=1,
            priority=None,
            requests=(("cpu", f"{100 + 4 * (number % CLASSES)}m"), ("memory", f"{512 + number % CLASSES}Mi")),
            nodes=(),
        )
        for number in range(pods)
    ]
    groups = [{"name": "nodes", "nodes": nodes, "resources": {"cpu": 16, "memory": "64Gi"}}]
    spec = {"duration": DAY_S, "nodeGroups": groups, "arrivals": [{"name": "day", "trace": "pods.csv"}]}
    return spec, write_pod_trace(traced)


if __name__ == "__main__":
    main(run)
