"""Where the story runs: an embedded cluster in virtual time, the same on the wall clock, or a real one.

In virtual time Fairlead's core runs inside the cluster. On the wall clock the story is told by a client
like any other, and the scheduler is the product: its door, which talks to the API server over HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog
from rich.console import Console

from fairlead.cli.demo.cast import Cast
from fairlead.cli.demo.narrator import Narrator
from fairlead.cli.demo.observed import KINDS, Observed, Thing
from fairlead.cli.demo.story import SETTLE_S, YOURS, Chapter, Create, Kill, Scale, Step, Until, story
from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.client.reflector import Reflector
from fairlead.client.view import Added, Deleted, Event, Modified
from fairlead.doors.process import Context, serve_doors
from fairlead.doors.scheduler.configuration import merged
from fairlead.doors.scheduler.door import SchedulerDoor
from fairlead.doors.tasks import beside
from fairlead.engine.planning.settings import Settings
from fairlead.feed.policies import LivePolicies
from fairlead.kube.decode import convert
from fairlead.kube.resources import known
from fairlead.rig.controlplane import ControlPlane
from fairlead.rig.nodes import UNREADY_ANNOTATION
from fairlead.web.door import DashboardDoor
from fairlead.web.local import ANY_PORT, LocalDashboard
from fairlead.world.clock import VirtualClock, WallClock
from fairlead.world.fairlead_scheduler import Fairlead
from fairlead.world.kubelet import Pace
from fairlead.world.store import Change
from fairlead.world.view import kind_of
from fairlead.world.world import NotReached, World

# On the wall clock no step may take longer than this.
_PATIENCE_S = 60.0
# A user at a terminal reads what a chapter is about before it happens.
_BREATH_S = 1.5
_SYSTEM = "fairlead-system"


# In virtual time


def tell_fast(console: Console, cast: Cast | None = None) -> None:
    """Tell the whole story at once; the same words each time."""
    world = _world(VirtualClock())
    observed, began = Observed(), world.clock.now()

    def elapsed_s() -> float:
        return (world.clock.now() - began).total_seconds()

    narrator = Narrator(console, observed, elapsed_s)
    if cast is not None:
        cast.elapsed_s = elapsed_s

    def changed(change: Change) -> None:
        kind = kind_of(change.resource)
        if kind not in KINDS:
            return
        if change.type == "DELETED":
            observed.remove(kind, change.key)
        else:
            observed.put(kind, convert(change.object, Thing))

    world.store.subscribe(changed)
    fairlead = Fairlead(world.api, world.clock, Settings(settle_s=SETTLE_S))
    try:
        for step in story(observed):
            _do(world, narrator, step)
            if cast is not None and isinstance(step, Chapter):
                cast.rest(_BREATH_S)
    finally:
        fairlead.close()
        world.close()


def _do(world: World, narrator: Narrator, step: Step) -> None:
    match step:
        case Chapter(text):
            narrator.chapter(text)
        case Create(objects):
            for one in objects:
                world.create(one)
        case Scale(namespace, deployment, replicas):
            world.patch("Deployment", deployment, {"spec": {"replicas": replicas}}, namespace)
        case Kill(node):
            world.kill_node(node)
        case Until(_, goal):
            world.run_until(goal)


def _world(clock: VirtualClock | WallClock) -> World:
    return World(
        clock=clock,
        pace=Pace(start=timedelta(seconds=0.5), stop=timedelta(seconds=0.5)),
        # A real cluster believes in a silent node for 50 s.
        node_grace=timedelta(seconds=2),
    )


# On the wall clock


@dataclass(frozen=True, slots=True)
class _Cluster:
    """A cluster that is up: where, and how a node of it is made to die."""

    url: str
    kubeconfig: Path
    kill: Callable[[str, Client], Awaitable[None]]


async def tell_live(console: Console, cast: Cast | None, *, real: bool, stay: bool) -> None:
    """Tell the story as it happens; with `stay`, keep the cluster until cancelled.

    Cancelled at any point, it takes down whatever it has brought up.
    """
    _quiet()
    began = time.monotonic()
    observed = Observed()
    narrator = Narrator(console, observed, lambda: time.monotonic() - began)
    if cast is not None:
        cast.elapsed_s = lambda: time.monotonic() - began
    changed = asyncio.Event()
    observed.on_change.append(lambda kind, old, new: changed.set())
    if real:
        narrator.say("", "a real control plane starts: etcd, kube-apiserver, kube-controller-manager, KWOK")
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(_real() if real else _embedded())
        narrator.say("", f"the API server listens on {cluster.url}")
        target = kubeconfig.load(cluster.kubeconfig)
        client = Client(await stack.enter_async_context(Connection(target)))
        await stack.enter_async_context(_watching(client, observed))
        await client.create(known("Namespace"), {"metadata": {"name": _SYSTEM}})
        dashboard = await stack.enter_async_context(_scheduling(cluster, narrator.address))
        for step in story(observed):
            await _do_live(cluster, client, narrator, changed, step)
            if isinstance(step, Chapter):
                dashboard.say("chapter", step.text)
                if console.is_terminal:
                    await asyncio.sleep(_BREATH_S)
        if stay:
            kubectl = f"kubectl --kubeconfig {shlex.quote(str(cluster.kubeconfig))}"
            narrator.say("", f"the cluster stays up, with room for yours: {kubectl} get pods -A -o wide")
            narrator.say("", f"try: {kubectl} apply -f {shlex.quote(str(YOURS))}")
            narrator.say("", f"or:  {kubectl} create deployment mine --image=nginx --replicas=3")
            narrator.say("", "Ctrl-C ends it")
            await asyncio.Event().wait()


async def _do_live(
    cluster: _Cluster, client: Client, narrator: Narrator, changed: asyncio.Event, step: Step
) -> None:
    match step:
        case Chapter(text):
            narrator.chapter(text)
        case Create(objects):
            for one in objects:
                await client.create(known(one["kind"]), one)
        case Scale(namespace, deployment, replicas):
            patch = {"spec": {"replicas": replicas}}
            await client.patch(known("Deployment"), deployment, namespace, patch, repeatable=True)
        case Kill(node):
            await cluster.kill(node, client)
        case Until(what, goal):
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    while not goal():
                        changed.clear()
                        await changed.wait()
            except TimeoutError:
                raise NotReached(f"timed out after {_PATIENCE_S:g} s waiting for {what}") from None


@asynccontextmanager
async def _embedded() -> AsyncIterator[_Cluster]:
    world = _world(WallClock())

    async def kill(node: str, client: Client) -> None:
        world.kill_node(node)

    async with await world.serve() as serving:
        yield _Cluster(serving.url, serving.kubeconfig, kill)


@asynccontextmanager
async def _real() -> AsyncIterator[_Cluster]:
    async def kill(node: str, client: Client) -> None:
        patch = {"metadata": {"annotations": {UNREADY_ANNOTATION: "the machine is on fire"}}}
        await client.patch(known("Node"), node, None, patch, repeatable=True)

    async with ControlPlane() as plane:
        await asyncio.to_thread(plane.start_controller_manager)
        await asyncio.to_thread(plane.start_kwok)
        await asyncio.to_thread(plane.start_scheduler)  # for pods that name no scheduler
        yield _Cluster(plane.url, plane.kubeconfig, kill)


@asynccontextmanager
async def _watching(client: Client, observed: Observed) -> AsyncIterator[None]:
    """Feed the observed cluster from watches."""

    def seen(kind: str, event: Event[Thing, None]) -> None:
        if isinstance(event, Added | Modified):
            observed.put(kind, event.object)
        elif isinstance(event, Deleted):
            observed.remove(kind, event.key)

    async with beside() as start:
        for kind in KINDS:
            reflector = Reflector(client, known(kind), Thing, keep=lambda _: None)
            start(reflector.run(partial(seen, kind)))
            await reflector.synced()
        yield


@asynccontextmanager
async def _scheduling(cluster: _Cluster, tell: Callable[[str], None]) -> AsyncIterator[DashboardDoor]:
    """Run Fairlead beside the cluster, as ``fairlead scheduler`` would, and the dashboard with it.

    `tell` receives the dashboard's address, and another each time one was used.
    """
    configuration = merged({}, {"gangs.settle": f"{SETTLE_S}s"})
    target = kubeconfig.load(cluster.kubeconfig)
    async with Connection(target, in_flight=configuration.in_flight + 32) as connection, beside() as start:
        client = Client(connection)
        policies = LivePolicies(client, cluster=False)
        context = Context(client, policies, _SYSTEM, client.rng)
        lease = configuration.leader_election.lease_name
        dashboard = LocalDashboard(
            context,
            configuration.settings(),
            tell,
            lease=lease,
            title="demo",
            flags=["--kubeconfig", str(cluster.kubeconfig)],
        )
        stopping, ready = asyncio.Event(), asyncio.Event()

        def opened(url: str) -> None:
            dashboard.opened_at(url)
            ready.set()

        doors = [SchedulerDoor(context, configuration), dashboard.door]
        running = start(serve_doors(doors, context, listen=ANY_PORT, stopping=stopping, ready=opened))
        await ready.wait()
        yield dashboard.door
        stopping.set()
        await running


def _quiet() -> None:
    """The story is the output; what the scheduler logs is shown only when something is wrong."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
