"""The demo's steps: what it asks of the cluster, and what it waits for before it goes on.

The story does nothing itself; it yields steps, and `clusters` carries them out, in virtual time or
on the wall clock, on the embedded cluster or on a real one. Its workloads are the shipped examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from fairlead.cli.demo.observed import Observed
from fairlead.cli.examples import SHIPPED
from fairlead.errors import BadInput
from fairlead.rig.nodes import node_object

Obj = dict[str, Any]

# Shorter than a cluster's five seconds and five minutes: a user is watching.
SETTLE_S = 2
_TOLERATE_S = 2

_NODES = 4
YOURS = SHIPPED / "yours.yaml"
"""A Deployment for which there is room once the story is told."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A new part begins."""

    text: str


@dataclass(frozen=True, slots=True)
class Create:
    """Create these objects, in order."""

    objects: list[Obj]


@dataclass(frozen=True, slots=True)
class Scale:
    """Give a Deployment another number of replicas."""

    namespace: str
    deployment: str
    replicas: int


@dataclass(frozen=True, slots=True)
class Kill:
    """A node stops working, and the cluster gets no notice."""

    node: str


@dataclass(frozen=True, slots=True)
class Until:
    """Wait until it is so."""

    what: str
    goal: Callable[[], bool]


Step = Chapter | Create | Scale | Kill | Until


def story(observed: Observed) -> Iterator[Step]:
    """The scheduler's story, step by step; each step is to be over before the next is asked for."""
    yield Chapter(f"A cluster with {_NODES} nodes comes up.")
    yield from _join(observed, range(1, _NODES + 1))

    yield Chapter(
        "examples/priorities.yaml arrives: a pod of priority 100, one of 10 and a gang of three at 50.\n"
        f"Each wants a node to itself, so one node is missing. The gang waits {SETTLE_S} s to be complete."
    )
    yield Create(_example("priorities.yaml"))
    yield Until("the gang to run and the low-priority pod to wait", lambda: _low_gave_way(observed))

    yield Chapter(
        "examples/split-gang.yaml arrives: a gang of three from three Deployments, of priority 0.\n"
        "It may take nobody's node, and no part of it starts."
    )
    yield Create(_example("split-gang.yaml"))
    yield Until("the second gang to wait", lambda: _waits(observed, "training", 3))

    yield Chapter(
        "group-a is done and scaled to zero. Of its three nodes the low-priority pod takes one;\n"
        "two are free, and still no part of the second gang starts: it needs three."
    )
    yield Scale("fairlead-priorities", "group-a", 0)
    yield Until("the low-priority pod to run", lambda: _runs(observed, app="low", number=1))
    yield Until("two nodes to be free", lambda: not observed.pods(gang="group-a") and _free(observed) == 2)

    yield Chapter("Two more nodes join: the gang starts whole, and one node is to spare.")
    yield from _join(observed, (_NODES + 1, _NODES + 2))
    yield Until("the second gang to run", lambda: _runs(observed, gang="training", number=3))

    dying = observed.pods(app="worker")[0].node
    yield Chapter(
        f"{dying} dies, and with it a member of the gang. The others stay where they are.\n"
        f"(Pods leave a dead node after {_TOLERATE_S} s here; on a cluster that says nothing, after 5 min.)"
    )
    yield Kill(dying)
    yield Until(
        f"{dying} to be missed", lambda: any(n.name == dying and not n.ready for n in observed.nodes())
    )
    yield Until("all to be repaired", lambda: _all_well(observed, dying))

    yield Chapter("Two more nodes join: room for pods of your own.")
    yield from _join(observed, (_NODES + 3, _NODES + 4))
    yield Chapter("The end: nothing is left to repair.")


def _join(observed: Observed, numbers: Iterator[int] | range | tuple[int, ...]) -> Iterator[Step]:
    names = [f"node-{number}" for number in numbers]
    yield Create([node_object(name) for name in names])
    yield Until(
        f"{', '.join(names)} to be ready",
        lambda: {node.name for node in observed.nodes() if node.ready}.issuperset(names),
    )


# What is waited for


def _runs(observed: Observed, *, number: int, app: str = "", gang: str = "") -> bool:
    pods = observed.pods(app=app, gang=gang)
    return len(pods) == number and all(pod.node and pod.ready for pod in pods)


def _waits(observed: Observed, gang: str, number: int) -> bool:
    pods = observed.pods(gang=gang)
    return len(pods) == number and all(_held(pod.condition("PodScheduled")) for pod in pods)


def _low_gave_way(observed: Observed) -> bool:
    low = observed.pods(app="low")
    return (
        _runs(observed, app="high", number=1)
        and _runs(observed, gang="group-a", number=3)
        and len(low) == 1
        and _held(low[0].condition("PodScheduled"))
    )


def _held(scheduled: Obj) -> bool:
    return scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"


def _free(observed: Observed) -> int:
    taken = {pod.node for pod in observed.pods()}
    return sum(1 for node in observed.nodes() if node.name not in taken)


def _all_well(observed: Observed, dead: str) -> bool:
    return (
        _runs(observed, gang="training", number=3)
        and _runs(observed, app="high", number=1)
        and _runs(observed, app="low", number=1)
        and all(pod.node != dead for pod in observed.pods())
    )


# What is asked for


def _example(name: str) -> list[Obj]:
    """The objects of a shipped example; their pods leave a dead node soon enough for a demo."""
    path = SHIPPED / name
    if not path.is_file():
        raise BadInput(f"no {path}: the installation of fairlead lacks its examples")
    found: list[Obj] = [one for one in yaml.safe_load_all(path.read_text()) if one]
    for one in found:
        if one["kind"] == "Deployment":
            one["spec"]["template"]["spec"]["tolerations"] = [
                {
                    "key": f"node.kubernetes.io/{what}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATE_S,
                }
                for what in ("not-ready", "unreachable")
            ]
    return found
