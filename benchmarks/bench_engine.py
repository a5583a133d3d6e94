"""How fast does the engine alone place pods, and how much memory does a large cluster take?

5,000 nodes and 100,000 pods of 700 classes, placed class by class; then runs of pods that spread over
zones, keep apart and keep together. Time is this process's own (one core), so that what else the
machine does is not counted. Memory is that of a process which decodes 100,000 running pods and holds
them in a snapshot.
"""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
from typing import Any

from benchmarks.clusters import HOSTNAME, ZONE, copies, node, pod_json, template
from benchmarks.rows import Row, main
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.ranking.runs import place_run
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.kube.decode import decoder
from fairlead.kube.pod import Pod

NODES = 5_000
PODS = 100_000
CLASSES = 700
RUN = 5_000

PLACE_TARGET_US = 10.0
RATE_TARGET = 5_000
MEMORY_TARGET_MB = 350

_SELECTOR = {"matchLabels": {"app": "app-0"}}
_TERM = {"labelSelector": _SELECTOR}
_SHAPES: dict[str, dict[str, Any]] = {
    "zone spread": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": _SELECTOR,
            }
        ]
    },
    "anti-affinity on the hostname": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{**_TERM, "topologyKey": HOSTNAME}]
            }
        }
    },
    "affinity within a zone": {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{**_TERM, "topologyKey": ZONE}]
            }
        }
    },
}


def run() -> list[Row]:
    """All rows."""
    each_us, placed = class_by_class()
    rows = [
        Row(
            f"engine alone: {NODES} nodes, {placed} pods, {CLASSES} classes",
            f"{each_us:.1f} µs a pod",
            f"≤ {PLACE_TARGET_US:.0f} µs",
            each_us <= PLACE_TARGET_US and placed == PODS,
        )
    ]
    for name, shape in _SHAPES.items():
        rate, placed = constrained(shape)
        rows.append(
            Row(
                f"engine, {name}: {placed} pods, {NODES} nodes",
                f"{rate:,.0f} pods/s",
                f"≥ {RATE_TARGET:,} pods/s",
                rate >= RATE_TARGET and placed == RUN,
            )
        )
    megabytes = memory()
    rows.append(
        Row(
            f"memory at {NODES} nodes, {PODS} running pods",
            f"{megabytes} MB",
            f"≤ {MEMORY_TARGET_MB} MB",
            megabytes <= MEMORY_TARGET_MB,
        )
    )
    return rows


def class_by_class() -> tuple[float, int]:
    """(µs a pod, pods placed), the pods of each class one after the other."""
    snapshot = _nodes()
    ranking = Ranking(snapshot)
    runs = []
    for index in range(CLASSES):
        number = PODS * (index + 1) // CLASSES - PODS * index // CLASSES
        runs.append(copies(template(index), number, f"c{index}"))
    gc.collect()
    gc.disable()
    placed = 0
    began = time.process_time()
    for pods in runs:
        placed += sum(slot >= 0 for slot in place_run(ranking, snapshot.class_of(pods[0]), pods))
    seconds = time.process_time() - began
    gc.enable()
    return seconds / placed * 1e6, placed


def constrained(shape: dict[str, Any]) -> tuple[float, int]:
    """(pods/s, pods placed) for one run of pods of a shape."""
    snapshot = _nodes()
    ranking = Ranking(snapshot)
    pods = copies(template(0, **shape), RUN, "p")
    began = time.process_time()
    slots = place_run(ranking, snapshot.class_of(pods[0]), pods)
    seconds = time.process_time() - began
    return len(pods) / seconds, sum(slot >= 0 for slot in slots)


def memory() -> int:
    """Megabytes of a process that holds the cluster, measured in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_engine", "--memory"],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def hold() -> int:
    """Load the cluster here; the largest resident size of this process, in megabytes."""
    snapshot = _nodes()
    read = decoder(Pod)
    for index in range(PODS):
        snapshot.put_pod(read(pod_json(index, index % CLASSES, f"node-{index % NODES:05}")))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _nodes() -> Snapshot:
    snapshot = Snapshot()
    for index in range(NODES):
        snapshot.put_node(node(index))
    return snapshot


if __name__ == "__main__":
    if "--memory" in sys.argv:
        print(hold())
    else:
        main(run)
