"""A cluster autoscaler: brings nodes for pods that fit nowhere, and takes idle ones away.

Like the real ones it acts only on pods whose PodScheduled condition is False with reason
Unschedulable, whatever their scheduler, and it knows kube-scheduler's rules only: a rule of some
other scheduler is invisible to it. It works from zero, on what it expects of each group (`Expected`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fairlead.engine import rules
from fairlead.engine.ask.daemons import daemon_pod
from fairlead.engine.ask.sandbox import Packing, Sandbox, sandbox
from fairlead.engine.snapshot.requests import requests_of
from fairlead.errors import BadObject
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.aws import Memory, Version
from fairlead.nodegroups.aws.template import NODE_CACHE
from fairlead.world.autoscaler_log import AutoscalerLog
from fairlead.world.controllers.writes import Again, Delete, Emit, Obj, Patch, View, Write
from fairlead.world.expected_nodes import Expected, named
from fairlead.world.mirror import Mirror
from fairlead.world.objects import (
    annotations_of,
    controller_of,
    finished,
    key_of,
    split_key,
    terminating,
)
from fairlead.world.pools import Pools
from fairlead.world.scheduler import unschedulable

TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
_COMPONENT = "cluster-autoscaler"
_SCAN = "scan"


@dataclass(frozen=True, slots=True)
class Pacing:
    """How patient it is, and which release (None: a new one). The defaults are Cluster Autoscaler's.

    `remember` is its ``--node-info-cache-expire-time``.
    """

    scan: timedelta = timedelta(seconds=10)
    unneeded: timedelta = timedelta(minutes=10)
    after_add: timedelta = timedelta(minutes=10)
    deletion: timedelta = timedelta(seconds=5)
    provision: timedelta = timedelta(minutes=15)
    backoff: timedelta = timedelta(minutes=5)
    remember: timedelta = NODE_CACHE
    version: Version | None = None


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at the cluster: what is there, what each known group would bring, and room to try things."""

    view: View
    now: datetime
    box: Sandbox
    templates: dict[str, Node]


