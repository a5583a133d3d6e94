"""The invariants that hold at every moment, judged from watches and the audit log. No I/O, no clock.

Subtle: "by the state we had seen". Whether a node has room is judged by what the API server knew, which is
stricter than what is promised; a bind by a component whose own watch was made to lie just then is counted
as excused, and everything else is a violation. What may be broken for a while (a gang partly bound) is one
when it stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tools.soak.observer.audit import Write
from tools.soak.observer.quantities import allocatable, requested

Manifest = dict[str, Any]

GANG = "pod-group"
MINIMUM = "pod-group-min-member"
PRIORITY = "priority"
CAPACITY = "fairlead.dev/capacity"
TOKEN = "fairlead.dev/slot-token"

_ON_THE_WIRE_S = 2.0
"""For how long after a lease changed hands bytes of the old leader may still land: the proxy holds some."""
_AUDIT_LAG_S = 3.0
_RECENTLY_S = 10.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long what is allowed for a while may last, in seconds."""

    gang: float = 150.0
    slot: float = 45.0
    cordon: float = 60.0


@dataclass(frozen=True, slots=True)
class Violation:
    """One invariant that did not hold."""

    at: float
    invariant: str
    subject: str
    message: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.subject}: {self.message}"


@dataclass(slots=True)
class _Gang:
    minimum: int = 0
    started: bool = False
    partial_since: float | None = None
    doomed: frozenset[str] = frozenset()
    doomed_at: float = 0.0


