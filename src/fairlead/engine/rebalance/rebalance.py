"""Which pods to bring back to the tier where they belong, which must wait, and why.

Pure: groups as they stand, marks, budgets, a snapshot and the history of earlier moves in; moves out. A
move is an eviction and trust in what follows: the controller recreates the pod, and admission sends it
where it says it would (`GroupState.landing`). So everything that could come in between is checked first, the
cheap questions before the dear one: whether there is room.

Room is counted for all moves of a pass together, with those under way and the pods that wait for a tier,
and the pods that are moved still count where they are until they have gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from fairlead.engine.planning.budgets import Budgets
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.rebalance.history import REPLACED_S, History, replicated
from fairlead.engine.snapshot.nodes import Bools
from fairlead.errors import BadObject
from fairlead.kube.pod import Affinity, Pod, PodSpec, PodStatus
from fairlead.policy.groups.group_state import GroupState, SlotHolder
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.fallback import Nodes
from fairlead.policy.tiers.marks import Marks


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


@dataclass(eq=False)
class _Waits(Exception):  # noqa: N818 (reads as what happened)
    """Nothing is done about a group now."""

    reason: str
    until: float | None = None


@dataclass(slots=True, kw_only=True)
class Planner:
    """One pass over groups as they stand. Invariant: the snapshot holds, within its trial, all moves planned
    so far.
    """

    now: float
    states: Sequence[GroupState]
    tiers: Mapping[str, Nodes]
    """By policy: the nodes of its tiers."""
    marks: Mapping[str, Marks]
    budgets: Budgets
    ranking: Ranking
    history: History
    template: Callable[[Pod], PodSpec | None]
    """What a pod's controller makes pods of."""
    scalable: Callable[[str, int], bool]
    """Whether something could bring nodes to a policy's tier."""
    spared: Callable[[SlotHolder], int]
    """How many pods of its workload a pod's rollout strategy lets be unavailable."""
    _moves: list[Move] = field(init=False, default_factory=list)
    _waits: list[Wait] = field(init=False, default_factory=list)
    _masks: dict[tuple[str, int], Bools] = field(init=False, default_factory=dict)
    _probed: set[tuple[str, str]] = field(init=False, default_factory=set)
    """(policy, tier) that a move of this pass tries."""
    _evicted: list[Pod] = field(init=False, default_factory=list)
    _claimed: bool = field(init=False, default=False)

    def plan(self) -> Rebalancing:
        """The moves to make now, at most one for each group, and what waits. Changes nothing."""
        with self.ranking.snapshot.trial():
            for state in self.states:
                self._look(state)
        return Rebalancing(tuple(self._moves), tuple(self._waits))

    def _look(self, state: GroupState) -> None:
        short = short_of(state)
        if not short:
            return
        try:
            self._moves.append(self._move(state, short))
        except _Waits as waits:
            self._waits.append(Wait(state.called, waits.reason, waits.until))

    def _move(self, state: GroupState, short: Sequence[int]) -> Move:
        self._at_rest(state)
        self._allowed_now(state)
        first: _Waits | None = None
        for tier in short:
            try:
                skipped, probe = self._open(state, tier)
                return self._take_back(state, tier, skipped, probe=probe)
            except _Waits as waits:
                first = first or waits
        assert first is not None
        raise first

    def _at_rest(self, state: GroupState) -> None:
        """No rollout, no recent change of the desired number, no move whose replacement is not Ready."""
        if state.rolling:
            raise _Waits(f"{state.rolling} is being rolled out")
        number = len(state.pods)
        if state.desired is not None and replicated(state) != state.desired:
            raise _Waits(f"{replicated(state)} of {state.desired} pods are there")
        past = self.history.of(state.called)
        if (flight := past.flight) is not None:
            given_up = flight.at + REPLACED_S
            raise _Waits(
                f"the replacement of {flight.pod} is not Ready yet",
                given_up if self.now < given_up else None,
            )
        age_s = state.policy.spec.rebalance.min_pod_age_s
        for held in state.pods:
            made = held.member.created
            # A pod that was there before us (a restart) may be the replacement of a move.
            until = made + (age_s if made >= past.since else max(age_s, REPLACED_S))
            if not held.ready and self.now < until:
                raise _Waits(f"{held.member.name} is not Ready yet", until)
        quiet_s = state.policy.spec.rebalance.stabilize_s
        if self.now < (until := past.changed + quiet_s):
            raise _Waits(f"the number of pods changed to {number} within the last {_span(quiet_s)}", until)

    def _allowed_now(self, state: GroupState) -> None:
        """Not faster than allowed: `perMinute`, and longer after failed moves."""
        per_minute = state.policy.spec.rebalance.per_minute
        if per_minute == 0:
            raise _Waits("rebalance.perMinute is 0")
        past = self.history.of(state.called)
        if past.rest_until is not None and self.now < past.rest_until:
            times = "once" if past.failures == 1 else f"{past.failures} times in a row"
            why = f"a move failed {times}" if past.failures else "an eviction was refused"
            raise _Waits(why, past.rest_until)
        recent = [at for at in past.moves if at > self.now - 60.0]
        if len(recent) >= per_minute:
            raise _Waits(f"{per_minute} moves were made within a minute", recent[-per_minute] + 60.0)

    def _open(self, state: GroupState, tier: int) -> tuple[frozenset[str], bool]:
        """The tiers that admission would skip, and whether the move is a probe of this one."""
        policy, name = state.policy, state.policy.spec.tiers[tier].name
        marks = self.marks.get(policy.name, Marks())
        marked = frozenset(marked for marked, _ in marks)
        mark = marks.get(name)
        empty = not self.tiers[policy.name].schedulable[tier]
        if mark is None:
            if empty and (
                (policy.name, name) in self._probed
                or self.history.probing(policy.name, name)
                or self._tried(policy, tier)
            ):
                raise _Waits(f"tier {name} has no node and is being tried")
            return marked, empty
        if mark.cooling(self.now):
            why = "interrupted" if mark.interrupted else "unavailable"
            raise _Waits(f"tier {name} is {why}: {mark.reason}", mark.until.timestamp())
        if mark.probed(self.now) or (policy.name, name) in self._probed:
            raise _Waits(f"tier {name} is being tried by another pod")
        return marked - {name}, True

    def _tried(self, policy: PlacementPolicy, tier: int) -> bool:
        """Whether a pod waits for a node of the tier already, whichever component sent it."""
        return any(
            held.tier == tier and not held.member.placed
            for state in self.states
            if state.policy is policy
            for held in state.pods
        )

    def _take_back(self, state: GroupState, tier: int, skipped: frozenset[str], *, probe: bool) -> Move:
        """The best pod to move to the tier, with everything about it checked."""
        counts, target = state.counts, state.target
        found: _Waits | None = None
        candidates = [
            held for held in state.pods if held.tier is None or counts[held.tier] > target[held.tier]
        ]
        needed = counts[tier] < state.tiers.mins(len(state.pods))[tier]
        # Scaling in goes by slots, so a pod with a slot of the tier goes there before others, even if it has
        # to grow older first: moved instead, the pods of a min's own slots would be the last to stay.
        for held in sorted(candidates, key=lambda one: (_astray(state, one, tier), *_worst_first(one))):
            try:
                self._may_leave(state, held)
                if state.landing(held, skipped) != tier:
                    raise _Waits(f"a pod in place of {held.member.name} would not be sent there")
                return self._checked(state, held, tier, probe=probe)
            except _Waits as waits:
                if waits.until is not None and not needed and not _astray(state, held, tier):
                    raise
                # One that only has to grow older says more than one that will never do.
                if found is None or (found.until is None and waits.until is not None):
                    found = waits
        name = state.policy.spec.tiers[tier].name
        raise found or _Waits(f"no pod of another tier can be spared for {name}")

    def _may_leave(self, state: GroupState, held: SlotHolder) -> None:
        rules, name = state.policy.spec.rebalance, held.member.name
        if not held.workload.recreated:
            raise _Waits(f"no controller would recreate {name}")
        if held.workload.job and not rules.jobs:
            raise _Waits(f"{name} is a Job's, and rebalance.jobs is not set")
        old_enough = held.member.created + rules.min_pod_age_s
        if self.now < old_enough:
            raise _Waits(f"{name} is younger than {_span(rules.min_pod_age_s)}", old_enough)
        if not held.member.placed:
            if held.pod.spec.node_name:
                raise _Waits(f"{name} is on a node that is not known yet")
            if held.member.slot is None:
                # No door has sent it anywhere: the one that places it has yet to decide.
                raise _Waits(f"{name} has no place yet")
            return  # budgets protect what runs
        budgets = self.budgets
        several = budgets.of(held.pod)
        if len(several) > 1:
            names = ", ".join(budget.metadata.name for budget in several)
            raise _Waits(f"{name} has more than one PodDisruptionBudget: {names}")
        if budgets.broken([*self._evicted, held.pod])[-1]:
            budget = several[0].metadata.name
            raise _Waits(f"PodDisruptionBudget {budget} does not let {name} go now")

    def _checked(self, state: GroupState, held: SlotHolder, tier: int, *, probe: bool) -> Move:
        policy, tiers = state.policy, state.policy.spec.tiers
        to, node = tiers[tier].name, ""
        if self.tiers[policy.name].schedulable[tier]:
            node = self._room(state, held, tier)
            where = f"there is room on {node}"
        else:
            # Only a tier without nodes is tried blindly: where there are some, they must have room.
            self._may_try(state, held, tier)
            probe, where = True, f"tier {to} has no node and is tried with one pod"
        if probe:
            self._probed.add((policy.name, to))
        self._evicted.append(held.pod)
        budgets = self.budgets.of(held.pod) if held.member.placed else ()
        protection = f"PodDisruptionBudget {budgets[0].metadata.name} allows it" if budgets else "no budget"
        maker = f"{held.workload.kind} {held.workload.name} recreates it"
        return Move(
            held.pod.metadata.uid,
            held.pod.metadata.key,
            state.called,
            tiers[held.tier].name if held.tier is not None else "",
            to,
            node,
            "; ".join((_spare(state, held), where, protection, maker)),
            policy.name,
            probe,
        )

    def _may_try(self, state: GroupState, held: SlotHolder, tier: int) -> None:
        """Whether a healthy pod may be given up for a tier that has no node."""
        policy = state.policy
        name, probe = policy.spec.tiers[tier].name, policy.spec.rebalance.probe
        if probe == "never":
            raise _Waits(f"tier {name} has no node, and rebalance.probe is never")
        if probe == "whenScalable" and not self.scalable(policy.name, tier):
            raise _Waits(f"tier {name} has no node, and nothing is known that would bring one")
        if not held.member.placed or self.budgets.of(held.pod):
            return  # it does not serve, or its budget lets it go
        workload = held.workload
        same = [
            one
            for one in state.pods
            if (one.workload.kind, one.workload.name) == (workload.kind, workload.name)
        ]
        away = sum(not one.ready for one in same if one is not held)
        allowed = self.spared(held)
        if away >= allowed:
            many = "pod" if allowed == 1 else "pods"
            raise _Waits(
                f"a rollout of {workload.kind} {workload.name} may take away {allowed} {many} at once, and "
                f"{away} are not Ready; a PodDisruptionBudget would say what else may go"
            )

    def _room(self, state: GroupState, held: SlotHolder, tier: int) -> str:
        """A node of the tier with room for the pod to come; it counts as taken from then on."""
        policy, snapshot = state.policy, self.ranking.snapshot
        self._claim()
        pod = replacement_of(held.pod, self.template(held.pod), policy, tier)
        try:
            cls = snapshot.class_of(pod, exclusive=policy.spec.tiers[tier].exclusive or None)
        except BadObject as error:
            raise _Waits(str(error)) from error
        key = held.pod.metadata.key
        old = snapshot.forget(key) if snapshot.placed(key) is not None else None
        slot = self.ranking.choose(cls, self._mask(policy, tier))
        if old is not None:
            snapshot.restore(old)
        if slot < 0:
            raise _Waits(f"no node of tier {policy.spec.tiers[tier].name} has room for {held.member.name}")
        snapshot.assume(pod, slot, cls=cls)
        return snapshot.nodes.name(slot)

    def _claim(self) -> None:
        """Take the room of pods on the way already: replacements to come, and pods that wait for a tier."""
        if self._claimed:
            return
        self._claimed = True
        for state in self.states:
            policy = state.policy
            flight = self.history.of(state.called).flight
            came = False
            for held in state.pods:
                if not held.member.placed and held.tier is not None:
                    self._hold(held.pod, policy, held.tier)
                came = came or (flight is not None and flight.brought(held))
            if flight is not None and flight.coming is not None and not came:
                tiers = [tier.name for tier in policy.spec.tiers]
                if flight.tier in tiers:
                    self._hold(flight.coming, policy, tiers.index(flight.tier), flight.node)

    def _hold(self, pod: Pod, policy: PlacementPolicy, tier: int, node: str = "") -> None:
        """Count a pod as placed in a tier, on `node` if that is there, else wherever there is room."""
        snapshot, mask = self.ranking.snapshot, self._mask(policy, tier)
        if snapshot.placed(pod.metadata.key) is not None:
            return
        try:
            cls = snapshot.class_of(pod, exclusive=policy.spec.tiers[tier].exclusive or None)
        except BadObject:
            return  # what it takes cannot be known
        slot = snapshot.nodes.slot(node)
        if slot < 0 or not mask[slot]:
            slot = self.ranking.choose(cls, mask)
        if slot >= 0:
            snapshot.assume(pod, slot, cls=cls)

    def _mask(self, policy: PlacementPolicy, tier: int) -> Bools:
        """The tier's nodes that are there to stay, by slot of the snapshot."""
        found = self._masks.get((policy.name, tier))
        if found is None:
            nodes = self.ranking.snapshot.nodes
            found = np.zeros(nodes.capacity, dtype=np.bool_)
            for name in self.tiers[policy.name].schedulable[tier]:
                if (slot := nodes.slot(name)) >= 0:
                    found[slot] = True
            self._masks[policy.name, tier] = found
        return found


