"""All that an extender decides: what it answers, and what it does besides, without I/O.

Besides answering it marks tiers, nudges pods, and writes slots on them. A pod that was refused sits in
kube-scheduler's queue until something changes in the cluster, for up to five minutes. When it would get
another answer, it is nudged: an annotation on it that says which tier passed it on, or what else happened,
makes kube-scheduler ask again. And because a ReplicaSet chooses the pods to remove by deletion cost, a
pod that got its node is given the cost of its slot; after a restart that is our memory, too.

The component and the embedded cluster feed it and carry out what it says, in this order: marks, nudges,
slots.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType

from fairlead.kube.node import Node
from fairlead.policy.decide.admission import annotations_of
from fairlead.policy.decide.filter.assumed_slots import HeldSlot
from fairlead.policy.decide.filter.filter_state import FilterRequest, FilterState
from fairlead.policy.decide.filter.tokens import Tokens
from fairlead.policy.decide.filter.waiting_pod import Waiting
from fairlead.policy.groups.index import GroupIndex
from fairlead.policy.groups.member import GroupKey, Member, PodFacts
from fairlead.policy.names import DELETION_COST, PASSED_ON_ANNOTATION
from fairlead.policy.rule.choice import Choice
from fairlead.policy.rule.model import PlacementPolicy, Tier
from fairlead.policy.slots.placing import Placing
from fairlead.policy.tiers.fallback import Blame, Decision, Nodes, Probes, Waiter, decide
from fairlead.policy.tiers.marks import Marks
from fairlead.policy.tiers.tier_nodes import NodesOfTiers

_STAYS = "the extender passes it on as it is"


@dataclass(slots=True)
class MarksLook:
    """What was seen of one policy's nodes and waiting pods: marks follow from it, whatever they were."""

    policy: PlacementPolicy
    nodes: Nodes
    waiters: list[Waiter]
    now: float
    _before: Nodes | None
    _lost: Sequence[int]
    _outcomes: Callable[[Marks], tuple[Probes, dict[int, float]]]
    late: dict[str, Waiter] = field(default_factory=dict)
    """By UID, the pods whose patience is over, once `decided` was called."""
    causes: Mapping[str, Blame] | None = None
    """What keeps them, by UID. None: not looked at yet; then each speaks against its tier, to see whether
    that would matter.
    """

    def decided(self, marks: Marks) -> Marks:
        """The marks as they should be."""
        probes, landings = self._outcomes(marks)
        return self._decide(marks, self._before, probes, landings, self._lost).marks

    def wake_at(self, marks: Marks) -> float | None:
        """When time alone changes them."""
        return self._decide(marks, self.nodes).wake_at

    def _decide(
        self,
        marks: Marks,
        before: Nodes | None,
        probes: Probes = Probes(),  # noqa: B008 (frozen)
        landings: Mapping[int, float] = MappingProxyType({}),
        stranded: Collection[int] = (),
    ) -> Decision:
        return decide(
            self.policy,
            marks,
            self.waiters,
            self.nodes,
            self.now,
            before=before,
            stranded=stranded,
            probes=probes,
            landings=landings,
            blame=self._blame,
        )

    def _blame(self, waiter: Waiter) -> Blame:
        self.late[waiter.uid] = waiter
        return "tier" if self.causes is None else self.causes.get(waiter.uid, "unknown")


@dataclass(frozen=True, slots=True)
class Nudge:
    """A pod that kube-scheduler is to be made to ask about again, and why."""

    waiting: Waiting
    why: str
    asked: float
    outdated: str

    def annotations(self, wall: datetime) -> dict[str, str]:
        """What to write on the pod."""
        return {PASSED_ON_ANNOTATION: f"{self.why} {wall.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"}

    def written(self) -> None:
        """It is on the pod."""
        one = self.waiting
        if (self.asked, self.outdated) == (one.last, one.outdated):
            one.told = True  # unless it has asked already, or something else happened


