"""``fairlead demo``: a small cluster comes up, work arrives, a node dies, all is repaired.

Everything happens on the embedded cluster, in real time or (``--fast``) in virtual time. What is
printed is read off the cluster's own changes: the story asks for things, the narrator only watches.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from fairlead.engine.rules.verdicts import Verdicts
from fairlead.nodegroups import NodeGroup, read_groups
from fairlead.world.autoscaler import Pacing
from fairlead.world.clock import VirtualClock, WallClock
from fairlead.world.controllers.objects import condition, is_active, is_ready
from fairlead.world.kubelet import Pace
from fairlead.world.scheduler import unschedulable
from fairlead.world.store import Change
from fairlead.world.world import World

__all__ = ["command"]

Obj = dict[str, Any]
Goal = Callable[[], bool]

_REPLICAS = 7
_NODES = 4
_DYING = "node-2"
# In real time no chapter may take longer than this.
_PATIENCE_S = 60.0


@click.command()
@click.option("--fast", is_flag=True, help="In virtual time: the whole story in about a second.")
@click.option(
    "--stay/--no-stay", default=None, help="Keep the cluster up for kubectl (default: on a terminal)."
)
def command(*, fast: bool, stay: bool | None) -> None:
    """A cluster comes up, a Deployment arrives, a node dies, all is repaired; told as it happens."""
    console = Console(highlight=False, soft_wrap=True)
    if fast:
        _tell_fast(console)
        return
    asyncio.run(_tell_live(console, stay=sys.stdout.isatty() if stay is None else stay))


def _tell_fast(console: Console) -> None:
    world = _world(VirtualClock())
    narrator = Narrator(world, console)
    for goal in _story(world, narrator):
        world.run_until(goal)
    narrator.chapter("The end: nothing is left to repair.")
    world.close()


async def _tell_live(console: Console, *, stay: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    world = _world(WallClock())
    narrator = Narrator(world, console)
    async with await world.serve() as serving:
        narrator.say("", f"the API server listens on {serving.url}")
        for goal in _story(world, narrator):
            if not await _reached(world, goal, stop):
                narrator.chapter("Interrupted.")
                return
        narrator.chapter("The end: nothing is left to repair.")
        if stay:
            narrator.say(
                "", f"the cluster stays up: kubectl --kubeconfig {serving.kubeconfig} get pods -o wide"
            )
            narrator.say("", "Ctrl-C ends it")
            await stop.wait()


async def _reached(world: World, goal: Goal, stop: asyncio.Event) -> bool:
    """Wait for a goal; False when the user does not want to."""
    stopped = asyncio.ensure_future(stop.wait())
    reached = asyncio.ensure_future(world.wait_until(goal, timedelta(seconds=_PATIENCE_S)))
    try:
        await asyncio.wait({reached, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if reached.done():
            await reached  # raises if the story got stuck
        return reached.done()
    finally:
        reached.cancel()
        stopped.cancel()


# The cluster and the story


def _world(clock: VirtualClock | WallClock) -> World:
    return World(
        [_node(f"node-{number}") for number in range(1, _NODES + 1)],
        clock=clock,
        groups=[_spare()],
        autoscaler=Pacing(scan=timedelta(seconds=1)),
        pace=Pace(start=timedelta(seconds=1), stop=timedelta(seconds=1)),
        # A real cluster believes in a silent node for 50 s, and leaves pods there for 5 minutes more.
        node_grace=timedelta(seconds=3),
    )


def _spare() -> NodeGroup:
    machine = {"name": "m2", "capacity": {"cpu": "2", "memory": "4Gi"}, "pricePerHour": "0.10"}
    return read_groups([{"name": "spare", "max": 2, "bootS": 3, "instanceTypes": [machine]}])[0]


def _node(name: str) -> Obj:
    room = {"cpu": "2", "memory": "4Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"capacity": room, "allocatable": room},
    }


def _deployment() -> Obj:
    gone = [
        {
            "key": f"node.kubernetes.io/{what}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 2,
        }
        for what in ("not-ready", "unreachable")
    ]
    container = {"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "1", "memory": "512Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": _REPLICAS,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [container], "tolerations": gone},
            },
        },
    }


def _story(world: World, narrator: Narrator) -> Iterator[Goal]:
    narrator.chapter(f"A cluster with {_NODES} nodes of 2 CPUs comes up.")
    yield lambda: all(_ready(node) for node in world.all("Node")) and len(world.all("Node")) == _NODES
    narrator.chapter(f"A Deployment arrives: {_REPLICAS} pods of 1 CPU each.")
    world.create(_deployment())
    yield lambda: _available(world) == _REPLICAS
    narrator.chapter(f"{_DYING} dies. Nobody says so: its heartbeats just stop.")
    world.kill_node(_DYING)
    yield lambda: _available(world) < _REPLICAS
    yield lambda: _available(world) == _REPLICAS and not _on(world, _DYING)


def _ready(node: Obj) -> bool:
    said = condition(node, "Ready")
    return said is not None and said["status"] == "True" and not (node.get("spec") or {}).get("taints")


def _available(world: World) -> int:
    deployment = world.get("Deployment", "web") or {}
    return int((deployment.get("status") or {}).get("availableReplicas", 0))


def _on(world: World, node: str) -> int:
    return sum(1 for pod in world.runner.view.pods_on(node) if is_active(pod))


# The narrator


class Narrator:
    """Says what changes in a cluster, in the cluster's time."""

    def __init__(self, world: World, console: Console) -> None:
        self._world = world
        self._console = console
        self._start = world.clock.now()
        self._why: dict[str, str] = {}
        world.store.subscribe(self._changed)
        if world.scheduler is not None:
            world.scheduler.on_choice = self._chosen

    def chapter(self, text: str) -> None:
        """A new part of the story."""
        self._console.print()
        self._console.print(Text(text, style="bold"))

    def say(self, who: str, text: str, style: str = "") -> None:
        """One line, with the time since the start."""
        elapsed_s = (self._world.clock.now() - self._start).total_seconds()
        line = Text(f"{elapsed_s:6.1f} s  ", style="dim")
        line.append(f"{who:<21} " if who else "", style="cyan")
        line.append(text, style=style)
        self._console.print(line)

    def _chosen(self, pod: Obj, node: str, verdicts: Verdicts) -> None:
        fits = int(verdicts.feasible.sum())
        refused = ", ".join(f"{count} {reason}" for reason, count in sorted(verdicts.counts().items()))
        why = f"best of {fits} nodes that fit" if fits > 1 else "the only node that fits"
        self._why[pod["metadata"]["name"]] = f"{why} (others: {refused})" if refused else why

    def _changed(self, change: Change) -> None:
        kind, new, old = change.resource.kind, change.object, change.old
        name = new["metadata"]["name"]
        if kind == "Pod":
            self._pod(change.type, name, new, old)
        elif kind == "Node":
            self._node(change.type, name, new, old)
        elif kind == "Event" and change.type == "ADDED" and new["reason"] == "TriggeredScaleUp":
            self.say(new["involvedObject"]["name"], f"autoscaler: {new['message']}", "magenta")
        elif kind == "Deployment" and old is not None:
            self._deployment(name, new, old)

    def _pod(self, what: str, name: str, new: Obj, old: Obj | None) -> None:
        if what == "DELETED":
            self.say(name, "is gone", "dim")
            return
        if old is None:
            self.say(name, "created, waits for a node")
            return
        home = new["spec"].get("nodeName", "")
        if home and not old["spec"].get("nodeName"):
            self.say(name, f"→ {home}: {self._why.pop(name, '')}", "green")
        elif unschedulable(new) and not unschedulable(old):
            said = condition(new, "PodScheduled") or {}
            self.say(name, f"cannot be placed: {said.get('message', '')}", "yellow")
        elif is_ready(new) and not is_ready(old):
            self.say(name, f"runs on {home}")
        elif new["metadata"].get("deletionTimestamp") and not old["metadata"].get("deletionTimestamp"):
            said = condition(new, "DisruptionTarget") or {}
            self.say(name, f"must go: {said.get('message') or 'deleted'}", "yellow")

    def _node(self, what: str, name: str, new: Obj, old: Obj | None) -> None:
        if old is None or what == "DELETED":
            self.say(name, "joins" if what == "ADDED" else "is gone")
            return
        now, before = condition(new, "Ready") or {}, condition(old, "Ready") or {}
        if now.get("status") != before.get("status"):
            good = now.get("status") == "True"
            text = "is ready" if good else f"is not ready: {now.get('message', '')}"
            self.say(name, text, "" if good else "red")

    def _deployment(self, name: str, new: Obj, old: Obj) -> None:
        now, before = new.get("status") or {}, old.get("status") or {}
        if now.get("availableReplicas", 0) != before.get("availableReplicas", 0):
            available, wanted = now.get("availableReplicas", 0), new["spec"]["replicas"]
            style = "bold green" if available == wanted else ""
            self.say(f"deployment {name}", f"{available} of {wanted} pods available", style)
