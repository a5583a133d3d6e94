"""One group: where each of its waiting pods is sent, kept up to date.

A pod's answer depends on its slot, on its workload, on the group's tiers and marks, and, where the rule
asks what tiers hold, on those ahead of it. So while the circumstances of the whole group are the same,
only those are asked anew from whom on something changed; the property test says that it makes no
difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fairlead.engine.policies.families import Family
from fairlead.engine.policies.members import Members
from fairlead.engine.policies.reach import Reach
from fairlead.engine.policies.sending import Sent
from fairlead.engine.policies.slots import Slots
from fairlead.policy.choice import Choice, are_scattered, held_by_number
from fairlead.policy.demands import Makeup
from fairlead.policy.model import PlacementPolicy
from fairlead.policy.rule import Tiers

__all__ = ["Group"]

_ROOM = 1000  # answers that are kept beyond one for each who waits


class Group:
    """The pods of a group. `makeup` is what they are like, where the policy asks what budgets demand.

    Invariant: `_answers` are what was chosen under `_circumstances`, by slot and family and, where that
    matters, by what tiers held.
    """

    __slots__ = (
        "_answers",
        "_choices",
        "_circumstances",
        "_everyone",
        "_heeds",
        "_were_scattered",
        "makeup",
        "skips",
        "slots",
    )

    def __init__(self) -> None:
        self.slots = Slots()
        self.makeup = Makeup()
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

    def disturbed(self, policy: PlacementPolicy, members: Members) -> bool:
        """Whether somebody got a node, and that is something to others: it was before those ahead of it, or
        has a slot beyond all others.
        """
        if not self.slots.waiting():
            return False
        moved = self._heeds and self.slots.recounted
        return moved or self._scattered(policy, members) != self._were_scattered

    def stir(self) -> None:
        """What is known of the workloads behind it changed: ask everyone anew, once somebody asks."""
        self._everyone = True

    def answer(
        self,
        reach: Reach,
        tiers: Tiers,
        members: Members,
        sent: dict[str, Sent],
        now: float,
        *,
        ready: Callable[[str], bool],
    ) -> list[tuple[str, Sent | None]]:
        """Bring what is `sent` up to date; who is sent elsewhere than before, and what was said before."""
        policy, slots = reach.policy, self.slots
        scattered = self._were_scattered = self._scattered(policy, members)
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
        # Who may try a tier is asked; so is everyone where, beside counts, ordinals or marks matter.
        kept = not open_ and not (heeds and (numbers or self.skips or any(True for _ in reach.marks)))
        trying = {mark.probe for _, mark in reach.marks if mark.probe}
        found = []
        for uid, slot in changes:
            governed, before = members.pods[uid], sent.get(uid)
            family = governed.family
            # The slot of who waits is admission's, who knows better what is missing.
            told, unnumbered = governed.claim.told, governed.claim.wanted is None
            mine: object = slot, family
            if heeds:
                mine = self._gist(slot, family, tiers, policy), family, told, unnumbered, tally.counts
            alike = kept and governed.token not in trying and uid not in self.skips
            after = self._answers.get(mine) if alike else None
            if after is None:
                choice = reach.choose(
                    tiers,
                    slot,
                    family.workload,
                    token=governed.token,
                    others=len(slots) - 1,
                    held=tally.beside(slot, governed.claim.ordinal, family.workload.replicas),
                    scattered=scattered and (unnumbered or told is not None),
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
        # A try that was claimed meanwhile changes nothing for those who were asked before.
        self._circumstances = (tiers, reach.marks, reach.tried(now), number, dict(self.skips))
        self._everyone = False
        return found

    def _scattered(self, policy: PlacementPolicy, members: Members) -> bool:
        """Whether pods with a node hold slots beyond the number of pods; of no matter if nobody waits."""
        first = self.slots.ahead(1)
        if not first:
            return False
        workload = members.pods[first[0]].family.workload
        return are_scattered(workload, policy, self.slots.highest(), len(self.slots) - 1)

    def _number(self, policy: PlacementPolicy, tiers: Tiers, *, heeds: bool) -> object:
        """What of the number of pods matters to everyone, where no workload says how many there will be."""
        if policy.spec.group_by == "workload":
            return None
        if heeds:
            return len(self)
        # Behind a tier without a max nobody gets more than its min: there every slot is of the min.
        unlimited = next((at for at, tier in enumerate(tiers.tiers) if tier.max is None), len(tiers.tiers))
        return tiers.mins(len(self))[: unlimited + 1]

    def _gist(self, slot: int, family: Family, tiers: Tiers, policy: PlacementPolicy) -> int:
        """What of a slot matters where counts do: with a demand, among as many as are wanted, nothing."""
        by_workload = policy.spec.group_by == "workload"
        wanted = (family.workload.replicas or 0) if by_workload else len(self)
        return 0 if tiers.safe is not None and slot <= wanted else slot

    def _one(self, choice: Choice) -> Choice:
        return self._choices.setdefault(
            (choice.tier, choice.why, choice.firm, choice.own, choice.either), choice
        )


def _heeds_counts(tiers: Tiers, reach: Reach, *, skips: bool) -> bool:
    """Whether it matters what tiers hold: by the rule, or for the room that a max leaves to others' pods."""
    if tiers.counts_matter:
        return True
    marks = reach.marks
    limited = [tier.name for tier in tiers.tiers if tier.max is not None]
    return (skips and bool(limited)) or (
        any(True for _ in marks) and any((mark := marks.get(name)) is None or mark.probe for name in limited)
    )


class _Tally:
    """What tiers hold, as one goes down the line. Of use only to groups that heed that."""

    __slots__ = ("_names", "_numbered", "_taken", "_tiers", "counts")

    def __init__(self, tiers: Tiers, slots: Slots, *, numbers: bool) -> None:
        """`numbers`: ordinals decide the slots of some."""
        self._tiers = tiers
        self._names = [*(tier.name for tier in tiers.tiers), ""]  # the last for pods of no tier
        self.counts = (*(slots.placed.get(tier, 0) for tier in range(len(tiers.tiers))), slots.astray)
        self._numbered = numbers
        self._taken = {slot: self._names[tier] for slot, tier in slots.numbered()} if numbers else {}

    def beside(self, slot: int, ordinal: int | None, wanted: int | None) -> dict[str, int]:
        """What they hold beside a slot, in a group that is to have so many pods."""
        if self._numbered and ordinal is not None:
            return held_by_number(self._tiers, self._taken.items(), slot, wanted)
        return dict(zip(self._names, self.counts, strict=True))

    def skip(self, ahead: Iterable[Sent]) -> None:
        """These are ahead; none of them is there because of its ordinal."""
        counts = list(self.counts)
        for one in ahead:
            counts[-1 if one.choice.tier is None else one.choice.tier] += 1
        self.counts = tuple(counts)

    def add(self, sent: Sent) -> None:
        """Who is next is sent there."""
        counts = self.counts
        tier = len(counts) - 1 if sent.choice.tier is None else sent.choice.tier
        self.counts = (*counts[:tier], counts[tier] + 1, *counts[tier + 1 :])
        if self._numbered and sent.choice.tier is not None:
            self._taken[sent.slot] = self._names[tier]
