"""The one rule: first every tier's min, then tiers in order up to their max.

Percentages are of the number of pods: a min rounds up, a max rounds down. Mins beyond the number are
filled in tier order; pods beyond every max belong nowhere and wait.

Slots make the rule exact without knowing the number in advance: slot k belongs to the tier that the
rule adds going from k-1 to k pods. The rule is *nested* where each step adds one pod to one tier and
takes none away; then every prefix of slots is an exact split. Where it is not (two percentages that
round up at the same step), a slot goes where most is missing, and the rebalancer mends the rest.

A percentage is of the pods there are: while a rollout has fewer of a revision, it asks for fewer. What a
budget demands (``min: pdb``) must be there all the time instead, so it is taken of the number that is
desired, and the *first* slots of every revision are those of that tier: whatever a rollout leaves of the
old revision and has made of the new one, it is not the demanded pods that are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fairlead.policy.rule.model import Tier

FARTHEST = 100_000
"""What is numbered beyond this, an ordinal or a mark, is no pod's slot: no group is that large."""

_WALKED = 10_000  # slots whose tiers are remembered; beyond, only the last step of the rule is looked at


@dataclass(frozen=True, slots=True)
class Demand:
    """How many pods a PodDisruptionBudget wants available: a number, a percentage, or all but some.

    Without a budget a workload keeps at least one pod, and 30%, off volatile tiers.
    """

    min_available: int | None = None
    min_percent: int | None = None
    max_unavailable: int | None = None
    max_unavailable_percent: int | None = None
    rounded_down: bool = False
    """Whether what a percentage lets be unavailable is rounded down: another workload has the rest."""

    def share(self, *, oldest: bool) -> Demand:
        """What a workload must keep that shares the budget with others; see `rule.demands.Sharing`.

        >>> Demand(max_unavailable=1).share(oldest=False).of(5)
        5
        """
        if oldest:
            return self
        if self.max_unavailable is not None:
            return replace(self, max_unavailable=0)
        return replace(self, rounded_down=self.max_unavailable_percent is not None)

    def of(self, pods: int) -> int:
        """How many of `pods` it demands.

        >>> Demand(min_percent=50).of(5), Demand(max_unavailable=1).of(5), Demand().of(10)
        (3, 4, 3)
        """
        if self.min_available is not None:
            wanted = self.min_available
        elif self.min_percent is not None:
            wanted = _up(self.min_percent, pods)
        elif self.max_unavailable is not None:
            wanted = pods - self.max_unavailable
        elif self.max_unavailable_percent is not None:
            # The disruption controller rounds a percentage of unavailable pods up.
            part = (self.max_unavailable_percent, True)
            wanted = pods - _of(part, pods, up=not self.rounded_down)
        else:
            wanted = max(1, _up(30, pods))
        return min(max(wanted, 0), pods)


