"""Which pods leave: the cost of a set of victims, and the search for the cheapest set on one node.

Cost is kube-scheduler's own order: broken budgets, highest victim priority, sum of (priority + 2^31);
then units hurt, pods, and last the start time of the most important victims (the later, the better).
kube-scheduler takes the pods its reprieve leaves over; we start from that set, so ours is never worse,
and look for a cheaper one. The subtle thing: removal only ever helps here, because a node is searched
only when the pod fits with *all* candidates gone; hence every superset of a sufficient set suffices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from fairlead.kube.pod import Pod

# Up to this many candidates every set is tried; beyond it the search is greedy with reprieve.
EXACT_LIMIT = 12

# Shifts all priorities to be positive, as kube-scheduler does, so that fewer victims are cheaper.
_SHIFT = 2**31

# (broken budgets, top priority, shifted sum, units, pods, minus the start time): lower is better.
Cost = tuple[int, int, int, int, int, float]

# How many branches the search by amounts may look at before it settles for what it has.
_BRANCHES = 4000


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that may have to leave; `start` is infinite for one that has not started (the cheapest)."""

    pod: Pod
    priority: int
    start: float
    slot: int
    gang: str = ""
    amounts: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return self.pod.metadata.key


# What it costs that pods leave, and which then really do.
Priced = tuple[Cost, tuple[Victim, ...]]

# Whether removing a set makes room; what that costs, None when it must not leave; which break a budget.
Suffices = Callable[[Sequence[Victim]], bool]
Price = Callable[[Sequence[Victim]], Priced | None]
Breaks = Callable[[Sequence[Victim]], Sequence[bool]]


def importance(victim: Victim) -> tuple[int, float, str]:
    """Sorts the most important first: priority, then the pod that has run longest, then name."""
    return (-victim.priority, victim.start, victim.pod.metadata.key)


def cost_of(victims: Sequence[Victim], violations: int) -> Cost:
    """What evicting these costs; an empty set costs least of all."""
    if not victims:
        return (0, -_SHIFT, 0, 0, 0, 0.0)
    top = max(victim.priority for victim in victims)
    start = min(victim.start for victim in victims if victim.priority == top)
    total = sum(victim.priority for victim in victims) + _SHIFT * len(victims)
    units = {(victim.gang, victim.gang or victim.key) for victim in victims}
    return (violations, top, total, len(units), len(victims), -start)


def cheapest(candidates: Sequence[Victim], suffices: Suffices, price: Price, breaks: Breaks) -> Priced | None:
    """The cheapest set of candidates that makes room, with whatever leaves along with it.

    `suffices` tells whether removing a set makes room; `price` what it costs and which really leave
    (a gang that falls below its minimum leaves whole), None when that set must not leave; `breaks`
    tells which of all candidates, in order of importance, would break a budget.
    """
    ordered = sorted(candidates, key=importance)
    if len(ordered) <= EXACT_LIMIT:
        spread = (ordered[0].priority - ordered[-1].priority) * len(ordered)
        if spread < _SHIFT and not any(victim.gang for victim in ordered):
            unbroken = _by_size(ordered, suffices, price)
            # Nothing beats a set that breaks no budget; where all do, what breaks least is sought below.
            if unbroken is not None or not any(breaks(ordered)):
                return unbroken
        return cheapest_bundles([(victim,) for victim in ordered], suffices, price)
    found = [_reprieve(ordered, suffices, breaks(ordered))]
    # Where budgets or gangs forbid what the reprieve leaves, those they touch are spared up front; once
    # with what a budget allows given to the most important, once to the least.
    backwards = ordered[::-1]
    free = [victim for victim, broken in zip(ordered, breaks(ordered), strict=True) if not broken]
    least = [victim for victim, broken in zip(backwards, breaks(backwards), strict=True) if not broken]
    for pool in (free, least[::-1], [victim for victim in free if not victim.gang]):
        if len(pool) < len(ordered) and suffices(pool):
            found.append(_reprieve(pool, suffices, [False] * len(pool)))
    for top in sorted({victim.priority for victim in ordered}):
        pool = [victim for victim in ordered if victim.priority <= top]
        if len(pool) < len(ordered) and suffices(pool):
            found.append(_reprieve(pool, suffices, breaks(pool)))
            break
    priced = [priced for chosen in found if (priced := price(chosen)) is not None]
    return min(priced, key=lambda one: _tie_broken(one[0], one[1]), default=None)


def cheapest_bundles(
    bundles: Sequence[tuple[Victim, ...]], suffices: Suffices, price: Price
) -> Priced | None:
    """The cheapest union of bundles that makes room; every union is considered, in order of its cost."""
    priced = []
    for mask in range(1, 1 << len(bundles)):
        offer = price([victim for i, bundle in enumerate(bundles) if mask >> i & 1 for victim in bundle])
        if offer is not None:
            priced.append((_tie_broken(*offer), mask, offer))
    priced.sort(key=lambda one: one[:2])
    insufficient: list[int] = []
    for _, mask, offer in priced:
        if any(mask & ~known == 0 for known in insufficient):
            continue
        if suffices(offer[1]):
            return offer
        insufficient.append(mask)
    return None


def bundles(candidates: Iterable[Victim], together: Callable[[str], bool]) -> list[tuple[Victim, ...]]:
    """Candidates that leave together: the members of a gang of which that is true; other pods are alone."""
    found: dict[str, list[Victim]] = {}
    for victim in candidates:
        whole = victim.gang and together(victim.gang)
        found.setdefault(f"gang:{victim.gang}" if whole else f"pod:{victim.key}", []).append(victim)
    return [tuple(victims) for victims in found.values()]


