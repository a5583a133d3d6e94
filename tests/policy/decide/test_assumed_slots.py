"""Slots in memory against a plain model of the same, through random histories."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.policy.decide.filter.assumed_slots import ASSUMED_S, AssumedSlots
from fairlead.policy.rule.split import Tiers
from support.members import member
from support.policies import ON_DEMAND, SPOT, policy

TIERS = Tiers(policy("web", SPOT, ON_DEMAND).spec.tiers)
OTHER = Tiers(policy("web", SPOT, {**ON_DEMAND, "min": 2}).spec.tiers)
NAMES = ("spot", "on-demand")

_steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 12)),
        st.tuples(st.just("bind"), st.integers(0, 12)),
        st.tuples(st.just("stranger"), st.integers(20, 30)),
        st.tuples(st.just("gone"), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.sampled_from([1, 10, 31])),
        st.tuples(st.just("retier"), st.integers(0, 1)),
    ),
    max_size=60,
)


@given(_steps)
@settings(max_examples=200)
def test_every_slot_has_one_holder_and_the_lowest_free_one_is_given(steps: list[tuple[str, int]]) -> None:
    slots, now, tiers = AssumedSlots(), 0.0, TIERS
    model: dict[str, tuple[int, float | None]] = {}  # uid → slot and, if only assumed, since when
    for what, number in steps:
        name = f"p{number}"
        one = member(name)
        if what == "wait":
            now += number
        elif what == "retier":
            tiers = (TIERS, OTHER)[number]
        elif what == "gone":
            slots.gone(one.uid)
            model.pop(one.uid, None)
        elif what == "stranger":
            if one.uid not in model:
                slots.shown(member(name, tier=NAMES[number % 2]), "n")
                model[one.uid] = 0, None
                _settle(slots, tiers, model, coming=0)
        elif what == "bind":
            if model.get(one.uid, (0, None))[1] is not None:
                index = tiers.of_slot(model[one.uid][0])
                assert index is not None
                slots.shown(member(name, tier=NAMES[index]), "n")
                model[one.uid] = model[one.uid][0], None
        elif model.get(one.uid, (0, 0.0))[1] is not None:
            model = {
                uid: (slot, since)
                for uid, (slot, since) in model.items()
                if since is None or now - since < ASSUMED_S
            }
            model.pop(one.uid, None)
            slots.expire(now)
            _settle(slots, tiers, model, coming=one.uid not in slots.holders)
            slot = slots.next_slot(one.uid, None)
            taken = {slot for slot, _ in model.values()}
            assert slot == min(set(range(1, len(taken) + 2)) - taken)
            slots.assume(one, slot, NAMES[tiers.of_slot(slot) or 0], now)
            model[one.uid] = slot, now
    held = {uid: one.slot for uid, one in slots.holders.items()}
    assert held == {uid: slot for uid, (slot, _) in model.items()}
    assert len(set(held.values())) == len(held)
    assert slots.highest == max(held.values(), default=0)
    assert sum(slots.counts.values()) == len(held)
    assert sum(slots.on_node.values()) == sum(since is None for _, since in model.values())


def _settle(
    slots: AssumedSlots, tiers: Tiers, model: dict[str, tuple[int, float | None]], coming: int
) -> None:
    """Only pods without a slot and pods in another tier than their slot's may change theirs."""

    def fits(uid: str) -> bool:
        index = tiers.of_slot(slots.holders[uid].slot)
        return index is not None and NAMES[index] == slots.holders[uid].tier

    kept = {
        uid: slot
        for uid, (slot, since) in model.items()
        if slot and uid in slots.holders and (since is not None or fits(uid))
    }
    slots.settle(tiers, coming)
    assert all(slots.holders[uid].slot == slot for uid, slot in kept.items())
    for uid, (slot, since) in model.items():
        if uid in slots.holders and since is None:
            model[uid] = slots.holders[uid].slot, None
            assert model[uid][0] == slot or not slot or fits(uid)


def test_pods_found_running_get_slots_no_higher_than_their_number() -> None:
    slots = AssumedSlots()
    for number in range(50):
        slots.shown(member(f"p{number}", tier="spot" if number < 40 else "on-demand"), f"n{number % 7}")
    slots.settle(TIERS)

    assert sorted(held.slot for held in slots.holders.values()) == list(range(1, 51))
    on_demand = [held for held in slots.holders.values() if held.tier == "on-demand"]
    assert all(TIERS.of_slot(held.slot) == 1 for held in on_demand)


def test_the_highest_slot_is_known_though_a_pod_changed_to_it() -> None:
    slots = AssumedSlots()
    slots.shown(member("a", tier="spot", slot=1), "n")  # slot 1 is on demand, 2 and 3 are spot
    slots.shown(member("b", tier="spot", slot=2), "n")
    slots.settle(TIERS, coming=1)

    assert {held.name: held.slot for held in slots.holders.values()} == {"a": 3, "b": 2}
    assert slots.highest == 3
