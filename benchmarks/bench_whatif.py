"""How long does `fairlead whatif` take on 5,000 nodes and 50,000 pods, and in what memory?

The state comes from a file, as `kubectl get -o json` prints it, so that no API server takes part. 700
Deployments have all pods, those of five of the twenty namespaces under a placement policy of two tiers, and
every other one is placed by Fairlead's scheduler; the nodes are half full, and nothing is left to do. Each
question runs in a process of its own, and both copies of the cluster, the one left alone and the changed one,
are in its time. With `--keep FILE` the state is left there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.clusters import HOSTNAME, ZONE, pod_json
from benchmarks.rows import Row, main
from fairlead.world.schema.kinds import strategy_of
from fairlead.world.schema.resources import Registry
from fairlead.world.schema.shape import shaped
from fairlead.world.schema.types import struct_of

NODES, PODS, WORKLOADS, DRAINED = 5_000, 50_000, 700, 50
TARGET_S, TARGET_MB = 120.0, 2048.0
_AT = "2026-01-01T00:00:00Z"
_SPOT = 21  # 30% of the 71 or 72 pods that a workload has
_GOVERNED = [f"ns-{number}" for number in range(5)]


def run() -> list[Row]:
    """All rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="where to leave the cluster's state")
    args, _ = parser.parse_known_args()
    drained = [word for number in range(DRAINED) for word in ("--drain", _name(number * 100))]
    questions = {
        "--lose-tier spot": ["--lose-tier", "spot"],
        f"--drain of {DRAINED} nodes": drained,
        "--lose-zone zone-0": ["--lose-zone", "zone-0"],
    }
    with tempfile.TemporaryDirectory() as folder:
        state = args.keep or Path(folder) / "state.json"
        # In a process of its own: what this one holds would count in the peaks of those that it starts.
        subprocess.run([sys.executable, "-m", "benchmarks.bench_whatif", "--write", str(state)], check=True)
        return [row for name, flags in questions.items() for row in _rows(name, flags, state)]


def _rows(name: str, flags: list[str], state: Path) -> Iterator[Row]:
    command = [sys.executable, "-m", "fairlead", "whatif", "-f", str(state), *flags, "-o", "json"]
    seconds, cpu_s, megabytes, answer = _measured(command)
    alone, changed = answer["without"], answer["with"]
    if alone["pending"] or alone["evicted"] or alone["moved"] or alone["after"]:
        raise RuntimeError(f"the cluster was not at rest: {alone}")
    came_of_it = f"{changed['evicted']} evicted, {changed['pending']} pending, {changed['moved']} moved"
    yield Row(f"{name}, {NODES} nodes, {PODS} pods", came_of_it, "-", True)
    took = f"{seconds:.1f} s, {cpu_s:.1f} s of a core"
    yield Row("  time", took, f"at most {TARGET_S:g} s", seconds <= TARGET_S)
    yield Row("  memory", f"{megabytes:.0f} MB at most", f"at most {TARGET_MB:g} MB", megabytes <= TARGET_MB)


def _measured(command: list[str]) -> tuple[float, float, float, dict[str, Any]]:
    """Seconds that a process takes, and of a core; the megabytes that it holds at most; what it prints."""
    with tempfile.TemporaryFile() as out:
        began = time.monotonic()
        redirected = [(os.POSIX_SPAWN_DUP2, out.fileno(), 1)]
        pid = os.posix_spawnp(command[0], command, os.environ, file_actions=redirected)
        _, status, usage = os.wait4(pid, 0)
        seconds = time.monotonic() - began
        out.seek(0)
        printed = out.read()
    if status:
        raise RuntimeError(f"{' '.join(command[:6])} … failed: {printed.decode()[-2000:]}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, json.loads(printed)


def objects() -> Iterator[dict[str, Any]]:
    """The cluster, as its API server would list it."""
    registry = Registry()
    for one in _objects():
        resource = registry.of_kind(one["apiVersion"], one["kind"])
        struct = struct_of(registry.served(resource)) if resource is not None else None
        if resource is None or struct is None:
            yield one
            continue
        made = {**shaped(struct, one), "apiVersion": one["apiVersion"], "kind": one["kind"]}
        strategy_of(registry.served(resource)).default(made)
        yield made


def _objects() -> Iterator[dict[str, Any]]:
    yield _object("v1", "Namespace", "fairlead-system", "")
    for number in range(20):
        yield _object("v1", "Namespace", f"ns-{number}", "")
    for number in range(NODES):
        yield _node(number)
    yield {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "split"},
        "spec": {
            "match": {"namespaces": _GOVERNED},
            "tiers": [
                {"name": "spot", "nodes": {"tier": "spot"}, "max": "30%", "volatile": True},
                {"name": "on-demand", "nodes": {"tier": "on-demand"}},
            ],
        },
    }
    webhooks = {"webhooks": [{"name": "pods.fairlead.dev"}]}
    version = "admissionregistration.k8s.io/v1"
    yield _object(version, "MutatingWebhookConfiguration", "fairlead", "", **webhooks)
    for component in ("scheduler", "rebalancer"):
        held = {"holderIdentity": "bench", "leaseDurationSeconds": 86_400, "renewTime": _AT}
        name = f"fairlead-{component}"
        yield _object("coordination.k8s.io/v1", "Lease", name, "fairlead-system", spec=held)
    pods = [_pod(number) for number in range(PODS)]
    first = {pod["metadata"]["labels"]["app"]: pod for pod in reversed(pods)}
    for app, pod in sorted(first.items()):
        yield from _workload(app, pod, sum(1 for _ in range(int(app.removeprefix("app-")), PODS, WORKLOADS)))
    yield from pods


