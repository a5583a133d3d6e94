"""One group: where each of its waiting pods is sent, kept up to date.

A pod's answer depends on its slot, on its workload, on the group's tiers and marks, and, where the rule
asks what tiers hold, on those ahead of it. So while the circumstances of the whole group are the same,
only the pods from the first change on are answered again; the property test says that it makes no
difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fairlead.engine.policies.planned_pod import Sent
from fairlead.engine.policies.policy_tiers import PolicyTiers
from fairlead.engine.policies.waiting_line import WaitingLine
from fairlead.policy.groups.index import GroupedPod, Template
from fairlead.policy.rule.choice import Beside, Choice, are_scattered
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Tiers

_ROOM = 1000  # answers that are kept beyond one for each waiting pod

_Pods = Callable[[str], GroupedPod]


class Group:
    """The waiting pods of a group, and what those with a node leave to them.

    Invariant: `_answers` are what was chosen under `_circumstances`, by slot and template and, where that
    matters, by what tiers held.
    """

    __slots__ = (
        "_answers",
        "_choices",
        "_circumstances",
        "_everyone",
        "_heeds",
        "_were_scattered",
        "skips",
        "slots",
    )

    def __init__(self) -> None:
        self.slots = WaitingLine()
        self.skips: dict[str, frozenset[str]] = {}
        """By UID of a waiting pod: tiers that did not take it, though nothing is said against them."""
        self._circumstances: object = None
        self._answers: dict[object, Sent] = {}
        self._choices: dict[object, Choice] = {}  # equal ones are one object, to be told apart fast
        self._everyone = True
        self._heeds = False
        self._were_scattered = False

    def __len__(self) -> int:
        return len(self.slots)

    def disturbed(self, policy: PlacementPolicy, pods: _Pods) -> bool:
        """Whether a pod got a node in a way that matters to others: before those ahead of it, or with a slot
        beyond all others.
        """
        if not self.slots.waiting():
            return False
        moved = self._heeds and self.slots.recounted
        return moved or self._scattered(policy, pods) != self._were_scattered

    def stir(self) -> None:
        """Its policy, or what is known of its workloads or budgets, changed: answer for every pod again."""
        self._everyone = True
        self._choices.clear()  # the same answer under another policy means something else

    def answer(
        self,
        reach: PolicyTiers,
        tiers: Tiers,
        pods: _Pods,
        sent: dict[str, Sent],
        now: float,
        *,
        ready: Callable[[str], bool],
    ) -> list[tuple[str, Sent | None]]:
        """Bring what is `sent` up to date; the pods sent elsewhere than before, and what was said before."""
        policy, slots = reach.policy, self.slots
        scattered = self._were_scattered = self._scattered(policy, pods)
        heeds = self._heeds = scattered or _heeds_counts(tiers, reach, skips=bool(self.skips))
        numbers = tiers.safe is not None and slots.ordinals > 0
        open_ = reach.may_be_tried(now)
        number = self._number(policy, tiers, heeds=heeds), scattered
        circumstances = tiers, reach.marks, reach.tried(now), number, dict(self.skips)
        if self._everyone or circumstances != self._circumstances:
            self._answers.clear()
            everyone = True
        else:
            everyone = open_ or numbers or (heeds and slots.recounted)
        changes = slots.changes(tiers, everyone=everyone)
        if len(self._answers) > 2 * slots.waiting() + _ROOM:
            self._answers.clear()
        tally = _Tally(tiers, slots, numbers=numbers)
        if heeds:
            tally.skip(sent[uid] for uid in slots.ahead(slots.waiting() - len(changes)))
        # A pod that may try a tier is asked; so is every pod where, beside counts, ordinals or marks matter.
        kept = not open_ and not (heeds and (numbers or self.skips or reach.marks))
        trying = {mark.probe for _, mark in reach.marks if mark.probe}
        highest = slots.highest()
        found = []
        for uid, slot in changes:
            one, claim, before = pods(uid), slots.claim(uid), sent.get(uid)
            template, token = one.template, one.member.token or uid
            # A waiting pod's slot is admission's, which knows better what is missing.
            told, unnumbered = claim.told, claim.wanted is None
            mine: object = slot, template
            if heeds:
                mine = self._gist(slot, template, tiers, policy), template, told, unnumbered, tally.counts
            alike = kept and token not in trying and uid not in self.skips
            after = self._answers.get(mine) if alike else None
            if after is None:
                choice = reach.choose(
                    tiers,
                    slot,
                    one.workload,
                    tally.beside(len(slots) - 1, highest if unnumbered or told is not None else 0),
                    token=token,
                    told=told,
                    ready=open_ and ready(uid),
                    now=now,
                    skips=self.skips.get(uid, ()),
                )
                after = Sent(policy, slot, self._one(choice))
                if alike:
                    self._answers[mine] = after
            if heeds:
                after = after if after.slot == slot else Sent(policy, slot, after.choice)
                tally.add(after)
            sent[uid] = after
            if (before is None or before.choice is not after.choice) and not after.like(before):
                found.append((uid, before))
        # A try that was claimed meanwhile changes nothing for pods that were asked before.
        self._circumstances = (tiers, reach.marks, reach.tried(now), number, dict(self.skips))
        self._everyone = False
        return found

    def _scattered(self, policy: PlacementPolicy, pods: _Pods) -> bool:
        """Whether pods with a node hold slots beyond the number of pods; of no matter if no pod waits."""
        first = self.slots.ahead(1)
        if not first:
            return False
        workload = pods(first[0]).template.workload
        return are_scattered(workload, policy, self.slots.highest(), len(self.slots) - 1)

    def _number(self, policy: PlacementPolicy, tiers: Tiers, *, heeds: bool) -> object:
        """What of the number of pods matters to everyone, where no workload says how many there will be."""
        if policy.spec.group_by == "workload":
            return None
        if heeds:
            return len(self)
        # Behind a tier without a max no tier gets more than its min: there every slot is of the min.
        unlimited = next((at for at, tier in enumerate(tiers.tiers) if tier.max is None), len(tiers.tiers))
        return tiers.mins(len(self))[: unlimited + 1]

    def _gist(self, slot: int, template: Template, tiers: Tiers, policy: PlacementPolicy) -> int:
        """What of a slot matters where counts do: with a demand, among as many as are wanted, nothing."""
        by_workload = policy.spec.group_by == "workload"
        wanted = (template.workload.replicas or 0) if by_workload else len(self)
        return 0 if tiers.safe is not None and slot <= wanted else slot

    def _one(self, choice: Choice) -> Choice:
        return self._choices.setdefault(
            (choice.tier, choice.why, choice.firm, choice.own, choice.also), choice
        )


def _heeds_counts(tiers: Tiers, reach: PolicyTiers, *, skips: bool) -> bool:
    """Whether it matters what tiers hold: by the rule, or for the room that a max leaves to others' pods."""
    if tiers.counts_matter:
        return True
    marks = reach.marks
    limited = [tier.name for tier in tiers.tiers if tier.max is not None]
    return (skips and bool(limited)) or (
        bool(marks) and any((mark := marks.get(name)) is None or mark.probe for name in limited)
    )


