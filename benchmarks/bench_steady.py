"""What does a scheduler cost a cluster in which nothing changes but heartbeats?

A real control plane with its controller manager and KWOK nodes that renew their leases and report their
status; pods run, and some wait that fit nowhere. The scheduler has exactly the shipped rights. What it
writes is read from the API server's audit log, what it uses from the kernel.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import yaml
from tools.shipped_rights import ACCOUNT, NAMESPACE, shipped_kubeconfig

from benchmarks.e2e_rig import create, observed, usage
from benchmarks.e2e_workloads import pod
from benchmarks.rows import Row, main
from fairlead.rig.controlplane import ControlPlane

_OURS = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
_WRITES = ("create", "update", "patch", "delete", "deletecollection")
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "verbs": list(_WRITES)}],
}
_SETTLE_S = 20.0  # until what the start brought with it is over


def run(nodes: int = 1000, seconds: float = 60.0) -> list[Row]:
    """Start everything, wait until it is quiet, then look for so many seconds."""
    with tempfile.TemporaryDirectory() as folder:
        policy, log = Path(folder) / "policy.yaml", Path(folder) / "audit.log"
        policy.write_text(yaml.safe_dump(_AUDIT))
        plane = ControlPlane(apiserver_args=[f"--audit-policy-file={policy}", f"--audit-log-path={log}"])
        with plane:
            plane.start_controller_manager()
            plane.start_kwok()
            plane.add_nodes(nodes, cpu=8, timeout_s=300.0)
            kubeconfig = shipped_kubeconfig(plane)
            command = ["-m", "fairlead", "scheduler", f"--kubeconfig={kubeconfig}"]
            with (Path(folder) / "fairlead.log").open("wb") as said:
                scheduler = subprocess.Popen([sys.executable, *command], stderr=said)
            try:
                with observed(plane.kubeconfig, nodes) as observer:
                    asyncio.run(
                        create(plane.kubeconfig, [pod(f"pod-{n:05}", "fairlead") for n in range(nodes)])
                    )
                    asyncio.run(
                        create(plane.kubeconfig, [pod(f"big-{n}", "fairlead", cpu="64") for n in range(10)])
                    )
                    observer.bound()
                time.sleep(_SETTLE_S)
                before_s, began = usage(scheduler.pid)[0], time.time()
                time.sleep(seconds)
                used, memory_mb = usage(scheduler.pid)
                ended = time.time()
                if scheduler.poll() is not None:
                    raise RuntimeError("the scheduler ended while it was looked at")
            finally:
                scheduler.terminate()
                scheduler.wait()
            return _rows(list(_entries(log)), began, ended, (used - before_s) / seconds, memory_mb, nodes)


def _rows(
    entries: list[tuple[float, str, str]],
    began: float,
    ended: float,
    share: float,
    memory_mb: float,
    nodes: int,
) -> list[Row]:
    within = [(user, resource) for at, user, resource in entries if began <= at <= ended]
    ours = [resource for user, resource in within if user == _OURS]
    heartbeats = sum(user != _OURS and resource in ("leases", "nodes") for user, resource in within)
    renewals = ours.count("leases")
    others = len(ours) - renewals
    size = f"{nodes} nodes, {ended - began:.0f} s"
    return [
        Row(f"steady cluster, {size}: heartbeats", str(heartbeats), f"≥ {nodes}", heartbeats >= nodes),
        Row("  lease renewals of ours", str(renewals), "≥ 1", renewals >= 1),
        Row("  other writes of ours", str(others), "0", others == 0),
        Row("  CPU", f"{share:.1%} of a core", "≤ 5%", share <= 0.05),
        Row("  memory", f"{memory_mb:.0f} MB", "", True),
    ]


def _entries(log: Path) -> Iterator[tuple[float, str, str]]:
    """(when, who, what kind of object) of each write."""
    with log.open() as lines:
        for line in lines:
            entry = json.loads(line)
            at = datetime.fromisoformat(entry["stageTimestamp"]).timestamp()
            yield at, entry["user"]["username"], entry.get("objectRef", {}).get("resource", "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    main(lambda: run(asked.nodes, asked.seconds))
