"""What a rule says of all nodes at once is what it says of each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairlead import Cluster
from fairlead.engine import rules
from fairlead.engine.ask.objects import read_pod
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.ranking.runs import place_run
from support.differential.states import generate


def test_the_verdict_on_one_node_is_the_verdict_on_all(count: Callable[[int, int], int]) -> None:
    judged = 0
    for seed in range(count(60, 600)):
        state = generate(seed, 15)
        claims = [claim for _, claim in state.claims_of]
        snapshot = Cluster.from_objects([*state.objects, *state.placed, *claims]).snapshot
        ranking = Ranking(snapshot)
        for given in state.pending:
            cls = snapshot.class_of(read_pod(given))
            feasible = ranking.feasible(cls)
            verdicts = rules.verdicts(snapshot, cls)
            assert np.array_equal(feasible, verdicts.feasible)
            for slot in snapshot.nodes.slots():
                assert rules.fits(snapshot, cls, slot) == feasible[slot], (seed, given["metadata"], slot)
                assert bool(verdicts.reasons(slot)) != feasible[slot]
                judged += 1
            if rules.rejection(snapshot, cls) is None:
                for rule in rules.ORDER:
                    if not rule.concerns(cls):
                        continue
                    refused = np.zeros(snapshot.nodes.capacity, np.bool_)
                    for finding in rule.find(snapshot, cls):
                        refused |= finding.slots
                    for slot in snapshot.nodes.slots():
                        assert rule.fits(snapshot, cls, slot) != refused[slot], (seed, rule.name)
            place_run(ranking, cls, [read_pod(given)])
    assert judged > 1000
