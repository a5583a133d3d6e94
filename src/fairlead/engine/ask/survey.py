"""A cluster at one glance: fill, what waits and why, gangs, policies, who leads, what happened last.

Everything is counted from the objects that were read; nothing is remembered from one look to the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairlead.engine.ask.capacity import Fill, NodeFill, nodes_of, together
from fairlead.engine.ask.cluster_plan import marks_of, shown_marks
from fairlead.engine.ask.policy_groups import group_counts, group_index
from fairlead.engine.snapshot.evicted import CONDITION as EVICTED
from fairlead.policy.rule.model import PlacementPolicy, read_policies
from fairlead.policy.tiers.tier_nodes import TierNodes

if TYPE_CHECKING:
    from fairlead.engine.ask.diagnosis import Cause, Diagnostician, GangView
    from fairlead.engine.ask.schedulers import Scheduler
    from fairlead.kube.pod import Pod

DECISIONS_SHOWN = 10
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Waiting:
    """Pods that wait for the same reason. `oldest` is since when the longest-waiting does."""

    kind: str
    """The cause's code or the rule; see `diagnosis.CAUSES`."""
    text: str
    pods: int
    oldest: float
    examples: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "kind": self.kind,
            "text": self.text,
            "pods": self.pods,
            "oldest": self.oldest,
            "examples": list(self.examples),
        }


