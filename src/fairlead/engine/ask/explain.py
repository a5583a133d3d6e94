"""Why a pod fits, or not, on each node, in kube-scheduler's words, and what would help.

Pods that were promised a node (``nominatedNodeName``) and are not less important count there as if they
had come already, and must not be needed there either: that is how kube-scheduler looks at nodes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from fairlead.engine import rules
from fairlead.engine.ask.counterfactuals import suggest
from fairlead.engine.planning.budgets import Budgets
from fairlead.engine.rules.reasons import available_message
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.kube.pod import Pod


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdict on one pod.

    `feasible`: names of the nodes where it may go, sorted. `reasons`: for every other node, why not.
    `message`: kube-scheduler's sentence without what it says of preemption, None when some node is
    feasible. `rules`: for every other node, the rule that refuses. `suggestions`: what would help.
    """

    pod: str
    feasible: list[str]
    reasons: dict[str, list[str]]
    rules: dict[str, str]
    message: str | None
    suggestions: list[str]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)


def explain(
    snapshot: Snapshot,
    pod: Pod,
    *,
    priority: int,
    nominated: Iterable[tuple[Pod, int]] = (),
    budgets: Budgets | None = None,
    pinned: bool = False,
) -> Explanation:
    """Explain a pod that is not placed. `pinned`: its nodeName is a demand.

    `nominated` are the pods that were promised a node, each with its priority; `budgets` those that
    preemption must respect.
    """
    nodes = snapshot.nodes
    cls = snapshot.class_of(pod, pinned=pinned)
    base = rules.verdicts(snapshot, cls)
    texts: dict[int, list[str]] = {}
    refusing: dict[int, str] = {}
    promised: dict[int, list[tuple[Pod, int]]] = {}
    if base.rejection is None:
        for other, counts_for in nominated:
            slot = nodes.slot(other.status.nominated_node_name)
            if slot >= 0 and counts_for >= priority and other.metadata.key != pod.metadata.key:
                promised.setdefault(slot, []).append((other, counts_for))
    feasible = []
    for slot in nodes.slots():
        verdicts = base
        if slot in promised:
            with snapshot.trial():
                for other, counts_for in promised[slot]:
                    if snapshot.placed(other.metadata.key) is None:
                        snapshot.assume(other, slot, priority=counts_for)
                with_them = rules.verdicts(snapshot, cls)
            if not with_them.feasible[slot]:
                verdicts = with_them
        if verdicts.feasible[slot]:
            feasible.append(nodes.name(slot))
        else:
            texts[slot] = [str(reason) for reason in verdicts.reasons(slot)]
            refusing[slot] = verdicts.rule(slot)
    message = base.message()
    if promised and not feasible:
        message = available_message(nodes.count, Counter(itertools.chain.from_iterable(texts.values())))
    elif feasible:
        message = None
    may_preempt = pod.spec.preemption_policy != "Never"
    return Explanation(
        pod.metadata.key,
        feasible,
        {nodes.name(slot): found for slot, found in texts.items()},
        {nodes.name(slot): rule for slot, rule in refusing.items()},
        message,
        [] if feasible else suggest(snapshot, cls, base, priority, budgets, may_preempt=may_preempt),
    )
