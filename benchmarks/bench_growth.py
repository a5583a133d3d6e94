"""What does one pod event cost as the cluster grows: 1,000, 10,000, 100,000 pods?

Each event goes through the whole scheduler core: a running pod is deleted, a pod arrives and is bound,
its binding is confirmed by the watch. Nodes are always 5,000, so that only the number of pods grows.
"""

from __future__ import annotations

import gc
import math
import time

import msgspec

from benchmarks.clusters import copies, node, pod_json, template
from benchmarks.rows import Row, main
from fairlead.engine.core.actions import BindPod
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import Event, Gone, Seen
from fairlead.kube.decode import decoder
from fairlead.kube.pod import Pod

NODES = 5_000
CLASSES = 700
SIZES = (1_000, 10_000, 100_000)
ROUNDS = 400
NOW = 1_800_000_000.0
P99_TARGET_MS = 1.0


def run() -> list[Row]:
    """All rows."""
    rows, medians = [], []
    for size in SIZES:
        times = sorted(events(size))
        median, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
        medians.append(median)
        rows.append(
            Row(
                f"one pod event at {NODES} nodes, {size} pods",
                f"median {median * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms",
                f"p99 ≤ {P99_TARGET_MS:.0f} ms",
                p99 * 1e3 <= P99_TARGET_MS,
            )
        )
    growth, allowed = medians[-1] / medians[0], math.log(SIZES[-1]) / math.log(SIZES[0])
    rows.append(
        Row(
            f"growth of its median from {SIZES[0]} to {SIZES[-1]} pods",
            f"x {growth:.2f}",
            f"no faster than log P: x {allowed:.2f}",
            growth <= allowed,
        )
    )
    return rows


def events(size: int) -> list[float]:
    """Seconds of this process for each event, at a number of running pods."""
    core = Core()
    read = decoder(Pod)
    loaded: list[Event] = [Seen("Node", node(index)) for index in range(NODES)]
    loaded += [
        Seen("Pod", read(pod_json(index, index % CLASSES, f"node-{index % NODES:05}")))
        for index in range(size)
    ]
    core.handle(loaded, NOW)
    gc.collect()
    gc.freeze()
    times = []

    def tell(event: Event, step: int) -> list[object]:
        began = time.process_time()
        actions = core.handle([event], NOW + step)
        times.append(time.process_time() - began)
        return list(actions)

    for step in range(ROUNDS):
        victim = read(pod_json(step, step % CLASSES, ""))
        metadata = victim.metadata
        tell(Gone("Pod", metadata.namespace, metadata.name, metadata.uid), step)
        arriving = copies(template(step % CLASSES), 1, f"new-{step}")[0]
        binds = [action for action in tell(Seen("Pod", arriving), step) if isinstance(action, BindPod)]
        assert len(binds) == 1
        spec = msgspec.structs.replace(arriving.spec, node_name=binds[0].node)
        tell(Seen("Pod", msgspec.structs.replace(arriving, spec=spec)), step)
    gc.unfreeze()
    return times


if __name__ == "__main__":
    main(run)
