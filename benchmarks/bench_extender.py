"""How much of kube-scheduler's throughput is left when it asks us, beside an extender that does not think?

5,000 nodes, ``nodeCacheCapable``, every node scored. The two take turns on one control plane, each with a
fresh kube-scheduler: an echo, which returns the names as the bytes they came as and has no scores, and
ours, which governs every pod. Rates are from the first bind to the last. In the first row our policy's one
tier is all nodes, so that kube-scheduler has the same work left; in the second there are two tiers.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from benchmarks.e2e_rig import NAMESPACE, create, observed, usage
from benchmarks.rows import Row, main
from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.doors.extender.configuration import Wanted, extender_entry
from fairlead.kube.resources import known
from fairlead.policy.names import API_VERSION, POLICIES
from fairlead.rig.controlplane import ControlPlane
from fairlead.rig.nodes import create_nodes, node_object
from fairlead.rig.processes import answers, free_ports, wait_until

TARGET = 0.85
_WORKLOADS = 10
_CASES: dict[str, list[dict[str, Any]]] = {
    "one tier of all nodes": [{"name": "all"}],
    "two tiers, spread over zones": [
        {"name": "spot", "nodes": {"capacity": "spot"}, "spread": ["topology.kubernetes.io/zone"]},
        {"name": "on-demand", "nodes": {"capacity": "on-demand"}, "min": "30%"},
    ],
}


def run(nodes: int = 5000, pods: int = 200, rounds: int = 5) -> list[Row]:
    """Both cases, the contenders taking turns."""
    with _control_plane(nodes) as plane:
        owners = _workloads(plane)
        rows = []
        for case, tiers in _CASES.items():
            ratios = []
            for number in range(rounds):
                echo = _rate(plane, owners, f"e{number}", pods, None)
                ours = _rate(plane, owners, f"o{number}", pods, tiers)
                ratios.append(ours / echo)
                print(
                    f"{case}, round {number + 1}: echo {echo:.1f} pods/s, ours {ours:.1f} pods/s",
                    file=sys.stderr,
                )
            ratio = statistics.median(ratios)
            name = f"extender, {nodes} nodes, {case}: throughput beside an echo"
            rows.append(Row(name, f"{ratio:.0%}", f"≥ {TARGET:.0%}", ratio >= TARGET))
        return rows


@contextmanager
def _control_plane(nodes: int) -> Iterator[ControlPlane]:
    plane = ControlPlane(apiserver_args=["--disable-admission-plugins=TaintNodesByCondition,ServiceAccount"])
    with plane:
        made = [
            node_object(
                f"node-{index:05}",
                cpu=32,
                memory="128Gi",
                labels={
                    "capacity": "spot" if index % 2 else "on-demand",
                    "topology.kubernetes.io/zone": f"zone-{index % 3}",
                },
            )
            for index in range(nodes)
        ]
        create_nodes(plane.api, made)
        yield plane


def _workloads(plane: ControlPlane) -> list[dict[str, Any]]:
    """Deployments and ReplicaSets that nobody acts on; the ReplicaSets."""
    made = []
    for number in range(_WORKLOADS):
        labels = {"app": f"web-{number}", "pod-template-hash": "r1"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "image"}]},
        }
        spec = {"replicas": 1000, "selector": {"matchLabels": labels}, "template": template}
        deployment = _posted(plane, "Deployment", {"name": f"web-{number}"}, spec)
        owner = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": f"web-{number}",
            "uid": deployment["metadata"]["uid"],
            "controller": True,
        }
        metadata = {"name": f"web-{number}-r1", "labels": labels, "ownerReferences": [owner]}
        made.append(_posted(plane, "ReplicaSet", metadata, spec))
    return made


def _posted(plane: ControlPlane, kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    body = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
    return plane.api.create(known(kind).path(NAMESPACE), body)


def _rate(
    plane: ControlPlane,
    owners: list[dict[str, Any]],
    prefix: str,
    pods: int,
    tiers: list[dict[str, Any]] | None,
) -> float:
    """Pods a second with our extender and these tiers, or with the echo."""
    (port,) = free_ports(1)
    made = [_pod(f"{prefix}-{index:05}", owners[index % len(owners)]) for index in range(pods)]
    with _extender(plane, port, tiers) as pid:
        asyncio.run(create(plane.kubeconfig, made))
        with observed(plane.kubeconfig, pods, f"{prefix}-") as observer:
            began = time.monotonic()
            entry = extender_entry(Wanted(f"http://127.0.0.1:{port}"))
            plane.start_scheduler({"percentageOfNodesToScore": 100, "extenders": [entry]}, qps=5000)
            times = sorted(observer.bound().values())
            cpu_s, memory_mb = usage(pid)
            print(
                f"  {prefix}: {pods} pods in {times[-1] - began:.1f} s, extender's CPU {cpu_s:.1f} s, "
                f"{memory_mb:.0f} MB",
                file=sys.stderr,
            )
        plane.stop_program("kube-scheduler")
    asyncio.run(_delete_all(plane.kubeconfig))
    return (pods - 1) / (times[-1] - times[0])


@contextmanager
def _extender(plane: ControlPlane, port: int, tiers: list[dict[str, Any]] | None) -> Iterator[int]:
    if tiers is None:
        command = ["-m", "benchmarks.bench_extender", "--echo", str(port)]
    else:
        file = plane.folder / "policies.yaml"
        policy = {
            "apiVersion": API_VERSION,
            "kind": POLICIES.kind,
            "metadata": {"name": "web"},
            "spec": {"tiers": tiers},
        }
        file.write_text(yaml.safe_dump(policy))
        command = ["-m", "fairlead", "extender", f"--kubeconfig={plane.kubeconfig}", f"--policies={file}"]
        command += [f"--listen=127.0.0.1:{port}", f"--system-namespace={NAMESPACE}"]
    log = plane.folder / "extender.log"
    with log.open("wb") as file_:
        process = subprocess.Popen([sys.executable, *command], stderr=file_, cwd=Path(__file__).parents[1])
    try:
        wait_until(lambda: answers(port, "/readyz"), "the extender to be ready", timeout_s=60)
        yield process.pid
        if process.poll() is not None:
            raise RuntimeError(f"the extender ended early: {log.read_text()[-2000:]}")
    finally:
        process.terminate()
        process.wait()


def _pod(name: str, owner: dict[str, Any]) -> dict[str, Any]:
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    resources = {"requests": {"cpu": "100m", "memory": "200Mi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": owner["metadata"]["labels"],
            "ownerReferences": [reference],
        },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "image", "resources": resources}],
        },
    }


async def _delete_all(config: Path) -> None:
    pod = known("Pod")
    async with Connection(kubeconfig.load(config), in_flight=64) as connection:
        client = Client(connection)
        left = iter((await client.list(pod, NAMESPACE)).items)

        async def work() -> None:
            for item in left:
                await client.delete(pod, item["metadata"]["name"], NAMESPACE)

        await asyncio.gather(*(work() for _ in range(64)))


def _echo(port: int) -> None:
    """Answer at once: the names as they came, and no scores."""
    key = b'"NodeNames":'

    async def on_filter(request: web.Request) -> web.Response:
        body = await request.read()
        names = body[body.rindex(key) + len(key) : body.rindex(b"}")]
        answer = b'{"Nodes":null,"NodeNames":%b,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}'
        return web.Response(body=answer % names, content_type="application/json")

    async def on_prioritize(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=b"[]", content_type="application/json")

    async def ready(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/filter", on_filter)
    app.router.add_post("/prioritize", on_prioritize)
    app.router.add_get("/readyz", ready)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_extender", description=__doc__)
    parser.add_argument("--echo", type=int, metavar="PORT", help="be the echo")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.echo:
        _echo(args.echo)
    else:
        main(lambda: run(args.nodes, args.pods, args.rounds))
