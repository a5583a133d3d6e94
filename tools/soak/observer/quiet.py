"""What must hold at a quiet point: all that fits is placed, exactly where it belongs.

Subtle: "fits" is judged by a first-fit of this module's own. What it can place, Fairlead must have placed;
what it cannot place is not held against anybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from tools.soak.observer.invariants import CAPACITY, MINIMUM, Observer, called, done, gang_of
from tools.soak.observer.quantities import allocatable, requested
from tools.soak.observer.tiers import split, tier_of

Manifest = dict[str, Any]
Finding = tuple[str, str, str]
"""The invariant, what it is about, and what was found."""


def findings(seen: Observer, tiers_of: dict[str, list[Manifest]]) -> list[Finding]:
    """What does not hold; `tiers_of` has the tiers of each value of the label ``tier`` on workloads."""
    nodes = {one["metadata"]["name"]: one for one in seen.objects.get("Node", {}).values()}
    found = [
        *_unplaced(seen, nodes),
        *_stray(seen, nodes),
        *_splits(seen, nodes, tiers_of),
        *_parts(seen),
    ]
    found += [
        ("slots are unique", " ".join(slot), f"{', '.join(pods)} share it")
        for slot, pods in seen.doubled().items()
    ]
    found += [
        ("no node beyond allocatable", name, over) for name in nodes if (over := seen.overcommitted(name))
    ]
    return found


def _waiting(seen: Observer) -> list[Manifest]:
    return [
        pod
        for pod in seen.pods.values()
        if not done(pod) and "deletionTimestamp" not in pod["metadata"] and not pod["spec"].get("nodeName")
    ]


def _unplaced(seen: Observer, nodes: dict[str, Manifest]) -> Iterator[Finding]:
    free = {name: _free(seen, node) for name, node in nodes.items()}
    units: dict[str, list[Manifest]] = {}
    for pod in _waiting(seen):
        units.setdefault(gang_of(pod) or called(pod), []).append(pod)
    for name, pods in units.items():
        room = {node: dict(left) for node, left in free.items()}
        places = [_place(seen, pod, nodes, room) for pod in pods]
        short = gang_of(pods[0]) and len(pods) + _started(seen, name) < _minimum(pods)
        if all(places) and not short:
            yield (
                "what fits is placed",
                name,
                f"{len(pods)} pods wait, and fit on {', '.join(sorted(set(places)))}",
            )


def _place(
    seen: Observer, pod: Manifest, nodes: dict[str, Manifest], room: dict[str, dict[str, Fraction]]
) -> str:
    """The first node with room, whose room shrinks; "" for none."""
    alone = (pod["metadata"].get("annotations") or {}).get(CAPACITY) == "exclusive"
    for name, node in nodes.items():
        labels = node["metadata"].get("labels") or {}
        taints = [one for one in node["spec"].get("taints") or () if one["effect"] != "PreferNoSchedule"]
        wanted = pod["spec"].get("nodeSelector") or {}
        if node["spec"].get("unschedulable") or taints or not wanted.items() <= labels.items():
            continue
        beside = [one for one in seen.on_node(name) if one["spec"].get("schedulerName") == "fairlead"]
        exclusive = any(
            (one["metadata"].get("annotations") or {}).get(CAPACITY) == "exclusive" for one in beside
        )
        asks = requested(pod)
        if exclusive or (alone and beside) or any(room[name].get(one, 0) < asks[one] for one in asks):
            continue
        for one in asks:
            room[name][one] -= asks[one]
        if alone:
            room[name]["pods"] = Fraction(0)
        return name
    return ""


def _free(seen: Observer, node: Manifest) -> dict[str, Fraction]:
    left = allocatable(node)
    for pod in seen.on_node(node["metadata"]["name"]):
        for name, amount in requested(pod).items():
            left[name] = left.get(name, Fraction(0)) - amount
    return left


def _stray(seen: Observer, nodes: dict[str, Manifest]) -> Iterator[Finding]:
    for pod in seen.pods.values():
        node = pod["spec"].get("nodeName")
        if node and node not in nodes and not done(pod):
            yield "no pod stays on a node that is gone", called(pod), f"it is on {node}"


def _splits(
    seen: Observer, nodes: dict[str, Manifest], tiers_of: dict[str, list[Manifest]]
) -> Iterator[Finding]:
    held = seen.holders()
    for workload in seen.objects.get("Deployment", {}).values():
        labels = workload["spec"]["template"]["metadata"].get("labels") or {}
        tiers = tiers_of.get(labels.get("tier", ""))
        if tiers is None:
            continue
        pods = [
            pod
            for pod in seen.pods.values()
            if pod["metadata"].get("labels", {}).get("app") == labels["app"]
            and pod["metadata"]["namespace"] == workload["metadata"]["namespace"]
            and not done(pod)
        ]
        lies = Counter(
            tier_of(nodes[node], tiers) for one in pods if (node := one["spec"].get("nodeName")) in nodes
        )
        belongs = split(workload["spec"]["replicas"], tiers)
        for pod in pods:
            mine = [slot for slot, names in held.items() if called(pod) in names]
            if len(mine) != 1:
                yield (
                    "every pod has its slot",
                    called(pod),
                    f"it holds {[slot for _, slot in mine]} of the ledger",
                )
        if dict(lies) != belongs:
            yield (
                "tiers are split exactly",
                called(workload),
                f"its pods lie {dict(lies)}, and belong {belongs}",
            )


def _parts(seen: Observer) -> Iterator[Finding]:
    gangs: dict[str, list[Manifest]] = {}
    for pod in seen.pods.values():
        if gang_of(pod) and "deletionTimestamp" not in pod["metadata"]:
            gangs.setdefault(gang_of(pod), []).append(pod)
    for name, pods in gangs.items():
        started, minimum = _started(seen, name), _minimum(pods)
        if len(pods) >= minimum and 0 < started < minimum:
            yield (
                "no gang stays partly started",
                name,
                f"{started} of its members have a node, of at least {minimum}",
            )


def _started(seen: Observer, gang: str) -> int:
    return sum(
        gang_of(pod) == gang and (done(pod) or bool(pod["spec"].get("nodeName")))
        for pod in seen.pods.values()
    )


def _minimum(pods: list[Manifest]) -> int:
    return max(int(pod["metadata"]["annotations"].get(MINIMUM, 0)) for pod in pods)
