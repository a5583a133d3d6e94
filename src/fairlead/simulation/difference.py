"""What changes make of each node and pod: one way of a what-if beside the other.

A pod that was there before is itself in both ways, by its UID. What controllers create later has a name and
a UID by the order in which it was created, which says nothing across ways: of such pods, as many of one
workload as a node has in both ways are the same ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fairlead.simulation.cluster_copy import ClusterCopy
from fairlead.simulation.contents import Obj
from fairlead.simulation.outcome import Observer, workload_of
from fairlead.world.objects import finished

NodeMark = Literal["added", "gone", "cordoned"]
PodMark = Literal["stays", "comes", "evicted", "moved", "goes", "waits"]
"""`waits`: without a node in both ways. One that `comes` without a node comes to wait.

A pod that `goes` is removed by its controller or with its owner, or is one that would have come.
"""


@dataclass(frozen=True, slots=True)
class End:
    """How one way ended: its nodes and its pods, finished ones left out."""

    nodes: dict[str, Obj]
    pods: tuple[Obj, ...]
    old: frozenset[str]
    """UIDs of pods that were there at the beginning. Without one, a pod counts as new."""
    evicted: frozenset[str]
    moved: frozenset[str]


@dataclass(frozen=True, slots=True)
class Difference:
    """See the module. Pods that are evicted, moved or go are as they would be without the changes."""

    nodes: dict[str, NodeMark]
    """Those that are not as they would be."""
    pods: tuple[tuple[PodMark, Obj], ...]


def end_of(copy: ClusterCopy, observer: Observer) -> End:
    """How a copy is now."""
    begin = copy.contents.of_kind("Pod")
    moves = copy.placement.moves if copy.placement is not None else ()
    moved = frozenset(one.what.uid for one in moves)
    return End(
        {one["metadata"]["name"]: one for one in copy.nodes()},
        tuple(one for one in copy.world.all("Pod") if not finished(one)),
        frozenset(one["metadata"].get("uid", "") for one in begin),
        frozenset(observer.evicted) - moved,
        moved,
    )


def difference(without: End, changed: End) -> Difference:
    """What is another with the changes; pods by node, then name."""
    nodes: dict[str, NodeMark] = {}
    for name, node in changed.nodes.items():
        old = without.nodes.get(name)
        if old is None:
            nodes[name] = "added"
        elif _cordoned(node) and not _cordoned(old):
            nodes[name] = "cordoned"
    nodes |= {name: "gone" for name in without.nodes if name not in changed.nodes}
    there, here = _by_place(without.pods), _by_place(changed.pods)
    pods: list[tuple[PodMark, Obj]] = []
    for place in sorted({*there, *here}):
        stay, come, go = _matched(there[place], here[place], without.old)
        pods += [("stays" if place else "waits", one) for one in stay]
        pods += [("comes", one) for one in come]
        if place:  # what need not wait any more has come somewhere
            pods += [(_left(one, changed), one) for one in go]
    return Difference(nodes, tuple(pods))


def _by_place(pods: Iterable[Obj]) -> defaultdict[str, list[Obj]]:
    found: defaultdict[str, list[Obj]] = defaultdict(list)
    for pod in sorted(pods, key=lambda one: (one["metadata"]["namespace"], one["metadata"]["name"])):
        found[pod["spec"].get("nodeName", "")].append(pod)
    return found


def _matched(
    there: list[Obj], here: list[Obj], old: frozenset[str]
) -> tuple[list[Obj], list[Obj], list[Obj]]:
    """Of one place: the pods of both ways (as they are here), those of this way alone, of the other alone."""
    left: defaultdict[tuple[str, str], list[Obj]] = defaultdict(list)
    for pod in there:
        left[_identity(pod, old)].append(pod)
    stay, come = [], []
    for pod in here:
        same = left.get(_identity(pod, old))
        if same:
            same.pop(0)
            stay.append(pod)
        else:
            come.append(pod)
    return stay, come, [pod for pods in left.values() for pod in pods]


def _identity(pod: Obj, old: frozenset[str]) -> tuple[str, str]:
    uid = _uid(pod)
    return ("", uid) if uid in old else workload_of(pod)


def _left(pod: Obj, changed: End) -> PodMark:
    uid = _uid(pod)
    if uid in changed.moved:
        return "moved"
    return "evicted" if uid in changed.evicted else "goes"


def _uid(pod: Obj) -> str:
    uid: str = pod["metadata"]["uid"]
    return uid


def _cordoned(node: Obj) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))