def _tier(number: int) -> str:
    return "spot" if number % 10 < 3 else "on-demand"


_NODES_OF = {
    tier: [number for number in range(NODES) if _tier(number) == tier] for tier in ("on-demand", "spot")
}


def _home(number: int) -> str:
    """A pod's node. Each workload has as many pods on spot nodes as the policy allows."""
    nodes = _NODES_OF["spot" if number // WORKLOADS < _SPOT else "on-demand"]
    return _name(nodes[number % len(nodes)])


def _object(version: str, kind: str, name: str, namespace: str, **more: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": f"{kind}-{name}", "resourceVersion": "1", "creationTimestamp": _AT}
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": version, "kind": kind, "metadata": {**meta, **place}, **more}


def _name(number: int) -> str:
    return f"node-{number:05}"


def _node(number: int) -> dict[str, Any]:
    name = _name(number)
    labels = {HOSTNAME: name, ZONE: f"zone-{number % 3}", "tier": _tier(number)}
    amounts = {"cpu": "10", "memory": "64Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": _AT, "lastTransitionTime": _AT}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    made = _object("v1", "Node", name, "", spec={}, status=status)
    made["metadata"]["labels"] = labels
    return made


def _pod(number: int) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(pod_json(number, number % WORKLOADS, _home(number)))
    made["metadata"]["generateName"] = made["metadata"]["ownerReferences"][0]["name"] + "-"
    spec, status = made["spec"], made["status"]
    if number % WORKLOADS % 2:
        spec["schedulerName"] = "default-scheduler"
    conditions = [{**one, "lastTransitionTime": _AT} for one in status["conditions"]]
    running = {"state": {"running": {"startedAt": _AT}}}
    containers = [{**one, **running} for one in status["containerStatuses"]]
    made["status"] = {**status, "conditions": conditions, "containerStatuses": containers}
    return made


def _workload(app: str, pod: dict[str, Any], replicas: int) -> Iterator[dict[str, Any]]:
    """The Deployment and the ReplicaSet of a pod."""
    owner, namespace = pod["metadata"]["ownerReferences"][0], pod["metadata"]["namespace"]
    labels = pod["metadata"]["labels"]
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), replicas)
    plain = {key: value for key, value in labels.items() if key != "pod-template-hash"}
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    deployment = _object(
        "apps/v1",
        "Deployment",
        app,
        namespace,
        spec={
            "replicas": replicas,
            "strategy": rolling,
            "selector": {"matchLabels": plain},
            "template": {"metadata": {"labels": plain}, "spec": spec},
        },
        status={**counts, "updatedReplicas": replicas, "observedGeneration": 1},
    )
    deployment["metadata"] |= {"generation": 1, "annotations": {"deployment.kubernetes.io/revision": "1"}}
    replica_set = _object(
        "apps/v1",
        "ReplicaSet",
        owner["name"],
        namespace,
        spec={
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
        status={**counts, "fullyLabeledReplicas": replicas, "observedGeneration": 1},
    )
    held = {"apiVersion": "apps/v1", "kind": "Deployment", "name": app, "uid": f"Deployment-{app}"}
    replica_set["metadata"] |= {
        "uid": owner["uid"],
        "labels": labels,
        "generation": 1,
        "annotations": {
            "deployment.kubernetes.io/revision": "1",
            "deployment.kubernetes.io/desired-replicas": str(replicas),
            "deployment.kubernetes.io/max-replicas": str(replicas + -(-replicas // 4)),
        },
        "ownerReferences": [{**held, "controller": True, "blockOwnerDeletion": True}],
    }
    yield deployment
    yield replica_set


def _write(state: Path) -> None:
    state.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": list(objects())}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        _write(Path(sys.argv[2]))
    else:
        main(run)
