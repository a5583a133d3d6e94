"""What would help a pod is done, and the real kube-scheduler then finds that the pod fits."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

import pytest

from support.differential.helping import OF_PODS, Tried, try_changes
from support.differential.oracle import Oracle
from support.differential.states import generate

PODS_PER_STATE = 30
ENOUGH_FOR_ALL = 300

log = logging.getLogger(__name__)


@pytest.mark.real
@pytest.mark.slow
def test_each_change_that_would_help_makes_the_pod_fit(
    oracle: Oracle, count: Callable[[int, int], int]
) -> None:
    cases = count(20, ENOUGH_FOR_ALL)
    kinds: Counter[str] = Counter()
    failed: list[tuple[int, Tried]] = []
    seed = 0
    while kinds.total() < cases:
        for tried in try_changes(oracle, generate(seed, PODS_PER_STATE)):
            kinds[tried.what] += 1
            if not tried.helped:
                failed.append((seed, tried))
        seed += 1
    log.info("changes that were made: %s", dict(kinds))
    assert not failed, "\n".join(
        f"seed {seed} {one.pod}: {one.change} and then only {one.feasible}: {one.message}"
        for seed, one in failed
    )
    if cases >= ENOUGH_FOR_ALL:
        # A generator of which nothing of a kind follows proves nothing of it.
        assert set(kinds) >= {*OF_PODS, "label", "uncordon", "grow", "evict"}, kinds
