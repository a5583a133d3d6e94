"""Cases for what-if on a real control plane: each a corner of the cluster, and something done to it.

All cases share the cluster, so that fifty of them take no longer than one: each has nodes that only its pods
ask for. Within a case all pods are of one size and each workload has a priority of its own, because ties are
broken at random by kube-scheduler, and a tie between workloads would be decided by chance on both sides.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.rig.controlplane import ControlPlane
from fairlead.rig.nodes import create_nodes, node_object, ready_nodes
from fairlead.rig.processes import wait_until
from fairlead.simulation.changes import (
    AddNodes,
    Apply,
    Change,
    Delete,
    DrainNode,
    LoseTier,
    LoseZone,
    RemoveNode,
    Scale,
)
from fairlead.simulation.outcome import Outcome, workload_of
from fairlead.world.objects import condition, finished

Obj = dict[str, Any]

KINDS = ("add", "remove", "drain", "tier", "zone", "scale", "apply", "delete", "policy", "combined")
PRIORITIES = {f"case-{number}": number for number in (10, 20, 30, 40, 50)}
_ZONE, _GROUP = "topology.kubernetes.io/zone", "eks.amazonaws.com/nodegroup"


@dataclass
class Case:
    """One corner, what is done to it, and with what else it has to do."""

    number: int
    kind: str
    nodes: list[Obj]
    objects: list[Obj]
    policy: Obj | None
    gang: bool
    changes: list[Change] = field(default_factory=list)
    policies: list[Obj] = field(default_factory=list)
    steps: list[Callable[[ControlPlane], object]] = field(default_factory=list)
    added: list[Obj] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        return f"case-{self.number}"

    @property
    def name(self) -> str:
        marks = [self.kind, *(["policy"] if self.policy else []), *(["gang"] if self.gang else [])]
        return f"{self.number} {'+'.join(marks)}"


def case(number: int, seed: int) -> Case:
    """The case of a number; its change is chosen once it is at rest, by `choose`."""
    rng = random.Random(f"{seed}/{number}")
    kind = KINDS[number % len(KINDS)]
    cpu = rng.choice(["500m", "1", "2"])
    governed = kind in ("tier", "policy") or rng.random() < 0.15
    gang = not governed and rng.random() < 0.45
    ours = gang or rng.random() < 0.5
    nodes = []
    for index in range(rng.randint(3, 5)):
        labels = {
            "case": str(number),
            _ZONE: f"zone-{number}-{index % 2}",
            _GROUP: f"group-{number}",
            f"tier-{number}": "spot" if index % 2 else "on-demand",
        }
        nodes.append(node_object(f"case-{number}-{index}", cpu=rng.choice([2, 4]), labels=labels))
    spec = {
        "nodeSelector": {"case": str(number)},
        "terminationGracePeriodSeconds": 0,
        "schedulerName": "fairlead" if ours else "default-scheduler",
        "containers": [{"name": "main", "image": "image", "resources": {"requests": {"cpu": cpu}}}],
    }
    names = rng.sample(sorted(PRIORITIES), rng.randint(2, 3))
    objects: list[Obj] = []
    for index, priority in enumerate(names):
        annotations = {"pod-group": "train"} if gang and index == 0 else {}
        objects.append(
            deployment(f"w{index}", rng.randint(2, 6), {**spec, "priorityClassName": priority}, annotations)
        )
    if rng.random() < 0.3:
        objects.append(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "w1"},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "w1"}}},
            }
        )
    policy = policy_of(number, "30%") if governed else None
    return Case(number, kind, nodes, objects, policy, gang)


def deployment(name: str, replicas: int, spec: Obj, annotations: Mapping[str, str]) -> Obj:
    labels = {"app": name}
    template = {"metadata": {"labels": labels, "annotations": dict(annotations)}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def policy_of(number: int, minimum: str) -> Obj:
    return {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": f"case-{number}"},
        "spec": {
            "match": {"namespaces": [f"case-{number}"]},
            "tiers": [
                {"name": "spot", "nodes": {f"tier-{number}": "spot"}, "volatile": True},
                {"name": "on-demand", "nodes": {f"tier-{number}": "on-demand"}, "min": minimum},
            ],
            "fallback": {"after": "5s", "coolDown": "30m"},
            "rebalance": {"minPodAge": "1s", "perMinute": 60, "stabilize": "1s"},
        },
    }


def choose(one: Case, seed: int, pods: list[Obj]) -> None:
    """What is done to a case, given the pods that it has now: as a change, and as steps on the cluster."""
    rng = random.Random(f"{seed}/{one.number}/change")
    homes = Counter(pod["spec"].get("nodeName", "") for pod in pods)
    names = sorted(node["metadata"]["name"] for node in one.nodes)
    busy = max(names, key=lambda name: (homes[name], name))
    workload = rng.choice(["w0", "w1"])
    match one.kind:
        case "add":
            _add(one, rng.randint(1, 2))
            _scale(one, workload, rng.randint(6, 12))
        case "remove":
            _remove(one, RemoveNode(busy), [busy])
        case "drain":
            _drain(one, busy)
        case "tier":
            lost = [name for name, node in _named(one) if node[f"tier-{one.number}"] == "spot"]
            _remove(one, LoseTier(f"case-{one.number}/spot"), lost)
        case "zone":
            zone = f"zone-{one.number}-{rng.randint(0, 1)}"
            _remove(one, LoseZone(zone), [name for name, node in _named(one) if node[_ZONE] == zone])
        case "scale":
            _scale(one, workload, rng.randint(0, 14))
        case "apply":
            spec = {**one.objects[0]["spec"]["template"]["spec"], "priorityClassName": "case-50"}
            _apply(one, deployment("new", rng.randint(2, 8), spec, {}))
        case "delete":
            _delete(one, workload)
        case "policy":
            changed = policy_of(one.number, rng.choice(["0%", "60%", "100%"]))
            one.policies.append(changed)
            one.steps.append(lambda plane: apply(plane, changed, ""))
        case _:
            _scale(one, workload, rng.randint(1, 10))
            _drain(one, busy)


def _named(one: Case) -> list[tuple[str, Mapping[str, str]]]:
    return [(node["metadata"]["name"], node["metadata"]["labels"]) for node in one.nodes]


def _add(one: Case, number: int) -> None:
    pattern = one.nodes[0]
    one.changes.append(AddNodes(f"group-{one.number}", number))
    more = []
    for index in range(number):
        name = f"case-{one.number}-more-{index}"
        meta = {**pattern["metadata"], "name": name}
        meta["labels"] = {**meta["labels"], "kubernetes.io/hostname": name}
        more.append({**pattern, "metadata": meta})
    one.added += more
    one.steps.append(lambda plane: _join(plane, more))


def _join(plane: ControlPlane, more: list[Obj]) -> None:
    create_nodes(plane.api, more)
    names = {node["metadata"]["name"] for node in more}
    wait_until(lambda: ready_nodes(plane.api, untainted=True) >= names, "new nodes", timeout_s=60)


def _remove(one: Case, change: Change, nodes: list[str]) -> None:
    one.changes.append(change)
    one.steps.append(lambda plane: plane.kubectl("delete", "node", *nodes, "--wait=false"))


def _drain(one: Case, node: str) -> None:
    one.changes.append(DrainNode(node))
    one.steps.append(
        lambda plane: plane.kubectl(
            "drain", node, "--force", "--timeout=45s", "--ignore-daemonsets", check=False
        )
    )


def _scale(one: Case, workload: str, replicas: int) -> None:
    one.changes.append(Scale(one.namespace, "", workload, replicas))
    one.steps.append(
        lambda plane: plane.kubectl(
            "scale", "-n", one.namespace, f"deployment/{workload}", f"--replicas={replicas}"
        )
    )


def _apply(one: Case, item: Obj) -> None:
    placed = {**item, "metadata": {**item["metadata"], "namespace": one.namespace}}
    one.changes.append(Apply("new.yaml", [placed]))
    one.steps.append(lambda plane: apply(plane, placed, one.namespace))


def _delete(one: Case, workload: str) -> None:
    one.changes.append(Delete("deployment", one.namespace, workload))
    one.steps.append(
        lambda plane: plane.kubectl("delete", "deployment", workload, "-n", one.namespace, "--wait=false")
    )


def apply(plane: ControlPlane, item: Obj, namespace: str) -> subprocess.CompletedProcess[str]:
    where = ["-n", namespace] if namespace else []
    return plane.kubectl("apply", "--server-side", *where, "-f", "-", stdin=json.dumps(item))


# What came of it


Counts = dict[tuple[str, str, str], int]


@dataclass(frozen=True, slots=True)
class Seen:
    """Pods of a case by workload, revision and tier: with a node, without one, and evicted."""

    placed: Counts
    pending: Counts
    evicted: Counts

    def differences(self, other: Seen) -> list[str]:
        """Where this one, the prediction, is not as the other."""
        found = []
        for what in ("placed", "pending", "evicted"):
            mine, theirs = getattr(self, what), getattr(other, what)
            for key in sorted({*mine, *theirs}):
                if mine.get(key, 0) != theirs.get(key, 0):
                    found.append(
                        f"{what} {'/'.join(key)}: {mine.get(key, 0)} predicted, {theirs.get(key, 0)} seen"
                    )
        return found


_OPTIONS: dict[type[Change], str] = {
    AddNodes: "--add-nodes",
    RemoveNode: "--remove-node",
    DrainNode: "--drain",
    LoseTier: "--lose-tier",
    LoseZone: "--lose-zone",
    Scale: "--scale",
    Apply: "--apply",
    Delete: "--delete",
}
_LEAST = {"pending": 20, "evicted": 10, "a policy": 10, "a gang": 10}
_LEAST_OF_OPTION = 5


def coverage(came: Iterable[tuple[Case, Seen]]) -> Iterator[tuple[str, int, int]]:
    """What is among the cases, in how many of them, and in how many it must be at full counts."""
    found: Counter[str] = Counter()
    for one, seen in came:
        found.update({_OPTIONS[type(change)] for change in one.changes})
        found.update({"--policy"} if one.policies else ())
        marks = {
            "pending": seen.pending,
            "evicted": seen.evicted,
            "a policy": one.policy,
            "a gang": one.gang,
        }
        found.update(name for name, there in marks.items() if there)
    for name in (*_OPTIONS.values(), "--policy"):
        yield name, found[name], _LEAST_OF_OPTION
    for name, least in _LEAST.items():
        yield name, found[name], least


def predicted(outcome: Outcome, namespace: str, known: Iterable[str]) -> Seen:
    """A case's part of an outcome. Revisions that are not known yet are called ``new``."""
    names = set(known)

    def counts(of: Mapping[Any, int]) -> Counts:
        found: Counter[tuple[str, str, str]] = Counter()
        for share, number in of.items():
            if share.workload.startswith(f"{namespace}/"):
                found[share.workload, _revision(share.revision, names), share.tier] += number
        return dict(found)

    # The API server tells no difference between what was drained and what was moved.
    left = counts(outcome.evicted_by), counts(outcome.moved_by)
    gone = Counter(left[0]) + Counter(left[1])
    return Seen(counts(outcome.placed_by), counts(outcome.pending_by), dict(gone))


