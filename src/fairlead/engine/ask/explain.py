"""Why a pod fits, or not, on each node, in kube-scheduler's words, and what would help.

Pods that were promised a node (``nominatedNodeName``) and are not less important count there as if they
had come already, and must not be needed there either: that is how kube-scheduler looks at nodes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.engine import rules
from fairlead.engine.ask import cluster_plan
from fairlead.engine.ask.changes import Change
from fairlead.engine.ask.counterfactuals import suggest
from fairlead.engine.ask.inventory import Inventory
from fairlead.engine.planning.budgets import Budgets
from fairlead.engine.rules import node_affinity
from fairlead.engine.rules.reasons import available_message
from fairlead.engine.rules.verdicts import Verdicts
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.snapshot import Snapshot
from fairlead.kube.pod import Pod


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdict on one pod.

    `feasible`: names of the nodes where it may go, sorted. `reasons`: for every other node, why not.
    `message`: kube-scheduler's sentence without what it says of preemption, None when some node is
    feasible. `rules`: for every other node, the rule that refuses. `suggestions`: what would help, each of
    which was tried; `changes` are the same, in the same order, as values. `nearest`: the rule that keeps it
    from fitting, see `nearest_rule`.
    """

    pod: str
    feasible: list[str]
    reasons: dict[str, list[str]]
    rules: dict[str, str]
    message: str | None
    suggestions: list[str]
    changes: list[Change] = field(default_factory=list)
    nearest: str = ""
    order: tuple[str, ...] = ()
    """The rules in the order in which nodes are put to them."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "pod": self.pod,
            "feasible": self.feasible,
            "reasons": self.reasons,
            "rules": self.rules,
            "ruleOrder": list(self.order),
            "message": self.message,
            "suggestions": self.suggestions,
            "changes": [change.to_dict() for change in self.changes],
        }


def explained(cluster: Inventory, asked: str | Mapping[str, Any]) -> Explanation:
    """See `Cluster.explain`."""
    pod, known = cluster.find(asked)
    pinned = not known and bool(pod.spec.node_name)
    if cluster.policies and not pinned:
        pod = cluster_plan.sent(cluster, pod)
    nominated = [
        (each, cluster.priority(each).value)
        for each in cluster.pods.values()
        if each.status.nominated_node_name and not each.spec.node_name and not each.terminal
    ]
    key, snapshot = pod.metadata.key, cluster.snapshot
    placed = snapshot.forget(key) if snapshot.placed(key) is not None else None
    try:
        return explain(
            snapshot,
            pod,
            priority=cluster.priority(pod).value,
            nominated=nominated,
            budgets=Budgets(cluster.budgets) if cluster.settings.pdb == "respect" else None,
            pinned=pinned,
        )
    finally:
        if placed is not None:
            snapshot.restore(placed)


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
    preemption must respect. No trial may be open: what would help is tried on the snapshot.
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
    helpful = [] if feasible else suggest(snapshot, pod, base, priority, budgets, pinned=pinned)
    return Explanation(
        pod.metadata.key,
        feasible,
        {nodes.name(slot): found for slot, found in texts.items()},
        {nodes.name(slot): rule for slot, rule in refusing.items()},
        message,
        [one.text for one in helpful],
        [one.change for one in helpful],
        "" if feasible else nearest_rule(snapshot, cls, base),
        base.rules,
    )


def nearest_rule(snapshot: Snapshot, cls: PodClass, verdicts: Verdicts) -> str:
    """The rule to blame where no node is feasible.

    Of the nodes that the pod selects, if there are any, it is the last rule that refuses one: that node
    passed all before it.
    """
    if verdicts.rejection is not None:
        return verdicts.rejection.rule
    selected = snapshot.nodes.alive.copy()
    named = node_affinity.named_nodes(snapshot, cls)
    if named is not None:
        selected &= named
    if node_affinity.concerns(cls):
        for finding in node_affinity.find(snapshot, cls):
            selected &= ~finding.slots
    refusing = verdicts.first[selected]
    if not len(refusing) or int(refusing.max()) < 0:
        return "NodeAffinity" if snapshot.nodes.count else ""
    return verdicts.rules[int(refusing.max())]