class Tiers:
    """A policy's tiers as the rule sees them, for one group: the demand behind ``min: pdb`` is known.

    Invariant: `_order` and `_ranks` are, for the slots after `desired`, the tier and which of that tier's
    slots it is; both are grown on demand, up to a bound, and never changed.
    """

    __slots__ = (
        "_counts",
        "_first",
        "_maxes",
        "_mins",
        "_order",
        "_ranks",
        "counts_matter",
        "demand",
        "desired",
        "safe",
        "tiers",
    )

    def __init__(
        self,
        tiers: Sequence[Tier],
        demand: Demand = Demand(),  # noqa: B008 (frozen)
        desired: int | None = None,
    ) -> None:
        """`desired` is the group's number of pods, if known; it matters only for ``min: pdb``."""
        self.tiers = tuple(tiers)
        self.demand = demand
        self.safe = next((index for index, tier in enumerate(self.tiers) if tier.min == "pdb"), None)
        """The tier with ``min: pdb``; None: there is none."""
        self.desired = (desired or 0) if self.safe is not None else 0
        amounts = [amount for tier in self.tiers for amount in (tier.min, tier.max)]
        self.counts_matter = self.safe is not None or sum(isinstance(one, str) for one in amounts) > 1
        """Whether it takes more than the slot to know its tier: what the tiers hold.

        That is so for demanded pods, and where the rule may not be nested, for which it takes two
        percentages that round up at the same step.
        """
        self._mins = tuple(_read(tier.min) for tier in self.tiers)
        self._maxes = tuple(None if tier.max is None else _read(tier.max) for tier in self.tiers)
        self._order: list[int | None] = []
        self._ranks: list[int] = []
        self._first = self._in_turn(self.desired)
        self._counts = list(self.split(self.desired))

    def mins(self, pods: int) -> tuple[int, ...]:
        """Each tier's min for that many pods, as asked for: together they may be more than there are."""
        return tuple([self.demand.of(pods) if one is None else _of(one, pods, up=True) for one in self._mins])

    def maxes(self, pods: int) -> tuple[int, ...]:
        """Each tier's max for that many pods; no max is all of them."""
        return tuple([pods if one is None else _of(one, pods, up=False) for one in self._maxes])

    def split(self, pods: int) -> tuple[int, ...]:
        """How many pods each tier gets; less than `pods` in all where every max is reached.

        >>> spot, safe = Tier("spot"), Tier("on-demand", min="30%")
        >>> Tiers([spot, safe]).split(10), Tiers([spot, safe]).split(1)
        ((7, 3), (0, 1))
        """
        return self._split(pods, self.mins(pods))

    def of_slot(self, slot: int) -> int | None:
        """The index of the tier that slot `slot` (from 1) belongs to; None beyond every max.

        >>> [Tiers([Tier("base", max=2), Tier("burst")]).of_slot(k) for k in (1, 2, 3)]
        [0, 0, 1]
        """
        return self._slot(slot)[0]

    def rank(self, slot: int) -> int:
        """Which of its tier's slots a slot is, from 1; 0 for a slot of no tier.

        >>> [Tiers([Tier("base", max=2), Tier("burst")]).rank(k) for k in (1, 2, 3)]
        [1, 2, 1]
        """
        return self._slot(slot)[1]

    def among(self, slot: int, last: int, tier: int) -> int:
        """How many of the slots after `slot` up to `last` are the tier's."""
        return max(0, self._up_to(last, tier) - self._up_to(slot, tier))

    def lacking(self, have: Sequence[int], pods: int) -> tuple[int | None, bool]:
        """Where one more pod goes in a group that has N per tier and is to have `pods` in all, and
        whether it is one of that tier's min; None where nothing is missing.

        What a budget demands comes first, then mins, then the tiers in order.
        """
        target, mins = self.split(pods), self.mins(pods)
        missing = [index for index, number in enumerate(have) if number < target[index]]
        if not missing:
            return None, False
        short = [index for index in missing if have[index] < mins[index]]
        best = self.safe if self.safe in short else (short or missing)[0]
        return best, best in short

    def _slot(self, slot: int) -> tuple[int | None, int]:
        """A slot's tier and its rank."""
        if slot <= self.desired:
            return self._of_first(slot)
        at = slot - self.desired
        if at > _WALKED:
            return self._step(slot)
        while len(self._order) < at:
            tier = self._next()
            self._order.append(tier)
            self._ranks.append(0 if tier is None else self._counts[tier])
        return self._order[at - 1], self._ranks[at - 1]

    def _of_first(self, slot: int) -> tuple[int | None, int]:
        """Of the slots up to the desired number, where demanded pods come first."""
        have = dict.fromkeys(range(len(self.tiers)), 0)
        for tier, number in self._first:
            if slot <= number:
                return tier, have[tier] + slot
            slot -= number
            have[tier] += number
        return None, 0

    def _step(self, slot: int) -> tuple[int | None, int]:
        """What the rule adds with this slot, whatever it added before."""
        before, after = self.split(slot - 1), self.split(slot)
        steps = [more - less for less, more in zip(before, after, strict=True)]
        best = max(range(len(steps)), key=lambda index: (steps[index], -index))
        return (best, after[best]) if steps[best] > 0 else (None, 0)

    def _up_to(self, slot: int, tier: int) -> int:
        """How many of the slots up to this one are the tier's."""
        if slot > self.desired + _WALKED:
            return self.split(slot)[tier]
        if slot <= self.desired:
            found = 0
            for index, number in self._first:
                found += min(slot, number) if index == tier else 0
                slot -= min(slot, number)
            return found
        self._slot(slot)
        return self.split(self.desired)[tier] + self._order[: slot - self.desired].count(tier)

    def _in_turn(self, pods: int) -> list[tuple[int, int]]:
        """The tiers in the order in which slots go to them, and how many slots at a time."""
        target = self.split(pods)
        least = [min(number, goal) for number, goal in zip(self.mins(pods), target, strict=True)]
        first = sorted(range(len(target)), key=lambda index: (index != self.safe, index))
        rest = [(index, goal - least[index]) for index, goal in enumerate(target)]
        return [*((index, least[index]) for index in first), *rest]

    def _next(self) -> int | None:
        pods = self.desired + len(self._order) + 1
        mins = self.mins(pods)
        target = self._split(pods, mins)
        # A min comes first even where the rule is not nested: what is missing of it is worst.
        best, most = -1, (0, 0)
        for index, count in enumerate(self._counts):
            goal = target[index]
            missing = max(min(mins[index], goal) - count, 0), goal - count
            if best < 0 or missing > most:
                best, most = index, missing
        if most[1] <= 0:
            return None
        self._counts[best] += 1
        return best

    def _split(self, pods: int, mins: Sequence[int]) -> tuple[int, ...]:
        left = pods
        counts = [0] * len(self.tiers)
        maxes = self.maxes(pods)
        for index, (least, most) in enumerate(zip(mins, maxes, strict=True)):
            counts[index] = min(least, most, left)
            left -= counts[index]
        for index, most in enumerate(maxes):
            more = min(most - counts[index], left)
            counts[index] += more
            left -= more
        return tuple(counts)


def _read(amount: int | str) -> tuple[int, bool] | None:
    """An amount as a number and whether it is a percentage; None: what a budget demands."""
    if isinstance(amount, int):
        return amount, False
    return None if amount == "pdb" else (int(amount.rstrip("%")), True)


def _of(amount: tuple[int, bool], pods: int, *, up: bool) -> int:
    number, percent = amount
    if not percent:
        return number
    return _up(number, pods) if up else number * pods // 100


def _up(percent: int, pods: int) -> int:
    return -(-percent * pods // 100)
