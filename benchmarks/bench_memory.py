"""How much memory does a process with every door hold at 5,000 nodes and 20,000 pods, all under a policy?

The cluster is the embedded API server without controllers, so that nothing happens but the doors' own
listing. Memory is the resident set once the process is ready and has come to rest. With `--against DIR`, the
sources of another checkout run against the same cluster, and the ratio of the two is reported.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import yaml

from benchmarks.clusters import node, pod_json
from benchmarks.rows import Row, main
from fairlead.world.api import Api
from fairlead.world.clock import WallClock
from fairlead.world.http.server import serve
from fairlead.world.schema.resources import BUILTIN, DEPLOYMENTS, NAMESPACES, NODES, PODS
from fairlead.world.store import Store

NUMBER_OF_NODES, NUMBER_OF_PODS, WORKLOADS = 5_000, 20_000, 700
ROOT = Path(__file__).resolve().parent.parent
TARGET = "at most 2/3 of what it is compared with"
_PORT = 18_443
_REST_S, _PATIENCE_S = 20, 600
POLICY = {
    "apiVersion": "fairlead.dev/v1alpha1",
    "kind": "PlacementPolicy",
    "metadata": {"name": "zones"},
    "spec": {
        "tiers": [
            {"name": "first", "nodes": {"topology.kubernetes.io/zone": "zone-0"}, "min": "30%"},
            {"name": "rest"},
        ]
    },
}


def run() -> list[Row]:
    """The rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="another checkout to compare with")
    args, _ = parser.parse_known_args()
    return asyncio.run(_rows(args.against))


async def _rows(against: Path | None) -> list[Row]:
    api = Api(Store(1000), WallClock())
    _fill(api)
    async with await serve(api) as server:
        # The first process that lists finds the server cold and holds 10 MB more, whichever sources it runs.
        await _resident_mb(server.address, ROOT)
        mine = await _resident_mb(server.address, ROOT)
        rows = [Row(f"resident, {NUMBER_OF_NODES} nodes, {NUMBER_OF_PODS} pods", f"{mine:.0f} MB", "-", True)]
        if against is not None:
            other = await _resident_mb(server.address, against)
            rows.append(Row(f"  {against.name}", f"{other:.0f} MB", "-", True))
            rows.append(Row("  ratio", f"x {mine / other:.2f}", TARGET, mine / other <= 2 / 3))
    return rows


def _fill(api: Api) -> None:
    for namespace in range(20):
        api.create(NAMESPACES, {"metadata": {"name": f"ns-{namespace}"}})
    for index in range(NUMBER_OF_NODES):
        api.create(NODES, _plain(node(index), "v1", "Node"))
    replica_sets = next(one.resource for one in BUILTIN if one.resource.qualified == "replicasets.apps")
    for of in range(WORKLOADS):
        labels = {"app": f"app-{of}"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "m", "image": "m"}]}}
        spec = {"replicas": 30, "selector": {"matchLabels": labels}, "template": template}
        meta = {"name": f"app-{of}", "labels": labels}
        made = api.create(DEPLOYMENTS, {"metadata": meta, "spec": spec}, f"ns-{of % 20}")
        owner = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": made["metadata"]["name"],
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        meta = {"name": f"app-{of}-7d4b9c6f5", "labels": labels, "ownerReferences": [owner]}
        api.create(replica_sets, {"metadata": meta, "spec": spec}, f"ns-{of % 20}")
    for index in range(NUMBER_OF_PODS):
        made = msgspec.json.decode(pod_json(index, index % WORKLOADS, f"node-{index % NUMBER_OF_NODES:05}"))
        del made["metadata"]["resourceVersion"]
        api.create(PODS, made, made["metadata"]["namespace"])


def _plain(thing: Any, version: str, kind: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, **msgspec.json.decode(msgspec.json.encode(thing))}


async def _resident_mb(url: str, checkout: Path) -> float:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = {
            "clusters": [{"name": "a", "cluster": {"server": url}}],
            "users": [{"name": "a", "user": {}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "current-context": "a",
        }
        (folder / "kubeconfig").write_text(yaml.safe_dump(config))
        (folder / "policy.yaml").write_text(yaml.safe_dump(POLICY))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "fairlead",
            "serve",
            "--doors=webhook,extender,scheduler,rebalance",
            f"--kubeconfig={folder / 'kubeconfig'}",
            f"--policies={folder / 'policy.yaml'}",
            f"--listen=127.0.0.1:{_PORT}",
            f"--url=https://127.0.0.1:{_PORT}",
            env={**os.environ, "PYTHONPATH": str(checkout / "src")},
            cwd=folder,
            stderr=(folder / "log").open("wb"),
        )
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while not await asyncio.to_thread(_is_ready):
                    if process.returncode is not None:
                        raise SystemExit((folder / "log").read_text()[-2000:])
                    await asyncio.sleep(1)
            await asyncio.sleep(_REST_S)
            status = await asyncio.to_thread(Path(f"/proc/{process.pid}/status").read_text)
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _is_ready() -> bool:
    loose = ssl.create_default_context()
    loose.check_hostname, loose.verify_mode = False, ssl.CERT_NONE
    ask: Callable[[], Any] = lambda: urllib.request.urlopen(  # noqa: E731 (our own port)
        f"https://127.0.0.1:{_PORT}/readyz", timeout=5, context=loose
    )
    try:
        with ask() as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    main(run)
