"""One table of slots: ledger, extender and scheduler give the same pods the same slots."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.policy.decide.filter.assumed_slots import AssumedSlots
from fairlead.policy.groups.member import Member
from fairlead.policy.rule.split import Tiers
from fairlead.policy.slots.ledger import Ledger
from fairlead.policy.slots.table import SlotTable, assign, claim_of
from support.members import KEY, member
from support.policies import ON_DEMAND, SPOT, policy

TIERS = Tiers(policy("web", SPOT, ON_DEMAND).spec.tiers)
TIER_NAMES = ("spot", "on-demand", "")


@st.composite
def running(draw: st.DrawFn) -> list[Member]:
    """Pods with nodes; some are marked with a slot, as the extender and the scheduler mark them."""
    found = []
    for number in range(draw(st.integers(0, 12))):
        slot = draw(st.one_of(st.none(), st.integers(1, 15)))
        created = draw(st.floats(0, 3))
        tier = draw(st.sampled_from(TIER_NAMES))
        found.append(member(f"p{number}", tier=tier, slot=slot, created=created))
    return found


@given(running())
def test_pods_found_running_get_the_same_slots_whoever_looks(pods: list[Member]) -> None:
    unmarked = [member(one.name, tier=one.tier, created=one.created) for one in pods]
    ledger = Ledger(KEY).observe(unmarked, TIERS, 0.0)
    memory = AssumedSlots()
    for one in unmarked:
        memory.shown(one, "node")
    memory.settle(TIERS)
    in_line = assign([claim_of(one, TIERS.tiers, placed=True) for one in unmarked], TIERS)
    assert {entry.token: entry.slot for entry in ledger.entries} == in_line
    assert {uid: held.slot for uid, held in memory.holders.items()} == in_line


@given(running())
def test_marks_say_the_same_to_the_scheduler_and_to_the_rebalancer(pods: list[Member]) -> None:
    ledger = Ledger.of_marks(KEY, pods, TIERS, 0.0)
    in_line = assign([claim_of(one, TIERS.tiers, placed=True) for one in pods], TIERS)
    assert {entry.token: entry.slot for entry in ledger.entries} == in_line


@given(
    st.lists(
        st.tuples(
            st.integers(0, 8), st.sampled_from(["put", "drop", "located", "settle"]), st.integers(1, 12)
        ),
        max_size=60,
    )
)
def test_every_slot_has_one_holder_and_no_pod_is_left_in_another_tiers_slot_beside_a_free_one(
    steps: list[tuple[int, str, int]],
) -> None:
    table, where = SlotTable(TIERS), dict[str, int | None]()
    for number, what, slot in steps:
        holder = f"h{number}"
        if what == "put":
            where.pop(holder, None)
            where.pop(table.put(holder, slot), None)
        elif what == "drop":
            where.pop(holder, None)
            table.drop(holder)
        elif what == "located" and holder in table.slot_of:
            where[holder] = slot % 2
            table.located(holder, where[holder])
        elif what == "settle" and holder not in table.slot_of:
            size = len(table.slot_of) + 1
            table.settle(size, [(holder, None)])
            free = [one for one in range(1, size + 1) if one not in table.holder_of]
            misfits = {tier for one, tier in where.items() if TIERS.of_slot(table.slot_of[one]) != tier}
            assert not misfits & {TIERS.of_slot(one) for one in free}
        assert {slot: one for one, slot in table.slot_of.items()} == table.holder_of
        assert table.highest == max(table.holder_of, default=0)
        assert table.lowest() == min(set(range(1, len(table.slot_of) + 2)) - set(table.holder_of))
