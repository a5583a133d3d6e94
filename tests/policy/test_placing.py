"""A pod takes its slot; slots whose pods never came hold no min."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.policy.groups.member import GroupKey
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Tiers
from fairlead.policy.slots.ledger import Entry, Ledger
from fairlead.policy.slots.placing import place
from support.members import a_deployment
from support.policies import ON_DEMAND, SPOT, policy

KEY = GroupKey("web", "default", "team=a")


def shared(*tiers: dict[str, object]) -> PlacementPolicy:
    return policy("web", *tiers, groupBy={"label": "team"})


def taken(used: PlacementPolicy, pods: int, *, refused: int = 0, doubted: bool = True) -> list[str]:
    """The tiers of so many pods, after others were given slots and refused."""
    tiers, ledger = Tiers(used.spec.tiers), Ledger(KEY)
    tokens = [f"refused-{number}" for number in range(refused)]
    for token in tokens:
        ledger, _ = place(ledger, used, a_deployment(pods), tiers, token=token, now=0.0)
    found = []
    for number in range(pods):
        ledger, placing = place(
            ledger,
            used,
            a_deployment(pods),
            tiers,
            token=f"token-{number}",
            now=0.0,
            doubted=tokens if doubted else (),
        )
        index = placing.choice.tier
        found.append(used.spec.tiers[index].name if index is not None else "")
    return found


def test_a_min_does_not_depend_on_pods_that_never_came() -> None:
    used = shared(SPOT, ON_DEMAND | {"min": 3})
    assert taken(used, 4, refused=3, doubted=False) == ["spot"] * 4
    assert taken(used, 4, refused=3) == ["on-demand"] * 3 + ["spot"]


def test_a_max_counts_them_for_they_may_yet_come() -> None:
    used = shared(SPOT, ON_DEMAND | {"min": 2, "max": 3})
    assert taken(used, 4, refused=2).count("on-demand") == 1


@pytest.mark.parametrize("least", [2, "40%"])
def test_without_doubt_nothing_is_different(least: int | str) -> None:
    used = shared(SPOT, ON_DEMAND | {"min": least})
    assert taken(used, 10) == taken(used, 10, doubted=False)


@given(st.integers(0, 6), st.integers(0, 12), st.one_of(st.integers(0, 6), st.just("30%"), st.just("pdb")))
def test_whatever_was_refused_those_who_came_keep_the_min(refused: int, pods: int, least: int | str) -> None:
    used = shared(SPOT, ON_DEMAND | {"min": least})
    wanted = Tiers(used.spec.tiers).split(pods)[1]
    assert taken(used, pods, refused=refused).count("on-demand") >= wanted


def ledger_of(held: dict[int, str]) -> Ledger:
    return Ledger(KEY, tuple(Entry(slot, held[slot], f"token-{slot}", 0.0) for slot in sorted(held)))


def landing(used: PlacementPolicy, held: dict[int, str], replicas: int) -> str:
    """Where the next pod goes."""
    tiers = Tiers(used.spec.tiers)
    _, placing = place(ledger_of(held), used, a_deployment(replicas), tiers, token="new", now=0.0)
    assert placing.choice.tier is not None
    return used.spec.tiers[placing.choice.tier].name


def test_where_the_highest_slots_are_left_the_last_pod_goes_where_one_is_missing() -> None:
    used = policy("web", SPOT, ON_DEMAND | {"min": "30%"})
    left = {11: "on-demand", 14: "on-demand", 12: "spot"}
    # The first slot is on-demand's, of which there are enough.
    assert landing(used, left, 4) == "spot"
    # More are to come, who have slots of their own.
    assert landing(used, left, 8) == "on-demand"


def test_a_number_of_a_stateful_set_has_its_tier_whatever_is_left() -> None:
    used = policy("db", SPOT, ON_DEMAND | {"min": "30%"})
    workload = replace(a_deployment(3), kind="StatefulSet", ordinal=0)
    left = ledger_of({2: "on-demand", 5: "on-demand"})
    _, placing = place(left, used, workload, Tiers(used.spec.tiers), token="new", now=0.0)
    assert used.spec.tiers[placing.choice.tier or 0].name == "on-demand"


def test_where_slots_are_within_the_number_the_slot_says_where_its_pod_goes() -> None:
    used = policy("web", SPOT, ON_DEMAND | {"min": "30%"})
    # The second was passed on, so there are enough on demand; but the first one is to be the last to stay.
    assert landing(used, {2: "on-demand", 3: "spot", 4: "on-demand"}, 4) == "on-demand"


@given(
    st.dictionaries(st.integers(1, 30), st.sampled_from(["spot", "on-demand"]), min_size=2, max_size=12),
    st.sampled_from(
        [
            policy("web", SPOT, ON_DEMAND | {"min": "30%"}),
            policy("web", SPOT | {"max": 3}, ON_DEMAND),
            policy("web", SPOT, ON_DEMAND | {"min": 2}, groupBy="policy"),
            policy("web", SPOT | {"min": "50%"}, ON_DEMAND | {"min": "50%"}),
        ]
    ),
)
def test_whatever_is_left_of_a_group_it_can_be_mended_by_moving_pods(
    held: dict[int, str], used: PlacementPolicy
) -> None:
    pods = len(held)
    names = [tier.name for tier in used.spec.tiers]
    target = dict(zip(names, Tiers(used.spec.tiers).split(pods), strict=True))
    for _ in range(pods):
        tiers = list(held.values())
        surplus = [slot for slot, tier in held.items() if tiers.count(tier) > target[tier]]
        if not surplus:
            return
        for slot in surplus:
            rest = {other: tier for other, tier in held.items() if other != slot}
            if (to := landing(used, rest, pods)) != held[slot]:
                held = rest | {ledger_of(rest).free_slot(): to}
                break
        else:
            raise AssertionError(f"nobody can be moved from {held}")
    assert all(list(held.values()).count(tier) == number for tier, number in target.items())
