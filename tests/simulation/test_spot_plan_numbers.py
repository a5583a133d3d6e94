"""How sure a plan is: limits from few outages, and pools that are drawn from rates."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.simulation.spot_plan.bounds import gamma_quantile, limits_of
from fairlead.simulation.spot_plan.common_shock import GAP_S, Rates, draw
from fairlead.simulation.spot_plan.joint_states import cut, joint_states
from fairlead.world.spot import Trace

DAY = 86400.0
YEARS = 4 * 364 * DAY
PAIR = (Rates("a", 2 * DAY, 7200.0, 4), Rates("b", 2 * DAY, 7200.0, 4))


def test_with_no_outage_seen_three_of_the_longest_could_have_been_missed() -> None:
    assert limits_of([], 600).most_s == pytest.approx(600 * -math.log(0.05))
    assert limits_of([], 600).least_s == 0.0


def test_a_workload_that_can_never_be_below_has_no_limit_but_zero() -> None:
    assert limits_of([], 0.0).most_s == 0.0


@given(st.lists(st.floats(1, 5000), min_size=1, max_size=20), st.floats(1, 5000))
def test_what_was_seen_lies_within_its_limits(days: list[float], longest: float) -> None:
    found = limits_of(days, longest)
    assert found.least_s < sum(days) < found.most_s
    assert 1 <= found.independent <= len(days) + 1e-9


def test_many_like_outages_leave_less_doubt_than_few() -> None:
    few, many = limits_of([60.0] * 3, 60), limits_of([60.0] * 30, 60)
    assert many.most_s / (60 * 30) < few.most_s / (60 * 3)


def test_one_long_outage_among_short_ones_counts_as_few() -> None:
    assert limits_of([10.0, 10.0, 10.0, 3600.0], 60).independent < 1.1


def test_the_upper_limit_is_kept_as_often_as_it_says() -> None:
    source = random.Random(4)
    kept = 0
    for _ in range(400):
        days = [source.expovariate(1 / 300) for _ in range(_poisson(source, 4.0))]
        kept += limits_of(days, 1500.0).most_s >= 4.0 * 300
    assert kept / 400 >= 0.95


def test_quantiles_of_the_gamma_distribution_are_the_known_ones() -> None:
    # Half of the quantiles of chi-squared with 2, 10 and 40 degrees of freedom.
    known = {1.0: 5.991, 5.0: 18.307, 20.0: 55.758}
    assert all(
        gamma_quantile(shape, 0.95) == pytest.approx(value / 2, abs=1e-3) for shape, value in known.items()
    )


def test_mean_times_are_kept_whatever_the_correlation() -> None:
    for region in (0.0, 0.5, 1.0):
        for trace in draw(PAIR, region, region, YEARS, "means"):
            down = 1 - sum(bool(nodes) for nodes in trace.nodes) / len(trace.nodes)
            assert down == pytest.approx(7200 / (2 * DAY + 7200), rel=0.15)


def test_the_more_outages_are_shared_the_longer_all_pools_are_down() -> None:
    both = [
        joint_states(draw(PAIR, region, region, YEARS, "both"), [1, 1], YEARS).share([0, 1])
        for region in (0.0, 0.43, 0.92)
    ]
    assert both[0] < both[1] < both[2]
    assert both[0] < 3 * 0.04**2


def test_pools_of_one_zone_share_more_than_pools_of_two() -> None:
    trio = [Rates("a", 2 * DAY, 7200.0, 1), Rates("a", 2 * DAY, 7200.0, 1), Rates("b", 2 * DAY, 7200.0, 1)]
    states = joint_states(draw(trio, 0.43, 0.92, YEARS, "zones"), [1, 1, 1], YEARS)
    assert states.share([0, 1]) > 1.5 * states.share([0, 2])


def test_the_same_seed_draws_the_same_pools() -> None:
    assert draw(PAIR, 0.4, 0.9, 30 * DAY, "x") == draw(PAIR, 0.4, 0.9, 30 * DAY, "x")
    assert draw(PAIR, 0.4, 0.9, 30 * DAY, "x") != draw(PAIR, 0.4, 0.9, 30 * DAY, "y")


def test_a_cut_trace_begins_with_the_probe_that_held_then() -> None:
    assert cut(Trace(60, (1, 0, 2, 3)), 90, 200) == Trace(60, (0, 2, 3))
    assert GAP_S == 60


def test_joint_states_change_when_any_pool_does() -> None:
    states = joint_states([Trace(60, (1, 1, 0)), Trace(60, (2, 0, 0))], [1, 1], 180)
    assert (states.at_s, states.nodes) == ((0.0, 60.0, 120.0), ((1, 2), (1, 0), (0, 0)))
    assert states.share([0, 1]) == pytest.approx(1 / 3)
    assert states.longest_s([1]) == 120


def _poisson(source: random.Random, mean: float) -> int:
    number, left = 0, math.exp(-mean)
    product = source.random()
    while product > left:
        number += 1
        product *= source.random()
    return number
