"""Which pods to bring back to the tier where they belong, which must wait, and why.

Pure: groups as they stand, marks, budgets, a snapshot and the history of earlier moves in; moves out. A
move is an eviction and trust in what follows: the controller makes the pod anew, and admission sends it
where it says it would (`Standing.landing`). So everything that could come in between is asked first, the
cheap questions before the dear one: whether there is room.

Room is counted for all moves of a pass together, with those under way and the pods that wait for a tier,
and the pods that are moved still count where they are until they have gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairlead.engine.budgets import Budgets
from fairlead.engine.history import REPLACED_S, History, replicated
from fairlead.engine.made_anew import made_anew
from fairlead.engine.snapshot.nodes import Bools
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.errors import BadObject
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod, PodSpec
from fairlead.policy.fallback import Nodes, is_schedulable
from fairlead.policy.marks import Marks
from fairlead.policy.model import PlacementPolicy, Tier
from fairlead.policy.nodes import tier_of_node
from fairlead.policy.standing import Held, Standing

__all__ = ["Inputs", "Move", "Rebalancing", "Wait", "plan", "short_of"]


@dataclass(frozen=True, slots=True)
class Move:
    """A pod to evict, because a better place waits for the one that will be made in its stead."""

    uid: str
    pod: str
    group: str
    from_tier: str
    to_tier: str
    node: str
    """Where there is room; empty: nowhere yet, the move is a probe of a tier without nodes."""
    why: str
    """Why it is safe."""
    policy: str
    probe: bool
    """Whether the tier is tried: it has no node, or was left alone until now."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A group whose pods are not where they belong, and why nothing is done about it now."""

    group: str
    reason: str
    until: float | None = None
    """When time alone will change that; None: something has to happen."""


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """What to do now, and what waits."""

    moves: tuple[Move, ...]
    waits: tuple[Wait, ...]

    @property
    def wake_at(self) -> float | None:
        """When to plan again at the latest."""
        return min((wait.until for wait in self.waits if wait.until is not None), default=None)


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a plan is made from. `template` gives the pod spec that a pod's controller makes pods of."""

    standings: Sequence[Standing]
    nodes: Mapping[str, Node]
    tiers: Mapping[str, Nodes]
    """By policy: the nodes of its tiers."""
    marks: Mapping[str, Marks]
    budgets: Budgets
    snapshot: Snapshot
    history: History = field(default_factory=History)
    template: Callable[[Pod], PodSpec | None] = lambda pod: None
    scalable: Callable[[str, int], bool] = lambda policy, tier: False
    """Whether something could bring nodes to a policy's tier."""
    spared: Callable[[Held], int] = lambda held: 0
    """How many pods of its workload a pod's rollout strategy lets be unavailable."""


def plan(inputs: Inputs, now: float) -> Rebalancing:
    """The moves to make now, at most one for each group, and what waits. Changes nothing."""
    planner = _Planner(inputs, now)
    with inputs.snapshot.trial():
        for standing in inputs.standings:
            planner.look(standing)
    return Rebalancing(tuple(planner.moves), tuple(planner.waits))


