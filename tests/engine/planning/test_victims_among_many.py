"""Where every set of candidates is tried, and what holds beyond that, where the search is greedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fairlead.engine.planning.budgets import Budgets
from fairlead.engine.planning.victims import (
    EXACT_LIMIT,
    Cost,
    Victim,
    cheapest,
    cheapest_by_amounts,
    cost_of,
    importance,
)
from fairlead.kube.decode import convert
from fairlead.kube.workloads import PodDisruptionBudget
from support.units import budget, pod, typed


def victim(name: str, *, amount: int = 1, priority: int = 0, start: float = 2.0) -> Victim:
    return Victim(typed(pod(name, labels={"app": "a"})), priority, start, 0, "", (amount,))


def leaving(
    candidates: Sequence[Victim], wanted: int, budgets: Budgets
) -> tuple[Cost, tuple[Victim, ...]] | None:
    """The cheapest whose amounts add up to what is wanted; budgets may be broken at a price."""

    def price(chosen: Sequence[Victim]) -> tuple[Cost, tuple[Victim, ...]]:
        ordered = sorted(chosen, key=importance)
        return cost_of(ordered, sum(budgets.broken(one.pod for one in ordered))), tuple(ordered)

    return cheapest(
        candidates,
        lambda chosen: sum(one.amounts[0] for one in chosen) >= wanted,
        price,
        lambda ordered: budgets.broken([one.pod for one in ordered]),
    )


def test_up_to_the_limit_one_big_pod_leaves_instead_of_many_small_ones():
    """Putting pods back one by one, the longest running first, would keep the big one."""
    small = [victim(f"small-{number}") for number in range(EXACT_LIMIT - 1)]
    big = victim("big", amount=len(small), start=1.0)
    found = leaving([*small, big], len(small), Budgets([]))
    assert found is not None
    assert found[1] == (big,)


def test_beyond_it_no_higher_priority_is_evicted_than_must_be_where_a_budget_is_broken_anyhow():
    low = [victim(f"low-{number:02}") for number in range(EXACT_LIMIT)]
    high = victim("high", priority=9)
    allows_one = Budgets([convert(budget("b", {"app": "a"}, 1), PodDisruptionBudget)])
    found = leaving([*low, high], 2, allows_one)
    assert found is not None
    assert [one.priority for one in found[1]] == [0, 0]


def test_a_pod_that_takes_its_whole_gang_along_is_dearer_than_two_that_leave_alone():
    elsewhere = tuple(replace(victim(f"member-{number}"), gang="g", slot=1) for number in range(2))
    member = replace(victim("member", amount=2), gang="g")
    singles = [victim("single-1"), victim("single-2")]

    def price(chosen: Sequence[Victim]) -> tuple[Cost, tuple[Victim, ...]]:
        gone = (*chosen, *elsewhere) if member in chosen else tuple(chosen)
        return cost_of(gone, 0), gone

    found = cheapest(
        [member, *singles],
        lambda chosen: sum(one.amounts[0] for one in chosen if not one.slot) >= 2,
        price,
        lambda ordered: [False] * len(ordered),
    )
    assert found is not None
    assert sorted(one.key for one in found[1]) == [one.key for one in singles]


def test_one_pod_that_gives_all_that_is_missing_leaves_instead_of_two_that_give_a_part_each():
    both, one, other = (
        replace(victim(name), amounts=amounts, start=start)
        for name, amounts, start in (("both", (1, 1), 1.0), ("one", (1, 0), 2.0), ("other", (0, 1), 1.0))
    )
    assert cheapest_by_amounts([both, one, other], (1, 1)) == (both,)
