"""What does a pod event cost where thousands of pods have terms whose selectors demand no label outright?

Such a term (``NotIn``, ``Exists``, ...) speaks of nearly every pod, so it cannot be looked up by a label.
Each of 5,000 pods has labels and 50 anti-affinity terms of its own, or 50 that all of them share, or none,
to compare with; they wait to be placed, or were bound by another scheduler. Measured are their arrival, the
departure of some, and the arrival of bystanders: pods without such terms beside them, and in another
namespace. Each case is a process of its own, because memory is that of the whole process. Times are CPU time.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import time
from typing import Any

import msgspec

from benchmarks.clusters import HOSTNAME, node
from benchmarks.rows import Row, main
from fairlead.engine.core.actions import BindPod
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import Event, Gone, Seen
from fairlead.kube.decode import convert
from fairlead.kube.pod import Pod

NODES = 50
PODS = 5_000
TERMS = 50
GONE = 250
BYSTANDERS = 200
NOW, CREATED = 1_800_000_000.0, "2027-01-15T08:00:00Z"
MEDIAN_TARGET_MS = 5.0
MEMORY_TARGET_MB = 300

# Whose terms, and whether another scheduler bound the pods. Of pods of ours that share their terms all
# but one per node would wait, each in a line of its own: that is a question of the queue.
_CASES = (("own", False), ("no", False), ("own", True), ("shared", True), ("no", True))
_ARRIVE, _LEAVE = "arrives", "leaves"
_BESIDE, _ELSEWHERE = "a bystander beside them arrives", "a bystander in another namespace arrives"


def run() -> list[Row]:
    """All rows."""
    rows = []
    for case, bound in _CASES:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.bench_selectors", case, str(int(bound))],
            stdout=subprocess.PIPE,
            check=True,
        )
        rows += _rows(case, json.loads(done.stdout), bound=bound)
    return rows


def _rows(case: str, found: dict[str, Any], *, bound: bool) -> list[Row]:
    who = "bound by another scheduler" if bound else "ours"
    rows = [
        Row(f"{PODS} pods, {who}, {case} terms: memory", f"{found['memory']} MB", *_memory(found["memory"]))
    ]
    for what, times in found["times"].items():
        ordered = sorted(times)
        median, p99 = ordered[len(ordered) // 2] * 1e3, ordered[int(len(ordered) * 0.99)] * 1e3
        kept = median <= MEDIAN_TARGET_MS
        said = f"median {median:.2f} ms, p99 {p99:.2f} ms"
        rows.append(Row(f"  {what}", said, f"median ≤ {MEDIAN_TARGET_MS:g} ms", kept))
    return rows


def _memory(megabytes: int) -> tuple[str, bool]:
    return f"≤ {MEMORY_TARGET_MB} MB", megabytes <= MEMORY_TARGET_MB


def measured(case: str, *, bound: bool) -> dict[str, Any]:
    """Seconds of this process per event, by what happened, and the megabytes it took at most."""
    core = Core()
    core.handle([Seen("Node", node(index)) for index in range(NODES)], NOW)
    times: dict[str, list[float]] = {_ARRIVE: [], _LEAVE: [], _BESIDE: [], _ELSEWHERE: []}
    steps = 0

    def tell(what: str, event: Event) -> None:
        nonlocal steps
        steps += 1
        began = time.process_time()
        actions = core.handle([event], NOW + steps / 1000)
        times[what].append(time.process_time() - began)
        for action in actions:
            if isinstance(action, BindPod) and isinstance(event, Seen) and isinstance(event.object, Pod):
                pod = event.object
                spec = msgspec.structs.replace(pod.spec, node_name=action.node)
                if action.uid == pod.metadata.uid:
                    core.handle([Seen("Pod", msgspec.structs.replace(pod, spec=spec))], NOW + steps / 1000)

    for index in range(PODS):
        tell(_ARRIVE, Seen("Pod", _pod(index, case, bound=bound)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    gc.collect()
    for index in range(0, PODS, PODS // GONE):
        tell(_LEAVE, Gone("Pod", "crowd", f"pod-{index}", f"uid-{index}"))
    for index in range(BYSTANDERS):
        tell(_BESIDE, Seen("Pod", _bystander(index, "crowd")))
        tell(_ELSEWHERE, Seen("Pod", _bystander(index, "quiet")))
    return {"memory": memory, "times": times}


def _pod(index: int, case: str, *, bound: bool) -> Pod:
    terms = []
    for number in range(TERMS if case != "no" else 0):
        value = f"{index if case == 'own' else 'all'}-{number}"
        expression = {"key": "id", "operator": "NotIn", "values": [value]}
        terms.append({"topologyKey": HOSTNAME, "labelSelector": {"matchExpressions": [expression]}})
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    spec = {"affinity": anti, "schedulerName": "another" if bound else "fairlead"}
    return _made(
        f"pod-{index}", "crowd", str(index), {**spec, "nodeName": f"node-{index % NODES:05}" if bound else ""}
    )


def _bystander(index: int, namespace: str) -> Pod:
    return _made(f"bystander-{index}", namespace, f"bystander-{index}", {"schedulerName": "fairlead"})


def _made(name: str, namespace: str, label: str, spec: dict[str, Any]) -> Pod:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": name.replace("pod", "uid"),
        "labels": {"id": label},
        "creationTimestamp": CREATED,  # one that has waited for long would have nodes reserved
    }
    container = {"name": "main", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}
    return convert({"metadata": metadata, "spec": {"containers": [container], **spec}}, Pod)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measured(sys.argv[1], bound=bool(int(sys.argv[2])))))
    else:
        main(run)
