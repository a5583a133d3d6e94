"""Why a pod is where it is, or has no node: the one cause that counts first, then all that bears on it.

The order of the causes is the subtle thing. What keeps a pod from being tried at all (a gate, a scheduler
that does not exist, a gang that is not whole) comes before what keeps it from fitting, and what cannot be
known before what would follow from it. For a pod of ours the plan answers, in which everything ahead of it
has had its turn; for any other the rules do, as its own scheduler would.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fairlead.engine.ask import cluster_plan
from fairlead.engine.ask.explain import Explanation, explained, nearest_rule
from fairlead.engine.ask.inventory import Inventory
from fairlead.engine.ask.policy_groups import group_index
from fairlead.engine.ask.schedulers import Scheduler, Schedulers
from fairlead.engine.core.actions import BindPod, EvictPod
from fairlead.engine.gangs.membership import gang_of, shown
from fairlead.engine.planning.planner import KEPT
from fairlead.engine.planning.units import has_started, pod_unit, units_of
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.rules import loose_terms, verdicts
from fairlead.engine.snapshot.storage import claim_name, class_name
from fairlead.policy.names import TIER_ANNOTATION

if TYPE_CHECKING:
    from fairlead.engine.core.core import Core
    from fairlead.engine.core.report import QueuePosition
    from fairlead.engine.core.state import State
    from fairlead.engine.gangs.gangs import Gang
    from fairlead.engine.planning.units import Unit
    from fairlead.engine.policies.planned_pod import Sent
    from fairlead.engine.snapshot.classes import PodClass
    from fairlead.kube.pod import Pod
    from fairlead.policy.groups.index import GroupIndex

CAUSES = {
    "unusable": "the pod's own fields make no sense",
    "gate": "a scheduling gate that another controller has to remove",
    "no-scheduler": "no scheduler answers to the name that the pod has",
    "scheduler-away": "its scheduler is known and does not run",
    "other-namespace": "its scheduler places pods of other namespaces only",
    "gang-object": "the PodGroup that its gang needs does not exist",
    "gang-incomplete": "members of its gang are yet to be created",
    "gang-outdated": "members of a newer revision count for its gang instead",
    "gang-leaving": "its gang is being evicted and starts again as a whole",
    "gang-settling": "the size of its gang is not certain yet",
    "gang-room": "there is no room for its whole gang",
    "policy-full": "every tier of its policy is at its max",
    "policy-tier": "its policy sends it to a tier that does not take it",
    "policy-mark": "its policy leaves a tier alone for now",
    "rule": "a rule refuses every node",
    "no-nodes": "there are no nodes",
    "victims": "it waits for pods to leave the node that it was promised",
    "to-preempt": "others have to leave first, and may",
    "reserved": "the room is kept for a unit that has waited longer",
    "terms": "its namespace has more affinity terms than are counted",
    "not-tried": "it fits; its scheduler has not placed it yet",
    "unknown": "what was read of the cluster does not tell",
    "none": "it has no node, for no reason that is known here",
}
"""Why a pod waits, by code."""

# What else an answer may rest on, where a cluster was read.
_BESIDE = ("PlacementPolicy", "PodDisruptionBudget", "PodGroup", "Lease", "Namespace")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a pod waits. `rule` is the one on which it got furthest, where a rule refuses it."""

    code: str
    text: str
    rule: str = ""

    def __post_init__(self) -> None:
        assert self.code in CAUSES, self.code

    @property
    def kind(self) -> str:
        """What pods are counted by: the code, or the rule."""
        return self.rule if self.code == "rule" and self.rule else self.code

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        found = {"code": self.code, "meaning": CAUSES[self.code], "text": self.text}
        return found | ({"rule": self.rule} if self.rule else {})