class Autoscaler:
    """Sets the targets of node groups. It looks at most once per `scan`, and only when something changed."""

    name = _COMPONENT
    watches = ("Pod", "Node")

    def __init__(self, pools: Pools, mirror: Mirror, pacing: Pacing | None = None) -> None:
        self._pools = pools
        self._mirror = mirror
        self._pacing = pacing or Pacing()
        self._pending: dict[str, None] = {}
        self._due: datetime | None = None
        self._idle_since: dict[str, datetime] = {}
        self._doomed: dict[str, datetime] = {}
        self._backoff: dict[str, datetime] = {}
        self._last_add: datetime | None = None
        self._said: dict[str, str] = {}
        self.log = AutoscalerLog()
        self._expected = Expected(pools, Memory(self._pacing.remember), self._pacing.version, self.log)

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """One scan for everything that could change its mind."""
        if kind == "Pod":
            item = new or old
            assert item is not None
            key = key_of(item)
            if new is not None and _wants_room(new):
                known = key in self._pending
                self._pending[key] = None
                if known:
                    return []
            else:
                if key in self._pending:
                    del self._pending[key]
                    self._said.pop(item["metadata"]["uid"], None)
                left = new is None or finished(new)
                came = new is not None and bool(new["spec"].get("nodeName")) != bool(
                    old is not None and old["spec"].get("nodeName")
                )
                if not left and not came:
                    return []
        elif old is not None:
            if new is not None:
                return []
            self._expected.lost(old, now)
        if self._due is None:
            self._due = now + self._pacing.scan
        return [_SCAN]

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """More nodes for pending pods, fewer where nodes are idle."""
        if self._due is not None and now < self._due:
            return [Again(self._due)]
        self._due = None
        self._give_up(now)
        looks: list[datetime] = []
        templates = self._expected.look(view, now)
        with sandbox(self._mirror.ranking) as box:
            writes = self._scale_up(_Look(view, now, box, templates), looks)
        writes += self._scale_down(view, [self._pools.groups[name] for name in templates], now, looks)
        for group in self._pools.groups:
            looks += [order.asked_at + self._pacing.provision for order in self._pools.orders(group)]
        looks += [at for at in self._backoff.values() if at > now and self._pending]
        if self._pending and self._pools.account.auto_scaling_groups:
            # An account changes, and what is remembered of it expires, without a word to the cluster.
            looks.append(now + self._pacing.scan)
        later = [at for at in looks if at > now]
        return [*writes, Again(min(later))] if later else writes

    # Up

    def _scale_up(self, look: _Look, looks: list[datetime]) -> list[Write]:
        pods = self._waiting(look.view)
        if not pods:
            return []
        for name in look.templates:
            for order in self._pools.orders(name):
                self._open(look, name, order.node)
        writes: list[Write] = []
        left = [pod for pod in pods if not look.box.place_anywhere(convert(pod, Pod))]
        while left:
            choice = self._best(look, left)
            if choice is None:
                break
            group, packing = choice
            before = self._pools.target(group.name)
            self._pack(look, group.name, left, packing.nodes)
            self._pools.set_target(group.name, before + packing.nodes)
            self._last_add = look.now
            looks.append(look.now + self._pacing.provision)
            grown = f"[{{{group.name} {before}->{before + packing.nodes} (max: {group.max})}}]"
            for pod in left:
                if key_of(pod) in packing.pods:
                    self._said.pop(pod["metadata"]["uid"], None)
                    said = f"pod triggered scale-up: {grown}"
                    writes.append(Emit(pod, "TriggeredScaleUp", said, _COMPONENT))
            left = [pod for pod in left if key_of(pod) not in packing.pods]
        for pod in left:
            writes += self._say_no(look, pod)
        return writes

    def _waiting(self, view: View) -> list[Obj]:
        found = []
        for key in self._pending:
            pod = view.get("Pod", *split_key(key))
            if pod is None:
                continue
            try:
                convert(pod, Pod)
            except BadObject:
                continue  # the scheduler has said what is wrong with it
            found.append(pod)
        return found

    def _best(self, look: _Look, pods: Sequence[Obj]) -> tuple[NodeGroup, Packing] | None:
        # Most pods helped, then the cheapest, then the fewest nodes; at last by name.
        options = []
        for name in look.templates:
            group = self._pools.groups[name]
            room = group.max - self._pools.target(name)
            if room <= 0 or self._backoff.get(name, look.now) > look.now:
                continue
            mark = look.box.mark()
            packing = self._pack(look, name, pods, room)
            look.box.back_to(mark)
            if packing.pods:
                cost = group.price_per_hour * packing.nodes
                options.append(((-len(packing.pods), cost, packing.nodes, name), group, packing))
        if not options:
            return None
        _, group, packing = min(options, key=lambda option: option[0])
        return group, packing

    def _pack(self, look: _Look, group: str, pods: Sequence[Obj], at_most: int) -> Packing:
        typed = sorted((convert(pod, Pod) for pod in pods), key=_largest_first)
        start = look.box.mark()
        return look.box.pack(
            typed, at_most, lambda number: self._open(look, group, f"{group}-template-{start}-{number}")
        )

    def _open(self, look: _Look, group: str, name: str) -> int:
        node, box = named(look.templates[group], name), look.box
        slot = box.open_node(node)
        # What runs on every node takes its part of each new one.
        for owner in look.view.all("DaemonSet"):
            daemon = daemon_pod(owner, node)
            if daemon is not None and rules.fits(box.snapshot, box.snapshot.class_of(daemon), slot):
                box.place(daemon, slot)
        return slot

    def _say_no(self, look: _Look, pod: Obj) -> list[Write]:
        counts: dict[str, int] = {}
        for name in look.templates:
            for reason in self._why_not(look, name, pod):
                counts[reason] = counts.get(reason, 0) + 1
        text = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
        said = f"pod didn't trigger scale-up: {text}"
        uid = pod["metadata"]["uid"]
        if self._said.get(uid) == said:
            return []
        self._said[uid] = said
        return [Emit(pod, "NotTriggerScaleUp", said, _COMPONENT)]

    def _why_not(self, look: _Look, group: str, pod: Obj) -> tuple[str, ...]:
        asg = self._pools.asg(group)
        logged_as = group if asg is None else asg.name
        if self._backoff.get(group, look.now) > look.now:
            self.log.resting(logged_as, look.now)
            return ("in backoff after failed scale-up",)
        if self._pools.target(group) >= self._pools.groups[group].max:
            self.log.full(logged_as, look.now)
            return ("max node group size reached",)
        mark = look.box.mark()
        slot = self._open(look, group, f"{group}-template-{mark}")
        verdicts = rules.verdicts(look.box.snapshot, look.box.snapshot.class_of(convert(pod, Pod)))
        rule, reasons = verdicts.rule(slot), tuple(str(reason) for reason in verdicts.reasons(slot))
        look.box.back_to(mark)
        if reasons:
            self.log.refused(key_of(pod), logged_as, rule, reasons, look.now)
        return reasons

    def _give_up(self, now: datetime) -> None:
        # A node that does not come in time: another group gets its chance.
        for name in self._pools.groups:
            late = [o for o in self._pools.orders(name) if o.asked_at + self._pacing.provision <= now]
            for order in late:
                self._pools.cancel(name, order.node)
            if late:
                self._backoff[name] = now + self._pacing.backoff

    # Down

    def _scale_down(
        self, view: View, groups: Iterable[NodeGroup], now: datetime, looks: list[datetime]
    ) -> list[Write]:
        writes: list[Write] = []
        for group in groups:
            name = group.name
            nodes = self._pools.nodes(name)
            spare = self._pools.target(name) - group.min - sum(1 for node in nodes if node in self._doomed)
            for each in nodes:
                node = view.get("Node", "", each)
                if node is None:
                    continue
                if not _idle(view, each):
                    self._idle_since.pop(each, None)
                    if self._doomed.pop(each, None) is not None:
                        writes.append(_spare(node))
                    continue
                since = self._idle_since.setdefault(each, now)
                if each in self._doomed:
                    writes += self._finish(name, node, now, looks)
                    continue
                ripe = since + self._pacing.unneeded
                if self._last_add is not None:
                    ripe = max(ripe, self._last_add + self._pacing.after_add)
                if spare <= 0:
                    continue
                if now < ripe:
                    looks.append(ripe)
                    continue
                spare -= 1
                self._doomed[each] = now
                looks.append(now + self._pacing.deletion)
                writes += [_mark(node, now), Emit(node, "ScaleDown", f"node {each} is idle", _COMPONENT)]
        for gone in [each for each in self._idle_since if view.get("Node", "", each) is None]:
            del self._idle_since[gone]
            self._doomed.pop(gone, None)
        return writes

    def _finish(self, group: str, node: Obj, now: datetime, looks: list[datetime]) -> list[Write]:
        name = node["metadata"]["name"]
        due = self._doomed[name] + self._pacing.deletion
        if now < due:
            looks.append(due)
            return []
        del self._doomed[name]
        self._pools.set_target(group, self._pools.target(group) - 1)
        return [Delete(node)]


