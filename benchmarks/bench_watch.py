"""How much CPU does a watch event cost our client, beside kubernetes_asyncio?

A process of its own serves the same stream of pods (3 to 7 KB each, as a cluster's are) to both, and
each client's own CPU time is divided by the events it handed over. Both end with typed pods; ours also
has kept its copy of the collection up to date. Target: at least 15 times less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import multiprocessing.connection
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from benchmarks.rows import Row, main
from fairlead.client.api import Client
from fairlead.client.config import Server, Target
from fairlead.client.connection import Connection
from fairlead.client.reflector import Reflector
from fairlead.client.view import Event, Synced
from fairlead.kube.pod import Pod
from fairlead.kube.resources import known

PODS = 1000
TARGET = 15.0


def run(events: int = 20_000) -> list[Row]:
    """Measure both, ours twice as it is short and first runs warm up."""
    with served(events) as url:
        asyncio.run(ours(url, events))
        mine = asyncio.run(ours(url, events))
        # The other one takes long enough to be measured on a part.
        other_events = max(200, events // 10)
        other = asyncio.run(theirs(url, other_events))
    ratio = other / mine
    return [
        Row("watch: kubernetes_asyncio, CPU per event", f"{other:.0f} µs", "", True),
        Row("watch: fairlead, CPU per event", f"{mine:.1f} µs", "", True),
        Row("watch: times less CPU per event", f"{ratio:.1f}x", f"≥ {TARGET:.0f}x", ratio >= TARGET),
    ]


async def ours(url: str, events: int) -> float:
    """CPU microseconds per event of a reflector."""
    left = events
    enough = asyncio.Event()
    began = 0.0

    def deliver(event: Event[Pod, Pod]) -> None:
        nonlocal left, began
        if isinstance(event, Synced):
            began = time.process_time()
            return
        left -= 1
        if left == 0:
            enough.set()

    async with Connection(Target(Server(url))) as connection, asyncio.TaskGroup() as group:
        task = group.create_task(Reflector(Client(connection), known("Pod"), Pod).run(deliver))
        await enough.wait()
        used = time.process_time() - began
        task.cancel()
    return used / events * 1e6


async def theirs(url: str, events: int) -> float:
    """CPU microseconds per event of kubernetes_asyncio's watch."""
    from kubernetes_asyncio import client, watch

    configuration = client.Configuration(host=url)
    async with client.ApiClient(configuration) as api:
        left = events
        began = time.process_time()
        async with watch.Watch() as stream:
            async for event in stream.stream(client.CoreV1Api(api).list_pod_for_all_namespaces):
                left -= event["object"].metadata.name is not None
                if left == 0:
                    break
        return (time.process_time() - began) / events * 1e6


@contextmanager
def served(events: int) -> Iterator[str]:
    """The stream, at a URL, from another process."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(there, events), daemon=True)
    server.start()
    try:
        yield here.recv()
    finally:
        server.terminate()
        server.join()


def _serve(pipe: multiprocessing.connection.Connection, events: int) -> None:
    asyncio.run(_server(pipe, events))


async def _server(pipe: multiprocessing.connection.Connection, events: int) -> None:
    rng = random.Random(1)
    shapes = [pod(rng, number) for number in range(PODS)]
    frames = []
    for version in range(events):
        shape = shapes[version % PODS]
        shape["metadata"]["resourceVersion"] = str(version + 10)
        frames.append(
            json.dumps({"type": "MODIFIED", "object": shape}, separators=(",", ":")).encode() + b"\n"
        )

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if request.query.get("sendInitialEvents") == "true":
            await response.write(BOOKMARK)
        try:
            for frame in frames:
                await response.write(frame)
            await asyncio.Event().wait()  # a watch does not end by itself
        except ConnectionError:
            pass  # the client has seen enough
        return response

    app = web.Application()
    app.router.add_get("/api/v1/pods", stream)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    pipe.send(f"http://{host}:{port}")
    await asyncio.Event().wait()


BOOKMARK = (
    b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"5",'
    b'"annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
)


def pod(rng: random.Random, number: int) -> dict[str, Any]:
    """A running pod as an API server tells it: most of it is of no interest to a scheduler."""
    name = f"web-{number:05d}"
    containers = [_container(rng, index) for index in range(rng.randint(1, 3))]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "generateName": "web-",
            "namespace": f"team-{number % 20}",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": f"{rng.getrandbits(32):x}", "tier": "front"},
            "annotations": {"checksum/config": f"{rng.getrandbits(256):064x}"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web",
                    "uid": "u",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": manager,
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-01-01T00:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {
                        "f:metadata": {"f:labels": {f"f:{key}": {} for key in ("app", "tier", "hash")}}
                    },
                }
                for manager in ("kube-controller-manager", "kubelet")
            ],
        },
        "spec": {
            "volumes": [
                {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
            ],
            "containers": containers,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "nodeName": f"node-{number % 100}",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
            ],
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                for kind in (
                    "PodReadyToStartContainers",
                    "Initialized",
                    "Ready",
                    "ContainersReady",
                    "PodScheduled",
                )
            ],
            "hostIP": "10.0.0.1",
            "podIP": "10.1.0.1",
            "podIPs": [{"ip": "10.1.0.1"}],
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [
                {
                    "name": container["name"],
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": 0,
                    "image": container["image"],
                    "imageID": f"registry.example/web@sha256:{rng.getrandbits(256):064x}",
                    "containerID": f"containerd://{rng.getrandbits(256):064x}",
                    "started": True,
                }
                for container in containers
            ],
            "qosClass": "Burstable",
        },
    }


def _container(rng: random.Random, index: int) -> dict[str, Any]:
    return {
        "name": f"c{index}",
        "image": f"registry.example/web:{rng.randint(1, 99)}",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [
            {"name": f"SETTING_{key}", "value": f"{rng.getrandbits(128):x}"}
            for key in range(rng.randint(4, 12))
        ],
        "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": "250m", "memory": "256Mi"}},
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/tokens", "readOnly": True}],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
            "periodSeconds": 10,
        },
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 5},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000, help="how many events to serve to our client")
    asked = parser.parse_args().events
    main(lambda: run(asked))
