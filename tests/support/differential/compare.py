"""Our verdicts beside the real scheduler's, pod by pod, in the order in which it took them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fairlead import Cluster
from fairlead.engine.ask.objects import read_pod
from support.differential.oracle import Object, Oracle, key_of
from support.differential.states import State

# What comes after the filters' part is said by preemption and by dynamic resources: the latter's
# "not found" means that it was never asked, because the pod was refused before.
_AFTER_FILTERS = re.compile(r" (no new claims to deallocate, )?(preemption: .*|not found)$", re.DOTALL)
_SENTENCE = re.compile(r"0/\d+ nodes are available: (.*)\.$", re.DOTALL)
_NAMES = re.compile(r'"[^"]*"|(?<=PVC )[\w-]+/[\w.-]+|(?<=pod )[\w-]+/[\w.-]+')


@dataclass(frozen=True)
class Difference:
    """A pod on which we disagree."""

    pod: str
    theirs: str
    ours: str


@dataclass
class Tally:
    """How many pods were judged, and how: bound, or held, and for what reason in kube-scheduler's words."""

    bound: int = 0
    refused: int = 0
    # Pods for which some nodes are feasible and some are not: for them, being bound proves little.
    divided: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def judged(self) -> int:
        return self.bound + self.refused

    def missing(self, reasons: Mapping[str, Iterable[str]]) -> list[str]:
        """Those of the reasons, given by rule, that no pod was told."""
        return [one for ones in reasons.values() for one in ones if not self.reasons[one]]


def judge(oracle: Oracle, state: State, tally: Tally) -> list[Difference]:
    """Put a state onto the cluster, and nothing else, let the scheduler decide, and compare."""
    oracle.clear()
    oracle.create((*state.objects, *state.placed))
    pending = _create_pending(oracle, state)
    cluster = Cluster.from_objects(
        thing for thing in oracle.objects() if thing["kind"] != "Pod" or thing["spec"].get("nodeName")
    )
    outcomes = oracle.outcomes(pending)
    differences = []
    given = {key_of(pod): pod for pod in state.pending}
    for pod in pending:
        outcome = outcomes[key_of(pod)]
        found = cluster.explain(pod)
        if says_it_all(given[key_of(pod)]):
            # A pod as its author wrote it, before the API server filled it in, is judged alike.
            written = cluster.explain(given[key_of(pod)])
            if (written.feasible, written.message) != (found.feasible, found.message):
                differences.append(
                    Difference(key_of(pod), "as written", f"{written.message} {found.message}")
                )
        theirs = _AFTER_FILTERS.sub("", outcome.message)
        if (outcome.feasible, theirs) != (sorted(found.feasible), found.message or ""):
            mine, only = set(found.feasible), set(outcome.feasible)
            ours = f"{found.message or 'fits'}; too many {sorted(mine - only)}, missing "
            ours += str({node: found.reasons.get(node) for node in sorted(only - mine)})
            differences.append(Difference(key_of(pod), f"{theirs or 'fits'} {outcome.feasible}", ours))
        tally.divided += 0 < len(outcome.feasible) < cluster.snapshot.nodes.count
        if outcome.node:
            tally.bound += 1
            # What comes after it has seen it there, whatever we think of that.
            slot = cluster.snapshot.nodes.slot(outcome.node)
            cluster.snapshot.assume(read_pod(pod), slot)
        else:
            tally.refused += 1
            tally.reasons.update(reasons_in(theirs))
    return differences


def reasons_in(message: str) -> list[str]:
    """The reasons in kube-scheduler's sentence, without counts and names.

    >>> reasons_in("0/5 nodes are available: 2 Insufficient cpu, 3 Too many pods.")
    ['Insufficient cpu', 'Too many pods']
    >>> reasons_in('0/5 nodes are available: persistentvolumeclaim "data" not found.')
    ['persistentvolumeclaim … not found']
    """
    sentence = _SENTENCE.match(message)
    said = sentence[1] if sentence else message
    parts = re.split(r", (?=\d+ )", said) if re.match(r"\d+ ", said) else [said]
    return [re.sub(r"^\d+ ", "", _NAMES.sub("…", part)) for part in parts]


def says_it_all(pod: Object) -> bool:
    """Whether nothing that matters is added on admission: an overhead, or the UID that claims name."""
    ephemeral = any("ephemeral" in volume for volume in pod["spec"].get("volumes", []))
    return not ephemeral and "runtimeClassName" not in pod["spec"]


def _create_pending(oracle: Oracle, state: State) -> list[Object]:
    pending = oracle.create(state.pending)
    claims = []
    for index, claim in state.claims_of:
        owner = pending[index]["metadata"]
        reference = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": owner["name"],
            "uid": owner["uid"],
            "controller": True,
        }
        claims.append({**claim, "metadata": {**claim["metadata"], "ownerReferences": [reference]}})
    oracle.create(claims)
    return pending
