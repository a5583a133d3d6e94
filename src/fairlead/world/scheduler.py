"""The default scheduler of the embedded cluster: kube-scheduler's rules, ranking and words.

It takes pods in kube-scheduler's order, highest priority and then oldest first. What fits nowhere may
preempt pods of lower priority; it is marked Unschedulable, which is what autoscalers act on, and is looked at
again when something changes that could help.

The subtle thing is a promise: a pod that preempted is nominated for a node whose victims are still leaving,
and until it is bound, its room is not there for pods of its priority or lower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from fairlead.engine import rules
from fairlead.engine.gangs.gangs import Gangs
from fairlead.engine.planning.budgets import Budgets
from fairlead.engine.planning.preemption import Offer, Preemption, victims_leave
from fairlead.engine.planning.room import Nomination, Room, both
from fairlead.engine.rules.reasons import Ineligible, NotAsked, Unhelped, available_message
from fairlead.engine.rules.verdicts import Verdicts
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.nodes import PODS_ROW, Bools
from fairlead.engine.snapshot.placed import Placed
from fairlead.engine.snapshot.volume_matching import SELECTED_NODE
from fairlead.errors import BadObject
from fairlead.kube.decode import convert
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import PodDisruptionBudget
from fairlead.world.controllers.writes import (
    Again,
    Bind,
    Delete,
    Emit,
    Obj,
    Patch,
    Update,
    View,
    Write,
)
from fairlead.world.extender import Extender
from fairlead.world.objects import (
    annotations_of,
    condition,
    finished,
    key_of,
    split_key,
    stamp,
    terminating,
    with_condition,
    with_status,
)

NAME = "default-scheduler"

# Pods decided on in one go; the rest follows at once, but lets others on the loop take a turn.
_AT_ONCE = 256

_QUEUE = "queue"
_STORAGE = (
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
)


_Choice = tuple[int, dict[str, str], dict[str, str]]


class _Turn:
    """One pass over the queue, in which nothing happens but what is decided in it."""

    def __init__(self, view: View, now: datetime, room: Room) -> None:
        self.view = view
        self.now = now
        self._room = room
        self.hopeless: dict[tuple[PodClass, int, str], str] = {}
        """Pods that nothing helps, as long as none was placed since, with what they are told."""

    @cached_property
    def preemption(self) -> Preemption:
        """Finds victims; budgets are broken where nothing else helps, as kube-scheduler does."""
        budgets = Budgets()
        for item in self.view.all("PodDisruptionBudget"):
            with suppress(BadObject):  # kube-scheduler skips a budget that it cannot read, too
                budgets.seen(convert(item, PodDisruptionBudget))
        return Preemption(self._room, Gangs(), budgets, respect=False)


class Scheduler:
    """Binds pods of one scheduler name, by a snapshot that `Mirror` keeps up to date.

    A waiting pod is either in the queue or parked; invariant: a parked pod fitted nowhere when it was
    last looked at, and nothing that could help it has happened since.
    """

    name = NAME
    watches = ("Pod", "Node", "Namespace", "Service", *_STORAGE)

    def __init__(self, room: Room, scheduler_name: str = NAME, *, extender: Extender | None = None) -> None:
        self._room = room
        self._extender = extender
        self._snapshot = room.snapshot
        self._scheduler_name = scheduler_name
        self._queue: dict[str, None] = {}
        self._parked: dict[str, bool] = {}  # key → whether other pods' arrival could help it
        # Parked, but their status was not yet seen to say so, and for which node they are nominated.
        self._unsaid: dict[str, str] = {}
        self._nominated: dict[str, None] = {}
        self.on_choice: Callable[[Obj, str, Verdicts], None] | None = None
        """Called with the pod, the chosen node and all verdicts, to explain the choice."""

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """One queue: a new pod joins it, and what could help parked pods brings them back."""
        if kind != "Pod":
            # A node's heartbeat is no news; anything else about nodes or volumes may be.
            if kind == "Node" and old is not None and new is not None and _offer(old) == _offer(new):
                return []
            return self._wake()
        item = new or old
        assert item is not None
        key = key_of(item)
        if new is not None and _waits(new, self._scheduler_name):
            if unschedulable(new) and self._unsaid.get(key) == _nominated(new):
                del self._unsaid[key]
            if _nominated(new):
                self._nominated[key] = None
            else:
                self._nominated.pop(key, None)
            if key in self._queue:
                return []
            if key in self._parked and old is not None and not _asks_again(old, new):
                return []
            self._parked.pop(key, None)
            self._queue[key] = None
            return [_QUEUE]
        self._queue.pop(key, None)
        self._parked.pop(key, None)
        self._unsaid.pop(key, None)
        self._nominated.pop(key, None)
        if new is None or finished(new) or terminating(new):
            return self._wake() if item["spec"].get("nodeName") else []
        if old is not None and not old["spec"].get("nodeName") and new["spec"].get("nodeName"):
            return self._wake(arrivals=True)
        return []

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Place as many of the queue as there is room for; say why the others wait.

        A pod leaves the queue when it is seen bound or parked, so a write that fails loses none.
        """
        for each in self._unsaid:
            self._parked.pop(each, None)
            self._queue[each] = None
        self._unsaid.clear()
        pods = [pod for each in self._queue if (pod := view.get("Pod", *split_key(each))) is not None]
        pods.sort(key=_urgency)
        writes: list[Write] = []
        turn = _Turn(view, now, self._room)
        with self._promises(view):
            for pod in pods[:_AT_ONCE]:
                writes += self._decide(turn, pod)
        if len(pods) > _AT_ONCE:
            writes.append(Again(now))
        return writes

    @contextmanager
    def _promises(self, view: View) -> Iterator[None]:
        """The room with what nominated pods were promised; nothing of what happens to it inside stays."""
        with self._snapshot.trial():
            for key in self._nominated:
                if (item := view.get("Pod", *split_key(key))) is not None:
                    with suppress(BadObject):  # it is told what is wrong with it when its turn comes
                        self._room.nominate(_promise(convert(item, Pod), _nominated(item)))
            try:
                yield
            finally:
                for name in list(self._room.nominations):
                    self._room.clear(name)

    def _decide(self, turn: _Turn, item: Obj) -> list[Write]:
        try:
            pod = convert(item, Pod)
            cls = self._snapshot.class_of(pod)
            with self._room.seen_by(f"pod:{pod.metadata.uid}", pod.spec.priority or 0):
                return self._place(turn, item, pod, cls)
        except BadObject as error:
            return self._park(item, str(error), turn.now, minds_others=False)

    def _place(self, turn: _Turn, item: Obj, pod: Pod, cls: PodClass) -> list[Write]:
        """Where a pod goes, or what happens for it to go somewhere later."""
        sort = cls, pod.spec.priority or 0, pod.spec.preemption_policy
        # To a pod that was promised a node there is more room than to others like it.
        alike = not pod.status.nominated_node_name
        if alike and (known := turn.hopeless.get(sort)) is not None:
            return self._park(item, known, turn.now, minds_others=_minds_others(pod))
        slot, failed, hopeless = self._choose(pod, cls)
        if slot >= 0:
            node = self._snapshot.nodes.name(slot)
            if self.on_choice is not None:
                self.on_choice(item, node, rules.verdicts(self._snapshot, cls))
            self._room.clear(key_of(item))
            placed = self._room.assume(pod, slot, pod.spec.priority or 0, cls)
            turn.hopeless.clear()
            if placed.static or placed.provision:
                return self._order_volumes(turn.view, item, placed)
            said = f"Successfully assigned {key_of(item)} to {node}"
            return [Bind(item, node), Emit(item, "Scheduled", said, NAME, action="Binding")]
        verdicts = rules.verdicts(self._snapshot, cls)
        counts = Counter(verdicts.counts()) + Counter((failed | hopeless).values())
        for name in hopeless:
            verdicts.unresolvable[self._snapshot.nodes.slot(name)] = True
        message = verdicts.message() or available_message(self._snapshot.nodes.count, counts)
        nominated, writes, why = self._preempt(turn, pod, cls, verdicts)
        if why and self._snapshot.nodes.count:
            message = f"{message} {why}"
        # What the extender answers differs from pod to pod.
        if alike and not nominated and self._extender is None:
            turn.hopeless[sort] = message
        minds = _minds_others(pod)
        return [*writes, *self._park(item, message, turn.now, minds_others=minds, nominated=nominated)]

    def _choose(self, pod: Pod, cls: PodClass) -> _Choice:
        """The best node, -1: none; then, which of the nodes that take the pod the extender refused, and why:
        those that an eviction may open, and those that none does.

        The best is the one for which the pod is nominated, if it fits there by now.
        """
        mask = self._room.without_nominated(cls)
        promised = self._snapshot.nodes.slot(pod.status.nominated_node_name)
        if promised >= 0:
            found = self._among(pod, cls, both(mask, self._only([promised])))
            if found[0] >= 0:
                return found
        return self._among(pod, cls, mask)

    def _among(self, pod: Pod, cls: PodClass, mask: Bools | None) -> _Choice:
        ranking, nodes = self._room.ranking, self._snapshot.nodes
        if self._extender is None:
            return ranking.choose(cls, mask), {}, {}
        feasible = ranking.feasible(cls)
        slots = np.flatnonzero(feasible if mask is None else feasible & mask)
        offered = [nodes.name(slot) for slot in slots[np.argsort(nodes.rank[slots])].tolist()]
        answer = self._extender.filter(pod, offered) if offered else None
        if answer is None:
            return ranking.choose(cls, mask), {}, {}
        # Its points weigh more than kube-scheduler's own.
        points = self._extender.scores(pod, answer.nodes)
        scored = zip(answer.nodes, points, strict=True)
        best = [nodes.slot(name) for name, each in scored if each == max(points)]
        return ranking.choose(cls, self._only(best)), *answer.refusals(offered)

    def _only(self, slots: Sequence[int]) -> Bools:
        mask = np.zeros(self._snapshot.nodes.capacity, np.bool_)
        mask[slots] = True
        return mask

    def _preempt(
        self, turn: _Turn, pod: Pod, cls: PodClass, verdicts: Verdicts
    ) -> tuple[str, list[Write], str]:
        """The node for which a pod that fits nowhere is nominated from now on, and how it gets room there; or
        why no pod leaves for it.
        """
        nodes, priority = self._snapshot.nodes, pod.spec.priority or 0
        known, rejected = pod.status.nominated_node_name, verdicts.rejection
        if rejected is not None and not rejected.resolvable:
            return "", [], "" if rejected.own else str(NotAsked())
        if pod.spec.preemption_policy == "Never":
            return known, [], str(Unhelped(nodes.count, ineligible=Ineligible.NEVER))
        slot = nodes.slot(known)
        if slot >= 0 and not verdicts.unresolvable[slot] and victims_leave(self._snapshot, slot, priority):
            return known, [], str(Unhelped(nodes.count, ineligible=Ineligible.VICTIMS_LEAVING))
        offer = self._offer(turn.preemption, pod, cls, ~verdicts.feasible & ~verdicts.unresolvable)
        if offer is None:
            why = turn.preemption.unhelped(cls, priority, verdicts, open_to=None)
            return "", [], str(why)
        node = nodes.name(offer.slot)
        writes: list[Write] = []
        for victim in offer.victims:
            turn.preemption.budgets.evicting(victim.pod)
            found = turn.view.get("Pod", *split_key(victim.key))
            if found is not None and not terminating(found):
                writes += _evict(found, pod, node, turn.now)
        for name, other in list(self._room.nominations.items()):
            if other.node == node and other.priority < priority:
                self._room.clear(name)  # what it was promised may not be there any more
                if (found := turn.view.get("Pod", *split_key(name))) is not None:
                    writes.append(Patch(found, {"status": {"nominatedNodeName": None}}, "status"))
        self._room.nominate(_promise(pod, node))
        return node, writes, ""

    def _offer(self, preemption: Preemption, pod: Pod, cls: PodClass, mask: Bools) -> Offer | None:
        """The node within the mask where the fewest and lowest leave, of those the extender has a use for."""
        priority = pod.spec.priority or 0
        if self._extender is None:
            return preemption.best(cls, priority, mask)
        found = {
            self._snapshot.nodes.name(slot): offer
            for slot in np.flatnonzero(mask & (preemption.below(priority)[PODS_ROW] > 0)).tolist()
            if (offer := preemption.on(cls, priority, slot)) is not None
        }
        victims = {node: [one.pod.metadata.uid for one in offer.victims] for node, offer in found.items()}
        kept = self._extender.preempt(pod, victims) if victims else ()
        return min((found[node] for node in kept), key=preemption.order, default=None)

    def _order_volumes(self, view: View, pod: Obj, placed: Placed) -> list[Write]:
        """Say which volumes the pod gets or where they are to be made; it is bound when they are there."""
        key = key_of(pod)
        self._queue.pop(key, None)
        self._parked[key] = False
        writes: list[Write] = []
        for claim_key, volume_name in placed.static:
            claim = view.get("PersistentVolumeClaim", *split_key(claim_key))
            volume = view.get("PersistentVolume", "", volume_name)
            if claim is not None and volume is not None:
                meta = claim["metadata"]
                whose = {field: meta[field] for field in ("namespace", "name", "uid")}
                reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **whose}
                writes.append(Patch(volume, {"spec": {"claimRef": reference}}))
        for claim_key in placed.provision:
            claim = view.get("PersistentVolumeClaim", *split_key(claim_key))
            if claim is not None and annotations_of(claim).get(SELECTED_NODE) != placed.node:
                writes.append(Patch(claim, {"metadata": {"annotations": {SELECTED_NODE: placed.node}}}))
        return writes

    def _park(
        self, pod: Obj, message: str, now: datetime, *, minds_others: bool, nominated: str = ""
    ) -> list[Write]:
        key = key_of(pod)
        self._queue.pop(key, None)
        self._parked[key] = minds_others
        if not unschedulable(pod) or _nominated(pod) != nominated:
            self._unsaid[key] = nominated
        return _refuse(pod, message, now, nominated)

    def _wake(self, *, arrivals: bool = False) -> list[str]:
        woken = [key for key, minds in self._parked.items() if minds or not arrivals]
        for key in woken:
            del self._parked[key]
            self._queue[key] = None
        return [_QUEUE] if woken else []


