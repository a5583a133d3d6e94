"""Our verdicts beside the real scheduler's, pod by pod, in the order in which it took them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fairlead import Cluster
from fairlead.engine.objects import read_pod
from support.differential.oracle import Object, Oracle, key_of
from support.differential.states import State

# What comes after the filters' part is said by preemption and by dynamic resources: the latter's
# "not found" means that it was never asked, because the pod was refused before.
_AFTER_FILTERS = re.compile(r" (no new claims to deallocate, )?(preemption: .*|not found)$", re.DOTALL)


@dataclass(frozen=True)
class Difference:
    """A pod on which we disagree."""

    pod: str
    theirs: str
    ours: str


@dataclass
class Tally:
    """How many pods were judged, and how."""

    bound: int = 0
    refused: int = 0
    invalid: int = 0

    @property
    def judged(self) -> int:
        return self.bound + self.refused


def judge(oracle: Oracle, state: State, tally: Tally) -> list[Difference]:
    """Put a state onto the cluster, and nothing else, let the scheduler decide, and compare."""
    oracle.clear()
    for thing in (*state.objects, *state.placed):
        if oracle.create(thing) is None:
            tally.invalid += 1
    pending = _create_pending(oracle, state, tally)
    cluster = Cluster.from_objects(
        thing for thing in oracle.objects() if thing["kind"] != "Pod" or thing["spec"].get("nodeName")
    )
    outcomes = oracle.outcomes(pending)
    differences = []
    given = {key_of(pod): pod for pod in state.pending}
    for pod in pending:
        outcome = outcomes[key_of(pod)]
        found = cluster.explain(pod)
        if _says_it_all(given[key_of(pod)]):
            # A pod as its author wrote it, before the API server filled it in, is judged alike.
            written = cluster.explain(given[key_of(pod)])
            if (written.feasible, written.message) != (found.feasible, found.message):
                differences.append(
                    Difference(key_of(pod), "as written", f"{written.message} {found.message}")
                )
        if outcome.node:
            tally.bound += 1
            if outcome.node not in found.feasible:
                ours = f"feasible {found.feasible}; {outcome.node}: {found.reasons.get(outcome.node)}"
                differences.append(Difference(key_of(pod), f"bound to {outcome.node}", ours))
            # What comes after it has seen it there, whatever we think of that.
            slot = cluster.snapshot.nodes.slot(outcome.node)
            cluster.snapshot.assume(read_pod(pod), slot)
        else:
            tally.refused += 1
            theirs = _AFTER_FILTERS.sub("", outcome.message)
            if theirs != found.message:
                differences.append(Difference(key_of(pod), theirs, f"{found.message} {found.feasible}"))
    return differences


def _says_it_all(pod: Object) -> bool:
    """Whether nothing that matters is added on admission: an overhead, or the UID that claims name."""
    ephemeral = any("ephemeral" in volume for volume in pod["spec"].get("volumes", []))
    return not ephemeral and "runtimeClassName" not in pod["spec"]


def _create_pending(oracle: Oracle, state: State, tally: Tally) -> list[Object]:
    pending = []
    for index, pod in enumerate(state.pending):
        made = oracle.create(pod)
        if made is None:
            tally.invalid += 1
            continue
        pending.append(made)
        for owner, claim in state.claims_of:
            if owner == index:
                reference = {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": made["metadata"]["name"],
                    "uid": made["metadata"]["uid"],
                    "controller": True,
                }
                metadata = {**claim["metadata"], "ownerReferences": [reference]}
                if oracle.create({**claim, "metadata": metadata}) is None:
                    tally.invalid += 1
    return pending
