"""Random clusters and pods, judged by the real kube-scheduler and by us: same verdicts, same words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.differential.compare import Tally, judge
from support.differential.oracle import Oracle
from support.differential.states import generate

PODS_PER_STATE = 30


@pytest.mark.real
@pytest.mark.slow
def test_every_verdict_and_every_word_equals_kube_schedulers(
    oracle: Oracle, count: Callable[[int, int], int], request: pytest.FixtureRequest
) -> None:
    cases = request.config.getoption("--cases", None) or count(200, 3000)
    tally = Tally()
    differences = []
    seed = request.config.getoption("--first-seed", None) or 0
    while tally.judged < cases:
        for difference in judge(oracle, generate(seed, PODS_PER_STATE), tally):
            differences.append((seed, difference))
        seed += 1
    assert not differences, "\n".join(
        f"seed {seed} {one.pod}\n  theirs: {one.theirs}\n  ours:   {one.ours}" for seed, one in differences
    )
    # A generator that makes only pods of one kind would prove nothing.
    assert tally.bound > cases // 10
    assert tally.refused > cases // 10
