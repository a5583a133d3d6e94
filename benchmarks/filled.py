"""A real API server with 5,000 nodes and 50,000 pods of 700 templates on them, for those who read it all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.clusters import node, pod_json
from fairlead.client.api import Client
from fairlead.client.config import load
from fairlead.client.connection import Connection
from fairlead.kube.resources import known
from fairlead.rig.controlplane import ControlPlane
from fairlead.rig.nodes import create_nodes

NODES, PODS, PENDING, CLASSES = 5_000, 50_000, 500, 700
SYSTEM = "fairlead-system"
_AT_ONCE = 64


@contextmanager
def filled() -> Iterator[Path]:
    """The kubeconfig of the server, which goes with the block."""
    with ControlPlane(apiserver_args=["--disable-admission-plugins=ServiceAccount,Priority"]) as plane:
        create_nodes(plane.api, [_plain(node(index)) for index in range(NODES)])
        asyncio.run(_fill(plane.kubeconfig))
        yield plane.kubeconfig


async def _fill(config: Path) -> None:
    async with Connection(load(config)) as connection:
        client = Client(connection)
        for name in [SYSTEM, *(f"ns-{number}" for number in range(20))]:
            await client.create(known("Namespace"), {"metadata": {"name": name}})
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": "bench",
            "leaseDurationSeconds": 86_400,
            "acquireTime": now,
            "renewTime": now,
        }
        lease = {"metadata": {"name": "fairlead-scheduler", "namespace": SYSTEM}, "spec": spec}
        await client.create(known("Lease"), lease)
        numbers = iter(range(PODS + PENDING))

        async def create() -> None:
            for number in numbers:
                await client.create(known("Pod"), pod(number))

        await asyncio.gather(*(create() for _ in range(_AT_ONCE)))


def pod(number: int) -> dict[str, Any]:
    """One of the pods, as it is created; from PODS on they have no node."""
    made: dict[str, Any] = json.loads(
        pod_json(number, number % CLASSES, f"node-{number % NODES:05}" if number < PODS else "")
    )
    for field in ("resourceVersion", "uid", "creationTimestamp"):
        made["metadata"].pop(field, None)
    made.pop("status", None)
    return made


def _plain(thing: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(msgspec.json.encode(thing))
    made["metadata"] = {key: value for key, value in made["metadata"].items() if value}
    made["status"] = {"allocatable": made["status"]["allocatable"], "capacity": made["status"]["allocatable"]}
    return {"apiVersion": "v1", "kind": "Node", **made}