class _Waits(Exception):  # noqa: N818 (reads as what happened)
    """Nothing is done about a group now."""

    def __init__(self, reason: str, until: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.until = until


class _Planner:
    """One pass. Invariant: the snapshot holds, within the trial, all moves planned so far."""

    def __init__(self, inputs: Inputs, now: float) -> None:
        self._inputs = inputs
        self._now = now
        self._masks: dict[tuple[str, int], Bools] = {}
        self._probed: set[tuple[str, str]] = set()  # (policy, tier) that a move of this pass tries
        self._evicted: list[Pod] = []
        self._claimed = False
        self.moves: list[Move] = []
        self.waits: list[Wait] = []

    def look(self, standing: Standing) -> None:
        """Plan for one group."""
        short = short_of(standing)
        if not short:
            return
        try:
            self.moves.append(self._move(standing, short))
        except _Waits as waits:
            self.waits.append(Wait(standing.called, waits.reason, waits.until))

    def _move(self, standing: Standing, short: Sequence[int]) -> Move:
        self._at_rest(standing)
        self._allowed_now(standing)
        first: _Waits | None = None
        for tier in short:
            try:
                skipped, probe = self._open(standing, tier)
                return self._take_back(standing, tier, skipped, probe=probe)
            except _Waits as waits:
                first = first or waits
        assert first is not None
        raise first

    def _at_rest(self, standing: Standing) -> None:
        """No rollout, no recent change of the desired number, no move whose replacement is not Ready."""
        if standing.rolling:
            raise _Waits(f"{standing.rolling} is being rolled out")
        number = len(standing.pods)
        if standing.desired is not None and replicated(standing) != standing.desired:
            raise _Waits(f"{replicated(standing)} of {standing.desired} pods are there")
        flight = self._inputs.history.in_flight(standing.called)
        if flight is not None:
            given_up = flight.at + REPLACED_S
            raise _Waits(
                f"the replacement of {flight.pod} is not Ready yet",
                given_up if self._now < given_up else None,
            )
        age_s = standing.policy.spec.rebalance.min_pod_age_s
        since = self._inputs.history.known_since(standing.called) or 0.0
        for held in standing.pods:
            made = held.member.created
            # A pod that was there before us (a restart) may be the replacement of a move.
            until = made + (age_s if made >= since else max(age_s, REPLACED_S))
            if not held.ready and self._now < until:
                raise _Waits(f"{held.member.name} is not Ready yet", until)
        changed = self._inputs.history.changed_at(standing.called)
        quiet_s = standing.policy.spec.rebalance.stabilize_s
        if changed is not None and self._now < changed + quiet_s:
            until = changed + quiet_s
            raise _Waits(f"the number of pods changed to {number} within the last {_span(quiet_s)}", until)

    def _allowed_now(self, standing: Standing) -> None:
        """Not faster than allowed: so many a minute, and longer after failed moves."""
        per_minute = standing.policy.spec.rebalance.per_minute
        if per_minute == 0:
            raise _Waits("rebalance.perMinute is 0")
        history = self._inputs.history
        until = history.resting_until(standing.called)
        if until is not None and self._now < until:
            failed = history.failures(standing.called)
            times = "once" if failed == 1 else f"{failed} times in a row"
            why = f"a move failed {times}" if failed else "an eviction was refused"
            raise _Waits(why, until)
        recent = history.since(standing.called, self._now - 60.0)
        if len(recent) >= per_minute:
            raise _Waits(f"{per_minute} moves were made within a minute", recent[-per_minute] + 60.0)

    def _open(self, standing: Standing, tier: int) -> tuple[frozenset[str], bool]:
        """The tiers that admission would skip, and whether the move is a probe of this one."""
        policy, name = standing.policy, standing.policy.spec.tiers[tier].name
        marks = self._inputs.marks.get(policy.name, Marks())
        marked = frozenset(marked for marked, _ in marks)
        mark = marks.get(name)
        empty = not self._inputs.tiers[policy.name].schedulable[tier]
        if mark is None:
            if empty and (policy.name, name) in self._probed:
                raise _Waits(f"tier {name} has no node and is being tried")
            if empty and (self._inputs.history.probing(policy.name, name) or self._tried(policy, tier)):
                raise _Waits(f"tier {name} has no node and is being tried")
            return marked, empty
        if mark.cooling(self._now):
            why = "interrupted" if mark.interrupted else "unavailable"
            raise _Waits(f"tier {name} is {why}: {mark.reason}", mark.until.timestamp())
        if mark.probed(self._now) or (policy.name, name) in self._probed:
            raise _Waits(f"tier {name} is being tried by another pod")
        return marked - {name}, True

    def _tried(self, policy: PlacementPolicy, tier: int) -> bool:
        """Whether a pod waits for a node of the tier already, whoever sent it."""
        return any(
            held.tier == tier and not held.member.placed
            for standing in self._inputs.standings
            if standing.policy is policy
            for held in standing.pods
        )

    def _take_back(self, standing: Standing, tier: int, skipped: frozenset[str], *, probe: bool) -> Move:
        """The best pod to move to the tier, with everything about it checked."""
        counts, target = standing.counts, standing.target
        found: _Waits | None = None
        candidates = [
            held for held in standing.pods if held.tier is None or counts[held.tier] > target[held.tier]
        ]
        needed = counts[tier] < standing.tiers.mins(len(standing.pods))[tier]
        # Scaling in goes by slots, so who holds a slot of the tier goes there before others, even if it has
        # to grow older first: moved instead, the pods of a min's own slots would be the last to stay.
        for held in sorted(candidates, key=lambda one: (_astray(standing, one, tier), *_worst_first(one))):
            try:
                self._may_leave(standing, held)
                if standing.landing(held, skipped) != tier:
                    raise _Waits(f"a pod in place of {held.member.name} would not be sent there")
                return self._checked(standing, held, tier, probe=probe)
            except _Waits as waits:
                if waits.until is not None and not needed and not _astray(standing, held, tier):
                    raise
                # One that only has to grow older says more than one that will never do.
                if found is None or (found.until is None and waits.until is not None):
                    found = waits
        name = standing.policy.spec.tiers[tier].name
        raise found or _Waits(f"no pod of another tier can be spared for {name}")

    def _may_leave(self, standing: Standing, held: Held) -> None:
        rules, name = standing.policy.spec.rebalance, held.member.name
        if not held.workload.recreated:
            raise _Waits(f"nobody would make {name} anew")
        if held.workload.job and not rules.jobs:
            raise _Waits(f"{name} is a Job's, and rebalance.jobs is not set")
        old_enough = held.member.created + rules.min_pod_age_s
        if self._now < old_enough:
            raise _Waits(f"{name} is younger than {_span(rules.min_pod_age_s)}", old_enough)
        if not held.member.placed:
            if held.pod.spec.node_name:
                raise _Waits(f"{name} is on a node that is not known yet")
            if held.member.slot is None:
                # No door has sent it anywhere: whoever places it has yet to decide.
                raise _Waits(f"{name} has no place yet")
            return  # budgets protect what runs
        budgets = self._inputs.budgets
        several = budgets.of(held.pod)
        if len(several) > 1:
            names = ", ".join(budget.metadata.name for budget in several)
            raise _Waits(f"{name} has more than one PodDisruptionBudget: {names}")
        if budgets.broken([*self._evicted, held.pod])[-1]:
            budget = several[0].metadata.name
            raise _Waits(f"PodDisruptionBudget {budget} does not let {name} go now")

    def _checked(self, standing: Standing, held: Held, tier: int, *, probe: bool) -> Move:
        policy = standing.policy
        to = policy.spec.tiers[tier]
        spare = _spare(standing, held)
        if not self._inputs.tiers[policy.name].schedulable[tier]:
            # Only a tier without nodes is tried blindly: where there are some, they must have room.
            self._may_try(standing, held, tier)
            self._probed.add((policy.name, to.name))
            why = f"{spare}; tier {to.name} has no node and is tried with one pod"
            return self._made(standing, held, to, why, node="", probe=True)
        node = self._room(standing, held, tier)
        if probe:
            self._probed.add((policy.name, to.name))
        why = f"{spare}; there is room on {node}"
        return self._made(standing, held, to, why, node=node, probe=probe)

    def _may_try(self, standing: Standing, held: Held, tier: int) -> None:
        """Whether a healthy pod may be given up for a tier that has no node."""
        policy = standing.policy
        name, probe = policy.spec.tiers[tier].name, policy.spec.rebalance.probe
        if probe == "never":
            raise _Waits(f"tier {name} has no node, and rebalance.probe is never")
        if probe == "whenScalable" and not self._inputs.scalable(policy.name, tier):
            raise _Waits(f"tier {name} has no node, and nothing is known that would bring one")
        if not held.member.placed or self._inputs.budgets.of(held.pod):
            return  # it serves nobody, or its budget lets it go
        workload = held.workload
        same = [
            one
            for one in standing.pods
            if (one.workload.kind, one.workload.name) == (workload.kind, workload.name)
        ]
        away = sum(not one.ready for one in same if one is not held)
        allowed = self._inputs.spared(held)
        if away >= allowed:
            many = "pod" if allowed == 1 else "pods"
            raise _Waits(
                f"a rollout of {workload.kind} {workload.name} may take away {allowed} {many} at once, and "
                f"{away} are not Ready; a PodDisruptionBudget would say what else may go"
            )

    def _made(self, standing: Standing, held: Held, to: Tier, why: str, *, node: str, probe: bool) -> Move:
        self._evicted.append(held.pod)
        budgets = self._inputs.budgets.of(held.pod) if held.member.placed else ()
        protection = f"PodDisruptionBudget {budgets[0].metadata.name} allows it" if budgets else "no budget"
        tiers = standing.policy.spec.tiers
        return Move(
            held.pod.metadata.uid,
            held.pod.metadata.key,
            standing.called,
            tiers[held.tier].name if held.tier is not None else "",
            to.name,
            node,
            f"{why}; {protection}; {held.workload.kind} {held.workload.name} makes it anew",
            standing.policy.name,
            probe,
        )

    def _room(self, standing: Standing, held: Held, tier: int) -> str:
        """A node of the tier with room for the pod to come; it counts as taken from then on."""
        policy, snapshot = standing.policy, self._inputs.snapshot
        self._claim()
        pod = made_anew(held.pod, self._inputs.template(held.pod), policy, tier)
        try:
            cls = snapshot.class_of(pod, exclusive=policy.spec.tiers[tier].exclusive or None)
        except BadObject as error:
            raise _Waits(str(error)) from error
        key = held.pod.metadata.key
        old = snapshot.forget(key) if snapshot.placed(key) is not None else None
        slot = snapshot.choose(cls, self._mask(policy, tier))
        if old is not None:
            snapshot.restore(old)
        if slot < 0:
            raise _Waits(f"no node of tier {policy.spec.tiers[tier].name} has room for {held.member.name}")
        snapshot.assume(pod, slot, cls=cls)
        return snapshot.nodes.name(slot)

    def _claim(self) -> None:
        """Take the room of who is on the way already: replacements to come, and pods that wait for a tier."""
        if self._claimed:
            return
        self._claimed = True
        for standing in self._inputs.standings:
            policy = standing.policy
            flight = self._inputs.history.in_flight(standing.called)
            came = False
            for held in standing.pods:
                if not held.member.placed and held.tier is not None:
                    self._hold(held.pod, policy, held.tier)
                came = came or (flight is not None and flight.brought(held))
            if flight is not None and flight.coming is not None and not came:
                tiers = [tier.name for tier in policy.spec.tiers]
                if flight.tier in tiers:
                    self._hold(flight.coming, policy, tiers.index(flight.tier), flight.node)

    def _hold(self, pod: Pod, policy: PlacementPolicy, tier: int, node: str = "") -> None:
        """Count a pod as placed in a tier, on `node` if that is there, else wherever there is room."""
        snapshot, mask = self._inputs.snapshot, self._mask(policy, tier)
        if snapshot.placed(pod.metadata.key) is not None:
            return
        try:
            cls = snapshot.class_of(pod, exclusive=policy.spec.tiers[tier].exclusive or None)
        except BadObject:
            return  # nobody can say what it takes
        slot = snapshot.nodes.slot(node)
        if slot < 0 or not mask[slot]:
            slot = snapshot.choose(cls, mask)
        if slot >= 0:
            snapshot.assume(pod, slot, cls=cls)

    def _mask(self, policy: PlacementPolicy, tier: int) -> Bools:
        """The tier's nodes that are there to stay, by slot of the snapshot."""
        found = self._masks.get((policy.name, tier))
        if found is None:
            nodes = self._inputs.snapshot.nodes
            found = np.zeros(nodes.capacity, dtype=np.bool_)
            for slot in nodes.slots():
                node = self._inputs.nodes.get(nodes.name(slot))
                if node is not None and is_schedulable(node, policy.spec.tiers[tier].tolerations):
                    found[slot] = tier_of_node(policy, node.metadata.name, node.metadata.labels) == tier
            self._masks[policy.name, tier] = found
        return found


def short_of(standing: Standing) -> list[int]:
    """The tiers that lack pods: those below their min first, then in order of preference."""
    counts, target = standing.counts, standing.target
    mins = standing.tiers.mins(len(standing.pods))
    lacking = [index for index, (have, want) in enumerate(zip(counts, target, strict=True)) if have < want]
    return sorted(lacking, key=lambda index: (counts[index] >= min(mins[index], target[index]), index))


def _astray(standing: Standing, held: Held, tier: int) -> bool:
    """Whether a pod that were made anew in the tier would hold another tier's slot there."""
    return standing.tiers.of_slot(held.slot) != tier


def _worst_first(held: Held) -> tuple[bool, int, bool, int, str]:
    """Who is moved first: off every tier, in the last tier, not serving, of the highest slot."""
    tier = held.tier if held.tier is not None else -1
    return (held.tier is not None, -tier, held.ready, -held.slot, held.member.name)


def _spare(standing: Standing, held: Held) -> str:
    if held.tier is None:
        return "it is on no tier's node"
    have, want = standing.counts[held.tier], standing.target[held.tier]
    return f"tier {standing.policy.spec.tiers[held.tier].name} has {have} pods where the rule has {want}"


def _span(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"