@dataclass(frozen=True, slots=True)
class GangView:
    """A gang as it stands."""

    name: str
    minimum: int
    present: int
    running: int
    pending: int
    started: bool
    waits_for: str = ""
    """What keeps it from starting; "" where nothing but room does."""
    members: tuple[tuple[str, str], ...] = ()
    """Each member (``namespace/name``) and its node, "" for none."""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "name": self.name,
            "minimum": self.minimum,
            "present": self.present,
            "running": self.running,
            "pending": self.pending,
            "started": self.started,
            "waitsFor": self.waits_for,
            "members": [{"pod": pod, "node": node} for pod, node in self.members],
        }


@dataclass(frozen=True, slots=True)
class PolicyView:
    """Which policy governs a pod, and what it makes of it.

    `why` is that of the choice of the tier, or ``placed`` where the pod has its node: then `tier` is the
    node's.
    """

    policy: str
    slot: int
    """0: none yet."""
    tier: str
    why: str
    words: str = ""
    marks: tuple[tuple[str, float, str], ...] = ()
    """Tiers of it that are left alone: tier, until when, why."""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "policy": self.policy,
            "slot": self.slot,
            "tier": self.tier,
            "why": self.why,
            "words": self.words,
            "marks": [{"tier": tier, "until": until, "reason": why} for tier, until, why in self.marks],
        }


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that can be said of one pod. `state`: pending, running, finished, leaving or unusable.

    `unknown` is what could not be read and bears on it. `queue` is where it stands once all that can be
    placed was placed; the order and the backoff of the live scheduler are known to that alone.
    """

    pod: str
    state: str
    node: str = ""
    since: float | None = None
    cause: Cause | None = None
    scheduler: Scheduler | None = None
    gates: tuple[str, ...] = ()
    gang: GangView | None = None
    policy: PolicyView | None = None
    queue: QueuePosition | None = None
    explanation: Explanation | None = None
    best: str = ""
    """Where it would be placed now."""
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The most important thing, in one line."""
        if self.cause is not None:
            return f"{self.pod} is {self.state}: {self.cause.text}"
        match self.state:
            case "running":
                return f"{self.pod} is on {self.node}"
            case "leaving":
                return f"{self.pod} is being deleted" + (f" from {self.node}" if self.node else "")
        return f"{self.pod} is {self.state}"

    def to_dict(self) -> dict[str, Any]:
        """As plain data; times in seconds since the epoch."""
        found: dict[str, Any] = {"pod": self.pod, "state": self.state, "headline": self.headline}
        if self.node:
            found["node"] = self.node
        if self.since is not None:
            found["since"] = self.since
        for name in ("cause", "scheduler", "gang", "policy", "queue"):
            value = getattr(self, name)
            found[name] = value.to_dict() if value is not None else None
        found["gates"] = list(self.gates)
        found["bestNode"] = self.best
        found["unknown"] = list(self.unknown)
        found["notes"] = list(self.notes)
        explained = self.explanation.to_dict() if self.explanation is not None else {}
        explained.pop("pod", None)
        return found | explained


