"""Crowded little clusters, many side by side on one API server, for the real scheduler to preempt in.

Each case has nodes, labels and a namespace of its own, and its preemptor may go on its own nodes only,
so that the cases do not feel each other and one start of the scheduler decides all of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from fairlead import Cluster
from support.differential.oracle import Object, Oracle, key_of

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
SHIFT = 2**31

# Victims are deleted before the nomination is written, and so by the time the scheduler is stopped.
_SYNCHRONOUS = ("SchedulerAsyncPreemption=false",)
# How a pod that is terminating came to it. Only of the first kind kube-scheduler says that it made room.
LEAVING = (
    [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
    [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}],
    [{"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}],
    [],
)


@dataclass
class Case:
    """One little cluster and the pod that wants in."""

    namespace: str
    objects: list[Object] = field(default_factory=list)
    preemptor: Object = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """A node and who leaves it; without a node, what was said."""

    node: str | None
    victims: tuple[str, ...]
    message: str = ""


def generate(seed: int, cases: int) -> list[Case]:
    """The cases of one seed."""
    rng = random.Random(f"preemption {seed}")
    return [_case(rng, f"case-{index}", 100_000 - index) for index in range(cases)]


def generate_hopeless(seed: int, cases: int) -> list[Case]:
    """The same, but with preemptors for which mostly nothing can be done."""
    rng = random.Random(f"hopeless {seed}")
    found = []
    for index in range(cases):
        case = _case(rng, f"case-{index}", 100_000 - index)
        spec = case.preemptor["spec"]
        chosen = rng.random()
        if chosen < 0.1:
            spec["preemptionPolicy"] = "Never"
        elif chosen < 0.2:
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "nowhere"}}]
        elif chosen < 0.6:
            spec["priority"] = rng.choice([-5, 0, 1, 10])
        if rng.random() < 0.6:
            requests = spec["containers"][0]["resources"]["requests"]
            requests["cpu"] = rng.choice(["2500m", "3", "3500m", "4", "8"])
        if rng.random() < 0.3:
            spec.setdefault("tolerations", []).append({"key": "odd", "operator": "Exists"})
        found.append(case)
    return found


def decide(oracle: Oracle, cases: list[Case]) -> tuple[list[Object], dict[str, Choice]]:
    """What the API server held before the scheduler started, and the scheduler's choices by namespace."""
    oracle.clear()
    oracle.create(thing for case in cases for thing in (*case.objects, case.preemptor))
    before = oracle.objects()
    keys = {thing["metadata"]["uid"]: key_of(thing) for thing in before if thing["kind"] == "Pod"}
    preemptors = {key_of(case.preemptor): case.namespace for case in cases}
    found: dict[str, Choice] = {}

    def decided() -> bool:
        for pod in oracle.objects(["Pod"]):
            namespace = preemptors.get(key_of(pod), "")
            if namespace and namespace not in found and _settled(pod):
                offers = oracle.listener.victims.get(key_of(pod))
                if offers is None:
                    found[namespace] = Choice(None, (), _said(pod))
                else:
                    node = pod["status"]["nominatedNodeName"]
                    found[namespace] = Choice(node, tuple(sorted(keys[uid] for uid in offers[node])))
        return len(found) == len(cases)

    oracle.schedule(decided, "kube-scheduler to decide on every preemptor", gates=_SYNCHRONOUS)
    return before, found


def cost(case: Case, victims: tuple[str, ...], *, violations: int | None = None) -> tuple[Any, ...]:
    """kube-scheduler's own order over sets of victims: lower is better."""
    pods = {key_of(thing): thing for thing in case.objects if thing["kind"] == "Pod"}
    chosen = sorted((pods[key] for key in victims), key=_importance)
    priorities = [pod["spec"].get("priority", 0) for pod in chosen]
    top = max(priorities)
    start = min(
        pod["status"]["startTime"]
        for pod, priority in zip(chosen, priorities, strict=True)
        if priority == top
    )
    broken = broken_budgets(case, chosen) if violations is None else violations
    return (
        broken,
        top,
        sum(priority + SHIFT for priority in priorities),
        len(chosen),
        tuple(-ord(char) for char in start),
    )


