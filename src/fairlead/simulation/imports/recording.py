"""A recording of a live scheduler, as a scenario: its nodes in groups, its workloads, and other pods as
traces: they come when they came, with what they asked for, their priorities and their gangs.

All pods are placed again, also those that ran when the recording began; so nothing that names a node is kept.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from fairlead.engine.ask.capacity import ZONE, group_of, is_spot
from fairlead.engine.ask.cost import price_of
from fairlead.engine.core.recording import Line
from fairlead.engine.gangs.membership import annotated_minimum, gang_of
from fairlead.engine.planning.priority import priority_of
from fairlead.engine.snapshot.requests import CPU, PODS, allocatable, requests_of
from fairlead.errors import BadInput
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.pod import Pod, PodSpec
from fairlead.kube.selectors import matches
from fairlead.nodegroups import GROUP_LABEL
from fairlead.policy.rule.workloads import MIRROR
from fairlead.simulation.imports.draft import Draft, counted, duration, name_from
from fairlead.simulation.imports.history import History, NodeLife, PodLife, WorkloadLife
from fairlead.simulation.scenario.pod_trace import TracedPod, write_pod_trace

_CAPACITY = "fairlead.dev/capacity"
# Labels that controllers make up for each pod or revision; no two recordings have the same.
_MADE = (
    "batch.kubernetes.io/",
    "statefulset.kubernetes.io/",
    "apps.kubernetes.io/pod-index",
    "controller-revision-hash",
    "controller-uid",
    "job-name",
    "pod-template-hash",
)
_GANG_LABELS = ("pod-group", "scheduling.")
_OF_A_NODE = ("kubernetes.io/hostname", "beta.kubernetes.io/", ZONE, GROUP_LABEL)
_PASSING = "node.kubernetes.io/"
_KEPT = ("affinity", "tolerations", "topologySpreadConstraints", "preemptionPolicy", "activeDeadlineSeconds")
_NODE_NAMES = re.compile(r"kubernetes\.io/hostname\"|metadata\.name\"")

Said = Counter[str]
"""What could not be carried over, and how often; each begins with what is counted."""


def import_recording(segments: Iterable[Iterable[tuple[int, Line]]], *, name: str) -> Draft:
    """The scenario of a recording's segments, the oldest first."""
    history = History()
    for segment in segments:
        history.segment(segment)
    if not history.nodes:
        raise BadInput("the recording has no nodes")
    said: Said = Counter()
    fixed = [life for life in history.pods.values() if _is_fixed(life.pod)]
    groups, names = _groups(history, fixed)
    kept_up = {
        key: one for key, one in history.workloads.items() if any(number for _, number in one.replicas)
    }
    workloads = [_workload(one, history, said) for one in kept_up.values()]
    lives = [
        life
        for life in history.pods.values()
        if not _is_fixed(life.pod) and history.controller_of(life.pod) not in kept_up
    ]
    streams = _streams(lives, history, said)
    taken: dict[str, int] = {}
    files: dict[str, str] = {}
    arrivals: list[dict[str, Any]] = []
    for one in workloads:
        one["name"] = _free(one["name"], taken)
    for fields, pods in streams:
        stream = {**fields, "name": _free(fields["name"], taken)}
        stream["trace"] = f"{stream['name']}.csv"
        files[stream["trace"]] = write_pod_trace(sorted(pods, key=lambda each: each.at_s))
        arrivals.append(stream)
    spec: dict[str, Any] = {"duration": duration(max(60.0, history.ends_s + 1)), "nodeGroups": groups}
    policies = [
        {"metadata": {"name": one.name}, "spec": _plain(msgspec.to_builtins(one.spec))}
        for one in history.policies
    ]
    more = {
        "planning": _planning(history),
        "workloads": workloads,
        "arrivals": arrivals,
        "policies": policies,
        "faults": list(_faults(history.nodes, names, said)),
    }
    spec |= {field: found for field, found in more.items() if found}
    number = len(lives)
    return Draft(
        name,
        f"{counted(len(history.nodes), 'node')}, {counted(len(workloads), 'workload')} and "
        f"{counted(number, 'further pod')} of a recording",
        spec,
        files,
        tuple(_notes(history, said, len(fixed))),
    )


