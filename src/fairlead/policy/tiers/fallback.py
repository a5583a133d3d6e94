"""When a tier that cannot take its pods passes them on: which tiers to mark, which pending pods to delete.

A pod's affinity cannot be changed, so a pod that waits for a tier without success is deleted and recreated by
its controller; admission then sends it elsewhere. Hence three cares: no pod is deleted that no controller
recreates, that no other tier would get, or that is part of a min. The mark comes first: without it the new
pod would be sent to where the old one waited. And only a pod that an empty node of the tier would take can
mark it (`Blame`): else one namespace could close a tier for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.kube.tolerations import Taint, Toleration, tolerated
from fairlead.policy.groups.group_state import GroupState
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.marks import PROBE_S, Marks

REMOVAL_TAINTS = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted")
"""What autoscalers put on a node that they are about to take away."""

PROMISES = ("TriggeredScaleUp", "Nominated")
"""Reasons of events by which Cluster Autoscaler and Karpenter say that a node for a pod is on its way."""

_AWAY_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

_STARTING = (
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cluster.x-k8s.io/uninitialized",
    "node.kubernetes.io/network-unavailable",
    "karpenter.sh/unregistered",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
)
"""How the taints of a node begin that is not to be used yet; those that end in ``agent-not-ready`` (network
and storage drivers) are of the kind, too. Whatever else a node is tainted with, its tier's pods may tolerate
by themselves."""

Blame = Literal["tier", "pod", "unknown"]
"""What keeps a waiting pod from being placed. ``tier``: an empty node of the tier would take it, so nodes
are missing. ``pod``: no node of the tier would, even an empty one. ``unknown``: something else that the pod
asks for may be the cause (other pods, volumes, labels of nodes that are not known)."""

_PASSING = ("node.kubernetes.io/", *REMOVAL_TAINTS, *_STARTING)
"""How the taints begin that come and go with a node's condition."""

_SHOWS_UP_S = 60.0  # a pod that was admitted is in the watch well before

_PROMISED_TIMES = 3
"""An autoscaler that finds no capacity promises a node again and again: a pod waits at most this many times
``after`` from when it became Unschedulable."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """A pod without a node that was sent to a tier and could not be placed there yet."""

    uid: str
    pod: str
    tier: int
    token: str
    """What it goes by as a probe: its slot token, else its UID."""
    since: float
    """From when its patience counts: Unschedulable, or a later scale-up or nomination for its sake."""
    stays: str = ""
    """Why it must not be deleted; empty: it may be."""
    elsewhere: bool = True
    """Whether another tier would take it now."""
    instead: tuple[str, ...] = ()
    """Where no other does: those that would, were they not marked, in order."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """A pending pod to delete, with its UID as precondition, so that it can go elsewhere."""

    uid: str
    pod: str
    tier: str
    why: str


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes of each of a policy's tiers, by index: (name, creation time) of the schedulable ones, and
    how many there are in all.
    """

    schedulable: tuple[Mapping[str, float], ...]
    all: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """`marks` are to be written before any pod is deleted; `wake_at` is when time alone changes something."""

    marks: Marks
    nodes: Nodes
    """What was seen of the nodes: `before` of the next decision, once the marks are written."""
    deletions: tuple[Deletion, ...] = ()
    wake_at: float | None = None
    passed: frozenset[str] = frozenset()
    """UIDs of pods whose patience is over without a word against their tier: they alone may go elsewhere."""
    appeared: frozenset[int] = frozenset()
    """Tiers in which a node appeared that ended their cool-down: pods that still wait there have new hope."""


@dataclass(frozen=True, slots=True)
class Probes:
    """What became of pods that try a tier: tokens of those that exist, and the tiers of those placed."""

    present: frozenset[str] = frozenset()
    placed: Mapping[str, int | None] = field(default_factory=dict)


