"""What a soak does follows from its seed, and is the same when it is read from its log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tools.soak.actions import FAULTS, FLEET, Action, Drawn, draw_cycle, fleet
from tools.soak.player import manifests
from tools.soak.run import read_actions
from tools.soak.shrink import shortest


def drawn_from(seed: int, cycles: int = 3) -> list[Action]:
    drawn = Drawn()
    list(fleet(drawn))
    return [action for cycle in range(cycles) for action in draw_cycle(seed, cycle, drawn)]


def test_the_same_seed_gives_the_same_actions():
    assert drawn_from(7) == drawn_from(7)
    assert drawn_from(7) != drawn_from(8)


def test_actions_come_in_the_order_of_their_times():
    for seed in range(20):
        actions = drawn_from(seed)
        assert actions == sorted(actions, key=lambda action: (action.cycle, action.at))


def test_every_fault_and_every_kind_of_load_is_drawn_sooner_or_later():
    done = {action.do for seed in range(60) for action in drawn_from(seed)}
    load = {"create", "scale", "delete", "rollout", "delete_pods", "policy"}
    nodes = {"cordon", "taint", "open", "add_node", "remove_node"}
    assert done >= {*FAULTS, *load, *nodes}


def test_before_a_quiet_point_every_pool_is_whole_and_open_and_what_is_too_much_is_gone():
    for seed in range(20):
        drawn = Drawn()
        list(fleet(drawn))
        for cycle in range(4):
            draw_cycle(seed, cycle, drawn)
            assert not drawn.closed
            assert not drawn.tainted
            assert all(len(drawn.nodes[pool]) >= number for pool, number in FLEET.items())
            kinds = {one["kind"] for one in drawn.workloads.values()}
            assert kinds.isdisjoint({"filler", "urgent", "urgentgang"})


def test_a_log_is_read_back_as_the_actions_that_were_done():
    actions = drawn_from(3)
    lines = [{"t": 0.0, "kind": "begin", "seed": 3}]
    lines += [{"t": action.at, "kind": "action", **action.data(), "fault": False} for action in actions]
    assert read_actions(lines) == actions


def test_every_workload_that_is_drawn_has_its_objects():
    for action in drawn_from(5, cycles=6):
        if action.do == "create":
            made = [manifest["kind"] for _, manifest in manifests(action.what)]
            kind = "Job" if action.what["kind"] in ("job", "gangjob") else "Deployment"
            assert made[-1] == kind
            assert ("PodDisruptionBudget" in made) == ("budget" in action.what)


def test_a_history_is_shortened_to_the_actions_that_matter():
    history = [Action(0, float(at), "nothing", {"number": at}) for at in range(16)]
    matter = (history[3], history[9])
    tried: list[int] = []

    async def fails(actions: Sequence[Action]) -> bool:
        tried.append(len(actions))
        return all(one in actions for one in matter)

    found = asyncio.run(shortest(history, fails, 100))
    # The last is what comes before the quiet point, and is never left out.
    assert found == [*matter, history[-1]]


def test_a_history_is_tried_no_more_often_than_asked():
    history = [Action(0, float(at), "nothing", {}) for at in range(16)]
    tried: list[int] = []

    async def fails(actions: Sequence[Action]) -> bool:
        tried.append(len(actions))
        return False

    assert asyncio.run(shortest(history, fails, 3)) == history
    assert len(tried) == 3