@dataclass(frozen=True, slots=True)
class SlotWrite:
    """A pod that has a node, and a slot that is not written on it. `held.costed` is to be known first."""

    key: GroupKey
    policy: PlacementPolicy
    uid: str
    held: HeldSlot
    slot: int

    @property
    def pod(self) -> str:
        """``namespace/name``."""
        return f"{self.key.namespace}/{self.held.name}"

    def annotations(self) -> dict[str, str]:
        """What to write on the pod."""
        tiers = self.policy.spec.tiers
        index = next((at for at, tier in enumerate(tiers) if tier.name == self.held.tier), None)
        wanted = annotations_of(self.policy, Placing(self.slot, Choice(index, "rule")))
        if self.held.costed:
            del wanted[DELETION_COST]  # the user's word on which pod goes first
        return wanted

    def written(self) -> None:
        """They are on the pod."""
        self.held.marked = self.slot


class Extender:
    """See the module. `index` gives the groups as they are, `marks` a policy's marks.

    Its owner reports nodes, pods in their groups, ledgers and policies, and groups that it did not report
    pods of but that may have changed (`touch`).
    """

    def __init__(self, index: Callable[[], GroupIndex], marks: Callable[[str], Marks]) -> None:
        self._index = index
        self._marks = marks
        self._nodes = NodesOfTiers()
        self.state = FilterState(self._nodes, lambda policy: frozenset(tier for tier, _ in marks(policy)))
        self.tokens = Tokens()
        self._known: tuple[PlacementPolicy, ...] = ()
        self._touched: dict[GroupKey, None] = {}
        self._before: dict[str, tuple[Sequence[Tier], Nodes]] = {}

    # In

    def use(self, policies: tuple[PlacementPolicy, ...]) -> None:
        """These policies hold from now on."""
        before = {one.name: one.spec for one in self._known}
        self._known = policies
        self._nodes.use(policies)
        self._before = {name: seen for name, seen in self._before.items() if name in self._names()}
        unchanged = {one.name for one in policies if before.get(one.name) == one.spec}
        each = ((key, self.tokens.believed(key, one), node) for key, one, node in self._each())
        self.state.start_over(each, unchanged)

    def node(self, name: str, node: Node | None) -> None:
        """A node as it now is; None: it is gone."""
        if node is None:
            self._nodes.drop(name)
        else:
            self._nodes.put(node)

    def shown(self, key: GroupKey, member: Member, node: str) -> None:
        """A pod in its group, with its node."""
        self.state.shown(key, self.tokens.believed(key, member), node)

    def reread(self, key: GroupKey) -> None:
        """A group's ledger changed: other marks may be believed."""
        for one in self._index().groups.get(key, {}).values():
            self.shown(key, one.member, one.facts.node)
        self.touch(key)

    def touch(self, key: GroupKey) -> None:
        """A group's pods may hold other slots than are written on them."""
        self._touched[key] = None

    def begin(self) -> None:
        """Another replica may have led until now."""
        self._touched |= dict.fromkeys(self.state.groups)
        self._before.clear()

    # Out

    def request(self, pod: PodFacts, *, costed: bool) -> FilterRequest | None:
        """A call about this pod; None: no policy governs it. `costed`: its user says which pod goes first."""
        index, namespace = self._index(), pod.metadata.namespace
        place = index.place(pod.metadata, namespace)
        if place is None:
            return None
        return FilterRequest(
            self.tokens.believed(place.key, index.member(place, pod)),
            namespace,
            place,
            index.tiers(place, pod.metadata.labels),
            costed=costed,
        )

    def look(self, policy: PlacementPolicy, now: float, wall: float) -> MarksLook | None:
        """What there is to see for a policy's marks; None: it does not hold. `now` is the time by which calls
        are answered, `wall` the same moment for the API.
        """
        nodes = self._nodes.seen(policy.name)
        if nodes is None:
            return None
        tiers, before = self._before.get(policy.name, ((), None))
        waiters = [
            Waiter(one.uid, one.name, one.tier, one.uid, wall - (now - one.first), _STAYS)
            for one in self.state.waiting.values()
            if one.refused and one.tier is not None and one.key.policy == policy.name
        ]
        return MarksLook(
            policy,
            nodes,
            waiters,
            wall,
            # By other tiers it says nothing of these.
            before if tiers == policy.spec.tiers else None,
            # What was lost before our first look, or while none led: unmarked, its cool-down would never end.
            self._nodes.lost(policy.name),
            lambda marks: self._outcomes(policy, marks, wall),
        )

    def noted(self, look: MarksLook, *, written: bool) -> None:
        """What was seen ourselves counts without being written; the next look sees the same change again."""
        name = look.policy.name
        if written:
            self._before[name] = look.policy.spec.tiers, look.nodes
        self._nodes.noted(name, {tier for tier, _ in self._marks(name)})

    def nudges(self, now: float) -> list[Nudge]:
        """The pods that would get another answer."""
        due: dict[str, Nudge] = {}
        policies = {policy.name: policy for policy in self._known}
        unavailable: dict[str, set[str]] = {}
        for one in self.state.waiting.values():
            policy = policies.get(one.key.policy)
            if one.outdated and not one.told:
                due[one.uid] = Nudge(one, one.outdated, one.last, one.outdated)
            if policy is None or one.tier is None or one.tier >= len(policy.spec.tiers):
                continue
            if policy.name not in unavailable:
                unavailable[policy.name] = self.state.unavailable(policy.name)
            tier = policy.spec.tiers[one.tier].name
            # A pod that tries a tier is meant to wait for it although others leave that alone.
            mark = self._marks(policy.name).get(tier)
            trying = mark is not None and mark.probe == one.uid
            if one.due(now, () if trying else unavailable[policy.name], tier):
                due[one.uid] = Nudge(one, tier, one.last, one.outdated)
        return list(due.values())

    def unwritten(self) -> list[SlotWrite]:
        """The slots to write; each is given once, until its group is touched again."""
        touched, self._touched = self._touched, {}
        index = self._index()
        found = []
        for key in touched:
            slots, some = self.state.groups.get(key), index.some(key)
            if slots is None or some is None:
                continue
            slots.settle(index.tiers(some.place, some.facts.metadata.labels))
            found += [
                SlotWrite(key, some.policy, uid, held, held.slot)
                for uid, held in slots.placed()
                if held.marked != held.slot and not held.admitted
            ]
        return found

    def wakes(self, now: float) -> list[float]:
        """When time alone passes a pod on."""
        return [at for one in self.state.waiting.values() if (at := one.next_pass(now)) is not None]

    def _outcomes(
        self, policy: PlacementPolicy, marks: Marks, wall: float
    ) -> tuple[Probes, dict[int, float]]:
        """What became of pods that try a tier, and when a pod last got a place in each: maybe one that was
        let in because it fits. Looked for only where a pod tries, or a mark may end.
        """
        tokens = {mark.probe for _, mark in marks if mark.probe}
        if not tokens and all(mark.cooling(wall) for _, mark in marks):
            return Probes(), {}
        index = {tier.name: at for at, tier in enumerate(policy.spec.tiers)}
        present: set[str] = set()
        placed: dict[str, int | None] = {}
        landings: dict[int, float] = {}
        for key, member, _ in self._each():
            if key.policy != policy.name:
                continue
            if member.placed and (tier := index.get(member.tier)) is not None:
                landings[tier] = max(member.bound, landings.get(tier, 0.0))
            for token in tokens & {member.token, member.uid}:
                present.add(token)
                if member.placed:
                    placed[token] = index.get(member.tier)
        present |= tokens & self.state.waiting.keys()
        return Probes(frozenset(present), placed), landings

    def _each(self) -> Iterable[tuple[GroupKey, Member, str]]:
        for key, group in self._index().groups.items():
            for one in group.values():
                yield key, one.member, one.facts.node

    def _names(self) -> set[str]:
        return {policy.name for policy in self._known}