class Observer:
    """What is known of the cluster, and the violations found so far.

    `leaders` names the lease without which a user may not write about pods. `stale` says whether a
    user's watches were made to lie around a moment.
    """

    def __init__(
        self,
        *,
        scheduler_name: str = "fairlead",
        leaders: dict[str, str] | None = None,
        stale: Callable[[str, float], bool] = lambda user, at: False,
        patience: Patience = Patience(),  # noqa: B008 (frozen)
    ) -> None:
        self.pods: dict[str, Manifest] = {}
        self.objects: dict[str, dict[str, Manifest]] = {}
        """By kind and UID, all but pods."""
        self.violations: list[Violation] = []
        self.excused: Counter[str] = Counter()
        self.binds = 0
        self.evictions = 0
        self.changed_at = 0.0
        self.writes: list[Write] = []
        """Those but of leases."""
        self._name = scheduler_name
        self._leaders = leaders or {}
        self._stale = stale
        self._patience = patience
        self._nodes: dict[str, Manifest] = {}  # by name; a node that left is remembered
        self._cordoned_at: dict[str, float] = {}
        self._uids: dict[tuple[str, str], str] = {}
        self._node_of: dict[str, str] = {}
        self._on: dict[str, set[str]] = {}
        self._gangs: dict[str, _Gang] = {}
        self._members: dict[str, set[str]] = {}
        self._slots: dict[tuple[str, str], float] = {}
        self._binder: dict[str, str] = {}
        self._suspects: list[tuple[Violation, str]] = []
        self._waited: dict[str, tuple[int, float]] = {}
        self._holder: dict[str, tuple[str, float]] = {}  # by lease: the user, and since when
        self._known: set[tuple[str, str]] = set()

    # What is seen

    def see(self, what: str, kind: str, obj: Manifest, now: float) -> None:
        """An event of a watch."""
        uid = obj["metadata"]["uid"]
        if kind == "Lease":
            return
        if kind == "Pod":
            self.changed_at = now
            self._pod_left(uid, now) if what == "DELETED" else self._pod(uid, obj, now)
            return
        held = self.objects.setdefault(kind, {})
        if kind == "Node":
            self._node(what, obj, held.get(uid), now)
        else:
            self.changed_at = now
        if what == "DELETED":
            held.pop(uid, None)
        else:
            held[uid] = obj

    def wrote(self, write: Write, now: float) -> None:
        """A line of the audit log."""
        if write.resource == "leases":
            self._lease(write)
            return
        self.writes.append(write)
        self._led(write, now)
        if write.resource == "pods/binding" and write.applied:
            self.binds += 1
            uid = write.body.get("metadata", {}).get("uid", "")
            if not uid:
                self._found(
                    now, "decisions carry the UID", f"{write.namespace}/{write.name}", f"{write} has none"
                )
            self._binder[uid] = write.user
        if write.resource == "pods/eviction" and write.applied:
            self.evictions += 1
            if self._leaders.get(write.user) == "fairlead-scheduler":
                self._victim(write, now)
        if write.resource == "pods" and write.verb == "delete" and write.applied:
            self._deleted(write, now)

    def tick(self, now: float) -> None:
        """Time has passed: judge what may last only for a while."""
        for uid, pod in self.pods.items():
            if self._ours(pod) and _active(pod) and not _node(pod):
                self._waited[uid] = (priority(pod), now)
        for uid, (_, at) in list(self._waited.items()):
            if now - at > _RECENTLY_S:
                del self._waited[uid]
        self._judge_gangs(now)
        self._judge_slots(now)
        ripe = [one for one in self._suspects if now - one[0].at >= _AUDIT_LAG_S]
        self._suspects = [one for one in self._suspects if now - one[0].at < _AUDIT_LAG_S]
        for violation, uid in ripe:
            if self._stale(self._binder.get(uid, ""), violation.at):
                self.excused[violation.invariant] += 1
            else:
                self._found(violation.at, violation.invariant, violation.subject, violation.message)

    def holder(self, lease: str) -> str:
        """The user that holds a lease, "" for none."""
        return self._holder.get(lease, ("", 0.0))[0]

    # Pods

    def _pod(self, uid: str, pod: Manifest, now: float) -> None:
        before = self.pods.get(uid)
        self.pods[uid] = pod
        self._uids[(pod["metadata"]["namespace"], pod["metadata"]["name"])] = uid
        node, was = _node(pod), self._node_of.get(uid, "")
        if was and node != was:
            self._found(
                now, "a pod is bound once", called(pod), f"it was on {was}, and is on {node or 'none'}"
            )
        if node:
            self._node_of[uid] = node
            if done(pod):
                self._on.get(node, set()).discard(uid)
            else:
                self._on.setdefault(node, set()).add(uid)
                # Of pods that are seen with their node at first sight it is not known when they came.
                if before is not None and not _node(before):
                    self._arrived(uid, pod, node, now)
        elif self._ours(pod) and _active(pod):
            self._waited[uid] = (priority(pod), now)
        if gang := gang_of(pod):
            self._members.setdefault(gang, set()).add(uid)
            self._gang(gang, now)

    def _pod_left(self, uid: str, now: float) -> None:
        pod = self.pods.pop(uid, None)
        if pod is None:
            return
        self._on.get(self._node_of.pop(uid, ""), set()).discard(uid)
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        if self._uids.get(key) == uid:
            del self._uids[key]
        if gang := gang_of(pod):
            self._members[gang].discard(uid)
            self._gang(gang, now)

    def _arrived(self, uid: str, pod: Manifest, name: str, now: float) -> None:
        if not self._ours(pod):
            return
        if over := self.overcommitted(name):
            self._suspect(now, "no node beyond allocatable", name, f"{called(pod)} came, and {over}", uid)
        alone = _exclusive(pod)
        for other in self._on[name]:
            beside = self.pods[other]
            if other != uid and self._ours(beside) and (alone or _exclusive(beside)):
                said = f"{called(pod)} came, where {called(beside)} is"
                self._suspect(now, "exclusive nodes", name, said, uid)
        cordoned_at = self._cordoned_at.get(name)
        if cordoned_at is not None and now - cordoned_at > self._patience.cordon:
            said = f"{called(pod)} came {now - cordoned_at:.0f} s after it was cordoned"
            self._suspect(now, "no bind to a cordoned node", name, said, uid)

    def overcommitted(self, name: str) -> str:
        """What of a node is given away more than once, "" for nothing."""
        node = self._nodes.get(name)
        if node is None:
            return ""
        used: dict[str, Fraction] = {}
        for uid in self._on.get(name, ()):
            for resource, amount in requested(self.pods[uid]).items():
                used[resource] = used.get(resource, Fraction(0)) + amount
        has = allocatable(node)
        over = [
            f"{float(used[one]):g} of {float(has.get(one, 0)):g} {one}"
            for one in used
            if used[one] > has.get(one, 0)
        ]
        return f"{', '.join(over)} are taken" if over else ""

    def on_node(self, name: str) -> list[Manifest]:
        """The pods that a node runs."""
        return [self.pods[uid] for uid in self._on.get(name, ())]

    def _node(self, what: str, node: Manifest, before: Manifest | None, now: float) -> None:
        name = node["metadata"]["name"]
        if what != "DELETED" and node["status"].get("allocatable"):
            self._nodes[name] = node
        if before is None or what == "DELETED" or before["spec"] != node["spec"]:
            self.changed_at = now
        if not node["spec"].get("unschedulable"):
            self._cordoned_at.pop(name, None)
        elif name not in self._cordoned_at:
            self._cordoned_at[name] = now

    # Gangs

    def _gang(self, key: str, now: float) -> None:
        gang = self._gangs.setdefault(key, _Gang())
        there = [self.pods[uid] for uid in self._members[key]]
        gang.minimum = max((int(one["metadata"]["annotations"].get(MINIMUM, 0)) for one in there), default=0)
        present = sum(done(one) or (_active(one) and bool(_node(one))) for one in there)
        if present == 0:
            gang.started = False
        elif present >= gang.minimum:
            gang.started = True
        partial = 0 < present < gang.minimum and not gang.started
        if not partial:
            gang.partial_since = None
        elif gang.partial_since is None:
            gang.partial_since = now

    def _judge_gangs(self, now: float) -> None:
        for key, gang in self._gangs.items():
            if gang.partial_since is not None and now - gang.partial_since > self._patience.gang:
                said = f"fewer than {gang.minimum} members have a node, for {now - gang.partial_since:.0f} s"
                self._found(now, "no gang stays partly started", key, said)
            if gang.doomed and now - gang.doomed_at > self._patience.gang:
                left = [
                    called(self.pods[uid])
                    for uid in gang.doomed
                    if uid in self.pods and _active(self.pods[uid])
                ]
                if left:
                    stay_s = now - gang.doomed_at
                    said = f"{', '.join(sorted(left))} stay, {stay_s:.0f} s after others were evicted"
                    self._found(now, "a gang is evicted whole", key, said)
                gang.doomed = frozenset()

    # Slots

    def holders(self) -> dict[tuple[str, str], list[str]]:
        """By ledger and slot, the pods that hold it: by their token or, once adopted, by their UID."""
        by_name: dict[str, list[str]] = {}
        for pod in self.pods.values():
            if _active(pod):
                token = (pod["metadata"].get("annotations") or {}).get(TOKEN)
                for name in filter(None, (token, pod["metadata"]["uid"])):
                    by_name.setdefault(f"{pod['metadata']['namespace']} {name}", []).append(called(pod))
        found: dict[tuple[str, str], list[str]] = {}
        for ledger in self.objects.get("PlacementLedger", {}).values():
            for line in ledger["spec"].get("slots") or ():
                slot, _, token, *_ = line.split(" ")
                held = by_name.get(f"{ledger['metadata']['namespace']} {token}", [])
                found.setdefault((called(ledger), slot), []).extend(held or ["a pod that is yet to come"])
        return found

    def doubled(self) -> dict[tuple[str, str], list[str]]:
        """The slots that more than one pod holds, with these pods.

        The ledger says which slot is whose, and not the mark on a pod: one whose slot was given to another,
        because it did not show up in time, is adopted with another slot, and its mark counts for nothing.
        """
        return {slot: sorted(pods) for slot, pods in self.holders().items() if len(pods) > 1}

    def _judge_slots(self, now: float) -> None:
        doubled = self.doubled()
        self._slots = {slot: self._slots.get(slot, now) for slot in doubled}
        for slot, since in self._slots.items():
            if now - since > self._patience.slot:
                said = f"{', '.join(doubled[slot])} have had slot {slot[1]} for {now - since:.0f} s"
                self._found(now, "slots are unique", slot[0], said)

    # Writes

    def _lease(self, write: Write) -> None:
        if not write.applied or write.name not in self._leaders.values():
            return
        holder = write.user if (write.body.get("spec") or {}).get("holderIdentity") else ""
        if holder != self._holder.get(write.name, ("", 0.0))[0]:
            self._holder[write.name] = (holder, write.answered_at)

    def _led(self, write: Write, now: float) -> None:
        lease = self._leaders.get(write.user)
        if lease is None or not write.resource.startswith("pods"):
            return
        holder, since = self._holder.get(lease, ("", 0.0))
        if holder != write.user and write.received_at > since + _ON_THE_WIRE_S:
            said = f"{write}, {write.received_at - since:.1f} s after {holder or 'nobody'} took {lease}"
            self._found(now, "only the leader writes", write.user, said)

    def _victim(self, write: Write, now: float) -> None:
        victim = self.pods.get(self._uids.get((write.namespace, write.name), ""))
        wanted = ((write.body.get("deleteOptions") or {}).get("preconditions") or {}).get("uid")
        if not wanted:
            self._found(
                now, "decisions carry the UID", f"{write.namespace}/{write.name}", f"{write} has none"
            )
        if victim is None or victim["metadata"]["uid"] != wanted:
            return  # it left before its eviction was read
        key = gang_of(victim)
        gang = self._gangs.get(key) if key else None
        if gang is not None and gang.doomed:
            return  # the decision covered all members, and is carried out whatever became of its reason
        rank = priority(victim)
        for uid, pod in self.pods.items():  # who got a node since may have been why
            if self._ours(pod) and not _node(pod) and _active(pod):
                self._waited[uid] = (priority(pod), now)
        if max((waits for waits, _ in self._waited.values()), default=rank) <= rank:
            said = f"it has priority {rank}, and no pod of higher priority waited"
            self._found(now, "victims are of strictly lower priority", called(victim), said)
        if key and gang is not None:
            staying = {uid for uid in self._members[key] if _active(self.pods[uid]) and _node(self.pods[uid])}
            staying.discard(victim["metadata"]["uid"])
            if len(staying) < gang.minimum:
                gang.doomed, gang.doomed_at = frozenset(staying), now

    def _deleted(self, write: Write, now: float) -> None:
        pod = self.pods.get(self._uids.get((write.namespace, write.name), ""))
        if pod is None or not _node(pod) or done(pod):
            return
        labels = pod["metadata"].get("labels") or {}
        for budget in self.objects.get("PodDisruptionBudget", {}).values():
            selector = budget["spec"]["selector"].get("matchLabels") or {}
            if selector and selector.items() <= labels.items():
                said = f"{write}, although PodDisruptionBudget {budget['metadata']['name']} covers it"
                self._found(now, "budgets hold", called(pod), said)

    # Findings

    def _ours(self, pod: Manifest) -> bool:
        return bool(pod["spec"].get("schedulerName") == self._name)

    def _suspect(self, at: float, invariant: str, subject: str, message: str, uid: str) -> None:
        self._suspects.append((Violation(at, invariant, subject, message), uid))

    def _found(self, at: float, invariant: str, subject: str, message: str) -> None:
        if (invariant, subject) not in self._known:
            self._known.add((invariant, subject))
            self.violations.append(Violation(at, invariant, subject, message))

    def add(self, at: float, invariant: str, subject: str, message: str) -> None:
        """A violation that was found elsewhere, at a quiet point for one."""
        self._found(at, invariant, subject, message)


def called(pod: Manifest) -> str:
    """A pod's namespace and name."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def gang_of(pod: Manifest) -> str:
    """The gang of a pod, within its namespace; "" for none."""
    name = (pod["metadata"].get("annotations") or {}).get(GANG)
    return f"{pod['metadata']['namespace']}/{name}" if name else ""


def priority(pod: Manifest) -> int:
    """The annotation, else the class's."""
    said = (pod["metadata"].get("annotations") or {}).get(PRIORITY)
    return int(said) if said is not None else int(pod["spec"].get("priority") or 0)


def done(pod: Manifest) -> bool:
    """Whether a pod has ended."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _active(pod: Manifest) -> bool:
    return not done(pod) and "deletionTimestamp" not in pod["metadata"]


def _node(pod: Manifest) -> str:
    return str(pod["spec"].get("nodeName") or "")


def _exclusive(pod: Manifest) -> bool:
    return (pod["metadata"].get("annotations") or {}).get(CAPACITY) == "exclusive"