def cheapest_by_amounts(candidates: Sequence[Victim], deficit: Sequence[int]) -> tuple[Victim, ...] | None:
    """The cheapest set whose amounts cover `deficit`, when nothing but amounts matters.

    Candidates are neither in gangs nor under budgets. Equal pods (same priority and amounts) are
    interchangeable but for their start, so the search counts how many of each kind leave, the
    youngest first.
    """
    ordered = sorted(candidates, key=importance)
    top = _lowest_top(ordered, deficit)
    if top is None:
        return None
    kinds: dict[tuple[int, tuple[int, ...]], list[Victim]] = {}
    for victim in reversed(ordered):
        if victim.priority <= top:
            kinds.setdefault((victim.priority, victim.amounts), []).append(victim)
    groups = list(kinds.values())
    # The big ones first: they cover the deficit with the fewest pods, which is a bound early on.
    groups.sort(key=lambda group: (-sum(map(min, group[0].amounts, deficit)), importance(group[0])))
    reprieved = _reprieve_by_amounts(ordered, deficit)
    best = _branch(groups, deficit, top, reprieved)
    return tuple(sorted(best, key=importance))


def _by_size(ordered: Sequence[Victim], suffices: Suffices, price: Price) -> Priced | None:
    """The cheapest set that breaks no budget, where fewer always cost less: no gang, priorities close."""
    for top in sorted({victim.priority for victim in ordered}):
        pool = [victim for victim in ordered if victim.priority <= top]
        if not suffices(pool):
            continue
        for size in range(1, len(pool) + 1):
            offers = [
                offer
                for chosen in combinations(pool, size)
                # Sets without any pod of this priority were looked at before. The first of a
                # combination is its most important.
                if chosen[0].priority == top and (offer := price(chosen)) is not None and not offer[0][0]
            ]
            offers.sort(key=lambda offer: _tie_broken(*offer))
            for offer in offers:
                if suffices(offer[1]):
                    return offer
    return None


def _reprieve(ordered: Sequence[Victim], suffices: Suffices, broken: Sequence[bool]) -> list[Victim]:
    """kube-scheduler's way: put back those that break a budget first, then the rest, most important first."""
    leaving = list(ordered)
    flags = dict(zip((id(victim) for victim in ordered), broken, strict=True))
    for victim in sorted(ordered, key=lambda victim: (not flags[id(victim)], importance(victim))):
        without = [other for other in leaving if other is not victim]
        if suffices(without):
            leaving = without
    return leaving


def _reprieve_by_amounts(ordered: Iterable[Victim], deficit: Sequence[int]) -> tuple[Victim, ...]:
    leaving = list(ordered)
    spare = [sum(one.amounts[column] for one in leaving) - lack for column, lack in enumerate(deficit)]
    kept: set[int] = set()
    for victim in leaving:
        if all(amount <= room for amount, room in zip(victim.amounts, spare, strict=True)):
            kept.add(id(victim))
            spare = [room - amount for room, amount in zip(spare, victim.amounts, strict=True)]
    return tuple(victim for victim in leaving if id(victim) not in kept)


def _lowest_top(ordered: Sequence[Victim], deficit: Sequence[int]) -> int | None:
    """The lowest priority such that it is enough if all pods up to it leave."""
    left = list(deficit)
    for victim in reversed(ordered):
        left = [lack - amount for lack, amount in zip(left, victim.amounts, strict=True)]
        if all(lack <= 0 for lack in left):
            return victim.priority
    return None if any(lack > 0 for lack in left) else -_SHIFT


def _branch(
    groups: Sequence[Sequence[Victim]], deficit: Sequence[int], top: int, start_from: tuple[Victim, ...]
) -> tuple[Victim, ...]:
    best = start_from
    best_cost = _tie_broken(cost_of(best, 0), best)
    width = range(len(deficit))
    # What all groups from here on could still give, and the lightest pod among them.
    rest: list[list[int]] = [[0] * len(deficit)]
    lightest = [2**62]
    for group in reversed(groups):
        given = [rest[-1][column] + len(group) * group[0].amounts[column] for column in width]
        rest.append(given)
        lightest.append(min(lightest[-1], group[0].priority + _SHIFT))
    rest.reverse()
    lightest.reverse()
    branches = 0
    stack: list[tuple[int, list[int], int, tuple[Victim, ...]]] = [(0, list(deficit), 0, ())]
    while stack and branches < _BRANCHES:
        branches += 1
        level, left, weight, chosen = stack.pop()
        if all(lack <= 0 for lack in left):
            cost = _tie_broken(cost_of(chosen, 0), chosen)
            if cost < best_cost:
                best, best_cost = chosen, cost
            continue
        if any(left[column] > rest[level][column] for column in width):
            continue  # at the last level too: none is left to give anything
        # Within the lowest top priority, the sum decides before anything else.
        if best_cost[0][1] <= top and weight + lightest[level] > best_cost[0][2]:
            continue
        group = groups[level]
        for taken in range(len(group) + 1):
            amounts = group[0].amounts
            more = [lack - taken * amount for lack, amount in zip(left, amounts, strict=True)]
            gone = weight + taken * (group[0].priority + _SHIFT)
            stack.append((level + 1, more, gone, chosen + tuple(group[:taken])))
            if all(lack <= 0 for lack in more):
                break
    return best


def _tie_broken(cost: Cost, victims: Sequence[Victim]) -> tuple[Cost, tuple[str, ...]]:
    # Equal cost: by name, so that the same state always gives the same victims.
    return cost, tuple(sorted(victim.pod.metadata.key for victim in victims))