# Nodes


def _is_fixed(pod: Pod) -> bool:
    """Whether a pod belongs to its node: DaemonSets' and the kubelet's own."""
    owner = pod.metadata.controller
    return MIRROR in pod.metadata.annotations or (owner is not None and owner.kind in ("DaemonSet", "Node"))


def _groups(history: History, fixed: Sequence[PodLife]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Groups of nodes that are alike, and what each node is called in its group."""
    taken_by: dict[str, Counter[str]] = {}
    for life in fixed:
        if life.node and life.ended_s is None:
            on = taken_by.setdefault(life.node, Counter())
            on.update(dict(requests_of(life.pod).amounts))
            on[PODS] += 1
    alike: dict[str, list[str]] = {}
    for name, one in history.nodes.items():
        shape = json.dumps(_shape(one, taken_by.get(name, Counter())), sort_keys=True)
        alike.setdefault(shape, []).append(name)
    found: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    taken: dict[str, int] = {}
    for shape, members in alike.items():
        fields = json.loads(shape)
        group = {**fields, "name": _free(fields["name"], taken), "nodes": len(members)}
        found.append({"name": group.pop("name"), "nodes": group.pop("nodes"), **group})
        names |= {name: f"{found[-1]['name']}-{number + 1}" for number, name in enumerate(members)}
    return found, names


def _shape(life: NodeLife, taken: Mapping[str, int]) -> dict[str, Any]:
    node = life.node
    has = allocatable(node.metadata.name, node.status.allocatable)
    resources = {key: max(1, value - taken.get(key, 0)) for key, value in has.items()}
    shape: dict[str, Any] = {
        "name": name_from(group_of(node), "nodes", 50),
        "resources": {key: _quantity(key, value) for key, value in resources.items()},
    }
    if zone := node.metadata.labels.get(ZONE):
        shape["zones"] = [zone]
    if labels := {
        key: value for key, value in node.metadata.labels.items() if value and not key.startswith(_OF_A_NODE)
    }:
        shape["labels"] = labels
    if taints := [str(one) for one in node.spec.taints if not one.key.startswith(_PASSING)]:
        shape["taints"] = taints
    if is_spot(node):
        shape["volatile"] = True
    if price := price_of(node.metadata.labels):
        shape["pricePerHour"] = price
    return shape


def _faults(nodes: Mapping[str, NodeLife], names: Mapping[str, str], said: Said) -> Iterator[dict[str, Any]]:
    found: list[tuple[float, str, str]] = []
    for name, life in nodes.items():
        if life.came_s > 0:
            said["node that came meanwhile: there from the beginning"] += 1
        for at_s, cordoned in life.cordons:
            found.append((at_s, "cordon" if cordoned else "uncordon", names[name]))
        if life.gone_s is not None:
            said["node that went meanwhile: drained then, and cordoned from then on"] += 1
            found.append((life.gone_s, "drain", names[name]))
    for at_s, action, node in sorted(found):
        yield {"at": f"{at_s:g}s", "action": action, "node": node}


# Workloads


def _workload(life: WorkloadLife, history: History, said: Said) -> dict[str, Any]:
    template = life.workload.spec.template
    meta = msgspec.structs.replace(template.metadata, namespace=life.workload.metadata.namespace)
    pod = Pod(metadata=meta, spec=template.spec)
    fields = _fields(pod, history, said, gang=False)
    found: dict[str, Any] = {"name": name_from(life.workload.metadata.name, "workload"), "kind": life.kind}
    (begin_s, begin), *later = life.replicas
    if begin_s > 0:
        later, begin = life.replicas, 0
    found["replicas"] = begin
    if later:
        found["scale"] = [{"at": f"{at_s:g}s", "replicas": number} for at_s, number in later]
    least = next(
        (
            one.spec.min_available
            for one in history.budgets.values()
            if one.metadata.namespace == meta.namespace and matches(one.spec.selector, meta.labels)
        ),
        None,
    )
    if least is not None:
        found["minAvailable"] = least
    found |= {key: value for key, value in fields.items() if key != "name"}
    if amounts := dict(requests_of(pod).amounts):
        found["requests"] = {key: _quantity(key, value) for key, value in amounts.items()}
    priority = _priority(pod, history)
    return {**found, "priority": priority} if priority else found


# Pods


def _streams(
    lives: Sequence[PodLife], history: History, said: Said
) -> list[tuple[dict[str, Any], list[TracedPod]]]:
    """Pods that differ in no more than a trace can say, with the fields of their stream."""
    found: dict[str, tuple[dict[str, Any], list[TracedPod]]] = {}
    names: dict[str, None] = {}
    for unit in _units(lives):
        placed = [one for one in unit if one.bound_s is not None]
        if not placed and all(one.ended_s is not None for one in unit):
            said["pod gone without ever having a node: left out"] += len(unit)
            continue
        fields = _fields(unit[0].pod, history, said, gang=len(unit) > 1)
        traced = _traced(unit, placed, history, said)
        if traced.name in names:
            traced = replace(traced, name="")  # it gets a number of its stream
        names[traced.name] = None
        found.setdefault(json.dumps(fields, sort_keys=True), (fields, []))[1].append(traced)
    if any(life.evicted for life in lives):
        # What took an evicted pod's place is in the trace itself.
        for fields, _ in found.values():
            fields["recreate"] = False
        said["pod evicted meanwhile: what took such a pod's place comes as it did"] += sum(
            life.evicted for life in lives
        )
    return list(found.values())


def _units(lives: Sequence[PodLife]) -> list[list[PodLife]]:
    """Single pods and gangs; members that come when others have their nodes are the gang's next life."""
    found: list[list[PodLife]] = []
    current: dict[str, list[PodLife]] = {}
    for life in lives:
        gang = gang_of(life.pod.metadata, life.pod.spec)
        unit = current.get(gang) if gang else None
        if unit is None or any(one.bound_s is not None and one.bound_s < life.came_s for one in unit):
            unit = []
            found.append(unit)
            if gang:
                current[gang] = unit
        unit.append(life)
    return found


def _traced(unit: Sequence[PodLife], placed: Sequence[PodLife], history: History, said: Said) -> TracedPod:
    amounts: dict[str, int] = {}
    each = [dict(requests_of(one.pod).amounts) for one in unit]
    for one in each:
        amounts = {key: max(amounts.get(key, 0), one.get(key, 0)) for key in (*amounts, *one)}
    if any(one != each[0] for one in each):
        said["gang with members that differ: each asks for the most that one of them asks for"] += 1
    first = unit[0].pod
    least = annotated_minimum(first) or history.gang_minimum(first)
    if 0 < least < len(unit):
        said["gang that may start with some of its members: all of them start together"] += 1
    ends = [one.ended_s for one in unit if one.ended_s is not None]
    begins = [one.bound_s for one in placed if one.bound_s is not None]
    runs_for_s = max(1.0, max(ends) - min(begins)) if begins and len(ends) == len(unit) else None
    name = (first.metadata.name if len(unit) == 1 else gang_of(first.metadata, first.spec)).rpartition("/")[2]
    return TracedPod(
        at_s=max(one.came_s for one in unit),
        runs_for_s=runs_for_s,
        name=name_from(name.partition("@")[0], "", 50),
        pods=len(unit),
        priority=min(_priority(one.pod, history) for one in unit) or None,
        requests=tuple((key, _quantity(key, value)) for key, value in sorted(amounts.items())),
        nodes=(),
    )


def _fields(pod: Pod, history: History, said: Said, *, gang: bool) -> dict[str, Any]:
    """The fields of a stream or workload that pods like this one have."""
    meta, spec = pod.metadata, pod.spec
    labels = {
        key: value
        for key, value in meta.labels.items()
        if not key.startswith(_MADE) and not (gang and key.startswith(_GANG_LABELS))
    }
    found: dict[str, Any] = {"name": name_from(_called(meta), "pods", 50)}
    if meta.namespace not in ("", "default"):
        found["namespace"] = meta.namespace
    if spec.scheduler_name not in history.settings.scheduler_names:
        found["scheduler"] = "default-scheduler"
        if spec.scheduler_name != "default-scheduler":
            said["pod of other schedulers: placed by kube-scheduler's rules"] += 1
    if labels:
        found["labels"] = labels
    kept = {_CAPACITY: meta.annotations[_CAPACITY]} if _CAPACITY in meta.annotations else {}
    if not gang and (declared := _gang_annotations(pod)):
        kept |= declared
    if kept:
        found["annotations"] = kept
    if spec.node_selector:
        found["nodeSelector"] = spec.node_selector
    rest = _rest(spec, said)
    if rest:
        found["spec"] = rest
    return found


def _gang_annotations(pod: Pod) -> dict[str, str]:
    return {
        key: value
        for key, value in pod.metadata.annotations.items()
        if key.startswith(("pod-group", "scheduling."))
    }


def _rest(spec: PodSpec, said: Said) -> dict[str, Any]:
    if spec.volumes:
        said["pod with volumes: volumes are left out"] += 1
    if any(port.host_port for one in spec.containers for port in one.ports):
        said["pod with host ports: ports are left out"] += 1
    defaults = msgspec.to_builtins(PodSpec())
    given = msgspec.to_builtins(spec)
    found = {key: _plain(given[key]) for key in _KEPT if given[key] != defaults[key]}
    if _NODE_NAMES.search(json.dumps(found.get("affinity", {}).get("nodeAffinity", {}))):
        said["pod with the name of a node in its affinity: nodes have other names here"] += 1
    return found


def _called(meta: ObjectMeta) -> str:
    for label in ("app.kubernetes.io/name", "app"):
        if meta.labels.get(label):
            return meta.labels[label]
    owner = meta.controller
    # What belongs to a Job or to nothing is one of many alike.
    return owner.name if owner is not None and owner.kind not in ("Job", "ReplicaSet") else "pods"


def _priority(pod: Pod, history: History) -> int:
    namespace = history.namespaces.get(pod.metadata.namespace)
    labels = namespace.metadata.labels if namespace is not None else None
    return priority_of(pod, history.settings.priority_annotation, labels).value


def _planning(history: History) -> dict[str, Any]:
    given = history.settings
    usual = type(given)()
    found: dict[str, Any] = {}
    for field in ("ranking", "order", "capacity"):
        if getattr(given, field) != getattr(usual, field):
            found[field] = getattr(given, field)
    for field, value, default in (
        ("reserveAfter", given.reserve_after_s, usual.reserve_after_s),
        ("settle", given.settle_s, usual.settle_s),
    ):
        if value != default:
            found[field] = f"{value:g}s"
    return found


def _notes(history: History, said: Said, fixed: int) -> Iterator[str]:
    yield "Times count from the recording's first turn. Pods that ran then are placed again at time 0."
    if fixed:
        yield f"{counted(fixed, 'pod')} of DaemonSets and kubelets: their nodes have that much less."
    if history.policies:
        yield (
            "Policies are the last that held. Pods that no Deployment or StatefulSet keeps up are Jobs of "
            "their own here, each a workload to a policy."
        )
    if history.policies_changed:
        yield f"Policies changed {counted(history.policies_changed, 'time')}."
    for what, number in said.items():
        noun, _, rest = what.partition(" ")
        yield f"{counted(number, noun)} {rest}."
    if history.unread:
        yield f"{counted(len(history.unread), 'pod')} could not be read by the scheduler either: left out."
    if history.others:
        kinds = ", ".join(sorted(history.others))
        yield f"Not carried over: {kinds}."


def _plain(value: Any) -> Any:
    """Plain data of structs without what is empty because it was not given."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if one not in (None, "", (), [], {})}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def _quantity(resource: str, amount: int) -> str:
    if resource == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    for unit, size in (("Gi", 2**30), ("Mi", 2**20)):
        if resource in ("memory", "ephemeral-storage") and amount and amount % size == 0:
            return f"{amount // size}{unit}"
    return str(amount)


def _free(name: str, taken: dict[str, int]) -> str:
    """A name that no other has, made of one that another may have."""
    taken[name] = taken.get(name, 0) + 1
    if taken[name] == 1:
        return name
    return _free(f"{name}-{taken[name]}", taken)
