"""Preemption beside the real kube-scheduler's: a node whenever it finds one, and never worse victims."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairlead import Cluster
from support.differential.oracle import Oracle, key_of
from support.differential.preemption import cost, decide, felt_by, fits_without, generate, leavers

CASES_AT_ONCE = 40


@pytest.mark.real
@pytest.mark.slow
def test_victims_are_never_worse_than_kube_schedulers(
    oracle: Oracle, count: Callable[[int, int], int], request: pytest.FixtureRequest
) -> None:
    wanted = request.config.getoption("--cases", None) or count(20, 500)
    seed = request.config.getoption("--first-seed", None) or 0
    judged = preempted = 0
    # Preemptors with a nominated node that lower pods are leaving: those told to wait, those that went on.
    waited = undeterred = 0
    differences: list[str] = []
    # Cases in which it need not, or cannot, preempt prove little: they do not count.
    while preempted < wanted:
        cases = generate(seed, CASES_AT_ONCE)
        before, choices = decide(oracle, cases)
        for case in cases:
            theirs = choices[case.namespace]
            felt = felt_by(case, before)
            ours = Cluster.from_objects(felt, pdb="best-effort").preempt(key_of(case.preemptor))
            judged += 1
            if leavers(case):
                waited += "terminating pod on the nominated node" in theirs.message
                undeterred += bool(theirs.victims)
            if not theirs.victims:
                # Bound at once, or nothing helps: then nothing helps us either.
                if ours.node is not None:
                    differences.append(f"{case.namespace}: theirs none, ours {ours}")
                continue
            preempted += 1
            if ours.node is None:
                differences.append(f"{case.namespace}: theirs {theirs}, ours {ours}")
                continue
            if ours.node not in fits_without(felt, case, tuple(ours.victims)):
                differences.append(f"{case.namespace}: {ours} does not make room")
            if cost(case, tuple(ours.victims))[0] != ours.pdb_violations:
                differences.append(f"{case.namespace}: {ours} miscounts broken budgets")
            if cost(case, tuple(ours.victims)) > cost(case, theirs.victims):
                differences.append(f"{case.namespace}: theirs {theirs}, ours {ours}")
        seed += 1
    assert not differences, "\n".join(differences)
    assert preempted >= judged // 5, "a generator whose pods mostly fit proves nothing"
    assert waited, "no pod was told to wait for its victims"
    assert undeterred, "no pod preempted although others were leaving its nominated node"
