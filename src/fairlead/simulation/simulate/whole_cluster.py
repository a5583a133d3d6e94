"""A cluster in virtual time with all that a scenario asks for: controllers, kube-scheduler, Fairlead's
components, an autoscaler, spot markets and faults. It is what `fairlead whatif` plays, with pods that come
and go.

The subtle thing is when a pod serves: a machine that is gone serves nothing from that moment on, although the
API says so only when the node's controller has noticed.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

from fairlead.engine.ask.cost import price_of
from fairlead.engine.planning.settings import Settings
from fairlead.engine.snapshot.requests import allocatable, requests_of
from fairlead.errors import BadInput, BadObject
from fairlead.kube.decode import convert
from fairlead.kube.pod import Pod
from fairlead.nodegroups import GROUP_LABEL
from fairlead.policy.names import POLICIES
from fairlead.simulation.changes import DrainNode, LoseZone, RemoveNode
from fairlead.simulation.cluster_copy import ClusterCopy
from fairlead.simulation.contents import SCHEDULER, Contents
from fairlead.simulation.outcome import workload_of
from fairlead.simulation.scenario.material import Material
from fairlead.simulation.scenario.model import Arrivals, Fault, Workload
from fairlead.simulation.scenario.pods import (
    NAME_LABEL,
    Obj,
    as_traced,
    class_name,
    of_gang,
    pod_template,
    priority_class,
)
from fairlead.simulation.simulate.streams import Arrival, arrivals_of
from fairlead.simulation.simulate.supply import supply_of
from fairlead.simulation.simulate.tally import Left, Tally
from fairlead.world.autoscaler import TO_BE_DELETED, Pacing
from fairlead.world.clock import EPOCH
from fairlead.world.kubelet import READY_AFTER, RUN_FOR, Pace
from fairlead.world.objects import condition, finished, is_ready, labels_of, scaled, terminating
from fairlead.world.schema.resources import PODS
from fairlead.world.store import Change

_NO_GROUP = "(no group)"
# What never ends by itself, in a scenario of any length.
_FOREVER = timedelta(days=3650)


class WholeCluster:
    """See the module. Close it when it is done with."""

    def __init__(self, material: Material, settings: Settings, tally: Tally) -> None:
        self._material = material
        self._spec = material.scenario.spec
        self._tally = tally
        self._streams = {one.name: one for one in (*self._spec.workloads, *self._spec.arrivals)}
        self._registered: set[str] = set()
        self._prices = {one.name: float(one.price_per_hour) for one in material.groups}
        self.notes: dict[str, None] = {}
        """What could not be played as the scenario has it."""
        policies = [
            {"apiVersion": POLICIES.api_version, "kind": POLICIES.kind, **one} for one in self._spec.policies
        ]
        contents = Contents(
            (*material.objects, *policies),
            EPOCH,
            settings,
            frozenset((*self._spec.components, SCHEDULER)),
            material.groups,
        )
        section = self._spec.autoscaler
        pacing = (
            Pacing(
                scan=timedelta(seconds=section.scan),
                unneeded=timedelta(seconds=section.scale_down_after),
                after_add=timedelta(seconds=section.delay_after_add),
            )
            if section is not None
            else None
        )
        self._copy = ClusterCopy(
            contents,
            autoscaler=pacing,
            pace=Pace(job=_FOREVER),
            notice=timedelta(seconds=self._spec.spot_notice),
            found=False,
        )
        self._clock = self._copy.clock
        store = self._copy.world.store
        for resource in store.resources():
            for item in store.list(resource):
                self._changed(Change("ADDED", resource, item, None, 0))
        self._stop = store.subscribe(self._changed)
        self._begin()

    def run_until(self, end_s: float) -> None:
        """Let everything happen that is due by then."""
        self._copy.world.run_until(EPOCH + timedelta(seconds=end_s))

    def waiting(self) -> Counter[str]:
        """Why pods have no node, and how many."""
        found: Counter[str] = Counter()
        for pod in self._copy.world.store.list(PODS):
            if not pod["spec"].get("nodeName") and not finished(pod):
                said = condition(pod, "PodScheduled")
                found[(said or {}).get("message") or ""] += 1
        return found

    def close(self) -> None:
        """Let go of everything."""
        self._stop()
        self._copy.close()

    # What the scenario has

    def _begin(self) -> None:
        spec, world = self._spec, self._copy.world
        duration_s = float(spec.duration)
        pods = self._material.pods or {}
        given = [one.priority for one in (*spec.workloads, *spec.arrivals)]
        given += [one.priority for trace in pods.values() for one in trace]
        for namespace in dict.fromkeys(one.namespace for one in self._streams.values()):
            if self._copy.find("Namespace", "", namespace) is None:
                self._copy.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for priority in dict.fromkeys(one for one in given if one is not None):
            if self._copy.find("PriorityClass", "", class_name(priority)) is None:
                self._copy.create(priority_class(priority))
        for workload in spec.workloads:
            self._start(workload)
        for one in spec.arrivals:
            self._tally.workload(one.name, "arrivals")
            self._registered.add(one.name)
        streams = [
            [(each.at_s, number, each) for each in arrivals_of(one, spec.seed, duration_s, pods)]
            for number, one in enumerate(spec.arrivals)
        ]
        self._coming = heapq.merge(*streams, key=lambda one: one[:2])
        self._next_arrival()
        groups = {one.name: one for one in self._material.groups}
        for number, market in enumerate(spec.markets):
            source = random.Random(f"{spec.seed}/market/{number}")
            for each in supply_of(market, groups, self._material.supply or {}, source, duration_s):
                world.spot.follow(each.group, each.supply, EPOCH, zone=each.zone)
        for fault in spec.faults:
            self.call_at(fault.at, lambda fault=fault: self._fault(fault))  # type: ignore[misc]

    def _start(self, workload: Workload) -> None:
        self._registered.add(workload.name)
        self._tally.workload(workload.name, workload.kind, _minimum(workload, workload.replicas))
        self._copy.create(_workload_object(workload, self._spec.scheduler))
        if workload.min_available is not None:
            self._copy.create(_budget(workload))
        for step in workload.scale:
            self.call_at(step.at, lambda replicas=step.replicas: self._scale(workload, replicas))  # type: ignore[misc]

    def _scale(self, workload: Workload, replicas: int) -> None:
        self._copy.world.patch(
            workload.kind, workload.name, {"spec": {"replicas": replicas}}, workload.namespace
        )
        self._tally.minimum(self.now_s, workload.name, _minimum(workload, replicas))

    def _next_arrival(self) -> None:
        following = next(self._coming, None)
        if following is None:
            return
        at_s, number, arrival = following

        def come() -> None:
            self._arrive(self._spec.arrivals[number], arrival)
            self._next_arrival()

        self.call_at(at_s, come)

    def _arrive(self, stream: Arrivals, arrival: Arrival) -> None:
        for item in _arriving(stream, arrival, self._spec.scheduler):
            self._copy.create(item)

    def _fault(self, fault: Fault) -> None:
        copy, world = self._copy, self._copy.world
        try:
            if fault.node and copy.find("Node", "", fault.node) is None:
                raise BadInput(f"there is no node {fault.node}")
            match fault.action:
                case "kill":
                    world.kill_node(fault.node)
                    self._serve_no_more(fault.node)
                case "revive":
                    world.revive_node(fault.node)
                    for pod in world.store.pods_on(fault.node):
                        self._look_at(pod)
                case "remove":
                    RemoveNode(fault.node).apply(copy)
                case "drain":
                    DrainNode(fault.node).apply(copy)
                case "cordon" | "uncordon":
                    world.patch("Node", fault.node, {"spec": {"unschedulable": fault.action == "cordon"}})
                case "loseZone":
                    LoseZone(fault.zone).apply(copy)
        except BadInput as error:
            self.notes[f"{fault.action} at {fault.at:g} s was not played: {error}"] = None

    # What happens

    def _changed(self, change: Change) -> None:
        kind = change.resource.kind
        if kind == "Pod":
            self._pod(change)
        elif kind == "Node":
            self._node(change)

    def _node(self, change: Change) -> None:
        node = change.object
        name = node["metadata"]["name"]
        if change.type == "ADDED":
            group = labels_of(node).get(GROUP_LABEL) or _NO_GROUP
            status = node.get("status") or {}
            price = self._prices.get(group)
            if price is None:
                price = float(price_of(labels_of(node), ()) or 0)
            try:
                capacity = allocatable(name, status.get("allocatable") or {})
            except BadObject:
                capacity = {}
            self._tally.node_came(self.now_s, name, group, capacity, price)
        elif change.type == "DELETED":
            taints = (node.get("spec") or {}).get("taints") or ()
            self._tally.node_left(self.now_s, name, taken=all(one["key"] != TO_BE_DELETED for one in taints))
            self._serve_no_more(name)

    def _serve_no_more(self, node: str) -> None:
        for pod in self._copy.world.store.pods_on(node):
            if self._tally.known(pod["metadata"]["uid"]):
                self._tally.ready(self.now_s, pod["metadata"]["uid"], False)

    def _pod(self, change: Change) -> None:
        pod, old = change.object, change.old
        uid = pod["metadata"]["uid"]
        if change.type == "DELETED":
            self._tally.left(self.now_s, uid, self._how(old or pod))
            return
        if not self._tally.known(uid):
            if change.type != "ADDED" or finished(pod):
                return
            self._tally.came(self.now_s, uid, self._workload(pod), _amounts(pod))
        if pod["spec"].get("nodeName") and not (old and old["spec"].get("nodeName")):
            self._tally.bound(self.now_s, uid, pod["spec"]["nodeName"])
        if finished(pod):
            done = pod["status"]["phase"] == "Succeeded"
            self._tally.left(self.now_s, uid, "finished" if done else self._how(pod))
        else:
            self._look_at(pod)

    def _look_at(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        if self._tally.known(uid):
            home = pod["spec"].get("nodeName") or ""
            serves = is_ready(pod) and not terminating(pod)
            if serves and self._copy.world.kubelet.last_heartbeat(home) is not None:
                serves = False
            self._tally.ready(self.now_s, uid, serves)

    def _how(self, pod: Obj) -> Left:
        uid, home = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        placement = self._copy.placement
        if placement is not None and any(one.what.uid == uid for one in reversed(placement.moves)):
            return "moved"
        disrupted = condition(pod, "DisruptionTarget")
        if disrupted is not None and disrupted["status"] == "True":
            return "evicted"
        if home and self._copy.find("Node", "", home) is None:
            return "evicted"
        return "removed"

    def _workload(self, pod: Obj) -> str:
        name = labels_of(pod).get(NAME_LABEL, "")
        if name not in self._streams:
            name = workload_of(pod)[0]
        if name not in self._registered:
            self._registered.add(name)
            self._tally.workload(name, "found")
        return name

    # Time

    @property
    def now_s(self) -> float:
        """The time since the beginning."""
        return (self._clock.now() - EPOCH).total_seconds()

    def call_at(self, at_s: float, call: Callable[[], None]) -> None:
        """Run `call` when the time has come."""
        self._clock.call_at(EPOCH + timedelta(seconds=at_s), call)


def _minimum(workload: Workload, replicas: int) -> int | None:
    if workload.min_available is None:
        return None
    return min(replicas, scaled(workload.min_available, replicas, up=True))


def _workload_object(workload: Workload, scheduler: str) -> Obj:
    labels = {NAME_LABEL: workload.name}
    template = pod_template(workload, labels, scheduler=scheduler)
    if workload.ready_after:
        meta = template["metadata"]
        meta["annotations"] = {**meta.get("annotations", {}), READY_AFTER: _said(workload.ready_after)}
    spec: Obj = {"replicas": workload.replicas, "selector": {"matchLabels": labels}, "template": template}
    if workload.kind == "StatefulSet":
        spec["serviceName"] = workload.name
    return {
        "apiVersion": "apps/v1",
        "kind": workload.kind,
        "metadata": {
            "name": workload.name,
            "namespace": workload.namespace,
            "labels": {**workload.labels, **labels},
        },
        "spec": spec,
    }


def _budget(workload: Workload) -> Obj:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": {
            "minAvailable": workload.min_available,
            "selector": {"matchLabels": {NAME_LABEL: workload.name}},
        },
    }


def _arriving(stream: Arrivals, arrival: Arrival, scheduler: str) -> list[Obj]:
    """The objects of one arrival: a Job where what is evicted comes again, else bare pods."""
    labels = {NAME_LABEL: stream.name}
    template = pod_template(stream, labels, scheduler=scheduler)
    annotations = of_gang(stream.annotations, arrival.name, arrival.pods)
    if arrival.runs_for_s is not None:
        annotations[RUN_FOR] = _said(arrival.runs_for_s)
    template["metadata"]["annotations"] = annotations
    template["spec"] = as_traced(template["spec"], arrival.traced)
    meta = {"name": arrival.name, "namespace": stream.namespace}
    if stream.recreate:
        template["spec"] = {**template["spec"], "restartPolicy": "Never"}
        job: Obj = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {**meta, "labels": labels},
            "spec": {
                "parallelism": arrival.pods,
                "completions": arrival.pods,
                "backoffLimit": 1_000_000,
                "podReplacementPolicy": "Failed",
                "ttlSecondsAfterFinished": 0,
                "template": template,
            },
        }
        return [job]
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **template["metadata"],
                "namespace": stream.namespace,
                "name": arrival.name if arrival.pods == 1 else f"{arrival.name}-{member}",
            },
            "spec": template["spec"],
        }
        for member in range(arrival.pods)
    ]


def _said(seconds: float) -> str:
    """A duration as annotations have it."""
    return f"{seconds:.3f}s"


def _amounts(pod: Obj) -> dict[str, int]:
    try:
        return dict(requests_of(convert(pod, Pod)).amounts)
    except BadObject:
        return {}