def short_of(state: GroupState) -> list[int]:
    """The tiers that lack pods: those below their min first, then in order of preference."""
    counts, target = state.counts, state.target
    mins = state.tiers.mins(len(state.pods))
    lacking = [index for index, (have, want) in enumerate(zip(counts, target, strict=True)) if have < want]
    return sorted(lacking, key=lambda index: (counts[index] >= min(mins[index], target[index]), index))


def replacement_of(pod: Pod, template: PodSpec | None, policy: PlacementPolicy, tier: int) -> Pod:
    """The pod that a controller will make in place of one that is moved, as far as a search for room asks.

    What admission adds to reach the tier is left out: the tier's nodes are given to the search. Volumes and
    the rest are the pod's own: a StatefulSet's claims are in no template.
    """
    spec = pod.spec
    tolerations = (template or spec).tolerations
    added = tuple(one for one in policy.spec.tiers[tier].tolerations if one not in tolerations)
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, name=f"{pod.metadata.name} recreated", uid=""),
        spec=msgspec.structs.replace(
            spec,
            node_name="",
            affinity=template.affinity if template is not None else _without_nodes(spec),
            node_selector=(template or spec).node_selector,
            tolerations=(*tolerations, *added),
        ),
        status=PodStatus(),
    )


def _without_nodes(spec: PodSpec) -> Affinity | None:
    """Without a template it is unknown what of the node affinity is the tier's: it is left out."""
    if spec.affinity is None:
        return None
    return msgspec.structs.replace(spec.affinity, node_affinity=None)


def _astray(state: GroupState, held: SlotHolder, tier: int) -> bool:
    """Whether a pod recreated in the tier would hold another tier's slot there."""
    return state.tiers.of_slot(held.slot) != tier


def _worst_first(held: SlotHolder) -> tuple[bool, int, bool, int, str]:
    """Which pod is moved first: off every tier, in the last tier, not serving, of the highest slot."""
    tier = held.tier if held.tier is not None else -1
    return (held.tier is not None, -tier, held.ready, -held.slot, held.member.name)


def _spare(state: GroupState, held: SlotHolder) -> str:
    if held.tier is None:
        return "it is on no tier's node"
    have, want = state.counts[held.tier], state.target[held.tier]
    return f"tier {state.policy.spec.tiers[held.tier].name} has {have} pods where the rule has {want}"


def _span(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"
