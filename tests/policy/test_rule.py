"""The one rule, and the slots that make it exact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.policy.rule.model import PlacementPolicy, Tier
from fairlead.policy.rule.split import Demand, Tiers
from support.tiers import demands, policies

SPOT = Tier("spot", volatile=True)


@pytest.mark.parametrize(
    ("tiers", "pods", "split"),
    [
        ([SPOT, Tier("safe", min="30%")], 10, (7, 3)),
        ([SPOT, Tier("safe", min="30%")], 1, (0, 1)),
        ([SPOT, Tier("safe", min=2)], 1, (0, 1)),
        ([SPOT, Tier("safe", min=2)], 50, (48, 2)),
        ([Tier("base", max=10), Tier("burst")], 20, (10, 10)),
        ([Tier("base", max="50%"), Tier("burst")], 5, (2, 3)),
        ([Tier("a", min=3), Tier("b", min=3)], 4, (3, 1)),
        ([Tier("a", max=1), Tier("b", max=2)], 9, (1, 2)),
        ([SPOT], 0, (0,)),
    ],
)
def test_first_every_min_then_tiers_in_order_up_to_their_max(
    tiers: list[Tier], pods: int, split: tuple[int, ...]
) -> None:
    assert Tiers(tiers).split(pods) == split


@pytest.mark.parametrize(
    ("demand", "safe"),
    [
        (Demand(), [1, 1, 1, 3]),
        (Demand(min_available=2), [1, 2, 2, 2]),
        (Demand(min_percent=50), [1, 1, 2, 5]),
        (Demand(max_unavailable=1), [0, 1, 2, 9]),
        (Demand(max_unavailable_percent=40), [0, 1, 1, 6]),
    ],
)
def test_min_pdb_keeps_what_the_budget_demands_off_volatile_tiers(demand: Demand, safe: list[int]) -> None:
    tiers = Tiers([SPOT, Tier("safe", min="pdb")], demand)
    assert [tiers.split(pods)[1] for pods in (1, 2, 3, 10)] == safe


def nested_up_to(tiers: Tiers, most: int) -> int:
    """The largest number up to which each step adds at most one pod and takes none away."""
    for pods in range(1, most + 1):
        steps = [b - a for a, b in zip(tiers.split(pods - 1), tiers.split(pods), strict=True)]
        if min(steps) < 0 or sum(steps) > 1:
            return pods - 1
    return most


@given(policies())
def test_every_prefix_of_slots_is_the_exact_split_where_the_rule_is_nested(found: PlacementPolicy) -> None:
    tiers = Tiers(found.spec.tiers)
    counts = [0] * len(tiers.tiers)
    for slot in range(1, nested_up_to(tiers, 40) + 1):
        own = tiers.of_slot(slot)
        if own is not None:
            counts[own] += 1
            assert tiers.rank(slot) == counts[own]
        assert tuple(counts) == tiers.split(slot)


@given(
    st.one_of(st.integers(0, 20), st.integers(0, 100).map("{}%".format), st.just("pdb")),
    st.integers(0, 1),
    st.builds(
        Demand, max_unavailable=st.none() | st.integers(0, 5), min_percent=st.none() | st.integers(0, 100)
    ),
)
def test_one_min_is_always_nested_so_it_is_never_missing(least: int | str, at: int, demand: Demand) -> None:
    both = [SPOT, Tier("safe", min=least)]
    tiers = Tiers(both if at else both[::-1], demand)
    assert nested_up_to(tiers, 200) == 200


def test_a_slot_beyond_every_max_belongs_nowhere() -> None:
    tiers = Tiers([Tier("a", max=1)])
    assert (tiers.of_slot(1), tiers.of_slot(2), tiers.rank(2)) == (0, None, 0)


def test_where_the_rule_is_not_nested_what_is_missing_of_a_min_comes_first() -> None:
    tiers = Tiers([Tier("a", max="30%"), Tier("b", min=1, max=2), Tier("c", min="30%")])
    assert tiers.split(3) == (0, 2, 1)
    assert tiers.split(4) == (1, 1, 2)  # both a and c grow: of one slot, c's min has more need
    assert tiers.of_slot(4) == 2


@given(policies(), st.integers(1, 120), st.integers(0, 120))
def test_the_slots_of_a_tier_are_counted_without_walking_them(
    found: PlacementPolicy, first: int, more: int
) -> None:
    tiers = Tiers(found.spec.tiers)
    for index in range(len(tiers.tiers)):
        walked = [slot for slot in range(first + 1, first + more + 1) if tiers.of_slot(slot) == index]
        assert tiers.among(first, first + more, index) == len(walked)


def test_a_slot_beyond_all_reason_has_the_tier_that_the_rule_adds_last() -> None:
    tiers = Tiers([Tier("spot", volatile=True), Tier("safe", min="30%")])
    # 300,000,000 of 999,999,999 are safe as of the one before, and of the next too.
    assert (tiers.of_slot(999_999_999), tiers.rank(999_999_999)) == (0, 699_999_999)
    assert tiers.of_slot(1_000_000_001) == 1
    assert tiers.among(10, 2_000_000_000, 0) == 1_400_000_000 - 7


class TestDemandedPods:
    """``min: pdb``, with the number of pods that are desired."""

    @given(demands, st.integers(1, 40), st.integers(0, 10))
    def test_come_first_and_the_split_is_exact_from_the_desired_number_on(
        self, demand: Demand, desired: int, more: int
    ) -> None:
        tiers = Tiers([SPOT, Tier("safe", min="pdb")], demand, desired)
        own = [tiers.of_slot(slot) for slot in range(1, desired + more + 1)]
        first = demand.of(desired)
        assert own[:desired] == [1] * first + [0] * (desired - first)
        assert [tiers.rank(slot) for slot in range(1, first + 1)] == list(range(1, first + 1))
        assert (own[:desired].count(0), own[:desired].count(1)) == tiers.split(desired)
        assert own.count(1) >= demand.of(desired + more)

    @given(demands, st.integers(0, 40), st.integers(0, 60), st.integers(0, 60))
    def test_are_counted_without_walking_their_slots(
        self, demand: Demand, desired: int, first: int, more: int
    ) -> None:
        tiers = Tiers([SPOT, Tier("b", min=2), Tier("safe", min="pdb")], demand, desired)
        for index in range(3):
            walked = [slot for slot in range(first + 1, first + more + 1) if tiers.of_slot(slot) == index]
            assert tiers.among(first, first + more, index) == len(walked)

    def test_come_before_other_mins_and_those_before_the_tiers_in_order(self) -> None:
        kept = [Tier("spot", volatile=True, max=3), Tier("b", min=1), Tier("safe", min="pdb")]
        tiers = Tiers(kept, Demand(min_available=2), 8)
        assert [tiers.of_slot(slot) for slot in range(1, 9)] == [2, 2, 1, 0, 0, 0, 1, 1]

    @given(demands, st.integers(0, 40), st.integers(0, 40), st.integers(1, 50))
    def test_are_missed_before_anything_else(self, demand: Demand, spot: int, safe: int, more: int) -> None:
        tiers = Tiers([SPOT, Tier("safe", min="pdb")], demand)
        pods = spot + safe + more
        best, within = tiers.lacking((spot, safe), pods)
        assert best is not None
        assert within == (safe < demand.of(pods))
        assert (best == 1) == (within or spot >= tiers.split(pods)[0])
