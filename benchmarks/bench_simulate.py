"""How long does a simulation take, and how much memory: a day of a large cluster, and a production trace?

Each is played in a process of its own, so that its memory is its own. The trace is the one of a GPU cluster
that `fairlead scenario import openb` reads, where its files are in ../shared/data/openb; else one of its size
and shape that is made here.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import yaml

from benchmarks.rows import Row, main
from fairlead.simulation.imports.openb import GPU, Pods, import_openb
from fairlead.simulation.scenario.material import load
from fairlead.simulation.scenario.model import API_VERSION, KIND
from fairlead.simulation.scenario.pod_trace import TracedPod, write_pod_trace
from fairlead.simulation.simulate.result import Result
from fairlead.simulation.simulate.simulation import simulate

DAY_S = 86_400
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "openb"
CLASSES = 700


def run() -> list[Row]:
    """All rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("day", "million", "openb"), help="some of the rows")
    given = parser.parse_args()
    rows = []
    if given.only in (None, "openb"):
        rows += _openb()
    if given.only in (None, "day"):
        rows += _row("100,000 pods over a day on 5,000 nodes", _day(100_000, 5_000), 180, 2048)
    if given.only == "million":
        rows += _row("1,000,000 pods over a day on 10,000 nodes", _day(1_000_000, 10_000), 1200, 8192)
    return rows


def _openb() -> list[Row]:
    """With its times, and until it is full: pods in a random order that never leave, 1.3 times what fits."""
    rows = []
    for called, how in (("as recorded", Pods()), ("until full", Pods(until_full=True, shuffle=1, fill=1.3))):
        nodes, pods, whose = _trace()
        draft = import_openb(nodes, pods, how, nodes_file="nodes.csv", pods_file="pods.csv")
        for ranking in ("spread", "pack"):
            spec = {**draft.spec, "planning": {"ranking": ranking}}
            cpu_s, wall_s, mb, result = _played(spec, draft.files)
            gpu = next(one for one in result.resources if one.name == GPU)
            placed = result.pods.placed / result.pods.arrived
            said = (
                f"{wall_s:.1f} s ({cpu_s:.1f} s CPU), {mb:.0f} MB; "
                f"{placed:.1%} of {result.pods.arrived} pods placed; "
                f"GPUs at the end {gpu.used_at_end:.1%} used, {gpu.unusable_per_node:.0f} milli a node wasted"
            )
            rows.append(Row(f"{whose} {called}, {ranking}", said, "≤ 5 s", wall_s <= 5))
    return rows


def _trace() -> tuple[str, str, str]:
    """Nodes, pods, and whose they are."""
    if SHARED.exists():
        nodes, pods = SHARED / "openb_node_list_all_node.csv", SHARED / "openb_pod_list_default.csv"
        return nodes.read_text(), pods.read_text(), "openb"
    source = random.Random(1)
    nodes_of = ["sn,cpu_milli,memory_mib,gpu,model"]
    for number in range(1523):
        gpus = source.choice((0, 2, 4, 8, 8, 8))
        nodes_of.append(f"n-{number},{96000 if gpus else 32000},393216,{gpus},{'G2' if gpus else ''}")
    pods_of = [
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time"
    ]
    for number in range(8152):
        share = source.choice((0, 250, 500, 1000, 1000, 1000))
        at = number * 1500
        pods_of.append(
            f"p-{number},{source.choice((4000, 8000, 12000))},16384,{1 if share else 0},{share},,LS,Running,"
            f"{at},{at + source.randrange(60, 90_000)}"
        )
    return "\n".join(nodes_of) + "\n", "\n".join(pods_of) + "\n", "a trace like openb"


def _row(what: str, scenario: tuple[dict[str, Any], str], most_s: float, most_mb: int) -> list[Row]:
    spec, trace = scenario
    cpu_s, wall_s, mb, result = _played(spec, {"pods.csv": trace})
    pods = result.pods
    said = f"{wall_s:.1f} s ({cpu_s:.1f} s CPU), {mb:.0f} MB; {pods.placed} of {pods.arrived} placed"
    target = f"≤ {most_s:.0f} s, ≤ {most_mb} MB"
    return [Row(what, said, target, wall_s <= most_s and mb <= most_mb and pods.placed > 0.99 * pods.arrived)]


def _played(spec: dict[str, Any], files: Mapping[str, str]) -> tuple[float, float, float, Result]:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        file = Path(folder) / "scenario.yaml"
        document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "bench"}, "spec": spec}
        file.write_text(yaml.safe_dump(document))
        with get_context("spawn").Pool(1) as pool:
            return pool.apply(_play, (str(file),))


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
