"""What a held pod is told, beside the real kube-scheduler: why it does not fit, and why nobody leaves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairlead import Cluster
from fairlead.engine.ask.cluster_plan import planned
from fairlead.engine.core.actions import HoldPod
from support.differential.oracle import Object, Oracle, key_of
from support.differential.preemption import decide, generate_hopeless

CASES_AT_ONCE = 40


@pytest.mark.real
@pytest.mark.slow
def test_every_word_to_a_held_pod_equals_kube_schedulers(
    oracle: Oracle, count: Callable[[int, int], int], request: pytest.FixtureRequest
) -> None:
    wanted = request.config.getoption("--cases", None) or count(25, 400)
    seed = request.config.getoption("--first-seed", None) or 0
    held = 0
    kinds: dict[str, int] = {}
    differences: list[str] = []
    while held < wanted:
        cases = generate_hopeless(seed, CASES_AT_ONCE)
        before, choices = decide(oracle, cases)
        ours = held_texts(before)
        for case in cases:
            theirs = choices[case.namespace].message
            if not theirs:
                continue  # bound, or others leave for it
            held += 1
            kind = next((kind for kind in KINDS if kind in theirs), "")
            kinds[kind] = kinds.get(kind, 0) + 1
            said = ours.get(key_of(case.preemptor), "(not held)")
            if said != theirs:
                differences.append(f"seed {seed} {case.namespace}\n  theirs: {theirs}\n  ours:   {said}")
        seed += 1
    assert not differences, "\n".join(differences)
    missing = [kind for kind in KINDS if kind not in kinds]
    assert not missing, f"a generator that never has {missing} proves little: {kinds}"


# Looked for in this order: the rarer before the commoner.
KINDS = (
    "preemption: not eligible due to preemptionPolicy=Never.",
    "preemption: not eligible due to a terminating pod on the nominated node.",
    ". not found",
    "No preemption victims found for incoming pod",
    "Preemption is not helpful for scheduling",
)


def held_texts(objects: list[Object]) -> dict[str, str]:
    """What the core says to each pod that it holds, when all happens that it asks for."""
    cluster = Cluster.from_objects(objects, pdb="best-effort")
    _, done = planned(cluster, scheduler_names=("default-scheduler",), now=None)
    return {one.pod: one.message for one in done if isinstance(one, HoldPod)}
