"""The tiers of one policy: their nodes, and which tiers are left alone.

What marks a tier is decided in `fairlead.policy.tiers.fallback`, as for every door; here is what it is
decided from. The scheduler moves its pods on by planning them again, so nothing is ever deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from fairlead.engine.planning.tier_fit import TierFit
from fairlead.engine.policies.planned_pod import Sent
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.policy.rule.choice import Beside, Choice, choose_for
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Tiers
from fairlead.policy.rule.workloads import Workload
from fairlead.policy.tiers.fallback import Blame, Nodes, Probes, Waiter, decide
from fairlead.policy.tiers.marks import Mark, Marks
from fairlead.policy.tiers.tier_nodes import TierNodes


class MarkTiers(msgspec.Struct, frozen=True, tag=True, tag_field="action", gc=False):
    """Tiers of a policy are to be left alone, or not any more: marks by tier, as they were and as they are.

    Others write them too, so only what differs between the two is to be changed.
    """

    policy: str
    before: dict[str, Mark]
    after: dict[str, Mark]


class PolicyTiers:
    """See the module. `marks` hold now; `told` are those that were reported last.

    `due` is when to decide again though nothing happens.
    """

    __slots__ = (
        "_before",
        "_changed",
        "_fit",
        "_landed",
        "_nodes",
        "due",
        "marks",
        "policy",
        "told",
    )

    def __init__(self, policy: PlacementPolicy, marks: Marks | None = None) -> None:
        self.policy = policy
        cool_down_s = policy.spec.fallback.cool_down_s
        known = {} if marks is None else dict(marks)
        self.marks = self.told = Marks(cool_down_s, known).only(tier.name for tier in policy.spec.tiers)
        self.due: float | None = None
        self._nodes = TierNodes(policy)
        self._fit = TierFit(policy)
        self._before: Nodes | None = None
        self._landed: set[int] = set()  # marked tiers in which pods got places since the last decision
        self._changed = True

    def node(self, name: str, node: Node | None) -> bool:
        """A node as it now is, None: gone. Whether it belongs to another tier than before."""
        self._fit.node(name, node)
        before = self.tier_of(name)
        self._changed |= self._nodes.drop(name) if node is None else self._nodes.put(node)
        return before != self.tier_of(name)

    def tier_of(self, node: str) -> int | None:
        """The tier of a node; None: of none, or not known."""
        return self._nodes.tier_of.get(node)

    def told_of(self, marks: dict[str, Mark]) -> bool:
        """What the API says of the marks; whether that is news."""
        names = [tier.name for tier in self.policy.spec.tiers]
        shown = Marks(self.marks.cool_down_s, dict(marks)).only(names)
        news = shown != self.marks
        if news:
            self.marks, self._changed = shown, True
        self.told = self.marks
        return news

    def restless(self, now: float) -> bool:
        """Whether there is something to decide."""
        return self._changed or (self.due is not None and self.due <= now)

    def decide(
        self, waiters: Sequence[Waiter], probes: Probes, now: float, pod: Callable[[str], Pod | None]
    ) -> frozenset[str]:
        """Bring the marks up to date; UIDs of pods that may go elsewhere although nothing is said of their
        tier. `pod` gives a waiting pod by its UID.
        """

        def blame(waiter: Waiter) -> Blame:
            found = pod(waiter.uid)
            return "unknown" if found is None else self._fit.blame(found, waiter.tier)

        nodes = self._nodes.seen()
        decision = decide(
            self.policy,
            self.marks,
            waiters,
            nodes,
            now,
            before=self._before,
            probes=probes,
            landings=dict.fromkeys(self._landed, now),
            blame=blame,
        )
        self.marks, self.due = decision.marks, decision.wake_at
        self._before, self._changed = nodes, False
        self._landed.clear()
        return decision.passed

    def look_at(self, time: float) -> None:
        """Decide again at this time at the latest."""
        self.due = time if self.due is None else min(self.due, time)

    def landed(self, tier: int | None) -> None:
        """A pod got a place in a tier; the next decision says whether that ends its mark."""
        if tier is not None and self.marks.get(self.policy.spec.tiers[tier].name) is not None:
            self._landed.add(tier)
            self._changed = True

    def choose(
        self,
        tiers: Tiers,
        slot: int,
        workload: Workload,
        beside: Beside,
        *,
        token: str,
        told: int | None,
        ready: bool,
        now: float,
        skips: Collection[str] = (),
    ) -> Choice:
        """Where the pod of a slot goes, by `token` known as trying a tier; `skips` are tiers that did not
        take it, whatever they do for others.

        After a tier's cool-down one pod tries it, while others go on to skip it: the first that asks and
        is `ready` to be placed.
        """
        tried = {tier for tier, mark in self.marks if mark.probe == token and mark.probed(now)}
        if skips or self.marks:
            told = None  # a pod sent elsewhere meanwhile still belongs where the rule says

        def chosen() -> Choice:
            return choose_for(
                workload,
                self.policy,
                tiers,
                slot,
                beside,
                unavailable={tier for tier, _ in self.marks} - tried | {*skips},
                told=told,
                crowded=self.marks.crowded() - {*skips},
            )

        choice = chosen()
        tier = self.marks.to_try(choice, self.policy, now, skips) if ready else ""
        if tier and (claimed := self.marks.claim_probe(tier, token, now)) is not None:
            self.marks = claimed
            tried.add(tier)
            choice = chosen()
        return choice

    def tried(self, now: float) -> tuple[str, ...]:
        """The tiers that a pod is trying."""
        return tuple(tier for tier, mark in self.marks if mark.probed(now))

    def may_be_tried(self, now: float) -> bool:
        """Whether there is a tier that the next pod that asks may try."""
        return any(self.marks.may_probe(tier, now) for tier, _ in self.marks)

    def sent_since(self, choice: Choice, token: str) -> float:
        """Before when a pod cannot have been sent there; 0: unknown. `token` is what it goes by.

        Only marks outlive the process: those of other tiers passed it on, that of its own lets it try.
        """
        if choice.own is None or choice.tier is None:
            return 0.0
        tiers = self.policy.spec.tiers
        if choice.tier == choice.own:
            mark = self.marks.get(tiers[choice.own].name)
            if mark is None or mark.probe != token or mark.probe_since is None:
                return 0.0
            return mark.probe_since.timestamp()
        there = tiers[choice.tier].name
        return max((mark.since.timestamp() for tier, mark in self.marks if tier != there), default=0.0)

    def words(self, sent: Sent) -> str:
        """What a held pod's message says of its tier, after the usual text; "" where no tier holds it."""
        policy, choice = self.policy, sent.choice
        if policy.spec.enforce == "preferred":
            return ""
        if choice.tier is None:
            return f"Policy {policy.name}: every tier has reached its max."
        tier = policy.spec.tiers[choice.tier].name
        match choice.why:
            case "single":
                why = "where single replicas go"
            case "min":
                why = "whose min must be kept"
            case "fallback":
                why = "because its own is unavailable"
            case "stuck":
                why = "no other has room"
            case _ if choice.firm:
                why = "whose min it is part of"
            case _:
                why = f"by its place in the order; the next after {policy.spec.fallback.after}"
        trouble = self._nodes.trouble(choice.tier)
        return f"Policy {policy.name}: waits for tier {tier}, {why}" + (f" ({trouble})." if trouble else ".")