@dataclass
class Diagnostician:
    """Answers about one cluster. What several need, the plan among it, is made when it is first needed."""

    cluster: Inventory
    _causes: dict[object, Cause] = field(default_factory=dict)

    @cached_property
    def now(self) -> float:
        """The moment that the cluster is looked at."""
        return cluster_plan.moment_of(self.cluster)

    @cached_property
    def schedulers(self) -> Schedulers:
        """Which schedulers there are."""
        return Schedulers(self.cluster, self.cluster.read_at, lease=self.cluster.scheduler_lease)

    @cached_property
    def state(self) -> State:
        """All there is, before anything is planned."""
        return cluster_plan.whole_state(self.cluster)

    @cached_property
    def ranking(self) -> Ranking:
        """For where a pod would be placed."""
        return Ranking(self.cluster.snapshot)

    @cached_property
    def _grouped(self) -> GroupIndex:
        return group_index(self.cluster)

    @cached_property
    def _planned(self) -> tuple[Core, dict[str, str], dict[str, list[str]]]:
        names = self.cluster.settings.scheduler_names
        core, actions = cluster_plan.planned(self.cluster, scheduler_names=names, now=None)
        binds = {one.pod: one.node for one in actions if isinstance(one, BindPod)}
        victims: dict[str, list[str]] = {}
        for one in actions:
            if isinstance(one, EvictPod):
                victims.setdefault(one.unit, []).append(one.pod)
        return core, binds, victims

    @cached_property
    def _held(self) -> dict[str, str]:
        return {pod: why for pod, why, _ in self._planned[0].report.held()}

    def ours(self, pod: Pod) -> bool:
        """Whether our scheduler is to place the pod, if it may in that namespace."""
        return pod.spec.scheduler_name in self.cluster.settings.scheduler_names

    # One pod

    def diagnose(self, key: str, *, nodes: bool = True) -> Diagnosis:
        """All about one pod (``namespace/name``); `nodes`: with each node's verdict and what would help."""
        if key in self.cluster.broken:
            why = f"it cannot be used: {self.cluster.broken[key]}"
            return Diagnosis(key, "unusable", cause=Cause("unusable", why))
        pod, _ = self.cluster.find(key)
        key = pod.metadata.key
        state, since = _state_of(pod)
        if state == "finished":
            return Diagnosis(key, state, pod.spec.node_name, since)
        explanation = explained(self.cluster, key) if nodes and not self.cluster.lacks("Node") else None
        cause = self.cause(pod, explanation) if state == "pending" else None
        queue = None
        if state == "pending" and self._is_planned(pod):
            queue = self._planned[0].queue_position(key)
        best = ""
        if explanation is not None and explanation.feasible:
            best = (self._planned[1].get(key, "") if state == "pending" else "") or self._best(pod)
        return Diagnosis(
            key,
            state,
            pod.spec.node_name,
            since,
            cause,
            self.schedulers.of(pod.spec.scheduler_name),
            tuple(gate.name for gate in pod.spec.scheduling_gates),
            self.gang(pod),
            self.policy(pod),
            queue,
            explanation,
            best,
            tuple(self._unknown(pod)),
            tuple(self._notes(pod)),
        )

    def cause(self, pod: Pod, explanation: Explanation | None = None) -> Cause:
        """Why a pod waits; `explanation` saves work where it is there."""
        if pod.spec.scheduling_gates:
            gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
            number = "gate" if len(pod.spec.scheduling_gates) == 1 else "gates"
            return Cause("gate", f"it waits for another controller to remove the scheduling {number} {gates}")
        scheduler = self.schedulers.of(pod.spec.scheduler_name)
        if scheduler.runs is False:
            if self.ours(pod) or scheduler.elected:
                return Cause("scheduler-away", f"scheduler {scheduler.name} does not run: {scheduler.why}")
            return Cause(
                "no-scheduler", f"no scheduler answers to the name {scheduler.name}: {scheduler.why}"
            )
        blind = self._blind(pod)
        if blind:
            return Cause("unknown", f"why cannot be known: {blind}")
        namespaces = self.cluster.settings.namespaces
        if self.ours(pod) and namespaces and pod.metadata.namespace not in namespaces:
            where = ", ".join(namespaces)
            return Cause("other-namespace", f"scheduler {scheduler.name} places pods of {where} only")
        if self._is_planned(pod):
            return self._cause_of_ours(pod, explanation)
        return self._cause_of_others(pod, explanation)

    def _cause_of_ours(self, pod: Pod, explanation: Explanation | None) -> Cause:
        key = pod.metadata.key
        gang = self._gang(pod)
        if gang is not None and not has_started(gang):
            if pod in gang.outdated:
                return Cause("gang-outdated", self._held.get(key) or CAUSES["gang-outdated"])
            if waits := gang.waits_because(self.now):
                return Cause(_gang_code(gang), f"gang {shown(gang.name)}: {waits}")
        core, binds, victims = self._planned
        told = self._held.get(key, "")
        unit = gang.name if gang is not None and not has_started(gang) else key
        leaving = victims.get(shown(unit))
        if leaving:
            nominated = pod.status.nominated_node_name
            where = f"on {nominated}, " if nominated else ""
            whom = ", ".join(leaving[:3]) + (f" and {len(leaving) - 3} more" if len(leaving) > 3 else "")
            text = f"{where}{whom} {'has' if len(leaving) == 1 else 'have'} to leave for it first"
            return Cause("victims" if nominated else "to-preempt", text)
        if pod.status.nominated_node_name and not told:
            return _promised(pod)
        if key in binds:
            return Cause("not-tried", f"it would go to {binds[key]} now; the scheduler has not placed it yet")
        if KEPT in told:
            return Cause("reserved", told)
        if loose_terms.NAME in core.report.held_by(pod.metadata.uid):
            return Cause("terms", told)
        policy = self._by_policy(pod, told)
        if policy is not None:
            return policy
        if gang is not None and not has_started(gang) and gang.needed > 1:
            position = core.queue_position(key)
            room = f"there is room for {len(position.fitting)} now" if position is not None else ""
            text = told.removeprefix(f"gang {shown(gang.name)}: ")
            return Cause(
                "gang-room", f"gang {shown(gang.name)} needs {gang.needed} places at once; {room}: {text}"
            )
        return self._by_rules(pod, explanation, told)

    def _cause_of_others(self, pod: Pod, explanation: Explanation | None) -> Cause:
        if pod.status.nominated_node_name:
            return _promised(pod)
        told = self._told(pod, explanation)
        policy = self._by_policy(pod, told) if told else None
        return policy or self._by_rules(pod, explanation, told)

    def _by_policy(self, pod: Pod, told: str) -> Cause | None:
        """The cause, where it is the pod's policy and no more: without it, the pod would fit."""
        sent = self._sent(pod)
        if sent is None:
            return None
        name = sent.policy.name
        words = self.state.book.words(pod.metadata.uid)
        if sent.choice.tier is None:
            return Cause("policy-full", words or f"policy {name}: every tier has reached its max")
        tier = sent.policy.spec.tiers[sent.choice.tier].name
        bare = verdicts(self.cluster.snapshot, self.cluster.snapshot.class_of(pod))
        if not bare.feasible.any():
            return None
        because = words.partition(": ")[2].rstrip(".") or f"it is sent to tier {tier}"
        code = "policy-mark" if sent.choice.why in ("min", "stuck") else "policy-tier"
        sentence = told.partition(" Policy ")[0].rstrip(".")
        return Cause(code, f"policy {name}: it {because}; there: {sentence}" if sentence else because)

    def _by_rules(self, pod: Pod, explanation: Explanation | None, told: str) -> Cause:
        if not told:
            # An unknown scheduler's own backoff, or one that has not come to it.
            where = self._best(pod)
            name = pod.spec.scheduler_name
            text = (
                f"it fits, on {where} best; {name} has not placed it yet" if where else "for no known reason"
            )
            return Cause("not-tried" if where else "none", text)
        if not self.cluster.snapshot.nodes.count:
            return Cause("no-nodes", "there are no nodes")
        rule = explanation.nearest if explanation is not None else ""
        return Cause("rule", told, rule or self._nearest(pod))

    # What bears on it

    def gang(self, pod: Pod) -> GangView | None:
        """The gang of a pod of ours, None for none."""
        gang = self._gang(pod)
        return self.gang_view(gang) if gang is not None else None

    def gang_view(self, gang: Gang) -> GangView:
        """A gang in plain words."""
        there = (*gang.running, *gang.pending)
        return GangView(
            shown(gang.name),
            gang.minimum,
            gang.present,
            len(gang.running) + gang.succeeded,
            len(gang.pending),
            gang.latched,
            "" if has_started(gang) else gang.waits_because(self.now),
            tuple((pod.metadata.key, pod.spec.node_name) for pod in there),
        )

    def policy(self, pod: Pod) -> PolicyView | None:
        """What a policy makes of a pod, None where none governs it."""
        sent = self._sent(pod)
        if sent is None:
            return self._policy_of_placed(pod) if pod.spec.node_name else None
        tier = "" if sent.choice.tier is None else sent.policy.spec.tiers[sent.choice.tier].name
        marks = cluster_plan.marks_of(self.cluster).get(sent.policy.name, {})
        return PolicyView(
            sent.policy.name,
            sent.slot,
            tier,
            sent.choice.why,
            self.state.book.words(pod.metadata.uid),
            cluster_plan.shown_marks(marks),
        )

    def _policy_of_placed(self, pod: Pod) -> PolicyView | None:
        """The policy of a pod that has its node, and that node's tier, which may not be the slot's."""
        one = self._grouped.get(pod.metadata.uid) if self.cluster.policies else None
        if one is None:
            return None
        marks = cluster_plan.marks_of(self.cluster).get(one.policy.name, {})
        shown = cluster_plan.shown_marks(marks)
        return PolicyView(one.policy.name, one.member.slot or 0, one.member.tier, "placed", marks=shown)

    # Many pods

    def waiting(self) -> list[tuple[Pod, Cause]]:
        """Every pod without a node that has not finished and is not leaving, with its cause, oldest first."""
        pods = [pod for pod in self.cluster.pods.values() if _state_of(pod)[0] == "pending"]
        pods.sort(key=lambda pod: (_created(pod), pod.metadata.key))
        return [(pod, self.shared_cause(pod)) for pod in pods]

    def units(self) -> list[Unit]:
        """The units of our scheduler that wait, in the order in which they are tried."""
        order = self.cluster.settings.order
        found: list[Unit] = []
        for pod in self.state.pending.values():
            if self._is_planned(pod) and self._gang(pod) is None:
                found.append(pod_unit(pod, order))
        for name in self.state.gangs.names():
            gang = self.state.gangs.get(name)
            if gang is not None and gang.pending and self._is_planned(gang.pending[0]):
                found += units_of(gang, order)
        return sorted(found, key=lambda unit: unit.rank)

    def held(self, unit: Unit) -> str:
        """Why a unit is not placed, in words; or where it would go now."""
        return self.cause(self.cluster.find(unit.members[0].metadata.key)[0]).text

    def shared_cause(self, pod: Pod) -> Cause:
        """The cause; of pods of other schedulers that no rule can tell apart it is worked out once."""
        if self._is_planned(pod) or self._sent(pod) is not None or pod.status.nominated_node_name:
            return self.cause(pod)
        cls = self.cluster.snapshot.class_of(pod)
        key = (pod.spec.scheduler_name, pod.spec.scheduling_gates, pod.metadata.namespace, cls.serial)
        if key not in self._causes:
            self._causes[key] = self.cause(pod)
        return self._causes[key]

    # Helpers

    def _is_planned(self, pod: Pod) -> bool:
        namespaces = self.cluster.settings.namespaces
        return self.ours(pod) and (not namespaces or pod.metadata.namespace in namespaces)

    def _gang(self, pod: Pod) -> Gang | None:
        if not self.ours(pod):
            return None
        name = self.state.gangs.name_of(pod.metadata.uid)
        return self.state.gangs.get(name) if name else None

    def _sent(self, pod: Pod) -> Sent | None:
        if not self.cluster.policies:
            return None
        return self.state.book.sent.get(pod.metadata.uid)

    def _told(self, pod: Pod, explanation: Explanation | None) -> str:
        """The rules' sentence on a pod as its policy has it; "" where it fits."""
        if explanation is not None:
            return explanation.message or ""
        return verdicts(self.cluster.snapshot, self._class(pod)).message() or ""

    def _class(self, pod: Pod) -> PodClass:
        """The class of a pod that waits, as its policy has it."""
        return self.cluster.snapshot.class_of(self.state.planned(pod) if self._sent(pod) is not None else pod)

    def _nearest(self, pod: Pod) -> str:
        """The rule to blame: that of a pod that fits, as long as nothing is planned, is resources."""
        snapshot, cls = self.cluster.snapshot, self._class(pod)
        found = verdicts(snapshot, cls)
        return "NodeResourcesFit" if found.feasible.any() else nearest_rule(snapshot, cls, found)

    def _best(self, pod: Pod) -> str:
        """Where the pod would be placed if it were to be now."""
        snapshot = self.cluster.snapshot
        key = pod.metadata.key
        planned = cluster_plan.sent(self.cluster, pod) if self.cluster.policies else pod
        placed = snapshot.forget(key) if snapshot.placed(key) is not None else None
        try:
            slot = self.ranking.choose(snapshot.class_of(planned))
            return snapshot.nodes.name(slot) if slot >= 0 else ""
        finally:
            if placed is not None:
                snapshot.restore(placed)

    def _blind(self, pod: Pod) -> str:
        """What of the cluster is not known that a cause would rest on; "" where enough is."""
        for kind in ("Node", "Pod"):
            if why := self.cluster.lacks(kind):
                return f"{kind}s: {why}"
        for kind, name in self._lacking_of_claims(pod):
            return f"it needs {kind} {name}, and {kind}s: {self.cluster.lacks(kind)}"
        return ""

    def _lacking_of_claims(self, pod: Pod) -> Iterator[tuple[str, str]]:
        """What the pod's claims refer to that was not read, where its kind was not read whole."""
        storage = self.cluster.snapshot.storage
        for volume in pod.spec.volumes:
            name = claim_name(pod.metadata.name, volume)
            if name is None:
                continue
            claim = storage.claims.get(f"{pod.metadata.namespace}/{name}")
            if claim is None:
                needed = ("PersistentVolumeClaim", name, False)
            elif claim.spec.volume_name:
                there = claim.spec.volume_name in storage.volumes
                needed = ("PersistentVolume", claim.spec.volume_name, there)
            else:
                needed = ("StorageClass", class_name(claim), class_name(claim) in ("", *storage.classes))
            kind, wanted, known = needed
            if not known and self.cluster.lacks(kind):
                yield kind, wanted

    def _unknown(self, pod: Pod) -> Iterator[str]:
        for kind in ("Node", "Pod", *(kind for kind, _ in self._lacking_of_claims(pod))):
            if why := self.cluster.lacks(kind):
                yield f"{kind}s: {why}"
        for kind in _BESIDE:
            if why := self.cluster.unread.get(kind, ""):
                yield f"{kind}s: {why}"

    def _notes(self, pod: Pod) -> Iterator[str]:
        gang = gang_of(pod.metadata, pod.spec)
        if gang and not self.ours(pod) and not pod.spec.node_name:
            yield f"it says that it is of gang {shown(gang)}, which {pod.spec.scheduler_name} may not heed"
        tier = pod.metadata.annotations.get(TIER_ANNOTATION)
        if tier and pod.spec.node_name:
            yield f"it was sent to tier {tier}"


def _gang_code(gang: Gang) -> str:
    """What `Gang.waits_because` says, as a code."""
    if gang.evicted:
        return "gang-leaving"
    if gang.lacks:
        return "gang-object"
    return "gang-incomplete" if gang.missing() else "gang-settling"


def _state_of(pod: Pod) -> tuple[str, float | None]:
    if pod.terminal:
        return "finished", None
    if pod.metadata.deletion_timestamp is not None:
        return "leaving", pod.metadata.deletion_timestamp.timestamp()
    if pod.spec.node_name:
        start = pod.status.start_time
        return "running", start.timestamp() if start is not None else None
    return "pending", _created(pod) or None


def _promised(pod: Pod) -> Cause:
    node = pod.status.nominated_node_name
    return Cause("victims", f"it was promised node {node}, which pods have to leave")


def _created(pod: Pod) -> float:
    stamp = pod.metadata.creation_timestamp
    return stamp.timestamp() if stamp is not None else 0.0
