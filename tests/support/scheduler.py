"""A scheduler process beside a cluster, and the pods that ask for it.

Each test's scheduler answers to a name of its own and its pods stay on the test's own nodes, so that
tests can share a cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.connection import Connection
from fairlead.doors.process import Context
from fairlead.doors.scheduler.configuration import merged
from fairlead.doors.scheduler.door import SchedulerDoor
from fairlead.feed.policies import LivePolicies
from support.cluster import Cluster
from support.door import DoorProcess
from support.faults import Faithful, FaultProxy, FrameFault, Plan, RequestFault
from support.wire import PATIENCE_S

P = ParamSpec("P")
T = TypeVar("T")

Manifest = dict[str, Any]


class SchedulerProcess(DoorProcess):
    """A running ``fairlead scheduler``."""

    def __init__(self, kubeconfig: Path, *arguments: str) -> None:
        super().__init__(kubeconfig, "scheduler", *arguments)


class Shop:
    """A test's own corner of a cluster: its scheduler's name, its nodes, its pods."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.scheduler = f"fairlead-{cluster.namespace}"
        self.lease = f"lease-{cluster.namespace}"
        self._running: list[SchedulerProcess] = []

    def run(self, *arguments: str, kubeconfig: Path | None = None, elect: bool = False) -> SchedulerProcess:
        """Start a scheduler for this test's pods and wait until it has seen the cluster."""
        process = SchedulerProcess(
            kubeconfig or self.cluster.kubeconfig,
            f"--scheduler-name={self.scheduler}",
            f"--system-namespace={self.cluster.namespace}",
            f"--leader-elect={str(elect).lower()}",
            *arguments,
        )
        self._running.append(process)
        if not elect:
            process.wait_for("synced")
        return process

    def pod(
        self,
        name: str,
        *,
        cpu: str | None = "1",
        priority: int | None = None,
        priority_class: str | None = None,
        gang: str | None = None,
        minimum: int | None = None,
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> Manifest:
        """A pod for our scheduler on our nodes; `priority` and `gang` are annotations."""
        body = self.spec(cpu=cpu, **spec)
        if priority_class is not None:
            body["priorityClassName"] = priority_class
        annotations = self.marks(priority, gang, minimum)
        metadata = {"name": name, "annotations": annotations, "labels": labels or {}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}

    def spec(self, *, cpu: str | None = "1", **spec: Any) -> dict[str, Any]:
        requests = {"requests": {"cpu": cpu}} if cpu is not None else {}
        return {
            "schedulerName": self.scheduler,
            "nodeSelector": {"test": self.cluster.namespace},
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "image", "resources": requests}],
            **spec,
        }

    @staticmethod
    def marks(priority: int | None, gang: str | None, minimum: int | None = None) -> dict[str, str]:
        found = {"priority": priority, "pod-group": gang, "pod-group-min-member": minimum}
        return {key: str(value) for key, value in found.items() if value is not None}

    def add(self, name: str, **more: Any) -> Manifest:
        """Create a pod."""
        return self.cluster.create(self.pod(name, **more))

    def deployment(
        self,
        name: str,
        replicas: int,
        *,
        priority: int | None = None,
        gang: str | None = None,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> Manifest:
        """Create a Deployment of such pods."""
        template = {
            "metadata": {
                "labels": {"app": name} | (labels or {}),
                "annotations": self.marks(priority, gang) | (annotations or {}),
            },
            "spec": self.spec(**spec),
        }
        return self.cluster.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": name}},
                    "template": template,
                },
            }
        )

    def nodes_of(self) -> dict[str, str]:
        """Every pod that is not on its way out and its node, "" for none."""
        return {
            pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
            for pod in self.cluster.list("Pod")["items"]
            if "deletionTimestamp" not in pod["metadata"]
        }

    def bound(self, *names: str) -> dict[str, str]:
        """Wait until these pods have nodes."""

        def look() -> dict[str, str] | None:
            found = self.nodes_of()
            return found if all(found.get(name) for name in names) else None

        found = self.cluster.wait(look, f"{', '.join(names)} to be bound")
        assert found is not None
        return found

    def running_of(self, app: str, number: int) -> list[Manifest]:
        """Wait until exactly so many pods of a workload are there, all with a node."""

        def look() -> list[Manifest] | None:
            items = self.cluster.list("Pod", labelSelector=f"app={app}")["items"]
            there = [one for one in items if "deletionTimestamp" not in one["metadata"]]
            bound = [one for one in there if one["spec"].get("nodeName")]
            return there if len(there) == len(bound) == number else None

        found = self.cluster.wait(look, f"{number} pods of {app} to be bound")
        assert found is not None
        return found

    def held(self, name: str) -> Manifest:
        """Wait until a pod is said to be unschedulable, and return that condition."""

        def look() -> Manifest | None:
            for one in self.cluster.get("Pod", name)["status"].get("conditions", []):
                if one["type"] == "PodScheduled" and one["status"] == "False":
                    return one  # type: ignore[no-any-return]
            return None

        found = self.cluster.wait(look, f"{name} to be held")
        assert found is not None
        return found

    def events(self, name: str, reason: str) -> list[Manifest]:
        """Wait for at least one event about a pod."""

        def look() -> list[Manifest]:
            items = self.cluster.list("Event", fieldSelector=f"involvedObject.name={name}")["items"]
            return [one for one in items if one["reason"] == reason]

        return self.cluster.wait(look, f"an event {reason} about {name}")

    def close(self) -> None:
        for process in self._running:
            process.close()


