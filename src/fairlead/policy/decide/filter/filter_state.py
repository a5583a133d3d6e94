"""What to answer kube-scheduler: a state machine without I/O. Calls, watch events and time in, verdicts out.

A pod that asks takes the lowest free slot of its group, and the slot's tier is where it may go. The slot is
assumed until the watch shows the outcome or half a minute passes; asking again replaces it. Which tier that
is depends on what is on offer: kube-scheduler has left out the nodes that cannot take the pod, so a tier of
which nothing is offered has no room for it now. It waits for that tier for ``fallback.after``, counted from
its first call, and is then passed on; a tier that is marked or has lost its last node passes it on at once,
unless a node of it is on offer: then there is room for this pod now.
After the cool-down one pod tries a marked tier. If that has no node at all the pod waits as for any other
tier, because only a pod that waits makes an autoscaler bring one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fairlead.policy.decide.filter.assumed_slots import ASSUMED_S, AssumedSlots
from fairlead.policy.decide.filter.exclusivity import Exclusivity
from fairlead.policy.decide.filter.waiting_pod import RetryHints, Waiting
from fairlead.policy.groups.member import GroupKey, Member, Place, ordinal_of
from fairlead.policy.rule.choice import Beside, Choice, choose_for
from fairlead.policy.rule.split import Tiers
from fairlead.policy.tiers.tier_nodes import NodesOfTiers

_TAKEN = "node(s) in use where a pod has its node to itself"
_UNSEEN = "node(s) that fairlead's watch has not shown yet"
_FORGET_S = 15 * 60.0  # a pod that was not queried for this long: kube-scheduler retries within 5 minutes
_GONE = 10_000  # pods of which we remember that they are gone; kube-scheduler is not that many behind


@dataclass(frozen=True, slots=True)
class FilterRequest:
    """A pod that kube-scheduler asks about."""

    member: Member
    namespace: str
    place: Place
    tiers: Tiers
    costed: bool = False
    """Whether the user said which pod goes first: then that stands."""

    @property
    def admitted(self) -> bool:
        """Whether the webhook has decided on it: its affinity says where it may go, and we agree."""
        return bool(self.member.token)

    def refusal(self, choice: Choice) -> str:
        """Why the pod of this choice has no node, in the words of kube-scheduler's events."""
        policy = self.place.policy
        if choice.tier is None:
            return f"node(s) of no use: every tier of placement policy {policy.name} is at its max"
        return f"node(s) outside tier {policy.spec.tiers[choice.tier].name} of placement policy {policy.name}"


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """Which of the nodes on offer a pod may go to."""

    nodes: Sequence[str]
    choice: Choice | None = None
    slot: int = 0
    refusal: str = ""
    """Why none, in the words of kube-scheduler's events: said of each node outside the tier."""
    unknown: Sequence[str] = ()
    """Nodes that our watch has not shown yet: they may turn out to be the tier's."""
    taken: Sequence[str] = ()
    """Nodes of the tier where a pod has to be alone, and is, or is not."""
    passed: tuple[str, ...] = ()
    """Tiers that passed the pod on because it waited long enough."""

    def refusals(self, offered: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Where there is no node for the pod: why, by node. Apart from the others those where no eviction
        would help: a pod evicted from a node outside the tier makes no room for this one.
        """
        if self.nodes:
            return {}, {}
        failed = dict.fromkeys(self.unknown, _UNSEEN) | dict.fromkeys(self.taken, _TAKEN)
        return failed, {name: self.refusal for name in offered if name not in failed}


class FilterState:
    """See the module. `marked` tells the tiers of a policy that its marks say to leave alone."""

    def __init__(
        self, nodes: NodesOfTiers, marked: Callable[[str], Collection[str]] = lambda _: frozenset()
    ) -> None:
        self.nodes = nodes
        self._marked = marked
        self.groups: dict[GroupKey, AssumedSlots] = {}
        self.waiting: dict[str, Waiting] = {}
        self._gone: dict[str, None] = {}
        self.retry_hints: RetryHints | None = None
        """Set while a component has those pods scheduled again that there is room for."""
        self.exclusivity = Exclusivity(ASSUMED_S, self._freed)
        self.exclusivity.use(nodes.exclusive())

    def filter(
        self, ask: FilterRequest, offered: Sequence[str], now: float, probing: str = ""
    ) -> FilterAnswer:
        """The nodes of one tier. `probing` is a tier that this pod may try although it is marked."""
        if ask.admitted:
            return FilterAnswer(offered)
        policy, uid = ask.place.policy, ask.member.uid
        if uid in self._gone:
            return FilterAnswer((), refusal="node(s) not needed: the pod is gone")
        waiting = self._asked(ask, now)
        self.exclusivity.expire(now)
        slots, slot = self._slots(ask, now)
        preferred = policy.spec.enforce == "preferred"  # then no pod waits for a tier
        passes = waiting.most if preferred else waiting.passes(now)
        choice, nodes, passed, skipped = self._choose(ask, slot, offered, passes, probing)
        name = "" if choice.tier is None else policy.spec.tiers[choice.tier].name
        if slots is not None:
            slots.assume(ask.member, slot, name, now, costed=ask.costed)
        alone = bool(nodes) and choice.tier is not None and policy.spec.tiers[choice.tier].exclusive
        if preferred:
            passed = ()
            nodes = nodes if alone else self._open(ask, offered)
        nodes = self._given(ask, nodes, choice, now, alone=alone)
        waiting.tier, waiting.firm, waiting.refused = choice.tier, choice.firm, not nodes
        waiting.skipped, waiting.told, waiting.outdated = frozenset(skipped), False, ""
        trying = probing if probing == name else ""
        if trying and waiting.trying != trying:
            waiting.first = now  # it has all of its patience for what it tries
        waiting.trying = trying
        taken = self._taken(ask, offered, choice) if not nodes else []
        waiting.met = bool(taken)
        if nodes:
            return FilterAnswer(nodes, choice, slot, passed=passed)
        return FilterAnswer(
            (),
            choice,
            slot,
            refusal=ask.refusal(choice),
            taken=taken,
            unknown=[name for name in offered if name not in self.nodes] if choice.tier is not None else (),
            passed=passed,
        )

    def may_try(self, ask: FilterRequest, offered: Sequence[str], now: float) -> tuple[str, ...]:
        """The marked tiers that this pod could try right now, the first whose probe the caller can claim: its
        own or, where no tier would take it otherwise, the next.
        """
        if ask.admitted or ask.member.uid in self._gone:
            return ()
        if not (marked := self._marked(ask.place.policy.name)):
            return ()
        policy = ask.place.policy
        _, slot = self._slots(ask, now)
        own = self._choice(ask, slot, ()).tier
        if own is None or policy.spec.tiers[own].name not in marked:
            return ()
        instead = self._choice(ask, slot, self.unavailable(policy.name)).instead
        tiers = policy.spec.tiers
        return tuple(
            tiers[index].name for index in (own, *instead) if self._worth_trying(ask, index, offered, now)
        )

    def _worth_trying(self, ask: FilterRequest, index: int, offered: Sequence[str], now: float) -> bool:
        policy = ask.place.policy
        tier = self.nodes.of(policy.name, index)
        if any(node in tier for node in offered):
            return True
        # Nodes that take pods but not this one are full: there is nothing to find out by waiting for them.
        full = self.nodes.takes_pods(policy.name, index)
        return not full and self._would_wait(ask, policy.spec.tiers[index].name, now)

    def preempt(
        self, ask: FilterRequest, candidates: Mapping[str, Collection[str]], now: float
    ) -> Collection[str]:
        """The candidates whose victims' room would be of use to the pod: those of its tier.

        They come with their victims' UIDs: where a pod must be alone, no other may stay.
        """
        if ask.admitted or ask.place.policy.spec.enforce == "preferred":
            return candidates
        if ask.member.uid in self._gone:
            return ()
        waiting = self._asked(ask, now)
        _, slot = self._slots(ask, now)
        passes, trying = waiting.passes(now), waiting.trying
        return self._choose(ask, slot, candidates, passes, trying, victims=candidates)[1]

    def scores(self, ask: FilterRequest, offered: Sequence[str], highest: int) -> list[int]:
        """How good each node is, 0 to `highest`: in the pod's tier, and where fewest of its group are.

        One domain has all the points: every node on offer takes the pod, so the second best is never
        needed. It is believed to be kube-scheduler's choice until the watch shows that: or the pods of one
        moment would all be sent to the same domain.
        """
        policy, key = ask.place.policy, ask.place.key
        waiting = self.waiting.get(ask.member.uid)
        if waiting is None or waiting.tier is None or waiting.key != key:
            return [0] * len(offered)
        within = self.nodes.domains(policy.name, waiting.tier)
        # Under `preferred` the tier weighs more than its spread; under `required` all nodes are its own.
        floor = highest // 2 + 1 if policy.spec.enforce == "preferred" else 0
        if not policy.spec.tiers[waiting.tier].spread:
            return [highest if floor and name in within else 0 for name in offered]
        of_node = within.get
        domains = {domain for name in offered if (domain := of_node(name)) is not None}
        slots = self.groups.get(key)
        crowds = _crowds(slots, within, domains, besides=ask.member.uid)
        if not crowds:
            return [0] * len(offered)
        least = min(crowds.values())
        best = sorted(domain for domain, crowd in crowds.items() if crowd == least)
        held = slots.holders.get(ask.member.uid) if slots is not None else None
        # In turn, so that many groups of few pods do not all begin in the first zone.
        chosen = best[held.slot % len(best)] if held is not None else best[0]
        if held is not None:
            held.domain = chosen
        points = dict.fromkeys(crowds, floor) | {chosen: highest}
        return [points[domain] if (domain := of_node(name)) is not None else 0 for name in offered]

    def unavailable(self, policy: str) -> set[str]:
        """Tiers that pods skip at once: marked ones, and those whose last node we saw go."""
        found = set(self._marked(policy))
        lost = self.nodes.lost(policy)
        if lost:
            tiers = self.nodes.tiers(policy)
            found.update(tiers[index].name for index in lost)
        return found

    def shown(self, key: GroupKey, member: Member, node: str) -> None:
        """The watch shows a pod of a group."""
        if not key.alone:
            slots = self.groups.setdefault(key, AssumedSlots())
            if member.leaving and member.uid in slots.holders:
                self._made_room(key)
            slots.shown(member, node)
        if self.exclusivity.matters and node:
            self.exclusivity.shown(member.uid, key.policy, member.tier, node)
        elif member.leaving:
            self.exclusivity.gone(member.uid)
        if node or member.leaving:
            self.waiting.pop(member.uid, None)
        if member.leaving:
            self._is_gone(member.uid)
        else:
            self._gone.pop(member.uid, None)  # the API server was set back

    def left(self, key: GroupKey, member: Member, gone: bool) -> None:
        """A pod is `gone`, or in another group now."""
        if gone:
            self._is_gone(member.uid)
        self.waiting.pop(member.uid, None)
        self.exclusivity.gone(member.uid)
        slots = self.groups.get(key)
        if slots is not None:
            if member.uid in slots.holders:
                self._made_room(key)
            slots.gone(member.uid)
            if not len(slots):
                del self.groups[key]

    def start_over(self, pods: Iterable[tuple[GroupKey, Member, str]], unchanged: Collection[str]) -> None:
        """Policies changed, but for those `unchanged`: work out again from these `pods` which holds what.

        kube-scheduler goes by what it was answered, so what was assumed lasts as long as it would have:
        every node that a pod was given, and the slots of unchanged policies; others' mean something else.
        """
        self.groups = {key: slots for key, slots in self.groups.items() if key.policy in unchanged}
        self.exclusivity.use(self.nodes.exclusive())
        for one in self.waiting.values():
            # A pod that was refused may have met another policy's exclusive tier, which may be gone.
            if one.refused or one.key.policy not in unchanged:
                one.start_over()
        # A pod that is assumed and not shown is where it was: our watch may be behind kube-scheduler's.
        group_of = {uid: key for key, slots in self.groups.items() for uid in slots.assumed}
        for key, member, node in pods:
            self.shown(key, member, node)
            group_of[member.uid] = key
        for key, slots in self.groups.items():
            for uid in slots.uids():
                if group_of.get(uid) != key:
                    slots.gone(uid)

    def tidy(self, now: float) -> None:
        """Drop what is not queried any more: pods that no policy governs now, or that we saw too late.

        Pods that may have the room that was made become outdated.
        """
        for uid in [uid for uid, one in self.waiting.items() if now - one.last > _FORGET_S]:
            del self.waiting[uid]
        self.exclusivity.expire(now)
        for key, slots in list(self.groups.items()):
            if slots.expire(now):
                self._made_room(key)
            if not len(slots):
                del self.groups[key]
        if self.retry_hints is not None:
            self.retry_hints.use(self.waiting.values(), self.nodes, self.exclusivity, now)

    def _is_gone(self, uid: str) -> None:
        """kube-scheduler may not know yet, and ask: nothing may be kept for a pod that never comes for it."""
        self._gone[uid] = None
        if len(self._gone) > _GONE:
            del self._gone[next(iter(self._gone))]

    def _freed(self, node: str) -> None:
        if self.retry_hints is not None:
            self.retry_hints.of_node(node)

    def _made_room(self, key: GroupKey) -> None:
        if self.retry_hints is not None:
            self.retry_hints.of_group(key)

    def _asked(self, ask: FilterRequest, now: float) -> Waiting:
        uid = ask.member.uid
        waiting = self.waiting.get(uid)
        if waiting is None:
            name = f"{ask.namespace}/{ask.member.name}"
            waiting = self.waiting[uid] = Waiting(uid, name, ask.place.key, now, now)
        waiting.last, waiting.key = now, ask.place.key
        spec = ask.place.policy.spec
        waiting.after_s, waiting.most = spec.fallback.after_s, len(spec.tiers) - 1
        return waiting

    def _would_wait(self, ask: FilterRequest, tier: str, now: float) -> bool:
        """Whether a pod that may try a tier with nothing on offer would wait, and not be passed on at once.

        A pod that does not wait would take the probe from those that do, and tell nothing of the tier.
        """
        if ask.place.policy.spec.enforce == "preferred":
            return False
        waiting = self._asked(ask, now)
        return waiting.trying == tier or not waiting.passes(now)

    def _slots(self, ask: FilterRequest, now: float) -> tuple[AssumedSlots | None, int]:
        """The slots of the pod's group, and the one it would get; none where it is alone in its group."""
        if ask.place.key.alone:
            return None, 1
        slots = self.groups.setdefault(ask.place.key, AssumedSlots())
        if slots.expire(now):
            self._made_room(ask.place.key)
        slots.settle(ask.tiers, coming=ask.member.uid not in slots.holders)
        return slots, slots.next_slot(ask.member.uid, ordinal_of(ask.place.policy, ask.place.workload))

    def _open(
        self, ask: FilterRequest, names: Sequence[str], victims: Mapping[str, Collection[str]] | None = None
    ) -> Sequence[str]:
        """Of these nodes, those that take the pod: empty, or neither it nor a pod there must be alone."""
        if not self.exclusivity.matters:
            return names
        policy, uid = ask.place.policy.name, ask.member.uid
        return [
            name
            for name in names
            if name not in self.exclusivity
            or self.exclusivity.takes(
                name,
                uid,
                alone=self.nodes.wants_alone(name, policy),
                besides=victims[name] if victims is not None else (),
            )
        ]

    def _given(
        self, ask: FilterRequest, nodes: Sequence[str], choice: Choice, now: float, *, alone: bool
    ) -> Sequence[str]:
        """Of these nodes, those to offer: one, where it must be `alone` or might meet a pod that must."""
        if not self.exclusivity.matters:
            return nodes
        uid, policy = ask.member.uid, ask.place.policy.name
        if not alone:
            apart = [name for name in nodes if not self.nodes.wants_alone(name)]
            if apart or not nodes:
                self.exclusivity.take_back(uid)
                return apart
        chosen = self._least_crowded(ask, nodes, choice)
        self.exclusivity.give(uid, chosen, now, alone=self.nodes.wants_alone(chosen, policy))
        return [chosen]

    def _least_crowded(self, ask: FilterRequest, nodes: Sequence[str], choice: Choice) -> str:
        """The node in the domain with fewest of the group's pods; of those, the one that came first."""
        policy = ask.place.policy
        if choice.tier is None or not policy.spec.tiers[choice.tier].spread:
            return nodes[0]
        within = self.nodes.domains(policy.name, choice.tier)
        domains = {domain for name in nodes if (domain := within.get(name)) is not None}
        crowds = _crowds(self.groups.get(ask.place.key), within, domains, besides=ask.member.uid)
        chosen = min(nodes, key=lambda name: crowds.get(within.get(name, ()), 0))
        slots = self.groups.get(ask.place.key)
        held = slots.holders.get(ask.member.uid) if slots is not None else None
        if held is not None:
            held.domain = within.get(chosen, ())
        return chosen

    def _taken(self, ask: FilterRequest, offered: Sequence[str], choice: Choice) -> list[str]:
        """The nodes of the tier that would do if neither the pod nor another had to be alone."""
        if not self.exclusivity.matters or choice.tier is None:
            return []
        tier = self.nodes.of(ask.place.policy.name, choice.tier)
        return [name for name in offered if name in tier]

    def _choose(
        self,
        ask: FilterRequest,
        slot: int,
        offered: Iterable[str],
        passes: int,
        probing: str,
        *,
        victims: Mapping[str, Collection[str]] | None = None,
    ) -> tuple[Choice, Sequence[str], tuple[str, ...], set[str]]:
        """The tier, its nodes on offer, the tiers that passed the pod on, and all that were skipped."""
        policy = ask.place.policy
        offered = list(offered)
        # A marked tier takes what fits there now; what kube-scheduler offers, fits.
        skipped = {
            tier.name
            for at, tier in enumerate(policy.spec.tiers)
            if tier.name in self.unavailable(policy.name)
            and self.nodes.of(policy.name, at).isdisjoint(offered)
        }
        skipped.discard(probing)
        passed: list[str] = []
        while True:
            choice = self._choice(ask, slot, skipped)
            if choice.tier is None:
                return choice, (), tuple(passed), skipped
            names = self.nodes.of(policy.name, choice.tier)
            nodes = self._open(ask, [name for name in offered if name in names], victims)
            tier = policy.spec.tiers[choice.tier].name
            if nodes or choice.firm or tier in skipped or len(passed) >= passes:
                return choice, nodes, tuple(passed), skipped
            passed.append(tier)
            skipped.add(tier)

    def _choice(self, ask: FilterRequest, slot: int, unavailable: Collection[str]) -> Choice:
        slots = self.groups.get(ask.place.key)
        beside = slots.beside(ask.member.uid) if slots is not None else Beside()
        return choose_for(
            ask.place.workload, ask.place.policy, ask.tiers, slot, beside, unavailable=unavailable
        )


def _crowds(
    slots: AssumedSlots | None,
    within: Mapping[str, tuple[str, ...]],
    domains: Collection[tuple[str, ...]],
    besides: str,
) -> dict[tuple[str, ...], int]:
    """By domain: how many of the group's pods share one of its topology values, added up over the keys.

    So a zone that is crowded counts against each of its racks.
    """
    by_value: Counter[tuple[int, str]] = Counter()
    if slots is not None:
        for node, pods in slots.on_node.items():
            for value in enumerate(within.get(node, ())):
                by_value[value] += pods
        for domain in slots.expected(besides):
            by_value.update(enumerate(domain))
    return {domain: sum(by_value[value] for value in enumerate(domain)) for domain in domains}
