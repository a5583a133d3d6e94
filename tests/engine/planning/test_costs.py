"""What it costs to evict a set of pods: kube-scheduler's order, one step after the other."""

from __future__ import annotations

import math

from fairlead.engine.planning.victims import Victim, cost_of
from support.units import pod, typed

LOWEST, HIGHEST = -(2**31), 2**31 - 1


def victim(name: str, priority: int = 0, start: float = 1.0, gang: str = "") -> Victim:
    return Victim(typed(pod(name)), priority, start, 0, gang)


def cheaper(one: list[Victim], other: list[Victim], broken: int = 0, others_broken: int = 0) -> bool:
    return cost_of(one, broken) < cost_of(other, others_broken)


def test_evicting_nobody_costs_least_even_against_the_lowest_of_all_priorities():
    assert cheaper([], [victim("a", LOWEST, math.inf)])
    assert cheaper([], [victim("a", LOWEST)])


def test_budgets_come_before_priorities():
    assert cheaper([victim("a", 1000)], [victim("b", 0)], others_broken=1)


def test_the_top_priority_comes_before_the_number_of_pods():
    assert cheaper([victim(name, 1) for name in "abc"], [victim("d", 2)])


def test_at_one_top_priority_fewer_pods_are_cheaper_however_low_the_others_are():
    assert cheaper([victim("a", HIGHEST)], [victim("a", HIGHEST), victim("b", LOWEST + 1)])


def test_two_pods_of_low_priority_are_cheaper_than_one_more_pod_than_that_and_dearer_than_one():
    """The sum adds 2^31 to each priority: neither more, nor less."""
    one = [victim("a", 5), victim("b", 5)]
    other = [victim("a", 5), victim("c", LOWEST), victim("d", LOWEST + 6)]
    assert cheaper(other, one) is ((5 + 0 + 6 + 2**31) < (5 + 5 + 2**32))
    assert cost_of(one, 0)[2] == 10 + 2**32


def test_then_fewer_units_then_the_latest_start():
    gang = [victim("a", gang="g"), victim("b", gang="g")]
    assert cheaper(gang, [victim("c"), victim("d")])
    assert cheaper([victim("a", start=2.0)], [victim("b", start=1.0)])
    assert cheaper([victim("a", start=math.inf)], [victim("b", start=1.0)])