@contextlib.contextmanager
def shop(cluster: Cluster) -> Iterator[Shop]:
    """A shop that is closed, its schedulers ended, when the test is over."""
    own = Shop(cluster)
    try:
        yield own
    finally:
        own.close()


@dataclass
class Ledger:
    """A plan that passes everything on to another and remembers every write."""

    plan: Plan = field(default_factory=Faithful)
    writes: list[str] = field(default_factory=list)

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if method != "GET":
            self.writes.append(f"{method} {path.partition('?')[0]}")
        return self.plan.on_request(method, path)

    def on_frame(self, path: str) -> FrameFault | None:
        return self.plan.on_frame(path)

    def binds(self, name: str) -> int:
        """How often a bind of a pod was sent."""
        return sum(write.endswith(f"/pods/{name}/binding") for write in self.writes)


@dataclass(frozen=True)
class InProcess:
    """A scheduler in this process, behind a proxy that misbehaves as planned."""

    scheduler: SchedulerDoor
    ledger: Ledger
    task: asyncio.Task[None]

    async def crash(self) -> None:
        """End it at once, with all that it had in mind."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@contextlib.asynccontextmanager
async def in_process(
    ours: Shop,
    plan: Plan | None = None,
    *,
    clock: Clock = WALL_CLOCK,
    meanwhile: Callable[[SchedulerDoor], Coroutine[None, None, None]] | None = None,
    **flags: Any,
) -> AsyncIterator[InProcess]:
    """Run the scheduler here; `flags` are fields of its configuration, ``section__field`` spelt.

    `meanwhile` runs from before it starts until it ends.
    """
    ledger = Ledger(plan or Faithful())
    fields = {"schedulerNames": [ours.scheduler], "leaderElection.enabled": False}
    fields |= {name.replace("__", "."): value for name, value in flags.items()}
    configuration = merged({}, fields)
    upstream = kubeconfig.load(ours.cluster.kubeconfig)
    async with FaultProxy(upstream, ledger) as proxy, Connection(proxy.target, in_flight=96) as connection:
        client = Client(connection)
        policies = LivePolicies(client, cluster=False)
        context = Context(client, policies, ours.cluster.namespace, client.rng, clock)
        following = asyncio.create_task(context.follow())
        scheduler = SchedulerDoor(context, configuration)
        beside = asyncio.create_task(meanwhile(scheduler)) if meanwhile is not None else None
        running = asyncio.create_task(scheduler.run())
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not (scheduler.session and scheduler.session.synced):
                    await asyncio.sleep(0.01)
                    if running.done():
                        running.result()
            yield InProcess(scheduler, ledger, running)
            if running.done() and not running.cancelled():
                running.result()
        finally:
            if beside is not None:
                beside.cancel()
            scheduler.stop()
            if not running.cancelled():
                await running
            following.cancel()
            await asyncio.wait((following,))


async def aside(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call something that blocks, while the scheduler in this process goes on."""
    return await asyncio.to_thread(call, *args, **kwargs)