class _Tally:
    """What tiers hold, as one goes down the line. Of use only to groups that heed that."""

    __slots__ = ("_names", "_numbered", "_taken", "_tiers", "counts")

    def __init__(self, tiers: Tiers, slots: WaitingLine, *, numbers: bool) -> None:
        """`numbers`: ordinals decide the slots of some."""
        self._tiers = tiers
        self._names = [*(tier.name for tier in tiers.tiers), ""]  # the last for pods of no tier
        self.counts = (*(slots.placed.get(tier, 0) for tier in range(len(tiers.tiers))), slots.astray)
        self._numbered = numbers
        self._taken = {slot: self._names[tier] for slot, tier in slots.numbered()} if numbers else {}

    def beside(self, pods: int, highest: int) -> Beside:
        """What they hold, in a group of that many other pods, of which the highest slot matters or is 0."""
        counts = self.counts
        return Beside(pods, highest, lambda: dict(zip(self._names, counts, strict=True)), self._taken.items)

    def skip(self, ahead: Iterable[Sent]) -> None:
        """These are ahead; none of them is there because of its ordinal."""
        counts = list(self.counts)
        for one in ahead:
            counts[-1 if one.choice.tier is None else one.choice.tier] += 1
        self.counts = tuple(counts)

    def add(self, sent: Sent) -> None:
        """The next pod is sent there."""
        counts = self.counts
        tier = len(counts) - 1 if sent.choice.tier is None else sent.choice.tier
        self.counts = (*counts[:tier], counts[tier] + 1, *counts[tier + 1 :])
        if self._numbered and sent.choice.tier is not None:
            self._taken[sent.slot] = self._names[tier]