def observed(one: Case, history: Iterable[Obj], before: Mapping[str, Obj], nodes: Mapping[str, str]) -> Seen:
    """What a watch of pods saw of a case. `nodes`: the tier of each node there ever was."""
    known = {workload_of(pod)[1] for pod in before.values()}
    last: dict[str, Obj] = {}
    evicted: dict[str, tuple[str, str, str]] = {}

    def share(pod: Obj, tier: str) -> tuple[str, str, str]:
        workload, revision = workload_of(pod)
        return workload, _revision(revision, known), tier

    for event in history:
        pod = event["object"]
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        disrupted = condition(pod, "DisruptionTarget")
        if node and disrupted is not None and disrupted["status"] == "True" and uid not in evicted:
            evicted[uid] = share(pod, nodes.get(node, "") if one.policy else "")
        if event["type"] == "DELETED" or finished(pod):
            last.pop(uid, None)
        else:
            last[uid] = pod
    placed: Counter[tuple[str, str, str]] = Counter()
    pending: Counter[tuple[str, str, str]] = Counter()
    for pod in last.values():
        node = pod["spec"].get("nodeName", "")
        if node:
            placed[share(pod, nodes.get(node, "") if one.policy else "")] += 1
        else:
            pending[share(pod, "")] += 1
    return Seen(dict(placed), dict(pending), dict(Counter(evicted.values())))


def _revision(revision: str, known: Iterable[str]) -> str:
    return revision if revision in known else "new"
