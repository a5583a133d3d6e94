"""The one rule: first every tier's min, then tiers in order up to their max.

Percentages are of the number of pods: a min rounds up, a max rounds down. Mins beyond the number are
filled in tier order; pods beyond every max belong nowhere and wait.

Slots make the rule exact without knowing the number in advance: slot k belongs to the tier that the
rule adds going from k-1 to k pods. The rule is *nested* where each step adds one pod to one tier and
takes none away; then every prefix of slots is an exact split. Where it is not (two percentages that
round up at the same step), a slot goes where most is missing, and the rebalancer mends the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairlead.policy.model import Tier

__all__ = ["Demand", "Tiers"]


@dataclass(frozen=True, slots=True)
class Demand:
    """How many pods a PodDisruptionBudget wants available: a number, a percentage, or all but some.

    Without a budget a workload keeps at least one pod, and 30%, off volatile tiers.
    """

    min_available: int | None = None
    min_percent: int | None = None
    max_unavailable: int | None = None
    max_unavailable_percent: int | None = None

    def of(self, pods: int) -> int:
        """How many of so many pods.

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
            wanted = pods - _up(self.max_unavailable_percent, pods)
        else:
            wanted = max(1, _up(30, pods))
        return min(max(wanted, 0), pods)


class Tiers:
    """A policy's tiers as the rule sees them, for one group: the demand behind ``min: pdb`` is known.

    Invariant: `_order[k-1]` is the tier of slot k and `_ranks[k-1]` which of that tier's slots it is; both
    are grown on demand and never changed.
    """

    __slots__ = ("_counts", "_order", "_ranks", "demand", "tiers")

    def __init__(self, tiers: Sequence[Tier], demand: Demand = Demand()) -> None:  # noqa: B008 (frozen)
        self.tiers = tuple(tiers)
        self.demand = demand
        self._order: list[int | None] = []
        self._ranks: list[int] = []
        self._counts = [0] * len(self.tiers)

    def mins(self, pods: int) -> tuple[int, ...]:
        """Each tier's min for so many pods, as asked for: together they may be more than there are."""
        return tuple(self._min(tier, pods) for tier in self.tiers)

    def maxes(self, pods: int) -> tuple[int, ...]:
        """Each tier's max for so many pods; no max is all of them."""
        return tuple(pods if tier.max is None else _of(tier.max, pods, up=False) for tier in self.tiers)

    def split(self, pods: int) -> tuple[int, ...]:
        """How many pods each tier gets; less than `pods` in all where every max is reached.

        >>> spot, safe = Tier("spot"), Tier("on-demand", min="30%")
        >>> Tiers([spot, safe]).split(10), Tiers([spot, safe]).split(1)
        ((7, 3), (0, 1))
        """
        left = pods
        counts = [0] * len(self.tiers)
        maxes = self.maxes(pods)
        for index, (least, most) in enumerate(zip(self.mins(pods), maxes, strict=True)):
            counts[index] = min(least, most, left)
            left -= counts[index]
        for index, most in enumerate(maxes):
            more = min(most - counts[index], left)
            counts[index] += more
            left -= more
        return tuple(counts)

    def of_slot(self, slot: int) -> int | None:
        """The index of the tier that slot `slot` (from 1) belongs to; None beyond every max.

        >>> [Tiers([Tier("base", max=2), Tier("burst")]).of_slot(k) for k in (1, 2, 3)]
        [0, 0, 1]
        """
        while len(self._order) < slot:
            tier = self._next()
            self._order.append(tier)
            self._ranks.append(0 if tier is None else self._counts[tier])
        return self._order[slot - 1]

    def rank(self, slot: int) -> int:
        """Which of its tier's slots a slot is, from 1; 0 for a slot of no tier.

        >>> [Tiers([Tier("base", max=2), Tier("burst")]).rank(k) for k in (1, 2, 3)]
        [1, 2, 1]
        """
        self.of_slot(slot)
        return self._ranks[slot - 1]

    def _next(self) -> int | None:
        pods = len(self._order) + 1
        target = self.split(pods)
        mins = self.mins(pods)
        # A min comes first even where the rule is not nested: what is missing of it is worst.
        missing = [
            (max(min(least, goal) - count, 0), goal - count)
            for least, goal, count in zip(mins, target, self._counts, strict=True)
        ]
        best = max(range(len(missing)), key=lambda index: (missing[index], -index))
        if missing[best][1] <= 0:
            return None
        self._counts[best] += 1
        return best

    def _min(self, tier: Tier, pods: int) -> int:
        return self.demand.of(pods) if tier.min == "pdb" else _of(tier.min, pods, up=True)


def _of(amount: int | str, pods: int, *, up: bool) -> int:
    if isinstance(amount, int):
        return amount
    percent = int(amount.rstrip("%"))
    return _up(percent, pods) if up else percent * pods // 100


def _up(percent: int, pods: int) -> int:
    return -(-percent * pods // 100)
