"""What does one pod event cost as the cluster grows: 1,000, 10,000, 100,000 pods?

Each event goes through the whole scheduler core. The arrival of a pod, which plans it and binds it, is
reported by itself: the cheaper events around it would hide what it costs. Those are the deletion of a
running pod and the binding confirmed by the watch. Arrivals are of all classes in turn, so none is helped
by the one before. Nodes are always 5,000, so that only the number of pods grows. Times are CPU time.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Sequence

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
ROUNDS = CLASSES  # each class arrives once
NOW = 1_800_000_000.0
P99_TARGET_MS = 1.0

ARRIVAL = "one pod arrives and is bound"
OTHER = "one other pod event (deletion, confirmed binding)"


def run() -> list[Row]:
    """All rows."""
    measured = [events(size) for size in SIZES]
    rows = []
    for what in (ARRIVAL, OTHER):
        medians = []
        for size, times in zip(SIZES, measured, strict=True):
            made, median_s = row(f"{what}, {NODES} nodes, {size} pods", times[what])
            rows.append(made)
            medians.append(median_s)
        growth, allowed = medians[-1] / medians[0], math.log(SIZES[-1]) / math.log(SIZES[0])
        rows.append(
            Row(
                f"  growth of its median from {SIZES[0]} to {SIZES[-1]} pods",
                f"x {growth:.2f}",
                f"no faster than log P: x {allowed:.2f}",
                growth <= allowed,
            )
        )
    return rows


def row(name: str, times: Sequence[float]) -> tuple[Row, float]:
    """The row of one kind of event, and its median in seconds."""
    ordered = sorted(times)
    median, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    return Row(
        name,
        f"median {median * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms",
        f"p99 ≤ {P99_TARGET_MS:g} ms",
        p99 * 1e3 <= P99_TARGET_MS,
    ), median


def events(size: int) -> dict[str, list[float]]:
    """Seconds of this process for each event, by what happened, at a number of running pods."""
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
    times: dict[str, list[float]] = {ARRIVAL: [], OTHER: []}

    def tell(what: str, event: Event, step: int) -> list[object]:
        began = time.process_time()
        actions = core.handle([event], NOW + step)
        times[what].append(time.process_time() - began)
        return list(actions)

    for step in range(ROUNDS):
        victim = read(pod_json(step, step % CLASSES, ""))
        metadata = victim.metadata
        tell(OTHER, Gone("Pod", metadata.namespace, metadata.name, metadata.uid), step)
        arriving = copies(template(step % CLASSES), 1, f"new-{step}")[0]
        actions = tell(ARRIVAL, Seen("Pod", arriving), step)
        binds = [action for action in actions if isinstance(action, BindPod)]
        assert len(binds) == 1
        spec = msgspec.structs.replace(arriving.spec, node_name=binds[0].node)
        tell(OTHER, Seen("Pod", msgspec.structs.replace(arriving, spec=spec)), step)
    gc.unfreeze()
    return times


if __name__ == "__main__":
    main(run)
