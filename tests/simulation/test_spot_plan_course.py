"""The walk over a market against the cluster that plays it, and what follows from how pools fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fairlead.simulation.simulate.simulation import simulate
from fairlead.simulation.spot_plan.candidates import Candidate
from fairlead.simulation.spot_plan.check import Measured, material_of, measured
from fairlead.simulation.spot_plan.choice import judge, plan
from fairlead.simulation.spot_plan.course import Course, Terms, course
from fairlead.simulation.spot_plan.joint_states import joint_states
from fairlead.simulation.spot_plan.plan_file import Question
from support.spot_plans import GAP_S, question, traces_of, up_and_down

DAY = 86400 // GAP_S
TERMS = Terms(
    replicas=6,
    minimum=4,
    per_node=1,
    boot_s=120.0,
    ready_after_s=30.0,
    on_demand_price=1.0,
    prices=(0.3, 0.3),
)
# From the loss of nodes until pods on new nodes are ready.
_BACK_S = 210.0

_turns = st.lists(st.integers(4, 60), min_size=2, max_size=12)


def walked(candidate: Candidate, *probes: list[int], terms: Terms = TERMS) -> Course:
    """What a candidate comes to on these probes."""
    end_s = float(GAP_S * min(len(one) for one in probes))
    return course(joint_states(traces_of(*probes), [10] * len(probes), end_s), candidate, terms)


def played(asked: Question, candidate: Candidate, *probes: list[int]) -> Measured:
    """What the cluster comes to on them."""
    judged = judge(asked, candidate, "played")
    traces = traces_of(*probes)
    result = simulate(material_of(asked, judged.policy, traces, asked.choose.end_s))
    return measured(result, judged, asked, traces)


@pytest.mark.parametrize(
    "candidate",
    [
        Candidate(2, (0,), "ordered"),
        Candidate(2, (0, 1), "one", True),
        Candidate(2, (0, 1), "capped"),
        Candidate(2, (0, 1), "capped", True),
    ],
    ids=lambda one: f"{one.shape}-{one.base}-of-{len(one.pools)}{'-fallback' if one.fallback else ''}",
)
@settings(max_examples=2, derandomize=True, deadline=None, phases=[Phase.generate])
@given(first=_turns, second=_turns)
def test_the_walk_and_the_cluster_agree_on_any_market(
    tmp_path_factory: pytest.TempPathFactory, candidate: Candidate, first: list[int], second: list[int]
) -> None:
    # Both markets are up at first, for as long as it takes to begin.
    probes = [(up_and_down(*turns) + [1] * DAY)[: DAY // 2] for turns in (first, second)]
    asked = question(tmp_path_factory.mktemp("plan"), *probes)
    expected = judge(asked, candidate, "walked").course
    found = played(asked, candidate, *probes)
    assert found.cost_per_hour == pytest.approx(expected.cost_per_hour, rel=0.06)
    # A pod may be away to try a tier at the moment of an outage, and orders that an autoscaler gave up are
    # repeated only after its backoff: each outage may be longer by that, or one more.
    slack_s = (len(expected.outages) + 1) * (300 + _BACK_S)
    assert found.below_s == pytest.approx(expected.below_s, abs=slack_s)


def test_an_outage_with_fallback_lasts_until_new_nodes_are_ready(tmp_path: Path) -> None:
    probes = up_and_down(48, 12, 48)
    asked = question(tmp_path, probes)
    candidate = Candidate(2, (0,), "one", True)
    expected, found = judge(asked, candidate, "walked").course, played(asked, candidate, probes)
    assert len(expected.outages) == found.outages == 1
    assert expected.below_s == pytest.approx(found.below_s, abs=10)
    assert expected.below_s == pytest.approx(_BACK_S, abs=15)


def test_there_is_no_room_yet_on_nodes_that_other_pods_have_just_asked_for() -> None:
    # Two pods of each pool go together; three fit on a node, and the on-demand one has room for one more.
    lost = up_and_down(48, 12, 48)
    terms = replace(TERMS, per_node=3)
    (outage,) = walked(Candidate(2, (0, 1), "capped", True), lost, lost, terms=terms).outages
    assert outage[1] - outage[0] == pytest.approx(_BACK_S, abs=15)


@settings(max_examples=60, deadline=None)
@given(first=_turns, second=_turns, base=st.integers(0, 5), shape=st.sampled_from(["ordered", "capped"]))
def test_more_on_demand_is_never_less_available_where_pods_wait_for_spot(
    first: list[int], second: list[int], base: int, shape: str
) -> None:
    probes = [(up_and_down(*turns) + [1] * DAY)[:DAY] for turns in (first, second)]
    pools = (0, 1) if shape == "capped" else (0,)
    less = walked(Candidate(base, pools, shape), *probes)  # type: ignore[arg-type]
    more = walked(Candidate(base + 1, pools, shape), *probes)  # type: ignore[arg-type]
    assert more.availability >= less.availability - 1e-9


def test_pools_that_go_down_together_are_less_available_than_pools_that_go_down_apart() -> None:
    one, same, other = up_and_down(48, 12, 100), up_and_down(48, 12, 100), up_and_down(100, 12, 48)
    candidate = Candidate(2, (0, 1), "capped")
    apart, together = walked(candidate, one, other), walked(candidate, one, same)
    assert apart.availability == 1.0
    assert together.below_s > 12 * GAP_S


def test_as_many_on_demand_as_are_needed_are_never_below() -> None:
    found = walked(Candidate(4, (0,), "ordered"), up_and_down(3, 50, 3, 50))
    assert (found.availability, found.outages) == (1.0, ())


def test_pods_that_fell_back_return_only_as_far_as_one_node_has_room() -> None:
    away = walked(Candidate(2, (0,), "one", True), up_and_down(12, 12, 264))
    one_each = (2 + 3) * 1.0 + 0.3
    assert away.cost_per_hour == pytest.approx(one_each, rel=0.05)


def test_time_below_is_counted_by_day() -> None:
    found = Course(0.0, 3 * 86400.0, 3 * 86400.0, ((100.0, 200.0), (86000.0, 87000.0)), 0)
    assert found.days() == [500.0, 600.0]


def test_the_cheapest_policy_that_surely_meets_the_target_is_planned(tmp_path: Path) -> None:
    apart = [up_and_down(40, 6, 242), up_and_down(150, 6, 132)]
    found = plan(question(tmp_path, *apart, target="95%"))
    assert found.chosen is not None
    assert found.chosen.at_least >= 0.95
    assert found.chosen.course.cost_per_hour < found.full_price


def test_where_all_pods_are_needed_nothing_but_all_on_demand_will_do(tmp_path: Path) -> None:
    found = plan(question(tmp_path, up_and_down(40, 6, 242), minAvailable=6))
    assert found.chosen is not None
    assert found.chosen.candidate.pools == ()
    assert "nothing but all on-demand reaches the target" in found.said