def unschedulable(pod: Obj) -> bool:
    """Whether a pod says that no node has room for it: what autoscalers look for."""
    said = condition(pod, "PodScheduled")
    return bool(said is not None and said["status"] == "False" and said.get("reason") == "Unschedulable")


def _waits(pod: Obj, scheduler_name: str) -> bool:
    spec = pod["spec"]
    return bool(
        not spec.get("nodeName")
        and not finished(pod)
        and not terminating(pod)
        and not spec.get("schedulingGates")
        and (spec.get("schedulerName") or NAME) == scheduler_name
    )


def _asks_again(old: Obj, new: Obj) -> bool:
    before, after = old["metadata"], new["metadata"]
    return bool(old["spec"] != new["spec"]) or any(
        before.get(field) != after.get(field) for field in ("labels", "annotations")
    )


def _urgency(pod: Obj) -> tuple[int, str, str]:
    return -(pod["spec"].get("priority") or 0), pod["metadata"].get("creationTimestamp") or "", key_of(pod)


def _offer(node: Obj) -> tuple[object, object, object]:
    status = node.get("status") or {}
    return node["metadata"].get("labels"), node.get("spec"), status.get("allocatable")


def _minds_others(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return bool(pod.spec.topology_spread_constraints) or (
        affinity is not None and affinity.pod_affinity is not None
    )


def _nominated(pod: Obj) -> str:
    return (pod.get("status") or {}).get("nominatedNodeName") or ""


def _promise(pod: Pod, node: str) -> Nomination:
    return Nomination(pod, node, pod.spec.priority or 0, f"pod:{pod.metadata.uid}")


def _evict(victim: Obj, preemptor: Pod, node: str, now: datetime) -> list[Write]:
    """How a victim leaves: its condition says why before it is deleted."""
    message = f"{preemptor.spec.scheduler_name}: preempting to accommodate a higher priority pod"
    said = _condition(
        victim, now, type="DisruptionTarget", status="True", reason="PreemptionByScheduler", message=message
    )
    status = victim.get("status") or {}
    conditions = with_condition(status.get("conditions") or [], said)
    event = f"Preempted by pod {preemptor.metadata.uid} on node {node}"
    return [
        Update(with_status(victim, {**status, "conditions": conditions}), "status"),
        Delete(victim),
        Emit(victim, "Preempted", event, NAME, action="Preempting"),
    ]


def _condition(pod: Obj, now: datetime, **said: Any) -> Obj:
    said |= {"lastProbeTime": None, "lastTransitionTime": stamp(now)}
    if generation := pod["metadata"].get("generation"):
        said["observedGeneration"] = generation
    return said


def _refuse(pod: Obj, message: str, now: datetime, nominated: str) -> list[Write]:
    said = _condition(pod, now, type="PodScheduled", status="False", reason="Unschedulable", message=message)
    before = condition(pod, "PodScheduled")
    # The event is said each time, as kube-scheduler does; the condition only when it changed.
    event = Emit(pod, "FailedScheduling", message, NAME, "Warning", "Scheduling")
    told = before is not None and before["status"] == "False" and before.get("message") == message
    if told and _nominated(pod) == nominated:
        return [event]
    status = dict(pod.get("status") or {})
    status["conditions"] = with_condition(status.get("conditions") or [], said)
    status.pop("nominatedNodeName", None)
    if nominated:
        status["nominatedNodeName"] = nominated
    return [Update(with_status(pod, status), "status"), event]