def _wants_room(pod: Obj) -> bool:
    # A pod that was promised a place on a node (by preemption) needs no new one.
    promised = (pod.get("status") or {}).get("nominatedNodeName")
    return unschedulable(pod) and not (promised or terminating(pod) or pod["spec"].get("nodeName"))


def _largest_first(pod: Pod) -> tuple[int, int, str]:
    asked = requests_of(pod)
    return -asked.ranked_cpu_milli, -asked.ranked_memory, pod.metadata.key


def _idle(view: View, node: str) -> bool:
    for pod in view.pods_on(node):
        held = controller_of(pod)
        daemon = held is not None and held["kind"] == "DaemonSet"
        if not finished(pod) and not daemon and "kubernetes.io/config.mirror" not in annotations_of(pod):
            return False
    return True


def _mark(node: Obj, now: datetime) -> Patch:
    taints = [t for t in (node.get("spec") or {}).get("taints") or () if t["key"] != TO_BE_DELETED]
    taint = {"key": TO_BE_DELETED, "value": str(int(now.timestamp())), "effect": "NoSchedule"}
    return _retaint(node, [*taints, taint])


def _spare(node: Obj) -> Patch:
    return _retaint(
        node, [t for t in (node.get("spec") or {}).get("taints") or () if t["key"] != TO_BE_DELETED]
    )


def _retaint(node: Obj, taints: list[Obj]) -> Patch:
    version = node["metadata"]["resourceVersion"]
    return Patch(node, {"metadata": {"resourceVersion": version}, "spec": {"taints": taints or None}})
