"""The nodes of one policy's tiers, and which of its tiers are left alone.

What marks a tier is decided in `fairlead.policy.fallback`, as for every door; here is what it is decided
from. The scheduler moves its pods on by planning them anew, so nothing is ever deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from fairlead.engine.tier_fit import TierFit
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.policy.choice import Choice, choose_for
from fairlead.policy.fallback import Blame, Nodes, Probes, Waiter, decide, is_schedulable
from fairlead.policy.marks import Mark, Marks
from fairlead.policy.model import PlacementPolicy
from fairlead.policy.nodes import tier_of_node
from fairlead.policy.rule import Tiers
from fairlead.policy.trouble import trouble
from fairlead.policy.workloads import Workload

__all__ = ["Reach"]


class Reach:
    """See the module. `marks` hold now; `told` are those that others were told of last.

    `due` is when to decide again though nothing happens.
    """

    __slots__ = (
        "_before",
        "_changed",
        "_fit",
        "_landed",
        "_nodes",
        "_troubles",
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
        self._nodes: dict[str, tuple[int | None, bool, float]] = {}  # tier, schedulable, created
        self._troubles: dict[int, str] = {}  # by tier, until a node changes
        self._fit = TierFit(policy)
        self._before: Nodes | None = None
        self._landed: set[int] = set()  # marked tiers in which pods got places since the last decision
        self._changed = True

    def node(self, name: str, node: Node | None) -> bool:
        """A node as it now is, None: gone. Whether it belongs to another tier than before."""
        self._fit.node(name, node)
        before = self._nodes.get(name)
        if node is None:
            self._nodes.pop(name, None)
            after = None
        else:
            created = node.metadata.creation_timestamp
            tier = tier_of_node(self.policy, name, node.metadata.labels)
            tolerations = self.policy.spec.tiers[tier].tolerations if tier is not None else ()
            after = self._nodes[name] = (
                tier,
                is_schedulable(node, tolerations),
                created.timestamp() if created is not None else 0.0,
            )
        if before != after:
            self._changed = True
            self._troubles.clear()
        return (before[0] if before else None) != (after[0] if after else None)

    def tier_of(self, node: str) -> int | None:
        """The tier of a node; None: of none, or not known."""
        found = self._nodes.get(node)
        return found[0] if found is not None else None

    def told_of(self, marks: dict[str, Mark]) -> bool:
        """What the API says of the marks; whether that is news."""
        names = [tier.name for tier in self.policy.spec.tiers]
        heard = Marks(self.marks.cool_down_s, dict(marks)).only(names)
        news = heard != self.marks
        if news:
            self.marks, self._changed = heard, True
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

        nodes = self._tally()
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
        *,
        token: str,
        others: int,
        held: Mapping[str, int],
        scattered: bool,
        told: int | None,
        ready: bool,
        now: float,
        skips: Collection[str] = (),
    ) -> Choice:
        """Where the pod of a slot goes, by `token` known as who tries a tier; `skips` are tiers that did not
        take it, whatever they do for others.

        After a tier's cool-down one pod tries it, while others go on to skip it: the first who asks and
        is `ready` to be placed.
        """
        tried = {tier for tier, mark in self.marks if mark.probe == token and mark.probed(now)}
        if skips or any(True for _ in self.marks):
            told = None  # who was sent elsewhere meanwhile still belongs where the rule says

        def chosen() -> Choice:
            return choose_for(
                workload,
                self.policy,
                tiers,
                slot,
                others=others,
                unavailable={tier for tier, _ in self.marks} - tried | {*skips},
                crowded=self.marks.crowded() - {*skips},
                held=held,
                scattered=scattered,
                told=told,
            )

        choice = chosen()
        own = "" if choice.own is None else tiers.tiers[choice.own].name
        if (
            choice.why != "rule"
            and own not in tried
            and own not in skips
            and self.marks.may_probe(own, now)
            and ready
        ):
            claimed = self.marks.claim_probe(own, token, now)
            if claimed is not None:
                self.marks = claimed
                tried.add(own)
                choice = chosen()
        return choice

    def tried(self, now: float) -> tuple[str, ...]:
        """The tiers that somebody is trying."""
        return tuple(tier for tier, mark in self.marks if mark.probed(now))

    def may_be_tried(self, now: float) -> bool:
        """Whether there is a tier that the next who asks may try."""
        return any(self.marks.may_probe(tier, now) for tier, _ in self.marks)

    def sent_since(self, choice: Choice, token: str) -> float:
        """Before when a pod cannot have been sent there; 0: nobody knows. `token` is what it goes by.

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

    def trouble(self, tier: int) -> str:
        """Why a tier takes nobody, as far as its nodes tell; or ""."""
        found = self._troubles.get(tier)
        if found is None:
            found = self._troubles[tier] = self._trouble(tier)
        return found

    def _trouble(self, tier: int) -> str:
        mine = [open_ for index, open_, _ in self._nodes.values() if index == tier]
        return trouble(self.policy.spec.tiers[tier], sum(mine), len(mine))

    def _tally(self) -> Nodes:
        count = len(self.policy.spec.tiers)
        schedulable: list[dict[str, float]] = [{} for _ in range(count)]
        everything = [0] * count
        for name, (tier, open_, created) in self._nodes.items():
            if tier is not None:
                everything[tier] += 1
                if open_:
                    schedulable[tier][name] = created
        return Nodes(tuple(schedulable), tuple(everything))
