"""How long does a turn of the core keep others of its process waiting: the lease, probes, admission?

A turn is cut by the work that it did, never by the clock, so what is measured is the longest stretch between
two cuts, beside the whole turn. Times are CPU time; the collector of garbage is off, as it is in loading.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence

import msgspec

from benchmarks.clusters import ZONE, copies, node, pod_json, template
from benchmarks.rows import Row, main
from fairlead.doors.scheduler.session import WORK_AT_ONCE
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import Event, Seen
from fairlead.kube.decode import decoder
from fairlead.kube.pod import Pod

NODES = 5_000
PODS = 10_000
CLASSES = 700
NOW = 1_800_000_000.0
TARGET_MS = 50.0
SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "app-0"}},
}


def run() -> list[Row]:
    """All rows."""
    rows = [loading()]
    huge = {"resources": {"requests": {"cpu": "1000"}}, "name": "main", "image": "image"}
    for what, arriving in (
        ("of one template", copies(template(0), PODS, "one")),
        (f"of {CLASSES} templates in turn", _in_turn(CLASSES)),
        ("of one template that fits nowhere", copies(template(0, containers=[huge]), PODS, "none")),
        (f"of {CLASSES} templates that fit nowhere", _in_turn(CLASSES, nodeSelector={"no": "such"})),
        ("in gangs of 20", _gangs(template(0), 20)),
    ):
        core = Core()
        core.handle([Seen("Node", node(index)) for index in range(NODES)], NOW)
        rows.append(_row(f"{len(arriving)} pods {what}", core, [Seen("Pod", pod) for pod in arriving]))
    for what, arriving in (
        ("", _in_turn(10, priority=1000)[:1000]),
        (" that spread over zones", _in_turn(10, priority=1000, topologySpreadConstraints=[SPREAD])[:20]),
        (" in gangs of 20", _gangs(template(0, priority=1000), 20)[:200]),
    ):
        core = Core()
        filled = [Seen("Pod", pod) for pod in _filling()]
        core.handle([*(Seen("Node", node(index)) for index in range(NODES)), *filled], NOW)
        name = f"{len(arriving)} pods of higher priority{what}, nodes full"
        rows.append(_row(name, core, [Seen("Pod", pod) for pod in arriving]))
    return rows


def loading() -> Row:
    """The first turn: everything that there is."""
    read = decoder(Pod)
    loaded: list[Event] = [Seen("Node", node(index)) for index in range(NODES)]
    loaded += [
        Seen("Pod", read(pod_json(index, index % CLASSES, f"node-{index % NODES:05}")))
        for index in range(5 * PODS)
    ]
    return _row(f"everything listed, {5 * PODS} pods run", Core(), loaded)


def _row(what: str, core: Core, events: Sequence[Event]) -> Row:
    gc.collect()
    gc.disable()
    longest, work, total = 0.0, 0, 0.0
    began = time.process_time()
    turn = core.turn(events, NOW + 1)
    for done in turn:
        work += done
        if work >= WORK_AT_ONCE:
            took = time.process_time() - began
            longest, total, work = max(longest, took), total + took, 0
            began = time.process_time()
    took = time.process_time() - began
    longest, total = max(longest, took), total + took
    gc.enable()
    return Row(
        f"{what}, {NODES} nodes",
        f"{longest * 1e3:.0f} ms of {total * 1e3:.0f} ms",
        f"≤ {TARGET_MS:g} ms at a time",
        longest * 1e3 <= TARGET_MS,
    )


def _in_turn(templates: int, **spec: object) -> list[Pod]:
    each = PODS // templates
    runs = [copies(template(index, **spec), each, f"t{index}") for index in range(templates)]
    return [pod for pods in zip(*runs, strict=True) for pod in pods]


def _gangs(first: Pod, size: int) -> list[Pod]:
    found = []
    for index, pod in enumerate(copies(first, PODS, "gang")):
        annotations = {"pod-group": f"g{index // size}", "pod-group-min-member": str(size)}
        metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
        found.append(msgspec.structs.replace(pod, metadata=metadata))
    return found


def _filling() -> list[Pod]:
    """Pods that leave room on no node."""
    whole = {"resources": {"requests": {"cpu": "16"}}, "name": "main", "image": "image"}
    pods = copies(template(0, containers=[whole]), 2 * NODES, "fill")
    found = []
    for index, pod in enumerate(pods):
        spec = msgspec.structs.replace(pod.spec, node_name=f"node-{index // 2:05}")
        found.append(msgspec.structs.replace(pod, spec=spec))
    return found


if __name__ == "__main__":
    main(run)
