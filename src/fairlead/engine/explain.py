"""Why a pod fits, or not, on each node, in kube-scheduler's words, and what would help.

Pods that were promised a node (``nominatedNodeName``) and are not less important count there as if they
had come already, and must not be needed there either: that is how kube-scheduler looks at nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fairlead.engine.budgets import Budgets
from fairlead.engine.counterfactuals import suggest
from fairlead.engine.reasons import available_message
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.kube.pod import Pod

__all__ = ["Explanation", "Nominated", "explain"]


@dataclass(frozen=True, slots=True)
class Nominated:
    """A pod that was promised a node."""

    pod: Pod
    node: str
    priority: int


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
    message: str | None
    rules: dict[str, str]
    suggestions: list[str]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "pod": self.pod,
            "feasible": list(self.feasible),
            "reasons": {node: list(texts) for node, texts in self.reasons.items()},
            "rules": dict(self.rules),
            "message": self.message,
            "suggestions": list(self.suggestions),
        }


def explain(
    snapshot: Snapshot,
    pod: Pod,
    *,
    priority: int,
    nominated: Iterable[Nominated] = (),
    budgets: Budgets | None = None,
    pinned: bool = False,
) -> Explanation:
    """Explain a pod that is not placed. `pinned`: its nodeName is a demand.

    `budgets` are those that preemption must respect.
    """
    nodes = snapshot.nodes
    cls = snapshot.class_of(pod, pinned=pinned)
    base = snapshot.verdicts(cls)
    texts: dict[int, list[str]] = {}
    rules: dict[int, str] = {}
    promised: dict[int, list[Nominated]] = {}
    if base.rejection is None:
        for each in nominated:
            slot = nodes.slot(each.node)
            if slot >= 0 and each.priority >= priority and each.pod.metadata.key != pod.metadata.key:
                promised.setdefault(slot, []).append(each)
    feasible = []
    for slot in nodes.slots():
        verdicts = base
        if slot in promised:
            with snapshot.trial():
                for each in promised[slot]:
                    if snapshot.placed(each.pod.metadata.key) is None:
                        snapshot.assume(each.pod, slot, priority=each.priority)
                with_them = snapshot.verdicts(cls)
            if not with_them.feasible[slot]:
                verdicts = with_them
        if verdicts.feasible[slot]:
            feasible.append(nodes.name(slot))
        else:
            texts[slot] = [str(reason) for reason in verdicts.reasons(slot)]
            rules[slot] = verdicts.rule(slot)
    message = base.message()
    if promised and not feasible:
        counts: dict[str, int] = {}
        for found in texts.values():
            for text in found:
                counts[text] = counts.get(text, 0) + 1
        message = available_message(nodes.count, counts)
    elif feasible:
        message = None
    may_preempt = pod.spec.preemption_policy != "Never"
    return Explanation(
        pod.metadata.key,
        feasible,
        {nodes.name(slot): found for slot, found in texts.items()},
        message,
        {nodes.name(slot): rule for slot, rule in rules.items()},
        [] if feasible else suggest(snapshot, cls, base, priority, budgets, may_preempt=may_preempt),
    )
