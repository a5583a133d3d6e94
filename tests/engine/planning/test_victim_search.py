"""The cheapest victims on one node, against trying every set."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.engine.planning.budgets import Budgets
from fairlead.engine.planning.victims import Victim, cheapest, cheapest_by_amounts, cost_of, importance
from fairlead.kube.decode import convert
from fairlead.kube.workloads import PodDisruptionBudget
from support.units import budget, pod, typed

AMOUNTS = st.tuples(st.integers(0, 4), st.integers(0, 4))
PODS = st.lists(
    st.tuples(
        st.sampled_from([-5, 0, 3, 1000, 2**31 - 10]), AMOUNTS, st.sampled_from([1.0, 2.0, float("inf")])
    ),
    min_size=1,
    max_size=7,
)


def victims(drawn) -> list[Victim]:
    return [
        Victim(typed(pod(f"v{index}", labels={"app": "ab"[index % 2]})), priority, start, 0, "", amounts)
        for index, (priority, amounts, start) in enumerate(drawn)
    ]


def covers(chosen, deficit) -> bool:
    return all(sum(v.amounts[i] for v in chosen) >= lack for i, lack in enumerate(deficit))


def brute_force(candidates, deficit, budgets=None, respect=True):
    best = None
    for size in range(1, len(candidates) + 1):
        for chosen in combinations(candidates, size):
            ordered = sorted(chosen, key=importance)
            broken = sum(budgets.broken(v.pod for v in ordered)) if budgets else 0
            if covers(chosen, deficit) and not (respect and broken):
                cost = cost_of(ordered, broken)
                best = cost if best is None or cost < best else best
    return best


def test_amounts_alone_are_searched_exactly(count):
    @settings(max_examples=count(150, 1500))
    @given(PODS, st.tuples(st.integers(1, 9), st.integers(0, 9)))
    def check(drawn, deficit):
        candidates = victims(drawn)
        found = cheapest_by_amounts(candidates, deficit)
        expected = brute_force(candidates, deficit)
        assert (found is None) == (expected is None)
        if found is not None:
            assert cost_of(found, 0) == expected

    check()


def test_budgets_are_searched_exactly(count):
    @settings(max_examples=count(150, 1500))
    @given(PODS, st.tuples(st.integers(1, 9), st.integers(0, 9)), st.integers(0, 3), st.booleans())
    def check(drawn, deficit, allowed, respect):
        candidates = victims(drawn)
        budgets = Budgets([convert(budget("b", {"app": "a"}, allowed), PodDisruptionBudget)])

        def price(chosen):
            ordered = sorted(chosen, key=importance)
            broken = sum(budgets.broken(v.pod for v in ordered))
            return None if respect and broken else (cost_of(ordered, broken), tuple(ordered))

        found = cheapest(
            candidates,
            lambda chosen: covers(chosen, deficit),
            price,
            lambda ordered: budgets.broken([v.pod for v in ordered]),
        )
        expected = brute_force(candidates, deficit, budgets, respect)
        assert (found[0] if found else None) == expected

    check()


def test_many_candidates_are_reprieved_no_worse_than_kube_scheduler_does():
    crowd = [
        Victim(typed(pod(f"v{index:02}")), index % 3, float(index), 0, "", (1 + index % 2,))
        for index in range(20)
    ]
    found = cheapest(
        crowd,
        lambda chosen: covers(chosen, (4,)),
        lambda chosen: (cost_of(chosen, 0), tuple(chosen)),
        lambda ordered: [False] * len(ordered),
    )
    cost, leaving = found
    assert covers(leaving, (4,))
    assert cost[1] == 0
    assert len(leaving) <= 4


def test_the_same_set_in_another_order_gives_the_same_victims():
    crowd = [Victim(typed(pod(f"v{index}")), 0, 1.0, 0, "", (1,)) for index in range(6)]
    assert cheapest_by_amounts(crowd, (2,)) == cheapest_by_amounts(crowd[::-1], (2,))


@pytest.mark.parametrize("by", ["priority", "start"])
def test_among_many_what_a_budget_allows_goes_to_the_least_important(by):
    crowd = [
        Victim(
            typed(pod(f"v{index:02}", labels={"app": "a"})),
            index if by == "priority" else 0,
            100.0 - index if by == "start" else 1.0,
            0,
            "",
            (1,),
        )
        for index in range(20)
    ]
    budgets = Budgets([convert(budget("b", {"app": "a"}, 3), PodDisruptionBudget)])

    def price(chosen):
        ordered = sorted(chosen, key=importance)
        broken = sum(budgets.broken(v.pod for v in ordered))
        return None if broken else (cost_of(ordered, broken), tuple(ordered))

    _, leaving = cheapest(
        crowd,
        lambda chosen: covers(chosen, (3,)),
        price,
        lambda ordered: budgets.broken([v.pod for v in ordered]),
    )
    assert sorted(victim.key for victim in leaving) == ["default/v00", "default/v01", "default/v02"]
