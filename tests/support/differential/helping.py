"""What would help, as `explain` gives it for programs, done on a real cluster; kube-scheduler judges."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

from fairlead import Cluster
from fairlead.kube.quantity import milli, value
from support.differential.compare import says_it_all
from support.differential.oracle import Object, Oracle, key_of
from support.differential.states import State

OF_PODS = ("tolerate", "skew", "unselect", "ungate")
_NODES_NAMED = 3
_NODE_CHANGES = 3  # of a state: each takes a run of the scheduler


@dataclass(frozen=True)
class Tried:
    """A change and what came of it."""

    what: str
    pod: str
    change: Object
    feasible: list[str]
    message: str
    """What kube-scheduler said where it does not fit."""

    @property
    def helped(self) -> bool:
        named = self.change.get("nodes", [])[:_NODES_NAMED]
        if self.what not in OF_PODS:
            named = named[:1]  # it was made on that one only
        return bool(self.feasible) and set(named) <= set(self.feasible)


def try_changes(oracle: Oracle, state: State) -> Iterator[Tried]:
    """Everything that would help the pods of a state; each pod is judged as if it were the only one."""
    oracle.clear()
    oracle.create((*state.objects, *state.placed))
    cluster = Cluster.from_objects(oracle.objects())
    of_nodes: list[tuple[Object, Object]] = []
    changed: dict[str, tuple[Object, Object]] = {}
    for pod in state.pending:
        if not says_it_all(pod):
            continue
        for number, change in enumerate(cluster.explain(pod).changes):
            plain = change.to_dict()
            if plain["what"] in OF_PODS:
                other = changed_pod(pod, plain)
                other["metadata"]["name"] += f"-{number}"
                changed[key_of(other)] = other, plain
            else:
                of_nodes.append((pod, plain))
    oracle.listener.refuses = True
    try:
        if changed:
            made = oracle.create(pod for pod, _ in changed.values())
            outcomes = oracle.outcomes(made)
            for pod, plain in changed.values():
                outcome = outcomes[key_of(pod)]
                yield Tried(plain["what"], key_of(pod), plain, outcome.feasible, outcome.message)
            for pod in made:
                remove(oracle, pod)
        # The rarest kinds first: nearly every pod could have others evicted.
        of_nodes.sort(key=lambda one: sum(one[1]["what"] == other[1]["what"] for other in of_nodes))
        for pod, plain in of_nodes[:_NODE_CHANGES]:
            oracle.clear()
            things = [changed_object(thing, plain) for thing in (*state.objects, *state.placed)]
            oracle.create(thing for thing in things if thing is not None)
            (made_pod,) = oracle.create([pod])
            outcome = oracle.outcomes([made_pod])[key_of(pod)]
            yield Tried(plain["what"], key_of(pod), plain, outcome.feasible, outcome.message)
    finally:
        oracle.listener.refuses = False


def changed_pod(pod: Object, change: Object) -> Object:
    """The pod with a change of its own."""
    other = copy.deepcopy(pod)
    spec = other["spec"]
    match change["what"]:
        case "tolerate":
            added = [
                {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}
                for taint in change["taints"]
            ]
            spec["tolerations"] = [*spec.get("tolerations", []), *added]
        case "skew":
            for constraint in spec["topologySpreadConstraints"]:
                if constraint.get("whenUnsatisfiable") == "DoNotSchedule":
                    constraint["maxSkew"] = change["maxSkew"]
        case "unselect":
            spec.pop("nodeSelector", None)
            spec.get("affinity", {}).pop("nodeAffinity", None)
        case "ungate":
            del spec["schedulingGates"]
    return other


def changed_object(thing: Object, change: Object) -> Object | None:
    """An object of the cluster after a change; None for a pod that leaves."""
    metadata = thing["metadata"]
    if thing["kind"] == "Pod" and key_of(thing) in change.get("pods", ()):
        return None
    if thing["kind"] != "Node" or metadata["name"] != change["nodes"][0]:
        return thing
    node = copy.deepcopy(thing)
    match change["what"]:
        case "label":
            node["metadata"]["labels"] |= change["labels"]
        case "uncordon":
            node["spec"].pop("unschedulable", None)
        case "grow":
            has = node["status"]["allocatable"]
            for name, amount in change["amounts"].items():
                more = milli if name == "cpu" else value
                total = more(has.get(name, "0")) + more(amount)
                has[name] = f"{total}m" if name == "cpu" else str(total)
            node["status"]["capacity"] = dict(has)
    return node


def remove(oracle: Oracle, pod: Object) -> None:
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    oracle.api.request("DELETE", path, {"gracePeriodSeconds": 0})
