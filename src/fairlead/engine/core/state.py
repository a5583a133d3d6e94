"""What the core knows of the cluster, kept up to date by objects seen and gone.

Everything that is a matter of looking is here: placements, gangs, budgets, what is pending, which
priority counts. What follows from it is decided in `core`. The subtle thing: a pod is known by its UID, and
a name belongs to one pod at a time: `core` ends the one before, should its deletion have been missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from fairlead.engine.core.hints import Hints
from fairlead.engine.gangs.gangs import Gangs
from fairlead.engine.planning.budgets import Budgets
from fairlead.engine.planning.priority import Priority, priority_of
from fairlead.engine.planning.room import Nomination, Room
from fairlead.engine.planning.settings import Settings
from fairlead.engine.policies.policy_state import PolicyState
from fairlead.engine.snapshot.kinds import STORAGE
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.errors import BadObject
from fairlead.kube.meta import Object
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import Job, PodDisruptionBudget, PodGroup, Workload
from fairlead.policy.groups.member import PodFacts
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.fallback import is_schedulable


class State:
    """See the module. `pending` are our pods without a node, by UID, with the priority that counts.

    `any_scheduler`: every pod is ours to place, whichever scheduler it names.
    """

    def __init__(self, settings: Settings, *, any_scheduler: bool = False) -> None:
        self.settings = settings
        self._any_scheduler = any_scheduler
        self.snapshot = Snapshot(capacity=settings.capacity, scheduler_names=settings.scheduler_names)
        self.room = Room(self.snapshot)
        self.room.ranking.basis.pack = settings.ranking == "pack"
        self.gangs = Gangs(settings.settle_s)
        self.budgets = Budgets()
        self.hints = Hints()
        self.book = PolicyState(ready=self._has_its_gang)
        self._only_ours = False  # whether policies are for our own pods only
        self.pending: dict[str, Pod] = {}
        self.gated: dict[str, Pod] = {}
        # Pods that we gave a node that the API does not show yet, by UID.
        self.assumed: dict[str, tuple[Pod, str]] = {}
        # What could not be used, by kind and name: the API has it, we plan as if it were not there.
        self.unusable: dict[str, str] = {}
        self._uids: dict[str, str] = {}
        self._ignored: dict[str, str] = {}

    # Pods

    def _has_its_gang(self, uid: str) -> bool:
        gang = self.gangs.get(self.gangs.name_of(uid))
        return gang is None or gang.may_start

    def pod_seen(self, pod: Pod) -> tuple[Pod, Priority]:
        """Take note of a pod; the pod with the priority that counts in its spec.

        A pod that had the name before must be gone.
        """
        key, uid = pod.metadata.key, pod.metadata.uid
        self._uids[key] = uid
        if self.gangs.usable(key):
            self.unusable.pop(f"Pod {key}", None)
        priority = self.priority(pod)
        if (pod.spec.priority or 0) != priority.value:
            pod = msgspec.structs.replace(
                pod, spec=msgspec.structs.replace(pod.spec, priority=priority.value)
            )
        if pod.spec.node_name or pod.terminal:
            self._placed(pod, priority.value)
        else:
            self._pending(pod, priority.value)
        if self.book.active:
            self._enter(pod)
        return pod, priority

    def pod_unread(self, remains: Pod, problem: str) -> bool:
        """Take note of a pod that cannot be read; whether it is one of ours that waits.

        One that could be read before stays as it last was: what it holds it still holds.
        """
        key = remains.metadata.key
        if key in self._uids or not self.ours(remains):
            return False
        self.unusable[f"Pod {key}"] = problem
        self.gangs.unusable(remains, problem)
        return not remains.spec.node_name and not remains.terminal

    def pod_gone(self, key: str, uid: str) -> None:
        """A pod is gone, or finished."""
        if self._uids.get(key) == uid:
            del self._uids[key]
        self._ignored.pop(uid, None)
        self.unusable.pop(f"Pod {key}", None)
        self.gangs.usable(key)
        self._unqueue(key, uid)
        self.assumed.pop(uid, None)
        placed = self.snapshot.placed(key)
        if placed is not None and placed.pod.metadata.uid == uid:
            self.room.forget(key)
            self.hints.ease(placed.slot)
        self.gangs.pod_gone(uid)
        self.budgets.settled(uid)
        self.book.gone(uid)

    def assume(self, pod: Pod, node: str) -> None:
        """Our pod was placed by us (the snapshot has it); the API will show it, or we will be told."""
        uid = pod.metadata.uid
        # As the API shows it: what is planned may have been given a tier.
        self.assumed[uid] = (self.pending.pop(uid, pod), node)
        self.gangs.assume(uid)
        self.book.assumed(uid, node)

    def unassume(self, uid: str) -> Pod | None:
        """That did not come to be: the pod is pending again."""
        if uid not in self.assumed:
            return None
        pod, _ = self.assumed.pop(uid)
        placed = self.room.forget(pod.metadata.key)
        if placed is not None:
            self.hints.ease(placed.slot)
        self.gangs.unassume(uid)
        self.pending[uid] = pod
        if self.book.active:
            self._enter(pod)
        return pod

    def ours(self, pod: Pod) -> bool:
        """Whether the pod is ours to place."""
        settings = self.settings
        if settings.namespaces and pod.metadata.namespace not in settings.namespaces:
            return False
        return self._any_scheduler or pod.spec.scheduler_name in settings.scheduler_names

    def priority(self, pod: Pod) -> Priority:
        """The priority that counts."""
        return priority_of(
            pod, self.settings.priority_annotation, self.snapshot.namespaces.get(pod.metadata.namespace)
        )

    def uid_of(self, key: str) -> str:
        """The UID of the pod with that name, or ""."""
        return self._uids.get(key, "")

    def ends_at(self, pod: Pod) -> float | None:
        """When a placed pod must have ended, None when that is not known."""
        deadline_s, start = pod.spec.active_deadline_seconds, pod.status.start_time
        return start.timestamp() + deadline_s if deadline_s is not None and start else None

    def promised(self, pod: Pod) -> None:
        """The pod was promised a node (the room has it): from now on the API shows that, not an older one."""
        self._ignored.pop(pod.metadata.uid, None)

    def unpromise(self, pod: Pod) -> None:
        """Take back what the pod was promised, and do not adopt the same from the API's lagging view."""
        nomination = self.room.clear(pod.metadata.key)
        if nomination is not None:
            self._ignored[pod.metadata.uid] = nomination.node
            self.hints.ease(self.snapshot.nodes.slot(nomination.node))

    def stale_nomination(self, pod: Pod) -> bool:
        """Whether the API shows a nomination that is not ours any more; said once."""
        uid, node = pod.metadata.uid, pod.status.nominated_node_name
        if not node or pod.metadata.key in self.room.nominations or self._ignored.get(uid) == node:
            return False
        self._ignored[uid] = node
        return True

    def policies_are(
        self, policies: Iterable[PlacementPolicy], exempt: Iterable[str], *, only_ours: bool = False
    ) -> None:
        """These policies hold from now on; with `only_ours`, for our own pods only."""
        self._only_ours = only_ours
        nodes = (node for node in self.snapshot.nodes.nodes if node is not None)
        self.book.policies_are(policies, exempt, self._all_known, nodes)

    def _all_known(self) -> Iterator[PodFacts]:
        """Every pod that policies may be about."""
        for one in self.snapshot.all_placed():
            if not one.leaving and (not self._only_ours or self.ours(one.pod)):
                yield PodFacts(one.pod.metadata, one.node)
        for pod in self.pending.values():
            yield PodFacts(pod.metadata, waits=True)
        for pod in self.gated.values():
            yield PodFacts(pod.metadata)

    def planned(self, pod: Pod) -> Pod:
        """A waiting pod as it is planned: with its tier, where a policy governs it."""
        if not self.book.active:
            return pod
        return self.book.planned(self.pending.get(pod.metadata.uid, pod))

    def _enter(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if uid in self.assumed:
            return
        if (
            pod.terminal
            or pod.metadata.deletion_timestamp is not None
            or (self._only_ours and not self.ours(pod))
        ):
            self.book.gone(uid)
            return
        placed = self.snapshot.placed(pod.metadata.key) if pod.spec.node_name else None
        metadata = placed.pod.metadata if placed is not None else pod.metadata
        self.book.pod(PodFacts(metadata, pod.spec.node_name, waits=uid in self.pending))

    def _placed(self, pod: Pod, priority: int) -> None:
        key, uid = pod.metadata.key, pod.metadata.uid
        self._unqueue(key, uid)
        self.assumed.pop(uid, None)
        before = self.snapshot.placed(key)
        try:
            after = self.room.put_pod(pod, priority)
            self.unusable.pop(f"Pod {key}", None)
        except BadObject as error:
            self.unusable[f"Pod {key}"] = str(error)
            return
        if self.ours(pod):
            self.gangs.pod_seen(pod)
        if pod.terminal:
            self.budgets.settled(uid)
            if before is not None:
                self.hints.ease(before.slot)
        elif after is not None:
            if before is None or before.node != after.node:
                self.hints.placed = True
            if before is not None and not before.counts_like(after):
                self.hints.ease(before.slot)
                self.hints.placed = True

    def _pending(self, pod: Pod, priority: int) -> None:
        key, uid = pod.metadata.key, pod.metadata.uid
        leaving = pod.metadata.deletion_timestamp is not None
        if uid in self.assumed:
            self.assumed[uid] = (pod, self.assumed[uid][1])
            if leaving:
                self.unassume(uid)
                self.pending.pop(uid, None)
                self.gangs.pod_seen(pod)
            return
        mine = self.ours(pod) and not leaving
        self.gated.pop(uid, None)
        if not mine:
            self._unqueue(key, uid)
        elif pod.spec.scheduling_gates:
            self._unqueue(key, uid)
            self.gated[uid] = pod
        else:
            self.pending[uid] = pod
        if self.ours(pod):
            self.gangs.pod_seen(pod)
        if not leaving:
            self._adopt_nomination(pod, priority, mine=mine)

    def _adopt_nomination(self, pod: Pod, priority: int, *, mine: bool) -> None:
        """What the API shows as nominated counts, also for pods of other schedulers."""
        key, node = pod.metadata.key, pod.status.nominated_node_name
        known = self.room.nominations.get(key)
        if self._ignored.get(pod.metadata.uid) == node or (mine and known is not None):
            return
        self._ignored.pop(pod.metadata.uid, None)
        if not node:
            if known is not None:
                self.room.clear(key)
                self.hints.ease(self.snapshot.nodes.slot(known.node))
        elif known is None or known.node != node:
            gang = self.gangs.name_of(pod.metadata.uid) if mine else ""
            unit = f"gang:{gang}" if gang else f"pod:{pod.metadata.uid}"
            try:
                self.room.nominate(Nomination(pod, node, priority, unit))
            except BadObject as error:
                self.room.clear(key)
                self.unusable[f"Pod {key}"] = str(error)

    def _unqueue(self, key: str, uid: str) -> None:
        self.pending.pop(uid, None)
        self.gated.pop(uid, None)
        nomination = self.room.nominations.get(key)
        if nomination is not None:
            self.room.clear(key)
            self.hints.ease(self.snapshot.nodes.slot(nomination.node))

    # Other objects

    def seen(self, kind: str, thing: Object) -> None:
        """Take note of anything but a pod."""
        if isinstance(thing, Node):
            self._node_seen(thing)
            return
        self.snapshot.put(kind, thing)
        self._follow(kind)
        match thing:
            case PodDisruptionBudget():
                self.budgets.seen(thing)
                self.book.budget(thing)
                self.hints.budgets = True
            case PodGroup():
                self.gangs.group_seen(thing)
                self.hints.budgets = True
            case Workload() | Job():
                self.gangs.owner_seen(kind, thing)
                self.book.owner(kind, thing)

    def gone(self, kind: str, namespace: str, name: str, group: str = "") -> None:
        """Anything but a pod is gone; `group` is the API group of a PodGroup."""
        if kind == "Node":
            self._remove_node(name)
            self.unusable.pop(f"Node {name}", None)
            return
        self.snapshot.remove(kind, namespace, name)
        self._follow(kind)
        match kind:
            case "PodDisruptionBudget":
                self.budgets.gone(namespace, name)
                self.book.budget_gone(namespace, name)
                self.hints.budgets = True
            case "PodGroup":
                self.gangs.group_gone(namespace, name, group)
                self.hints.budgets = True
            case _:
                self.gangs.owner_gone(kind, namespace, name)
                self.book.owner_gone(kind, namespace, name)

    def _node_seen(self, node: Node) -> None:
        name = node.metadata.name
        if _same_node(self.snapshot.nodes.nodes[self.snapshot.nodes.slot(name)], node):
            return  # a heartbeat
        try:
            slot = self.room.put_node(node)
        except BadObject as error:
            self.unusable[f"Node {name}"] = str(error)
            self._remove_node(name)
            return
        self.unusable.pop(f"Node {name}", None)
        self.hints.ease(slot)
        self.book.node(name, node)

    def _remove_node(self, name: str) -> None:
        # Its pods no longer count, and neither does it as a domain: what looks beyond nodes may be helped.
        self.hints.ease(self.snapshot.nodes.slot(name))
        self.room.remove_node(name)
        self.book.node(name, None)

    def _follow(self, kind: str) -> None:
        """The snapshot took over a change that no slot tells: say what it may concern."""
        if kind in ("Namespace", "DeviceClass"):
            self.room.log.start_over()
            self.hints.anything = True
        elif kind in STORAGE:
            self.room.log.start_over()
            self.hints.storage = True


def _same_node(known: Node | None, node: Node) -> bool:
    """Whether nothing changed that a rule or ranking reads."""
    return (
        known is not None
        and known.metadata.name == node.metadata.name
        and known.metadata.labels == node.metadata.labels
        and known.spec == node.spec
        and known.status.allocatable == node.status.allocatable
        and known.status.declared_features == node.status.declared_features
        and is_schedulable(known) == is_schedulable(node)
    )
