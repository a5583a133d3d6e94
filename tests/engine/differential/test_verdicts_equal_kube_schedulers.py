"""Clusters and pods, judged by the real kube-scheduler and by us: same feasible nodes, same words."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from fairlead.engine import rules
from support.differential.compare import Difference, Tally, judge
from support.differential.each_reason import REASONS, each_reason
from support.differential.oracle import Oracle
from support.differential.states import THEMES, generate

PODS_PER_STATE = 40
ENOUGH_FOR_ALL = 3000

# With ``--log-cli-level=INFO`` a run says what it saw.
log = logging.getLogger(__name__)


def test_every_rule_has_a_reason_to_be_seen() -> None:
    # A pod that names its node is given to no scheduler, and kube-scheduler knows no exclusive nodes.
    assert {rule.name for rule in rules.ORDER} - {"NodeName", "Exclusive"} <= REASONS.keys()


@pytest.mark.real
@pytest.mark.slow
def test_every_reason_of_kube_scheduler_is_given_for_the_same_pod(oracle: Oracle) -> None:
    tally = Tally()
    assert not judge(oracle, each_reason(), tally)
    assert not tally.bound, "a pod that was to be refused was bound"
    assert not tally.missing(REASONS), f"seen were only {tally.reasons}"


@pytest.mark.real
@pytest.mark.slow
def test_every_feasible_node_and_every_word_equals_kube_schedulers(
    oracle: Oracle, count: Callable[[int, int], int], request: pytest.FixtureRequest
) -> None:
    usual = count(PODS_PER_STATE * len(THEMES), ENOUGH_FOR_ALL)
    cases = request.config.getoption("--cases", None) or usual
    tally = Tally()
    differences: list[tuple[int, Difference]] = []
    seed = request.config.getoption("--first-seed", None) or 0
    while tally.judged < cases:
        differences += ((seed, one) for one in judge(oracle, generate(seed, PODS_PER_STATE), tally))
        seed += 1
    table = "\n".join(f"{number:6} {reason}" for reason, number in tally.reasons.most_common())
    kinds = tally.bound, tally.refused, tally.divided
    log.info("%d pods were bound, %d held; %d fit on some nodes only\n%s", *kinds, table)
    assert not differences, "\n".join(
        f"seed {seed} {one.pod}\n  theirs: {one.theirs}\n  ours:   {one.ours}" for seed, one in differences
    )
    # A generator that makes only pods of one kind would prove nothing.
    assert min(kinds) > cases // 10, kinds
    if cases >= ENOUGH_FOR_ALL:
        assert not tally.missing(REASONS), table