@dataclass(frozen=True, slots=True)
class PolicyNow:
    """A policy: pods by tier as the rule has them and as they are, and the tiers that it leaves alone."""

    name: str
    groups: int
    pods: int
    tiers: tuple[tuple[str, int, int, int, Fill], ...]
    """Of each tier: name, desired, actual and pending pods, and its nodes."""
    misplaced: int
    marks: tuple[tuple[str, float, str], ...] = ()
    """Tiers that are left alone: name, until when, why."""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "name": self.name,
            "groups": self.groups,
            "pods": self.pods,
            "misplaced": self.misplaced,
            "tiers": [
                {
                    "name": tier,
                    "desired": desired,
                    "actual": actual,
                    "pending": pending,
                    "fill": fill.to_dict(),
                }
                for tier, desired, actual, pending, fill in self.tiers
            ],
            "marks": [{"tier": tier, "until": until, "reason": why} for tier, until, why in self.marks],
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that happened to a pod, by its own conditions."""

    at: float
    pod: str
    what: str

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"at": self.at, "pod": self.pod, "what": self.what}


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One unit in the order in which it is tried."""

    position: int
    unit: str
    priority: int
    pods: tuple[str, ...]
    since: float
    why: str

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "position": self.position,
            "unit": self.unit,
            "priority": self.priority,
            "pods": list(self.pods),
            "since": self.since,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Survey:
    """All of it."""

    nodes: Fill
    groups: tuple[Fill, ...]
    zones: tuple[Fill, ...]
    running: int
    waiting: tuple[Waiting, ...]
    gangs: tuple[GangView, ...]
    policies: tuple[PolicyNow, ...]
    moving: tuple[Decision, ...]
    """Pods on their way out because of a decision: evicted, preempted."""
    leader: Scheduler
    decisions: tuple[Decision, ...]
    warnings: tuple[str, ...]
    unread: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As plain data; times in seconds since the epoch."""
        return {
            "nodes": self.nodes.to_dict(),
            "groups": [one.to_dict() for one in self.groups],
            "zones": [one.to_dict() for one in self.zones],
            "running": self.running,
            "waiting": [one.to_dict() for one in self.waiting],
            "gangs": [one.to_dict() for one in self.gangs],
            "policies": [one.to_dict() for one in self.policies],
            "moving": [one.to_dict() for one in self.moving],
            "leader": self.leader.to_dict(),
            "decisions": [one.to_dict() for one in self.decisions],
            "warnings": list(self.warnings),
            "unread": dict(self.unread),
        }


def survey(asked: Diagnostician, pods: Iterable[Pod]) -> Survey:
    """The cluster at one glance, of these of its pods; nodes and policies are all there are."""
    cluster = asked.cluster
    chosen = list(pods)
    keys = {pod.metadata.key for pod in chosen}
    nodes = nodes_of(cluster)
    waiting = [(pod, cause) for pod, cause in asked.waiting() if pod.metadata.key in keys]
    return Survey(
        together("all", nodes),
        _by(nodes, "group"),
        _by(nodes, "zone"),
        sum(1 for pod in chosen if pod.spec.node_name and not pod.terminal),
        tuple(summed_up(waiting)),
        tuple(view for view in gangs(asked) if _is_of(view, keys)),
        tuple(policies_now(asked, nodes)),
        tuple(_moving(chosen)),
        asked.schedulers.leader(),
        tuple(_decisions(chosen)),
        (*cluster.warnings(), *_cures(waiting)),
        dict(cluster.unread),
    )


def summed_up(waiting: Iterable[tuple[Pod, Cause]]) -> list[Waiting]:
    """Pods that wait, by reason; most pods first. The same words with other counts are one reason."""
    found: dict[str, list[tuple[Pod, Cause]]] = {}
    for pod, cause in waiting:
        found.setdefault(cause.kind, []).append((pod, cause))
    listed = []
    for kind, those in found.items():
        stamps = [pod.metadata.creation_timestamp for pod, _ in those]
        listed.append(
            Waiting(
                kind,
                those[0][1].text,
                len(those),
                min((stamp.timestamp() for stamp in stamps if stamp is not None), default=0.0),
                tuple(pod.metadata.key for pod, _ in those[:EXAMPLES]),
            )
        )
    return sorted(listed, key=lambda one: (-one.pods, one.kind))


def gangs(asked: Diagnostician) -> list[GangView]:
    """Every gang of our pods, by name."""
    return [
        asked.gang_view(gang)
        for gang in map(asked.state.gangs.get, asked.state.gangs.names())
        if gang is not None
        and any(asked.ours(pod) for pod in (*gang.pending, *gang.running, *gang.evicted, *gang.outdated))
    ]


def queue(asked: Diagnostician) -> list[QueueEntry]:
    """The units of our scheduler that wait, in the order in which they are tried, with why each is held."""
    units = asked.units()
    return [
        QueueEntry(
            place,
            unit.name,
            unit.priority,
            tuple(pod.metadata.key for pod in unit.members),
            unit.since,
            asked.held(unit),
        )
        for place, unit in enumerate(units, 1)
    ]


def policies_now(asked: Diagnostician, nodes: Iterable[NodeFill] = ()) -> list[PolicyNow]:
    """Every policy: where its pods should be and where they are."""
    cluster = asked.cluster
    index = group_index(cluster)
    counts = group_counts(index)
    marks = marks_of(cluster)
    filled = {node.name: node for node in nodes}
    found = []
    for policy in read_policies(cluster.policies):
        mine = [one for one in counts if one.key.policy == policy.name]
        of_tier = _nodes_of_tiers(policy, asked, filled)
        found.append(
            PolicyNow(
                policy.name,
                len(mine),
                sum(one.pods for one in mine),
                tuple(
                    (
                        tier.name,
                        sum(one.desired.get(tier.name, 0) for one in mine),
                        sum(one.actual.get(tier.name, 0) for one in mine),
                        sum(one.pending.get(tier.name, 0) for one in mine),
                        together(tier.name, of_tier.get(number, ())),
                    )
                    for number, tier in enumerate(policy.spec.tiers)
                ),
                sum(one.misplaced for one in mine),
                shown_marks(marks.get(policy.name, {})),
            )
        )
    return found


def _nodes_of_tiers(
    policy: PlacementPolicy, asked: Diagnostician, filled: dict[str, NodeFill]
) -> dict[int, list[NodeFill]]:
    found: dict[int, list[NodeFill]] = {}
    for name, tier in TierNodes(policy, asked.cluster.each_node()).tier_of.items():
        if tier is not None and name in filled:
            found.setdefault(tier, []).append(filled[name])
    return found


def _by(nodes: Iterable[NodeFill], what: str) -> tuple[Fill, ...]:
    found: dict[str, list[NodeFill]] = {}
    for node in nodes:
        found.setdefault(getattr(node, what), []).append(node)
    if set(found) <= {""}:
        return ()
    return tuple(together(name or "(none)", found[name]) for name in sorted(found))


def _is_of(view: GangView, keys: set[str]) -> bool:
    return any(pod in keys for pod, _ in view.members)


def _moving(pods: Iterable[Pod]) -> list[Decision]:
    found = []
    for pod in pods:
        if pod.metadata.deletion_timestamp is None or pod.terminal:
            continue
        for one in pod.status.conditions:
            if one.type in ("DisruptionTarget", EVICTED) and one.status == "True":
                at = one.last_transition_time
                words = one.message or one.reason
                stamp = at.timestamp() if at is not None else 0.0
                found.append(Decision(stamp, pod.metadata.key, f"leaves {pod.spec.node_name}: {words}"))
                break
    return sorted(found, key=lambda one: (-one.at, one.pod))


def _decisions(pods: Iterable[Pod]) -> list[Decision]:
    found = []
    for pod in pods:
        for one in pod.status.conditions:
            if one.type == "PodScheduled" and one.status == "True" and one.last_transition_time is not None:
                at = one.last_transition_time.timestamp()
                found.append(Decision(at, pod.metadata.key, f"placed on {pod.spec.node_name}"))
    found.sort(key=lambda one: (-one.at, one.pod))
    return found[:DECISIONS_SHOWN]


_CURES = {
    "no-scheduler": "set schedulerName to one that runs, in the template of the pods",
    "scheduler-away": "start it: kubectl -n fairlead-system get pods; fairlead scheduler --help",
    "gang-object": "create the PodGroup that the members name",
    "unusable": "correct the field that is named, and create the pod again",
}


def _cures(waiting: Iterable[tuple[Pod, Cause]]) -> list[str]:
    """What an operator has to do, once for each kind of trouble that nothing else will end."""
    found: dict[str, str] = {}
    for pod, cause in waiting:
        if cause.code in _CURES:
            found.setdefault(cause.code, f"{pod.metadata.key}: {cause.text}: {_CURES[cause.code]}")
    return list(found.values())
