"""Fallback and rebalancing as one machine without I/O: objects and time in, marks, deletions and moves out.

The door feeds it from watches and carries out what it says; the embedded cluster does so on the spot.
The order matters and is the caller's: first marks are written (`fall_back` against the marks as they are
when written), then pending pods are deleted, then moves are planned from what all of that left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from fairlead.engine.planning.budgets import Budgets
from fairlead.engine.planning.tier_fit import TierFits
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.rebalance.history import Flight, History
from fairlead.engine.rebalance.node_pools import NodePool, brings
from fairlead.engine.rebalance.rebalance import Move, Planner, Rebalancing, replacement_of, short_of
from fairlead.engine.snapshot.snapshot import KINDS as SNAPSHOT_KINDS
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.kube.meta import Object
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod, PodSpec
from fairlead.kube.workloads import Job, PodDisruptionBudget, Scale, Workload
from fairlead.nodegroups import NodeGroup
from fairlead.policy.groups.group_state import GroupState, GroupStates, SlotHolder, is_evicted, spared
from fairlead.policy.groups.index import GroupIndex
from fairlead.policy.names import LEDGERS
from fairlead.policy.rule.matching import Policies
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.slots.ledger import Ledger, PlacementLedger
from fairlead.policy.tiers.fallback import (
    Blame,
    Decision,
    Nodes,
    Waiter,
    decide,
    landings_of,
    nodes_seen,
    probes_of,
    waiters_of,
)
from fairlead.policy.tiers.marks import AHEAD_S, Marks
from fairlead.policy.tiers.tier_nodes import NodesOfTiers

KINDS: dict[str, type[Object]] = {
    **SNAPSHOT_KINDS,
    "PodDisruptionBudget": PodDisruptionBudget,
    "Deployment": Workload,
    "Job": Job,
    LEDGERS.kind: PlacementLedger,
}
"""Every kind that it wants to receive, and the type it comes as."""

_PROMISES = 1000  # this many are kept whether or not their pods are known


class Rebalancer:
    """See the module. `ours` are names of our own scheduler, whose pods fall back without being deleted.

    Invariant: nothing is decided from half of a change; its caller feeds it between two calls.
    """

    def __init__(self, ours: Collection[str] = ("fairlead",)) -> None:
        self.history = History()
        self._ours = frozenset(ours)
        self._following = False
        self._snapshot = Snapshot(scheduler_names=self._ours)
        self._ranking = Ranking(self._snapshot)
        self._nodes = NodesOfTiers()
        self._groups = GroupStates()
        self._promised: dict[str, float] = {}  # by the pod's UID
        self._hoped: dict[str, float] = {}  # by the pod's UID: a node came while it waited
        # By policy: which nodes its tiers were, and what was seen of them when marks were last written.
        self._before: dict[str, tuple[object, Nodes]] = {}
        self.fits = TierFits()
        self._pools: tuple[NodePool, ...] = ()
        self._scaled_up: dict[str, None] = {}  # UIDs of pods that an autoscaler brought a node for
        self._grew: set[tuple[str, str]] = set()  # (policy, tier) for which it did
        self._custom: dict[str, None] = {}  # pods whose owners are of no kind that is watched
        self._states_at: tuple[float, list[GroupState]] | None = None  # of which moment; None: things changed

    @property
    def index(self) -> GroupIndex:
        """The groups, for components that admit pods beside it."""
        return self._groups.index

    @property
    def policies(self) -> Policies:
        """Those that hold."""
        return self.index.policies

    # In

    def seen(self, kind: str, thing: Object, now: float) -> None:
        """An object as it now is; BadObject for one that cannot be counted, which counts as it last was."""
        self._states_at = None
        match thing:
            case Pod():
                self._pod_seen(thing, now)
            case Node():
                self._node_seen(thing)
            case PodDisruptionBudget():
                self.index.budget(thing)
            case PlacementLedger():
                self._groups.ledger(Ledger.from_object(thing))
            case Workload() | Job() | Scale():
                self._snapshot.put(kind, thing)
                self.index.owner(kind, thing)
            case _:
                self._snapshot.put(kind, thing)

    def gone(self, kind: str, namespace: str, name: str, uid: str = "") -> None:
        """An object is no more."""
        self._states_at = None
        key = f"{namespace}/{name}" if namespace else name
        match kind:
            case "Pod":
                self._groups.pod_gone(key)
                self._promised.pop(uid, None)
                self._scaled_up.pop(uid, None)
                self._hoped.pop(uid, None)
                self._custom.pop(key, None)
            case "Node":
                self._nodes.drop(name)
                self.fits.node(name, None)
                self.index.node(name, None)
            case "PodDisruptionBudget":
                self.index.budget_gone(namespace, name)
            case LEDGERS.kind:
                self._groups.ledger_gone(key)
            case _:
                self.index.owner_gone(kind, namespace, name)
        self._snapshot.remove(kind, namespace, name)

    def keep(self, ledger: Ledger) -> None:
        """A ledger that is no object of the API: admission in this process has it in memory."""
        self._states_at = None
        self._groups.ledger(ledger)

    def promised(self, uid: str, at: float, *, scale_up: bool = True) -> None:
        """A pod was promised a place, by an autoscaler or else by a nomination: its patience restarts."""
        if scale_up:
            self._scaled_up[uid] = None
        self._promised[uid] = max(at, self._promised.get(uid, 0.0))
        if len(self._promised) > _PROMISES + 2 * len(self._groups.pods):
            # Events outlive their pods, and some come first: nothing says when to forget one.
            here = {pod.metadata.uid for pod in self._groups.pods.values()}
            self._promised = {uid: at for uid, at in self._promised.items() if uid in here}
            self._scaled_up = {uid: None for uid in self._scaled_up if uid in here}

    def use(
        self, policies: Iterable[PlacementPolicy], exempt: Collection[str] = (), *, only_ours: bool = False
    ) -> None:
        """Go by these policies; with `only_ours`, for the pods of our own scheduler only."""
        self._states_at = None
        self._groups.use(Policies(policies, exempt), schedulers=self._ours if only_ours else None)
        self._nodes.use(self.policies)
        tiers = {policy.name: _tiers_of(policy) for policy in self.policies}
        self._before = {name: seen for name, seen in self._before.items() if tiers.get(name) == seen[0]}
        self.fits.use(self.policies)

    def node_groups(self, groups: Iterable[NodeGroup]) -> None:
        """The node groups that an autoscaler may add nodes to."""
        self.fits.node_groups(groups)

    def node_pools(self, pools: Iterable[NodePool]) -> None:
        """Karpenter's pools as they now are."""
        self._pools = tuple(pools)

    def follow(self, *, following: bool = True) -> None:
        """Whether another replica decides from now on; what it is seen to do is then remembered."""
        self._following = following

    def observe(self, marks: Mapping[str, Marks], now: float) -> None:
        """Remember what happened while another replica decides: the next leader must know it."""
        self._note_growth(now)
        self.history.observe(self.states(now), marks, now)
        for policy in self.policies:
            known, nodes = marks[policy.name], self._nodes_of(policy)
            before, stranded = self._past(policy)
            found = nodes_seen(policy, known, nodes, now, before=before, stranded=stranded)
            # What the other has not marked yet it may never mark: then that is ours to do.
            if _seen_to(known, found):
                self._before[policy.name] = _tiers_of(policy), nodes

    # Out

    def fall_back(self, policy: PlacementPolicy, marks: Marks, now: float) -> Decision:
        """What a policy's marks should be, and which pods to delete once they are. Changes nothing."""
        state = [one for one in self.states(now) if one.policy is policy]
        # Later times are of a clock that was ahead and was set back: no pod is patient until then.
        hoped = {uid: at for uid, at in self._hoped.items() if at <= now + AHEAD_S}
        of = {
            waiter.uid: (waiter, one)
            for one in state
            if one.waits
            for waiter in waiters_of(one, marks, self._promised.get, self._ours, hoped=hoped.get)
        }
        before, stranded = self._past(policy)
        return decide(
            policy,
            marks,
            [waiter for waiter, _ in of.values()],
            self._nodes_of(policy),
            now,
            before=before,
            stranded=stranded,
            probes=probes_of(marks, state, self._groups.pods.values()),
            landings=landings_of(marks, state, now),
            blame=lambda waiter: self._blame(of[waiter.uid][1], waiter, marks),
        )

    def noted(self, policy: PlacementPolicy, decision: Decision, now: float) -> None:
        """The decision's marks are written: what it saw of the policy's nodes is the past from now on."""
        self._before[policy.name] = _tiers_of(policy), decision.nodes
        for state in self.states(now) if decision.appeared else ():
            for held in state.pods:
                if state.policy is policy and held.tier in decision.appeared and not held.member.placed:
                    self._hoped[held.pod.metadata.uid] = now

    def plan(self, marks: dict[str, Marks], now: float) -> Rebalancing:
        """The moves to make now, and what waits and why."""
        state = self.states(now)
        self._note_growth(now)
        self.history.observe(state, marks, now)
        planner = Planner(
            now=now,
            states=state,
            tiers={policy.name: self._nodes_of(policy) for policy in self.policies},
            marks=marks,
            budgets=Budgets(self.index.budgets(), empty_matches=True),  # as the eviction API has it
            ranking=self._ranking,
            history=self.history,
            template=self._template,
            scalable=self._scalable,
            spared=self._spared,
        )
        return planner.plan()

    def sent(self, move: Move, now: float) -> None:
        """The eviction is about to be sent: from now on the move is under way, unless it is `refused`."""
        if (found := self._of(move, now)) is None:
            return
        state, held = found
        tier = [one.name for one in state.policy.spec.tiers].index(move.to_tier)
        self._left(state, held, tier, now, node=move.node, probe=move.probe)

    def refused(self, move: Move, now: float) -> None:
        """The eviction was refused, or was not sent after all."""
        self.history.refused(move.group, now)

    def at_rest(self, move: Move, now: float) -> bool:
        """Whether the group of a planned move is not being rolled out, and still has the pod."""
        found = self._of(move, now)
        return found is not None and not found[0].rolling

    def still_there(self, uid: str, pod: str) -> bool:
        """Whether a pod is as it was when something was decided about it, and not on its way out."""
        found = self._groups.pods.get(pod)
        return (
            found is not None
            and found.metadata.uid == uid
            and found.metadata.deletion_timestamp is None
            and not found.terminal
        )

    def pending(self, uid: str, pod: str) -> Pod | None:
        """The pod, if it is still there and still without a node."""
        found = self._groups.pods.get(pod)
        if found is None or found.spec.node_name or not self.still_there(uid, pod):
            return None
        return found

    def states(self, now: float) -> list[GroupState]:
        """The groups as they stand, in the order of their keys."""
        if self._states_at is None or self._states_at[0] != now:
            self._states_at = now, self._groups.states(now)
        return self._states_at[1]

    def unwatched(self) -> list[Pod]:
        """A pod of each governed owner of a kind that is none of `KINDS`, so that its scale can be read."""
        found: dict[str, Pod] = {}
        for key in self._custom:
            pod = self._groups.pods[key]
            if pod.metadata.controller is not None and self.index.get(key) is not None:
                found.setdefault(pod.metadata.controller.uid, pod)
        return list(found.values())

    def _note_growth(self, now: float) -> None:
        """Remember the tiers for whose pods an autoscaler brought nodes: it may do so again."""
        if not self._scaled_up:
            return
        for state in self.states(now):
            for held in state.pods:
                if held.tier is not None and held.pod.metadata.uid in self._scaled_up:
                    self._grew.add((state.policy.name, state.policy.spec.tiers[held.tier].name))

    def _scalable(self, policy: str, tier: int) -> bool:
        fit = self.fits.of(policy)
        if fit is None:
            return False
        found = fit.policy.spec.tiers[tier]
        return (
            fit.may_grow(tier)
            or (policy, found.name) in self._grew
            or any(brings(pool, found) for pool in self._pools)
        )

    def _spared(self, held: SlotHolder) -> int:
        workload = held.workload
        owner = self.index.owners.get(workload.kind, workload.namespace, workload.name)
        pods = workload.replicas or 0
        return spared(owner if isinstance(owner, Workload) else None, workload.kind, pods)

    def _blame(self, state: GroupState, waiter: Waiter, marks: Marks) -> Blame:
        """What keeps a pod whose patience is over. "pod" only where a tier that would take it has a place for
        the pod that is made in its stead: what nothing takes must not be deleted again and again.
        """
        pod, fit = self._groups.pods[waiter.pod], self.fits.of(state.policy.name)
        assert fit is not None  # it holds
        found = fit.blame(pod, waiter.tier, template=self._template(pod), storage=self._snapshot.storage)
        if found != "pod":
            return found
        like = replacement_of(pod, self._template(pod), state.policy, waiter.tier)
        closed = fit.closed_to(like)
        held = next(held for held in state.pods if held.pod.metadata.uid == waiter.uid)
        landing = state.landing(held, closed.union(tier for tier, _ in marks))
        open_ = landing is not None and state.tiers.tiers[landing].name not in closed
        return "pod" if open_ and state.tiers.tiers[waiter.tier].name in closed else "unknown"

    def _of(self, move: Move, now: float) -> tuple[GroupState, SlotHolder] | None:
        groups = (one for one in self.states(now) if one.called == move.group)
        pods = ((group, held) for group in groups for held in group.pods)
        return next(((group, held) for group, held in pods if held.pod.metadata.uid == move.uid), None)

    def _left(
        self,
        state: GroupState,
        held: SlotHolder,
        tier: int,
        now: float,
        *,
        node: str = "",
        probe: bool = False,
    ) -> None:
        """A pod was sent off to be recreated in a tier."""
        policy, meta = state.policy, held.pod.metadata
        flight = Flight(
            meta.uid,
            meta.key,
            policy.name,
            policy.spec.tiers[tier].name,
            probe,
            now,
            workload=(held.workload.kind, held.workload.name),
            node=node,
            coming=replacement_of(held.pod, self._template(held.pod), policy, tier),
        )
        self.history.sent(state, flight)

    def _evicted(self, pod: Pod, now: float) -> None:
        """A pod was evicted: a move, if it could be one; it cannot be told from a drain."""
        state = self._groups.of_pod(pod.metadata.key, now)
        if state is None or state.rolling or not (short := short_of(state)):
            return
        flight = self.history.of(state.called).flight
        if flight is not None and flight.uid == pod.metadata.uid:
            return  # it was our own, when we led
        counts, target, tier = state.counts, state.target, short[0]
        for held in state.pods:
            spare = held.tier is None or counts[held.tier] > target[held.tier]
            if held.pod.metadata.uid == pod.metadata.uid and spare:
                probe = not self._nodes_of(state.policy).schedulable[tier]
                self._left(state, held, tier, now, probe=probe)

    def _past(self, policy: PlacementPolicy) -> tuple[Nodes | None, frozenset[int]]:
        """What was last seen of a policy's nodes; if they were never seen, the tiers that left traces."""
        before = self._before.get(policy.name)
        if before is not None:
            return before[1], frozenset()
        names = self._groups.stranded(policy.name)
        return None, frozenset(at for at, tier in enumerate(policy.spec.tiers) if tier.name in names)

    def _pod_seen(self, pod: Pod, now: float) -> None:
        key, nominated = pod.metadata.key, pod.status.nominated_node_name
        before = self._groups.pods.get(key)
        if self._following and before is not None and is_evicted(pod) and not is_evicted(before):
            self._evicted(before, now)
        if nominated and (before is None or before.status.nominated_node_name != nominated):
            self.promised(pod.metadata.uid, now, scale_up=False)
        if (reference := pod.metadata.controller) is not None and reference.kind not in KINDS:
            self._custom[key] = None
        self._groups.pod(pod)
        self._snapshot.put_pod(pod)

    def _node_seen(self, node: Node) -> None:
        name = node.metadata.name
        self._snapshot.put_node(node)
        self._nodes.put(node)
        self.fits.node(name, node)
        self.index.node(name, node.metadata.labels)

    def _nodes_of(self, policy: PlacementPolicy) -> Nodes:
        found = self._nodes.seen(policy.name)
        assert found is not None  # it holds
        return found

    def _template(self, pod: Pod) -> PodSpec | None:
        reference = pod.metadata.controller
        namespace = pod.metadata.namespace
        owner = self.index.owners.owner(reference, namespace) if reference is not None else None
        return owner.spec.template.spec if isinstance(owner, Workload | Job) else None


def _tiers_of(policy: PlacementPolicy) -> object:
    """What of a policy says which node is whose."""
    return tuple((tier.name, tier.nodes, tier.names) for tier in policy.spec.tiers)


def _seen_to(marks: Marks, wanted: Marks) -> bool:
    """Whether marks say what they should. A loss that was marked is seen to, however long ago that was."""
    for tier, mark in wanted:
        known = marks.get(tier)
        if known != mark and (known is None or not known.interrupted):
            return False
    return all(wanted.get(tier) is not None for tier, _ in marks)
