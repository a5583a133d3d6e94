"""Where a slot's pod is sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.policy.rule.choice import Choice, are_scattered, choose
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Tiers
from support.members import a_deployment
from support.policies import ON_DEMAND, SPOT, policy
from support.tiers import policies

WEB = policy("web", SPOT, ON_DEMAND, singleReplica="on-demand")
TIERS = Tiers(WEB.spec.tiers)
SPOT_IS, ON_DEMAND_IS = 0, 1


def test_a_slot_goes_where_the_rule_says() -> None:
    assert [choose(WEB, TIERS, slot).tier for slot in range(1, 11)].count(ON_DEMAND_IS) == 3
    assert choose(WEB, TIERS, 2) == Choice(SPOT_IS, "rule")
    assert choose(WEB, TIERS, 1) == Choice(ON_DEMAND_IS, "rule", firm=True)


def test_a_single_replica_goes_to_its_tier_and_nowhere_else() -> None:
    no_min = policy("p", SPOT, ON_DEMAND | {"min": 0}, singleReplica="on-demand")
    tiers = Tiers(no_min.spec.tiers)
    assert choose(no_min, tiers, 1) == Choice(SPOT_IS, "rule")
    assert choose(no_min, tiers, 1, single=True) == Choice(ON_DEMAND_IS, "single", firm=True)
    assert choose(no_min, tiers, 1, single=True, unavailable=["on-demand"]).tier == ON_DEMAND_IS


def test_a_single_replica_that_has_an_else_goes_there_while_its_tier_is_unavailable() -> None:
    soft = policy("p", SPOT, ON_DEMAND, singleReplica={"tier": "on-demand", "else": "spot"})
    tiers = Tiers(soft.spec.tiers)
    assert choose(soft, tiers, 1, single=True) == Choice(ON_DEMAND_IS, "single")
    assert choose(soft, tiers, 1, single=True, unavailable=["on-demand"]) == Choice(SPOT_IS, "fallback")
    both = ["on-demand", "spot"]
    assert choose(soft, tiers, 1, single=True, unavailable=both).tier == ON_DEMAND_IS


def test_an_unavailable_tier_passes_its_pods_to_the_next() -> None:
    assert choose(WEB, TIERS, 2, unavailable=["spot"]) == Choice(ON_DEMAND_IS, "fallback")


def test_a_min_does_not_fall_back() -> None:
    assert choose(WEB, TIERS, 1, unavailable=["on-demand"]) == Choice(ON_DEMAND_IS, "min", firm=True)


def test_a_min_falls_back_where_its_tier_says_so() -> None:
    soft = policy("p", SPOT, ON_DEMAND | {"fallback": True})
    tiers = Tiers(soft.spec.tiers)
    assert choose(soft, tiers, 1, unavailable=["on-demand"]) == Choice(SPOT_IS, "fallback")


def test_only_as_many_slots_as_the_min_are_firm() -> None:
    base = policy("p", {"name": "base", "min": 2, "max": 5}, {"name": "burst", "names": ["v"]})
    tiers = Tiers(base.spec.tiers)
    assert [choose(base, tiers, slot).firm for slot in (1, 2, 3, 6)] == [True, True, False, False]


def test_a_tier_at_its_max_takes_nobody_in() -> None:
    found = policy("p", SPOT, {"name": "on-demand", "max": 2}, {"name": "last", "names": ["v"]})
    tiers = Tiers(found.spec.tiers)
    took = [choose(found, tiers, 1, unavailable=["spot"], held={"on-demand": held}).tier for held in (1, 2)]
    assert took == [1, 2]


def test_room_that_later_slots_will_need_is_not_given_away() -> None:
    found = policy("p", SPOT, ON_DEMAND | {"max": 4})
    tiers = Tiers(found.spec.tiers)
    # Ten pods have three slots on demand by right, so only one more may fall back to it.
    held, sent = 0, []
    for slot in range(1, 11):
        choice = choose(found, tiers, slot, desired=10, unavailable=["spot"], held={"on-demand": held})
        held += choice.tier == ON_DEMAND_IS
        sent.append(choice.why)
    assert held == 4
    assert sent.count("fallback") == 1
    assert sent.count("stuck") == 6


def test_where_no_tier_has_room_a_pod_waits_for_its_own() -> None:
    found = policy("p", {"name": "base", "max": 2}, {"name": "burst", "names": ["v"]})
    tiers = Tiers(found.spec.tiers)
    assert choose(found, tiers, 3, unavailable=["burst"], held={"base": 2}) == Choice(1, "stuck")


def test_a_pod_beyond_every_max_goes_nowhere() -> None:
    found = policy("p", {"name": "base", "max": 2})
    assert choose(found, Tiers(found.spec.tiers), 3) == Choice(None, "full")


@given(policies(), st.integers(1, 30), st.integers(0, 30), st.sets(st.sampled_from(["t0", "t1", "t2", "t3"])))
def test_only_an_unavailable_tier_is_ever_left(
    found: PlacementPolicy, slot: int, desired: int, unavailable: set[str]
) -> None:
    tiers = Tiers(found.spec.tiers)
    own = tiers.of_slot(slot)
    choice = choose(found, tiers, slot, desired=desired, unavailable=unavailable)
    assert (choice.tier is None) is (own is None)
    if choice.tier is None or own is None:
        return
    names = [tier.name for tier in found.spec.tiers]
    if choice.tier != own:
        assert names[own] in unavailable
        assert names[choice.tier] not in unavailable
    elif names[own] in unavailable:
        assert choice.why in ("min", "stuck")


@pytest.mark.parametrize("slot", [1, 2, 7])
def test_a_label_that_says_single_holds_for_every_slot(slot: int) -> None:
    assert choose(WEB, TIERS, slot, single=True).tier == ON_DEMAND_IS


def test_room_is_counted_at_once_for_a_number_beyond_all_reason() -> None:
    found = policy("p", {"name": "a"}, {"name": "b", "names": ["n1"], "max": 3})
    tiers = Tiers(found.spec.tiers)
    desired = 2_000_000_000
    assert choose(found, tiers, 1, desired=desired, unavailable=["a"]) == Choice(1, "fallback")
    assert choose(found, tiers, 9, desired=desired, unavailable=["a"], held={"b": 3}) == Choice(0, "stuck")


@pytest.mark.parametrize(
    ("highest", "replicas", "scattered"),
    [(3, 3, False), (4, 3, True), (4, 4, False), (3, 1, False), (4, 1, True)],
)
def test_slots_are_scattered_when_one_is_beyond_the_number_of_pods_with_this_one(
    highest: int, replicas: int, scattered: bool
) -> None:
    """Two others are there: with this one they are three, whatever smaller number is wanted."""
    assert are_scattered(a_deployment(replicas), policy(), highest, 2) is scattered