def broken_budgets(case: Case, chosen: list[Object]) -> int:
    """How many of the chosen go beyond what their budgets allow."""
    left = {
        thing["metadata"]["name"]: (thing["spec"]["selector"], thing["status"]["disruptionsAllowed"])
        for thing in case.objects
        if thing["kind"] == "PodDisruptionBudget"
    }
    broken = 0
    for pod in chosen:
        beyond = False
        for name, (selector, allowed) in left.items():
            wanted = selector.get("matchLabels", {})
            labels = pod["metadata"]["labels"]
            if wanted and all(labels.get(key) == value for key, value in wanted.items()):
                left[name] = (selector, allowed - 1)
                beyond = beyond or allowed - 1 < 0
        broken += beyond
    return broken


def leavers(case: Case) -> list[Object]:
    """The pods of lower priority that are leaving the preemptor's nominated node."""
    nominated = case.preemptor.get("status", {}).get("nominatedNodeName")
    return [
        thing
        for thing in case.objects
        if thing.get("terminating")
        and thing["spec"]["nodeName"] == nominated
        and thing["spec"]["priority"] < case.preemptor["spec"]["priority"]
    ]


def felt_by(case: Case, objects: list[Object]) -> list[Object]:
    """What of all there is the case can feel: its own, and what is nobody's."""
    names = {(thing["kind"], thing["metadata"]["name"]) for thing in case.objects}

    def feels(thing: Object) -> bool:
        if thing["kind"] in ("Node", "Namespace"):
            return (thing["kind"], thing["metadata"]["name"]) in names
        return bool(thing["metadata"].get("namespace", case.namespace) == case.namespace)

    return [thing for thing in objects if feels(thing)]


def fits_without(objects: list[Object], case: Case, victims: tuple[str, ...]) -> list[str]:
    """Where the preemptor fits once the victims are gone."""
    left = [thing for thing in objects if thing["kind"] != "Pod" or key_of(thing) not in victims]
    feasible: list[str] = Cluster.from_objects(left).explain(key_of(case.preemptor)).feasible
    return feasible


def _importance(pod: Object) -> tuple[int, str]:
    return -pod["spec"].get("priority", 0), pod["status"]["startTime"]


def _settled(pod: Object) -> bool:
    """Whether it was tried. A nomination says nothing: the pod may have come with one."""
    if pod["spec"].get("nodeName"):
        return True
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)


def _said(pod: Object) -> str:
    conditions = pod["status"].get("conditions", [])
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")


def _case(rng: random.Random, name: str, priority: int) -> Case:
    case = Case(name)
    case.objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    nodes = [f"{name}-n{index}" for index in range(rng.randint(1, 4))]
    case.objects += [_node(rng, name, node) for node in nodes]
    number = 0
    for node in nodes:
        held: set[int] = set()
        for _ in range(rng.randint(2, 8)):
            number += 1
            pod = _placed(rng, name, f"placed-{number}", node, priority)
            _give_up_ports(pod, held)
            case.objects.append(pod)
    for app in "ab":
        if rng.random() < 0.35:
            # Now and then with an empty selector, which protects nobody.
            labels = {"app": app} if rng.random() < 0.85 else {}
            case.objects.append(
                {
                    "apiVersion": "policy/v1",
                    "kind": "PodDisruptionBudget",
                    "metadata": {"name": app, "namespace": name},
                    "spec": {"selector": {"matchLabels": labels}, "minAvailable": 1},
                    "status": {
                        "disruptionsAllowed": rng.randint(0, 2),
                        "currentHealthy": 0,
                        "desiredHealthy": 0,
                        "expectedPods": 0,
                    },
                }
            )
    case.preemptor = _preemptor(rng, name, priority)
    if rng.random() < 0.35:
        # It preempted before: some of the pods there may still be leaving, for it or for another reason.
        nominated = rng.choice(nodes)
        case.preemptor["status"] = {"nominatedNodeName": nominated}
        for pod in case.objects:
            if pod["kind"] == "Pod" and pod["spec"]["nodeName"] == nominated and rng.random() < 0.3:
                _leave(rng, pod)
    return case


