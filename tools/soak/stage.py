"""The cluster of a soak and Fairlead's components on it, each as a process behind a fault proxy of its own.

Each component is a user of its own, so that the audit log tells their writes apart. Everything ends with
this process.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import signal
import ssl
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from fairlead.client import config as kubeconfig
from fairlead.errors import RigError
from fairlead.rig.components import SYSTEM_NAMESPACE
from fairlead.rig.controlplane import ControlPlane
from fairlead.rig.nodes import node_object
from fairlead.rig.processes import Guard, Program, free_ports
from tools.soak import actions
from tools.soak.fault_plan import Balancer, DoorPlan, FaultProxy
from tools.soak.observer import audit
from tools.soak.observer.api import Api

Manifest = dict[str, Any]

REPOSITORY = Path(__file__).resolve().parents[2]
LEADERS = dict.fromkeys((f"soak-{door}" for door in actions.SCHEDULERS), "fairlead-scheduler")
PACE = {"minPodAge": "3s", "perMinute": 60, "stabilize": "3s"}
FALLBACK = {"after": "8s", "coolDown": "5s"}

_CONFIGURATION = {
    "apiVersion": "fairlead.dev/v1alpha1",
    "kind": "FairleadConfiguration",
    "gangs": {"settle": "2s", "commitTimeout": "20s"},
    "drift": {"interval": "30s"},
}


@dataclass(slots=True)
class Door:
    """One component: how it is started, its faults, and its process."""

    name: str
    arguments: list[str]
    plan: DoorPlan
    proxy: FaultProxy
    program: Program | None = None
    is_away: bool = False
    """Killed on purpose, and not started again yet."""

    @property
    def user(self) -> str:
        """Under which it writes."""
        return f"soak-{self.name}"


class Stage:
    """Everything that runs. `now` is the run's clock, `folder` has logs and keys and outlives the stage."""

    def __init__(self, folder: Path, seed: int, now: Callable[[], float]) -> None:
        self.folder = folder
        self.doors: dict[str, Door] = {}
        self.tiers: dict[str, list[Manifest]] = {name: tiers(name, "30%") for name in ("split", "kube")}
        self._seed = seed
        self._now = now
        self._stack = AsyncExitStack()
        self._restarting = asyncio.Lock()

    @property
    def audit_log(self) -> Path:
        """The API server's."""
        return self.folder / "audit.log"

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        users = [f"soak-{name}" for name in actions.DOORS]
        policy = self.folder / "audit.yaml"
        policy.write_text(yaml.safe_dump(audit.policy(users)))
        arguments = [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"]
        self.plane = await self._stack.enter_async_context(
            ControlPlane(folder=self.folder, apiserver_args=arguments)
        )
        await asyncio.to_thread(self._prepare)
        self.api = await self._stack.enter_async_context(
            Api(self.plane.url, _admin(self.plane.kubeconfig, self.folder))
        )
        self._guard = self._stack.enter_context(closing(Guard()))
        self._balancer = self._stack.enter_context(Balancer())
        ports = dict(zip(actions.WEBHOOKS, free_ports(len(actions.WEBHOOKS)), strict=True))
        configuration = self.folder / "configuration.yaml"
        configuration.write_text(yaml.safe_dump(_CONFIGURATION))
        for name in actions.DOORS:
            if name in actions.SCHEDULERS:
                own = ["scheduler", f"--config={configuration}", "--leader-elect=true"]
            elif name in actions.WEBHOOKS:
                own = [
                    "webhook",
                    "--register",
                    f"--url={self._balancer.url}",
                    f"--listen=127.0.0.1:{ports[name]}",
                ]
            else:
                own = ["rebalance"]
            await self._add_door(name, own)
        self._balancer.ports[:] = ports.values()
        for name in actions.DOORS:
            await self.start_door(name)
        for name in actions.DOORS:
            await asyncio.to_thread(self._wait_synced, name)

    def _prepare(self) -> None:
        plane = self.plane
        plane.start_controller_manager()
        plane.start_kwok()
        plane.start_scheduler()
        plane.add_system_namespace()
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": actions.NAMESPACE}})
        plane.kubectl("apply", "-k", str(REPOSITORY / "deploy" / "crds"))
        plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        for name, own in self.tiers.items():
            plane.api.create("/apis/fairlead.dev/v1alpha1/placementpolicies", placement_policy(name, own))

    async def _add_door(self, name: str, own: list[str]) -> None:
        plan = DoorPlan(random.Random(f"{self._seed}/{name}"), self._now)
        file = self.plane.kubeconfig_for(f"soak-{name}", ["system:masters"])
        proxy = await self._stack.enter_async_context(FaultProxy(kubeconfig.load(file), plan))
        behind = self.folder / f"{name}.kubeconfig"
        behind.write_text(yaml.safe_dump(_without_credentials(proxy.url)))
        arguments = [
            *own,
            f"--kubeconfig={behind}",
            f"--system-namespace={SYSTEM_NAMESPACE}",
            "--log-format=json",
        ]
        self.doors[name] = Door(name, arguments, plan, proxy)

    async def start_door(self, name: str) -> None:
        """Start a component that does not run."""
        door = self.doors[name]
        argv = [sys.executable, "-m", "fairlead", *door.arguments]
        door.program = await asyncio.to_thread(self._guard.start, name, argv, log=self.folder / f"{name}.log")
        door.is_away = False

    async def kill_door(self, name: str) -> None:
        """Kill a component, as a node that is lost does."""
        door = self.doors[name]
        door.is_away = True
        if door.program is not None:
            os.kill(door.program.pid, signal.SIGCONT)
            await asyncio.to_thread(door.program.stop)

    def _wait_synced(self, name: str) -> None:
        door = self.doors[name]
        assert door.program is not None
        deadline = time.monotonic() + 120
        while not any(f'"{said}"' in door.program.log.read_text() for said in ("synced", "standing_by")):
            if door.program.exit_code() is not None or time.monotonic() > deadline:
                raise RigError(f"{name} did not get ready: {door.program.tail()}")
            time.sleep(0.1)

    async def restart_apiserver(self, away_s: float) -> None:
        """Kill the API server and start it again; one restart at a time."""
        async with self._restarting:
            await asyncio.sleep(away_s)
            await asyncio.to_thread(self.plane.restart_apiserver)

    def program(self, name: str) -> Program | None:
        """A component's process, None while it is away."""
        door = self.doors[name]
        return None if door.is_away else door.program


def tiers(name: str, least: str | int) -> list[Manifest]:
    """The tiers of a policy: spot first, `least` of the pods on nodes that stay."""
    pool = {"split": "f", "kube": "k"}[name]
    return [
        {"name": "spot", "nodes": {"soak/pool": f"{pool}-spot"}, "volatile": True},
        {"name": "safe", "nodes": {"soak/pool": f"{pool}-safe"}, "min": least},
    ]


def placement_policy(name: str, own: list[Manifest]) -> Manifest:
    """The policy over the pods with label ``tier: NAME``."""
    return {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": name},
        "spec": {"match": {"labels": {"tier": name}}, "tiers": own, "rebalance": PACE, "fallback": FALLBACK},
    }


def node(name: str, pool: str) -> Manifest:
    """A node of a pool."""
    return node_object(
        name,
        cpu=actions.NODE_CPU,
        memory="32Gi",
        labels={"soak/pool": pool, "soak/side": pool.partition("-")[0]},
    )


def _without_credentials(url: str) -> Manifest:
    return {
        "clusters": [{"name": "soak", "cluster": {"server": url}}],
        "users": [{"name": "soak", "user": {}}],
        "contexts": [{"name": "soak", "context": {"cluster": "soak", "user": "soak"}}],
        "current-context": "soak",
    }


def _admin(file: Path, folder: Path) -> ssl.SSLContext:
    """What the observer shows the API server, read from a kubeconfig by hand."""
    config = yaml.safe_load(file.read_text())
    user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    pair = folder / "observer.pem"
    pair.touch(mode=0o600)
    pair.write_bytes(
        base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"])
    )
    context = ssl.create_default_context(cadata=authority)
    context.load_cert_chain(pair)
    return context


def log_lines(path: Path, level: str) -> list[Manifest]:
    """The lines of a component's log at a level."""
    found = []
    for line in path.read_text(errors="replace").splitlines():
        if line.startswith("{"):
            said = json.loads(line)
            if said.get("level") == level:
                found.append(said)
    return found
