"""The embedded cluster: API, controllers, kubelet, scheduler and node groups, in one process.

In virtual time everything happens inside `run_until`, on the spot and always in the same order; on
the wall clock `serve` lets it live by itself and offers it over HTTP.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

import structlog

from fairlead.errors import FairleadError
from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.aws import CloudState
from fairlead.world.admission import Hook
from fairlead.world.api import Admitted, Api, DeleteOptions
from fairlead.world.autoscaler import Autoscaler, Pacing
from fairlead.world.clock import Clock, VirtualClock
from fairlead.world.controllers import standard
from fairlead.world.controllers.node_lifecycle import NODE_GRACE
from fairlead.world.controllers.writes import Controller, Obj
from fairlead.world.events import Recorder
from fairlead.world.extender import Extender
from fairlead.world.http.server import Server, serve, write_kubeconfig
from fairlead.world.http.webhooks import Webhooks
from fairlead.world.ids import CountedIds, IdSource, RandomIds
from fairlead.world.kubelet import Kubelet, Pace
from fairlead.world.mirror import Mirror
from fairlead.world.pools import Pools
from fairlead.world.runner import Runner
from fairlead.world.scheduler import Scheduler
from fairlead.world.spot import SpotMarket
from fairlead.world.store import Store

_log = structlog.get_logger()


class NotReached(FairleadError):  # noqa: N818 (the hierarchy reads as what happened)
    """Virtual time ran out before a condition held."""


class World:
    """A cluster. Invariant: in virtual time, nothing happens between two calls of its methods.

    `controllers` None is kube-controller-manager's set (`controllers.standard`); `autoscaler` None
    leaves node groups at their desired size; `account` is the AWS account behind them, where one is: all
    that the autoscaler then knows of a group without nodes. `pace` says how fast pods start and stop,
    `notice` how early spot nodes get their notice, `node_grace` how long a silent node is believed in.
    `events` are the reasons of the events that are written (None: of all).
    `extender` is asked by the scheduler; `store` has objects already, of a cluster that goes on here. Two
    worlds that are given the same things in the same order go through the same history, byte for byte.
    """

    def __init__(
        self,
        nodes: Iterable[Obj] = (),
        *,
        clock: Clock | None = None,
        controllers: Sequence[Controller] | None = None,
        scheduler: bool = True,
        groups: Iterable[NodeGroup] = (),
        account: CloudState | None = None,
        autoscaler: Pacing | None = None,
        pace: Pace | None = None,
        notice: timedelta = timedelta(),
        node_grace: timedelta = NODE_GRACE,
        events: Collection[str] | None = None,
        ids: IdSource | None = None,
        hooks: Iterable[Hook] = (),
        extender: Extender | None = None,
        store: Store | None = None,
    ) -> None:
        self.clock: Clock = clock or VirtualClock()
        virtual = isinstance(self.clock, VirtualClock)
        self.store = store or Store()
        self.api = Api(self.store, self.clock, ids or (CountedIds() if virtual else RandomIds()), hooks=hooks)
        self.mirror = Mirror(self.store)
        self.kubelet = Kubelet(pace, leases=not virtual)
        self.pools = Pools(groups, account)
        self.spot = SpotMarket(self.pools, self.kubelet.kill, notice)
        parts: list[Controller] = [
            *(standard(self.kubelet.last_heartbeat, node_grace) if controllers is None else controllers)
        ]
        self.scheduler = Scheduler(self.mirror.room, extender=extender) if scheduler else None
        if self.scheduler is not None:
            parts.append(self.scheduler)
        parts += [self.kubelet, self.pools, self.spot]
        self.autoscaler = None if autoscaler is None else Autoscaler(self.pools, self.mirror, autoscaler)
        if self.autoscaler is not None:
            parts.append(self.autoscaler)
        self.extender = extender
        if extender is not None:
            extender.attach(self.api, self.clock)
        self.runner = Runner(self.api, self.clock, parts, Recorder(self.api, self.clock, events))
        self.pools.wake = lambda group: self.runner.enqueue(self.pools.name, group)
        self.spot.wake = lambda key: self.runner.enqueue(self.spot.name, key)
        for group in self.pools.groups:
            self.pools.wake(group)
        for node in nodes:
            self.create(node)

    # Objects

    def create(self, item: Obj) -> Obj:
        """Create an object of any served kind."""
        return self.api.create(self.runner.view.resource(item), item)

    def patch(self, kind: str, name: str, patch: Obj, namespace: str = "default") -> Obj:
        """Merge a patch into an object."""
        resource = self.runner.view.resource_of(kind)
        return self.api.patch(resource, name, patch, namespace if resource.namespaced else "")

    def delete(
        self, kind: str, name: str, namespace: str = "default", *, propagation: str | None = None
    ) -> None:
        """Delete an object."""
        resource = self.runner.view.resource_of(kind)
        options = DeleteOptions(propagation=propagation)
        self.api.delete(resource, name, namespace if resource.namespaced else "", options)

    def get(self, kind: str, name: str, namespace: str = "default") -> Obj | None:
        """An object, or None."""
        resource = self.runner.view.resource_of(kind)
        return self.store.get(resource, namespace if resource.namespaced else "", name)

    def all(self, kind: str, namespace: str = "") -> list[Obj]:
        """All objects of a kind, in key order."""
        return self.runner.view.all(kind, namespace)

    # What befalls nodes

    def kill_node(self, name: str) -> None:
        """The machine falls silent; the cluster finds out by itself."""
        self.kubelet.kill(name, self.clock.now())
        self.runner.enqueue("node-controller", name)

    def revive_node(self, name: str) -> None:
        """The machine speaks again."""
        self.kubelet.revive(name)
        self.runner.enqueue("node-controller", name)
        self.runner.enqueue(self.kubelet.name, f"node:/{name}")
        for pod in self.runner.view.pods_on(name):
            meta = pod["metadata"]
            self.runner.enqueue(self.kubelet.name, f"pod:{meta['namespace']}/{meta['name']}")

    def unready_node(self, name: str, why: str = "container runtime is down") -> None:
        """The machine speaks, but says that it is not ready."""
        self.kubelet.set_unready(name, why)
        self.runner.enqueue(self.kubelet.name, f"node:/{name}")

    def remove_node(self, name: str) -> None:
        """The machine is gone, and the cloud has taken its Node away."""
        self.kubelet.kill(name, self.clock.now())
        self.delete("Node", name)

    # Virtual time

    def run_until(
        self,
        goal: Callable[[], Any] | datetime | timedelta,
        limit: timedelta = timedelta(hours=1),
    ) -> None:
        """Let things happen until a condition holds, a time has come or a span has passed.

        A condition is looked at after each step; `NotReached` when it does not hold within `limit`.
        """
        clock = self.clock
        if not isinstance(clock, VirtualClock):
            raise TypeError("run_until needs virtual time; on the wall clock wait for a watch")
        if not callable(goal):
            end = clock.now() + goal if isinstance(goal, timedelta) else goal
            self.runner.drain()
            while clock.step(end):
                self.runner.drain()
            return
        end = clock.now() + limit
        while not goal():
            if not self.runner.drain_one() and not clock.step(end):
                raise NotReached(f"the condition did not hold by {clock.now():%Y-%m-%d %H:%M:%S}")

    # Wall clock

    async def wait_until(self, goal: Callable[[], Any], limit: timedelta = timedelta(seconds=30)) -> None:
        """Wait until a condition holds, looking after each change; `NotReached` after `limit`.

        Cancelled, it leaves nothing behind.
        """
        changed = asyncio.Event()
        stop = self.store.subscribe(lambda change: changed.set())
        try:
            async with asyncio.timeout(limit.total_seconds()):
                while not goal():
                    changed.clear()
                    await changed.wait()
        except TimeoutError as error:
            raise NotReached(f"the condition did not hold within {limit.total_seconds():g} s") from error
        finally:
            stop()

    async def serve(
        self, host: str = "127.0.0.1", port: int = 0, *, kubeconfig: Path | None = None
    ) -> Serving:
        """Let the cluster live on the wall clock and serve its API; port 0 takes a free one.

        Without a path the kubeconfig goes to a folder of its own, which goes with the cluster.
        """
        if isinstance(self.clock, VirtualClock):
            raise TypeError("a cluster in virtual time cannot be served: give it a WallClock")
        folder = Path(tempfile.mkdtemp(prefix="fairlead-world-")) if kubeconfig is None else None
        path = kubeconfig or (folder or Path()) / "kubeconfig"
        webhooks = Webhooks(self.api)
        server = await serve(self.api, host, port, admitter=webhooks)
        write_kubeconfig(path, server.address)
        life = asyncio.create_task(self.runner.run(Admitted(self.api, webhooks)), name="world")
        return Serving(self, server, webhooks, life, kubeconfig=path, folder=folder)

    def close(self) -> None:
        """Let go of the store and all timers."""
        self.runner.close()
        self.mirror.close()
        if self.extender is not None:
            self.extender.close()


class Serving:
    """A cluster that is being served. `close` (or leaving the context) ends it in good order.

    Should the cluster itself break, `close` raises what broke it.
    """

    def __init__(
        self,
        world: World,
        server: Server,
        webhooks: Webhooks,
        life: asyncio.Task[None],
        *,
        kubeconfig: Path,
        folder: Path | None,
    ) -> None:
        self.world = world
        self.url = server.address
        self.kubeconfig = kubeconfig
        self._server = server
        self._webhooks = webhooks
        self._life = life
        self._folder = folder
        life.add_done_callback(_report)

    async def close(self) -> None:
        """Stop the controllers, end watches, give the socket and the folder back."""
        self._life.cancel()
        try:
            await self._life
        except asyncio.CancelledError:
            pass  # asked for, one line above
        finally:
            self.world.close()
            await self._server.close()
            await self._webhooks.close()
            if self._folder is not None:
                shutil.rmtree(self._folder)

    async def __aenter__(self) -> Serving:
        """It is being served already."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()


def _report(life: asyncio.Task[None]) -> None:
    # A caller that waits for something to happen in a cluster that broke should at least read why.
    if not life.cancelled() and (error := life.exception()) is not None:
        _log.error("cluster_broken", error=repr(error), exc_info=error)