def _node(rng: random.Random, case: str, name: str) -> Object:
    amounts = {
        "cpu": rng.choice(["2", "3", "4"]),
        "memory": rng.choice(["4Gi", "8Gi"]),
        "pods": rng.choice(["5", "8", "110"]),
    }
    labels = {HOSTNAME: name, "case": case}
    if rng.random() < 0.9:
        labels[ZONE] = f"{case}-{rng.choice('ab')}"
    taints = [{"key": "odd", "effect": "NoSchedule"}] if rng.random() < 0.08 else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, **({"unschedulable": True} if rng.random() < 0.05 else {})},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _bare(rng: random.Random, case: str, name: str, cpus: list[str], memories: list[str]) -> Object:
    requests = {"cpu": rng.choice(cpus), "memory": rng.choice(memories)}
    container: Object = {"name": "c", "image": "i", "resources": {"requests": requests}}
    if rng.random() < 0.15:
        container["ports"] = [{"containerPort": 80, "hostPort": rng.choice([80, 81])}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": case, "labels": {"app": rng.choice("ab")}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 3600},
    }


def _placed(rng: random.Random, case: str, name: str, node: str, above: int) -> Object:
    pod = _bare(rng, case, name, ["0", "250m", "500m", "1", "1500m"], ["0", "1Gi", "2Gi"])
    priorities = [-2_000_000_000, -5, 0, 0, 1, 1, 10, 10, 99_000]
    # Now and then somebody is not lower.
    pod["spec"]["priority"] = above if rng.random() < 0.06 else rng.choice(priorities)
    pod["spec"]["nodeName"] = node
    if rng.random() < 0.15:
        pod["spec"]["affinity"] = {"podAntiAffinity": _terms(rng)}
    pod["status"] = {
        "phase": "Running",
        "startTime": f"2026-01-01T00:00:{rng.randint(0, 5):02}Z",
    }
    return pod


def _leave(rng: random.Random, pod: Object) -> None:
    pod["metadata"]["finalizers"] = ["example.com/hold"]
    pod["terminating"] = True
    pod["status"]["conditions"] = rng.choice(LEAVING)


def _give_up_ports(pod: Object, held: set[int]) -> None:
    """No kubelet runs two pods with one host port; kube-scheduler, were it so, frees it with the first."""
    container = pod["spec"]["containers"][0]
    wanted = {port["hostPort"] for port in container.get("ports", [])}
    if wanted & held:
        del container["ports"]
    held |= wanted


def _preemptor(rng: random.Random, case: str, priority: int) -> Object:
    pod = _bare(rng, case, "preemptor", ["1", "1500m", "2"], ["0", "1Gi", "4Gi"])
    spec = pod["spec"]
    spec["priority"] = priority
    spec["nodeSelector"] = {"case": case}
    if rng.random() < 0.06:
        spec["preemptionPolicy"] = "Never"
    chosen = rng.random()
    if chosen < 0.2:
        spec["affinity"] = {"podAntiAffinity": _terms(rng)}
    elif chosen < 0.3:
        spec["affinity"] = {"podAffinity": _terms(rng)}
    elif chosen < 0.5:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": rng.randint(1, 2),
                "topologyKey": rng.choice([HOSTNAME, ZONE]),
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": rng.choice("ab")}},
            }
        ]
    return pod


def _terms(rng: random.Random) -> Object:
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": rng.choice([HOSTNAME, ZONE]),
                "labelSelector": {"matchLabels": {"app": rng.choice("ab")}},
            }
        ]
    }
