"""How long does an admission take that gives out slots, compared with one that does nothing?

Two replicas and 200 pods of four workloads created at once, on a real API server; half the pods of each
workload go to either replica, so that both write the same ledgers. The same with two webhooks that answer
at once without thinking, round by round in turn, in the same run. An admission is timed in three ways:

- as who creates the pods sees it, with all that the API server does besides;
- as the API server sees it: how long its calls of the webhook took, by its log (the buckets of its histogram
  are too far apart to tell a p99);
- as reviews sent straight to the replicas, all at once, over warm connections. Nobody makes pods then, and
  whoever does nothing has nothing to wait for: of the three this is the hardest to keep.

A p99 is that of a round's 200; the rounds' median is compared, because the machine is shared, and a round in
ten meets a collection of the API server's garbage. All rounds taken as one are told beside it.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import aiohttp
import click

from benchmarks.rows import Row, main
from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.authority import Authority, KeyPair
from fairlead.client.connection import Connection
from fairlead.client.tls import client_context
from fairlead.doors.certificates import Shown
from fairlead.doors.health import serving
from fairlead.doors.process import event_loop
from fairlead.doors.webhook.keyring import SECRET
from fairlead.doors.webhook.metrics import Metrics
from fairlead.doors.webhook.server import Answer, Endpoint
from fairlead.kube.resources import known
from fairlead.rig.controlplane import ControlPlane

CONCURRENT = 200
WORKLOADS = 4
ROUNDS = 25
TARGET = 3.0
SYSTEM = "kube-system"  # exempt, so that nothing of ours is in the way
POLICY = """
apiVersion: fairlead.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: web}
spec:
  tiers:
  - {name: spot, nodes: {capacity: spot}}
  - {name: on-demand, nodes: {capacity: on-demand}, min: 30%}