def decide(
    policy: PlacementPolicy,
    marks: Marks,
    waiters: Sequence[Waiter],
    nodes: Nodes,
    now: float,
    *,
    before: Nodes | None = None,
    stranded: Collection[int] = (),
    probes: Probes = Probes(),  # noqa: B008 (frozen)
    landings: Mapping[int, float] = MappingProxyType({}),
    blame: Callable[[Waiter], Blame] = lambda _: "tier",
) -> Decision:
    """What to do now. `before` is what was seen of the nodes the last time; None: nothing is known. Then
    `stranded` are tiers of which pods are on nodes that are no more. `landings` tells by tier when a pod last
    got a place there. `blame` is asked of pods whose patience is over.
    """
    tiers = policy.spec.tiers
    after_s = policy.spec.fallback.after_s
    marked = marks
    marks = nodes_seen(policy, marks, nodes, now, before=before, stranded=stranded)
    appeared = {
        index
        for index, tier in enumerate(tiers)
        if marked.get(tier.name) is not None and marks.get(tier.name) is None
    }
    for index, tier in enumerate(tiers):
        marks = _probe_seen(marks, tier.name, index, probes, waiters, now)
        if index in landings and nodes.schedulable[index]:
            marks = marks.landed(tier.name, landings[index], now)
    ends = {waiter.uid: _patience_ends(waiter, nodes, after_s) for waiter in waiters}
    ordered = sorted(waiters, key=lambda one: (one.since, one.uid))
    causes = {one.uid: blame(one) for one in ordered if now >= ends[one.uid] and one.tier not in appeared}
    for waiter in ordered:
        name, cause = tiers[waiter.tier].name, causes.get(waiter.uid)
        if cause == "tier":
            reason = f"{waiter.pod} was Unschedulable for {policy.spec.fallback.after}"
            marks = marks.failed(name, now, waiter.token, reason)
        elif cause is not None:
            marks = marks.released(name, waiter.token)  # it tells nothing of the tier: another may try
    deletions = []
    tried: set[str] = set()
    for waiter in ordered:
        name, cause = tiers[waiter.tier].name, causes.get(waiter.uid)
        # Where all tiers are marked, one pod tries the next whose cool-down is over: that ends its mark.
        next_tier = next((one for one in waiter.instead if marks.may_probe(one, now)), "")
        if not (waiter.elsewhere or (next_tier and next_tier not in tried)):
            continue
        if why := _why_delete(waiter, name, marks, now, cause=cause, late=now >= ends[waiter.uid]):
            if not waiter.elsewhere:
                tried.add(next_tier)
                why = f"{why}, and one pod may try tier {next_tier} again"
            deletions.append(Deletion(waiter.uid, waiter.pod, name, why))
    times = list(ends.values())
    times += [mark.probe_since.timestamp() + PROBE_S / 2 for _, mark in marks if mark.probe_since is not None]
    times = [time for time in times if time > now]
    if (change := marks.next_change(now)) is not None:
        times.append(change)
    return Decision(
        marks,
        nodes,
        tuple(deletions),
        min(times, default=None),
        passed=frozenset(uid for uid, cause in causes.items() if cause != "tier"),
        appeared=frozenset(appeared),
    )


def nodes_seen(
    policy: PlacementPolicy,
    marks: Marks,
    nodes: Nodes,
    now: float,
    *,
    before: Nodes | None = None,
    stranded: Collection[int] = (),
) -> Marks:
    """The marks with what follows from the nodes alone, see `decide`: the same if that is in them."""
    tiers = policy.spec.tiers
    marks = marks.only(tier.name for tier in tiers)
    for index, tier in enumerate(tiers):
        here, number = nodes.schedulable[index], nodes.all[index]
        mark, gone = marks.get(tier.name), "cordoned" if number else "lost"
        if before is not None:
            past = before.schedulable[index]
            had, appeared = bool(past), any(name not in past for name in here)
        else:
            # Nodes that take no pods tell of an interruption, and so do pods on nodes that are no more; no
            # nodes at all may be a tier that is only yet to be filled. A mark whose cool-down is over was
            # for this very reason, perhaps, and must not be doubled.
            had = (number > 0 or index in stranded) and (mark is None or mark.cooling(now))
            # The API server counts in whole seconds: a node of the mark's own second may be the newer one.
            appeared = mark is not None and (
                mark.interrupted or any(made >= int(mark.since.timestamp()) for made in here.values())
            )
        if not here and had:
            marks = marks.interrupted(tier.name, now, f"its last schedulable node was {gone}")
        elif here and appeared:
            marks = marks.cleared(tier.name)
    return marks


def waiters_of(
    state: GroupState,
    marks: Marks,
    promised: Callable[[str], float | None],
    ours: Collection[str] = (),
    *,
    hoped: Callable[[str], float | None] = lambda uid: None,
) -> list[Waiter]:
    """The pods of a group that wait for the tier they were sent to.

    `promised` tells by UID when the pod was last promised a place: a triggered scale-up, a
    nomination; `hoped`, when a node came that may be for it. `ours` are names of our own scheduler, which
    tries other tiers without deleting any pod.
    """
    if state.policy.spec.enforce != "required":
        return []  # no pod waits for a tier
    marked = {tier for tier, _ in marks}
    found = []
    for held in state.pods:
        meta = held.pod.metadata
        if held.tier is None or not held.member.token or held.pod.spec.scheduler_name in ours:
            continue
        began = unschedulable_since(held.pod)
        if began is None:
            continue
        since = patient_since(began, promised(meta.uid), state.policy)
        since = max(since, hoped(meta.uid) or began)
        stays = ""
        if held.workload.job:
            stays = "pods of Jobs may go to further tiers as they are"
        elif not held.workload.recreated:
            stays = "no controller would recreate it"
        here = state.tiers.tiers[held.tier].name
        skipped = marked | {here}
        choice = state.landing_choice(held, skipped)
        elsewhere = choice.tier not in (None, held.tier)
        # While a pod is yet to be recreated, that one may be about to try.
        instead = choice.instead if state.desired is None or len(state.pods) >= state.desired else ()
        names = tuple(name for index in instead if (name := state.tiers.tiers[index].name) != here)
        token = held.member.token
        found.append(Waiter(meta.uid, meta.key, held.tier, token, since, stays, elsewhere, names))
    return found


