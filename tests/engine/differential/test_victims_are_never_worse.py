"""Preemption beside the real kube-scheduler's: a node whenever it finds one, and never worse victims."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairlead import Cluster
from support.differential.oracle import key_of, running_oracle
from support.differential.preemption import cost, decide, fits_without, generate
from support.rig import programs

CASES_AT_ONCE = 40


@pytest.mark.real
@pytest.mark.slow
def test_victims_are_never_worse_than_kube_schedulers(
    count: Callable[[int, int], int], request: pytest.FixtureRequest
) -> None:
    programs("etcd", "kube-apiserver", "kube-scheduler")
    wanted = request.config.getoption("--cases", None) or count(40, 500)
    seed = request.config.getoption("--first-seed", None) or 0
    judged = preempted = better = 0
    differences: list[str] = []
    with running_oracle() as oracle:
        # Cases in which it need not, or cannot, preempt prove little: they do not count.
        while preempted < wanted:
            cases = generate(seed, CASES_AT_ONCE)
            try:
                before, choices = decide(oracle, cases)
            finally:
                oracle.clear()
            cluster = Cluster.from_objects(before, pdb="best-effort")
            for case in cases:
                theirs = choices[case.namespace]
                ours = cluster.preempt(key_of(case.preemptor))
                judged += 1
                if not theirs.victims:
                    # Bound at once, or nothing helps: then nothing helps us either.
                    if ours.node is not None:
                        differences.append(f"{case.namespace}: theirs none, ours {ours}")
                    continue
                preempted += 1
                if ours.node is None:
                    differences.append(f"{case.namespace}: theirs {theirs}, ours {ours}")
                    continue
                if ours.node not in fits_without(before, case, tuple(ours.victims)):
                    differences.append(f"{case.namespace}: {ours} does not make room")
                if cost(case, tuple(ours.victims))[0] != ours.pdb_violations:
                    differences.append(f"{case.namespace}: {ours} miscounts broken budgets")
                if cost(case, tuple(ours.victims)) > cost(case, theirs.victims):
                    differences.append(f"{case.namespace}: theirs {theirs}, ours {ours}")
                better += cost(case, tuple(ours.victims)) < cost(case, theirs.victims)
            seed += 1
    assert not differences, "\n".join(differences)
    assert preempted >= judged // 5, "a generator whose pods mostly fit proves nothing"
