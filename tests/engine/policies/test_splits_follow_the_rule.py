"""At every quiet point the split is the rule's, whatever came and went; and planning again agrees."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.engine.core.actions import BindPod
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import Event, PoliciesAre, Seen
from fairlead.engine.planning.settings import Settings
from fairlead.engine.policies.waiting_line import WaitingLine
from fairlead.policy.rule.model import PlacementPolicy, Tier
from fairlead.policy.rule.split import Tiers
from fairlead.policy.slots.table import Claim, assign
from fairlead.policy.tiers.nodes import tier_of_node
from support.cluster_of import Running, seen
from support.policies import policy
from support.units import EPOCH, node, pod

POLICIES = [
    policy("web", groupBy="policy"),
    policy("web", {"name": "base", "max": 4}, {"name": "burst", "names": ["on-demand"]}, groupBy="policy"),
    policy(
        "web",
        {"name": "spot", "nodes": {"capacity": "spot"}, "max": "50%"},
        {"name": "on-demand", "nodes": {"capacity": "on-demand"}, "min": 2},
        groupBy="policy",
    ),
]
NODES = [
    node("spot", cpu=1000, pods=1000, labels={"capacity": "spot"}),
    node("on-demand", cpu=1000, pods=1000, labels={"capacity": "on-demand"}),
]

# How many pods there are to be from one quiet point to the next: who goes, goes by the highest deletion
# cost last, as a ReplicaSet does it.
SIZES = st.lists(st.integers(0, 30), min_size=1, max_size=6)


def scale(world: Running, wanted: int, number: int) -> int:
    """Have that many pods, made and removed as a ReplicaSet does; the number of pods made so far."""

    def cost(key: str) -> int:
        said = world.pods[key].metadata.annotations.get("controller.kubernetes.io/pod-deletion-cost", "0")
        return int(said)

    keys = sorted(world.pods, key=lambda key: (cost(key), key))
    world.remove(*(key.partition("/")[2] for key in keys[: max(0, len(keys) - wanted)]))
    new = range(number, number + max(0, wanted - len(keys)))
    world.add(*(pod(f"p{each:03}", created=each) for each in new))
    return number + len(new)


def counted(governing: PlacementPolicy, world: Running) -> tuple[int, ...]:
    """Pods per tier."""
    labels = {thing["metadata"]["name"]: thing["metadata"]["labels"] for thing in NODES}
    found = Counter(tier_of_node(governing, name, labels[name]) for name in world.bound.values())
    return tuple(found[index] for index in range(len(governing.spec.tiers)))


@pytest.mark.parametrize("governing", POLICIES, ids=["percent", "burst", "both"])
@given(sizes=SIZES)
@settings(max_examples=60, deadline=None)
def test_the_split_is_the_rules_after_every_scaling(governing: PlacementPolicy, sizes: list[int]):
    world = Running(Settings())
    world.tell(PoliciesAre((governing,)))
    world.add(*NODES)
    number = 0
    for size in sizes:
        number = scale(world, size, number)
        assert counted(governing, world) == Tiers(governing.spec.tiers).split(size)


@given(st.lists(st.sampled_from(["come", "finish", "leave", "go"]), max_size=40), st.randoms())
@settings(max_examples=100, deadline=None)
def test_no_more_than_the_max_are_ever_on_base(steps: list[str], random: Any):
    world = Running(Settings())
    world.tell(PoliciesAre((POLICIES[1],)))
    world.add(*NODES)
    for number, step in enumerate(steps):
        running = [
            key for key, each in sorted(world.pods.items()) if each.metadata.deletion_timestamp is None
        ]
        if step == "come" or not running:
            world.add(pod(f"p{number}", created=number))
            continue
        chosen = world.pods[random.choice(running)]
        if step == "finish":
            status = msgspec.structs.replace(chosen.status, phase="Succeeded")
            world.settle(world.tell(Seen("Pod", msgspec.structs.replace(chosen, status=status))))
        elif step == "leave":
            metadata = msgspec.structs.replace(chosen.metadata, deletion_timestamp=EPOCH)
            world.settle(world.tell(Seen("Pod", msgspec.structs.replace(chosen, metadata=metadata))))
        else:
            world.remove(chosen.metadata.name)
        there = Counter(
            each.spec.node_name
            for each in world.pods.values()
            if not each.terminal and each.metadata.deletion_timestamp is None
        )
        assert there[""] == 0
        assert there["spot"] <= 4


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30, unique=True), st.randoms())
@settings(max_examples=80, deadline=None)
def test_planning_all_at_once_in_any_order_gives_the_same_plan(numbers: list[int], random: Any):
    events: list[Event] = [PoliciesAre((POLICIES[0],)), *(seen(thing) for thing in NODES)]
    events += [seen(pod(f"p{number}", created=number % 3)) for number in numbers]
    now = EPOCH.timestamp() + 100
    plans = []
    for _ in range(3):
        random.shuffle(events)
        actions = Core(Settings()).handle(events, now)
        plans.append(sorted(msgspec.json.encode(one) for one in actions if isinstance(one, BindPod)))
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.parametrize("governing", POLICIES, ids=["percent", "burst", "both"])
@given(before=st.integers(1, 20), after=st.integers(1, 12), random=st.randoms())
@settings(max_examples=80, deadline=None)
def test_what_is_answered_bit_by_bit_is_what_is_answered_anew(
    governing: PlacementPolicy, before: int, after: int, random: Any
):
    """A core that saw everything happen sends its waiting pods where a new one does."""
    nobody_rests = Settings(backoff_s=0.0)
    world = Running(nobody_rests)
    world.tell(PoliciesAre((governing,)))
    full = [
        node(name, cpu=4, pods=pods, labels={"capacity": name})
        for name, pods in (("spot", 9), ("on-demand", 5))
    ]
    world.add(*full)
    number = scale(world, before, 0)
    for _ in range(2):
        for key in random.sample(sorted(world.pods), k=len(world.pods) // 2):
            world.remove(key.partition("/")[2])
        number = scale(world, after, number)
    replay = Running(nobody_rests)
    replay.tell(PoliciesAre((governing,)), *(seen(thing) for thing in full))
    replay.settle(replay.tell(*(Seen("Pod", each) for each in world.pods.values())))
    ours, theirs = world.core._state.book.sent, replay.core._state.book.sent
    assert {uid: (sent.slot, sent.choice) for uid, sent in ours.items()} == {
        uid: (sent.slot, sent.choice) for uid, sent in theirs.items()
    }


@st.composite
def _claims(draw: st.DrawFn) -> Claim:
    uid = str(draw(st.uuids()))
    return Claim(
        uid,
        (draw(st.floats(0, 9)), draw(st.text("ab", max_size=2)), uid),
        placed=draw(st.booleans()),
        tier=draw(st.sampled_from([None, 0, 1])),
        slot=draw(st.one_of(st.none(), st.integers(1, 12), st.just(10**8))),
        ordinal=draw(st.one_of(st.none(), st.none(), st.integers(0, 6))),
    )


CLAIMS = _claims()


@given(st.lists(CLAIMS, max_size=20, unique_by=lambda claim: claim.uid), st.randoms())
def test_everybody_has_a_slot_of_their_own_whatever_the_order(claims: list[Claim], random: Any):
    tiers = Tiers([Tier("base", max=3), Tier("burst")])
    slots = assign(claims, tiers)
    assert len(set(slots.values())) == len(claims)
    shuffled = list(claims)
    random.shuffle(shuffled)
    assert assign(shuffled, tiers) == slots


@given(
    st.lists(st.tuples(CLAIMS, st.booleans()), max_size=20, unique_by=lambda one: one[0].uid), st.randoms()
)
def test_slots_kept_up_to_date_are_those_found_anew(claims: list[tuple[Claim, bool]], random: Any):
    tiers = Tiers([Tier("base", max=3), Tier("burst")])
    slots, there, told = WaitingLine(), dict[str, Claim](), dict[str, int]()
    for claim, stays in claims:
        slots.put(claim, waits=not claim.placed)
        there[claim.uid] = claim
        if not stays:
            uid = random.choice(sorted(there))
            slots.drop(uid)
            del there[uid]
        replay = assign(there.values(), tiers)
        told |= dict(slots.changes(tiers))
        waiting = {uid: replay[uid] for uid, claim in there.items() if not claim.placed}
        assert {uid: told[uid] for uid in waiting} == waiting
        assert slots.changes(tiers) == []
        assert len(slots) == len(there)
        marked = [claim.wanted for claim in there.values() if claim.placed and claim.wanted is not None]
        assert slots.highest() == max(marked, default=0)
        if waiting and random.random() < 0.3:
            uid = random.choice(sorted(waiting))
            there[uid] = replace(there[uid], placed=True, tier=random.choice([0, 1]), slot=waiting[uid])
            slots.keep(there[uid], in_turn=False)


def test_who_comes_last_is_the_only_one_who_is_told_a_slot():
    tiers = Tiers([Tier("base", max=3), Tier("burst")])
    slots = WaitingLine()
    for number in range(100):
        slots.put(Claim(f"u{number}", (number, "", f"u{number}")), waits=True)
        assert slots.changes(tiers) == [(f"u{number}", number + 1)]