def probes_of(marks: Marks, states: Iterable[GroupState], pods: Iterable[Pod]) -> Probes:
    """What became of the pods that try a tier: of one policy's groups or, through another door, of any."""
    tokens = {mark.probe for _, mark in marks if mark.probe}
    if not tokens:
        return Probes()
    # A bare pod that is alone in its group stands nowhere, but may be kube-scheduler's to place.
    present = {uid for pod in pods if (uid := pod.metadata.uid) in tokens}
    placed: dict[str, int | None] = {}
    for state in states:
        for held in state.pods:
            for token in (held.member.token, held.pod.metadata.uid):
                present.add(token)
                if held.member.placed:
                    placed[token] = held.tier
    return Probes(frozenset(present), placed)


def landings_of(marks: Marks, states: Iterable[GroupState], now: float) -> dict[int, float]:
    """When a pod last got a place in each tier, of one policy's groups; nothing while no mark could end."""
    if all(mark.cooling(now) for _, mark in marks):
        return {}
    found: dict[int, float] = {}
    for state in states:
        for held in state.pods:
            if held.tier is not None and held.member.placed:
                found[held.tier] = max(held.member.bound, found.get(held.tier, 0.0))
    return found


def unschedulable_since(pod: Pod) -> float | None:
    """From when a pod's patience counts, None when it is not Unschedulable."""
    if pod.spec.node_name or pod.terminal or pod.metadata.deletion_timestamp is not None:
        return None
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled":
            if condition.status != "False" or condition.reason != "Unschedulable":
                return None
            began = condition.last_transition_time or pod.metadata.creation_timestamp
            return began.timestamp() if began is not None else 0.0
    return None


def patient_since(began: float, promised: float | None, policy: PlacementPolicy) -> float:
    """From when patience counts that `began` with being Unschedulable, a node having been `promised` since.

    A promise restarts it, but only up to a limit: see `_PROMISED_TIMES`.
    """
    if promised is None:
        return began
    return max(began, min(promised, began + (_PROMISED_TIMES - 1) * policy.spec.fallback.after_s))


def is_schedulable(node: Node, tolerations: Iterable[Toleration] = ()) -> bool:
    """Whether a node takes pods: there to stay, not cordoned, started up, and its kubelet is alive.

    `tolerations` are its tier's: what they tolerate keeps no pod from a node that starts.
    """
    if node.spec.unschedulable or node.metadata.deletion_timestamp is not None:
        return False
    for taint in node.spec.taints:
        if taint.key in REMOVAL_TAINTS or taint.key in _AWAY_TAINTS:
            return False
        starting = taint.key.startswith(_STARTING) or taint.key.endswith("agent-not-ready")
        if starting and taint.effect != "PreferNoSchedule" and not tolerated(taint, tolerations):
            return False
    return all(c.status == "True" for c in node.status.conditions if c.type == "Ready")


def is_passing(taint: Taint) -> bool:
    """Whether a taint comes and goes with its node's condition, so that no pod is to be blamed for it."""
    return taint.key.startswith(_PASSING) or taint.key.endswith("agent-not-ready")


def _probe_seen(  # noqa: PLR0917 (private)
    marks: Marks, tier: str, index: int, probes: Probes, waiters: Iterable[Waiter], now: float
) -> Marks:
    """The marks with what became of the pod that tries a tier; of `waiters` the patience runs."""
    mark = marks.get(tier)
    if mark is None or not mark.probe:
        return marks
    if mark.probe in probes.placed:
        if probes.placed[mark.probe] == index:
            return marks.cleared(tier)
        return marks.released(tier, mark.probe)
    since = mark.probe_since.timestamp() if mark.probe_since is not None else now
    if any(waiter.token == mark.probe and waiter.tier == index for waiter in waiters):
        # It may wait longer than a probe is good for: a long `after`, or a node that is on its way.
        late = now >= since + PROBE_S / 2 or not mark.probed(now)
        return marks.renewed(tier, mark.probe, now) if late else marks
    if mark.probe in probes.present:
        # No scheduler tries to place it yet, or ever (a gate, an incomplete gang), or another door does and
        # renews its probe: it has the time that a probe is good for, and then others may try.
        return marks
    return marks.released(tier, mark.probe) if now >= since + _SHOWS_UP_S else marks


def _patience_ends(waiter: Waiter, nodes: Nodes, after_s: float) -> float:
    """Until when a pod waits for its tier.

    One that stays whatever happens would fail the tier again as soon as a new node had ended the
    cool-down, and before any pod could use that node: its patience restarts with the newest.
    """
    since = waiter.since
    if waiter.stays or not waiter.elsewhere:
        since = max(since, *nodes.schedulable[waiter.tier].values(), since)
    return since + after_s


def _why_delete(
    waiter: Waiter, tier: str, marks: Marks, now: float, *, cause: Blame | None, late: bool
) -> str:
    mark = marks.get(tier)
    if waiter.stays:
        return ""
    if cause == "pod":
        return f"even an empty node of tier {tier} would not take it"
    if mark is None:
        return ""
    if mark.interrupted and mark.cooling(now):
        return f"tier {tier} is interrupted: {mark.reason}"
    if late and mark.probe != waiter.token:
        return f"tier {tier} did not take it in time"
    return ""