"""

# Makes the API server log its calls of webhooks, and what it logs then.
_LOG_CALLS = "--vmodule=round_trippers=6"
_CALL = re.compile(rb'/admit\?\S*" status="200 OK" milliseconds=(\d+)')
_PODS, _SETS = known("Pod"), known("ReplicaSet")
_HOOKS = known("MutatingWebhookConfiguration")


@dataclass(slots=True)
class Contender:
    """Two replicas of one kind, and how long what they were asked took."""

    name: str
    ports: list[int]
    authority: bytes
    creations_s: list[list[float]] = field(default_factory=list)
    calls_s: list[list[float]] = field(default_factory=list)
    reviews_s: list[list[float]] = field(default_factory=list)
    off: int = 0


def run() -> list[Row]:
    """All rounds, and the rows."""
    plane = ControlPlane(apiserver_args=["--disable-admission-plugins=ServiceAccount", _LOG_CALLS])
    with plane, ExitStack() as stack:
        idle = stack.enter_context(_idle(plane))
        ours = stack.enter_context(_ours(plane))
        gc.disable()  # else ours is counted with whoever is being timed
        with event_loop() as runner:
            runner.run(_rounds(plane, (idle, ours)))
    return [
        _row("creation, 200 at once, p99", idle.creations_s, ours.creations_s),
        _row("call by the API server, 200 at once, p99", idle.calls_s, ours.calls_s),
        _row("review sent straight, 200 at once, p99", idle.reviews_s, ours.reviews_s),
        Row(f"slots off by, {2 * ROUNDS} rounds", str(ours.off), "0", ours.off == 0),
    ]


def _row(name: str, idle_s: Sequence[Sequence[float]], ours_s: Sequence[Sequence[float]]) -> Row:
    few, many = (statistics.median(map(_p99, rounds)) for rounds in (idle_s, ours_s))
    idle_all, ours_all = (_p99([*itertools.chain(*rounds)]) for rounds in (idle_s, ours_s))
    said = (
        f"{many * 1000:.0f} ms, {many / few:.2f}x of {few * 1000:.0f} ms"
        f" (as one: {ours_all * 1000:.0f} ms, {ours_all / idle_all:.2f}x)"
    )
    return Row(name, said, f"≤ {TARGET:g}x of a webhook that does nothing", many <= TARGET * few)


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[int(0.99 * (len(values) - 1))]


async def _rounds(plane: ControlPlane, contenders: Sequence[Contender]) -> None:
    config = kubeconfig.load(plane.kubeconfig)
    with plane.programs["kube-apiserver"].log.open("rb") as log:
        async with Connection(config, in_flight=2 * CONCURRENT) as connection:
            client = Client(connection)
            for number in range(-1, ROUNDS):  # the first warms connections and caches, and does not count
                for contender in contenders:
                    await _round(client, log, contender, number)


async def _round(client: Client, log: BinaryIO, contender: Contender, number: int) -> None:
    counts = number >= 0
    async with _registered(client, contender):
        log.seek(0, os.SEEK_END)
        made = await _create(client, f"{contender.name}-{number}", contender, counts=counts)
        calls_s = [int(took_ms) / 1000 for took_ms in _CALL.findall(log.read())]
    if counts:
        assert len(calls_s) == CONCURRENT, f"the API server logged {len(calls_s)} calls of {CONCURRENT}"
        contender.calls_s.append(calls_s)
    await _review(client, f"{contender.name}-direct-{number}", contender, counts=counts)
    for name in made:
        await client.delete(_PODS, name, "default", grace_s=0)


async def _create(client: Client, prefix: str, contender: Contender, *, counts: bool) -> list[str]:
    pods = await _pods(client, prefix)
    took_s: list[float] = []
    slots: list[tuple[str, int]] = []

    async def create(pod: dict[str, Any]) -> None:
        began = time.perf_counter()
        made = await client.create(_PODS, pod)
        took_s.append(time.perf_counter() - began)
        _note(slots, pod, made["metadata"].get("annotations") or {})

    await asyncio.gather(*(create(pod) for pod in pods))
    _account(contender, contender.creations_s, took_s, slots, counts=counts)
    return [pod["metadata"]["name"] for pod in pods]


async def _review(client: Client, prefix: str, contender: Contender, *, counts: bool) -> None:
    pods = await _pods(client, prefix)
    took_s: list[float] = []
    answers: list[tuple[dict[str, Any], bytes]] = []
    slots: list[tuple[str, int]] = []
    trusting = client_context(ca_pem=contender.authority.decode())
    connector = aiohttp.TCPConnector(ssl=trusting, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def warm(port: int) -> None:
            async with session.get(f"https://127.0.0.1:{port}/livez") as response:
                await response.read()

        async def ask(pod: dict[str, Any], body: bytes) -> None:
            port = contender.ports[_half(pod)]
            began = time.perf_counter()
            async with session.post(f"https://127.0.0.1:{port}/admit", data=body) as response:
                answers.append((pod, await response.read()))
            took_s.append(time.perf_counter() - began)

        bodies = [json.dumps(_as_review(pod, f"{prefix}-{index}")).encode() for index, pod in enumerate(pods)]
        await asyncio.gather(*(warm(contender.ports[_half(pod)]) for pod in pods))
        await asyncio.gather(*(ask(pod, body) for pod, body in zip(pods, bodies, strict=True)))
    for pod, answer in answers:
        _note(slots, pod, _annotations(json.loads(answer)["response"]))
    _account(contender, contender.reviews_s, took_s, slots, counts=counts)


def _account(
    contender: Contender,
    into: list[list[float]],
    took_s: list[float],
    slots: list[tuple[str, int]],
    *,
    counts: bool,
) -> None:
    if not counts:
        return
    into.append(took_s)
    if contender.name == "ours":
        each = CONCURRENT // WORKLOADS
        by_owner = Counter(owner for owner, slot in set(slots) if slot <= each)
        contender.off += CONCURRENT - sum(by_owner.values())


def _note(slots: list[tuple[str, int]], pod: dict[str, Any], annotations: dict[str, str]) -> None:
    if "fairlead.dev/slot" in annotations:
        owner = pod["metadata"]["ownerReferences"][0]["name"]
        slots.append((owner, int(annotations["fairlead.dev/slot"])))


def _annotations(answer: dict[str, Any]) -> dict[str, str]:
    steps = json.loads(base64.b64decode(answer.get("patch", ""))) if answer.get("patch") else []
    found: Any = next((step["value"] for step in steps if step["path"] == "/metadata/annotations"), {})
    assert isinstance(found, dict)
    return found


async def _pods(client: Client, prefix: str) -> list[dict[str, Any]]:
    """200 pods of four ReplicaSets that are new to everybody, in turn."""
    owners = []
    for index in range(WORKLOADS):
        name = f"{prefix}-{index}"
        template = {"metadata": {"labels": {"app": name}}, "spec": _spec()}
        spec = {
            "replicas": CONCURRENT // WORKLOADS,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        }
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        owners.append(await client.create(_SETS, body))
    turn = itertools.cycle(owners)
    return [
        _pod(f"{prefix}-{index}", next(turn), "ab"[index // WORKLOADS % 2]) for index in range(CONCURRENT)
    ]


def _pod(name: str, owner: dict[str, Any], half: str) -> dict[str, Any]:
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    labels = {"app": owner["metadata"]["name"], "half": half}
    metadata = {"name": name, "namespace": "default", "labels": labels, "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec()}


def _spec() -> dict[str, Any]:
    containers = [{"name": "main", "image": "image", "resources": {"requests": {"cpu": "100m"}}}]
    return {"schedulerName": "nobody", "terminationGracePeriodSeconds": 0, "containers": containers}


def _half(pod: dict[str, Any]) -> int:
    return 0 if pod["metadata"]["labels"]["half"] == "a" else 1


def _as_review(pod: dict[str, Any], uid: str) -> dict[str, Any]:
    request = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "default",
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


class _registered:  # noqa: N801 (reads as a function where it is used)
    """Have the API server call a contender inside the block."""

    def __init__(self, client: Client, contender: Contender) -> None:
        self._client = client
        self._contender = contender

    async def __aenter__(self) -> None:
        bundle = base64.b64encode(self._contender.authority).decode()
        hooks = [
            {
                "name": f"{half}.bench.fairlead.dev",
                "clientConfig": {"url": f"https://127.0.0.1:{port}/admit", "caBundle": bundle},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
                "objectSelector": {"matchLabels": {"half": half}},
                "failurePolicy": "Fail",
                "sideEffects": "NoneOnDryRun",
                "admissionReviewVersions": ["v1"],
            }
            for half, port in zip("ab", self._contender.ports, strict=True)
        ]
        await self._client.create(_HOOKS, {"metadata": {"name": "bench"}, "webhooks": hooks})
        # The API server learns of it by a watch.
        await asyncio.sleep(1.0)

    async def __aexit__(self, *_: object) -> None:
        await self._client.delete(_HOOKS, "bench")
        await asyncio.sleep(0.5)


@contextmanager
def _ours(plane: ControlPlane) -> Iterator[Contender]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        policies = Path(folder) / "policies.yaml"
        policies.write_text(POLICY)
        ports = []
        for number in range(2):
            command = [
                *("-m", "fairlead", "webhook", f"--kubeconfig={plane.kubeconfig}", f"--policies={policies}"),
                *("--listen=127.0.0.1:0", "--url=https://127.0.0.1:1", f"--system-namespace={SYSTEM}"),
                *("--log-level=info", "--log-format=json"),
            ]
            ports.append(stack.enter_context(_process(command, Path(folder) / f"{number}.log", "synced")))
        found = plane.api.get(f"/api/v1/namespaces/{SYSTEM}/secrets/{SECRET}")
        yield Contender("ours", ports, base64.b64decode(found["data"]["ca.crt"]))


@contextmanager
def _idle(plane: ControlPlane) -> Iterator[Contender]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        authority = Authority()
        pair = authority.server(["localhost"], ["127.0.0.1"])
        file = Path(folder) / "pair.pem"
        file.write_bytes(pair.public + pair.private)
        ports = [
            stack.enter_context(
                _process(
                    ["-m", "benchmarks.bench_webhook", "--idle", str(file)],
                    Path(folder) / f"{number}.log",
                    "listening",
                )
            )
            for number in range(2)
        ]
        yield Contender("idle", ports, authority.pair.public)


@contextmanager
def _process(command: list[str], log: Path, event: str) -> Iterator[int]:
    """A replica, once it has said `event`; its port."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *command], stderr=file, stdout=file, cwd=Path(__file__).parents[1]
        )
    try:
        deadline = time.monotonic() + 60
        while f'"{event}"' not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"a replica did not start: {log.read_text()[-2000:]}")
            time.sleep(0.05)
        found = re.search(r'"url": ?"https://127\.0\.0\.1:(\d+)"', log.read_text())
        assert found is not None
        yield int(found[1])
    finally:
        process.terminate()
        process.wait()


async def _do_nothing(pod: dict[str, Any], namespace: str, *, dry_run: bool) -> Answer:
    return Answer()


async def _serve_idle(pair: bytes) -> None:
    shown, metrics = Shown(), Metrics()
    shown.show(KeyPair(pair, b""))
    endpoint = Endpoint(_do_nothing, metrics)
    endpoint.open()
    async with serving(
        "127.0.0.1:0", checks=dict, metrics=metrics.text, routes=endpoint.routes, tls=shown
    ) as url:
        print(json.dumps({"event": "listening", "url": url}), flush=True)
        await asyncio.Event().wait()


@click.command()
@click.option(
    "--idle", "idle_file", type=click.Path(path_type=Path), help="Be the webhook that does nothing."
)
def command(idle_file: Path | None) -> None:
    """Compare admissions that give out slots with admissions that do nothing."""
    if idle_file is None:
        main(run)
        return
    with event_loop() as runner:
        runner.run(_serve_idle(idle_file.read_bytes()))


if __name__ == "__main__":
    command()
