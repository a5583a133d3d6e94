"""What would make a pod fit: the smallest change on the nodes that only one rule keeps it from.

Suggestions come from the cheapest for the cluster's owner to the dearest: change the pod, change a
node, evict a pod. Each is tried before it is given: what does not make the pod fit is not suggested.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from fairlead.engine import rules
from fairlead.engine.ask.changes import NODES_NAMED, Change, Suggestion, suffices
from fairlead.engine.planning.priority import may_be_victim
from fairlead.engine.rules import node_affinity, resources, spread
from fairlead.engine.snapshot.nodes import PODS_ROW, Bools
from fairlead.engine.snapshot.requests import AMOUNT_LIMIT, CPU, CPU_LIMIT_MILLI, EPHEMERAL, MEMORY, PODS
from fairlead.kube.quantity import format_bytes, format_milli
from fairlead.kube.tolerations import Taint

if TYPE_CHECKING:
    from fairlead.engine.planning.budgets import Budgets
    from fairlead.engine.rules.verdicts import Verdicts
    from fairlead.engine.snapshot.classes import PodClass
    from fairlead.engine.snapshot.placed import Placed
    from fairlead.engine.snapshot.snapshot import Snapshot
    from fairlead.kube.pod import Pod


# Looking at which pods could leave costs a trial per node; this many, the emptiest first by name, will do.
_EVICTION_NODES = 32
# What a node is labelled with where any value would do.
_SOME_DOMAIN = "new"
# No user adds more labels than this to have a pod fit.
_LABELS_SHOWN = 8


def suggest(
    snapshot: Snapshot,
    pod: Pod,
    verdicts: Verdicts,
    priority: int,
    budgets: Budgets | None = None,
    *,
    pinned: bool = False,
) -> list[Suggestion]:
    """What would make some node feasible for a pod that is not placed; empty when nothing is known to.

    `priority` is the one that counts; `budgets` are those that preemption must respect. No trial may be open.
    """
    cls = snapshot.class_of(pod, pinned=pinned)
    found: list[Suggestion] = []
    if verdicts.rejection is not None:
        found += _ungate(cls, verdicts)
    else:
        only = _only_obstacle(snapshot, cls)
        for rule, suggestion in (
            ("TaintToleration", _tolerate),
            ("NodeAffinity", _label),
            ("PodTopologySpread", _skew),
            ("NodeUnschedulable", _uncordon),
            ("NodeResourcesFit", _more_room),
        ):
            slots = only.get(rule, [])
            if slots:
                found += suggestion(snapshot, cls, slots)
        may_preempt = pod.spec.preemption_policy != "Never"
        found += _evict(snapshot, cls, verdicts, priority, budgets, may_preempt=may_preempt)
    return [one for one in found if suffices(snapshot, pod, one.change, pinned=pinned)]


def _only_obstacle(snapshot: Snapshot, cls: PodClass) -> dict[str, list[int]]:
    """By rule: the nodes, by name, that no other rule refuses."""
    nodes = snapshot.nodes
    obstacles = np.zeros(nodes.capacity, np.int64)
    masks: list[tuple[str, Bools]] = []
    named = node_affinity.named_nodes(snapshot, cls)
    for rule in rules.ORDER:
        if not rule.concerns(cls):
            continue
        mask = np.zeros(nodes.capacity, np.bool_)
        for finding in rule.find(snapshot, cls):
            mask |= finding.slots
        if rule.name == "NodeAffinity" and named is not None:
            mask |= ~named
        obstacles += mask
        masks.append((rule.name, mask))
    slots = nodes.slots()
    return {name: [slot for slot in slots if mask[slot] and obstacles[slot] == 1] for name, mask in masks}


def _ungate(cls: PodClass, verdicts: Verdicts) -> list[Suggestion]:
    assert verdicts.rejection is not None
    if verdicts.rejection.rule != "SchedulingGates":
        return []
    gates = cls.facts.gates
    named = f"gate {gates[0]}" if len(gates) == 1 else f"gates {', '.join(gates)}"
    return [Suggestion(f"remove the scheduling {named}", Change("ungate"))]


def _tolerate(snapshot: Snapshot, cls: PodClass, slots: list[int]) -> list[Suggestion]:
    by_taints: dict[tuple[Taint, ...], list[int]] = {}
    for slot in slots:
        taints = snapshot.nodes.node(slot).spec.taints
        out = tuple(taint for taint in taints if cls.tolerance.untolerated((taint,)) is not None)
        by_taints.setdefault(out, []).append(slot)
    return [
        Suggestion(
            f"tolerate {' and '.join(map(str, taints))} {_on(snapshot, held)}",
            Change("tolerate", _names(snapshot, held), taints=taints),
        )
        for taints, held in sorted(
            by_taints.items(), key=lambda item: (len(item[0]), -len(item[1]), [str(one) for one in item[0]])
        )
    ]


def _label(snapshot: Snapshot, cls: PodClass, slots: list[int]) -> list[Suggestion]:
    assert cls.node_mask is not None
    predicate = cls.node_mask.predicate
    by_labels: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for slot in slots:
        labels = snapshot.nodes.node(slot).metadata.labels
        lacking = ((key, value) for key, value in predicate.labels if labels.get(key) != value)
        missing = tuple(itertools.islice(lacking, _LABELS_SHOWN + 1))
        told = predicate.terms is None and len(missing) <= _LABELS_SHOWN
        by_labels.setdefault(missing if told else (), []).append(slot)
    found = []
    for missing, held in sorted(by_labels.items(), key=lambda item: (len(item[0]), -len(item[1]))):
        names, where = _names(snapshot, held), _on(snapshot, held)
        if missing:
            words = ", ".join(f"{key}={value}" for key, value in missing)
            found.append(Suggestion(f"the label {words} {where}", Change("label", names, labels=missing)))
        else:
            other = "another node selector" if predicate.terms is None else "another node affinity"
            found.append(Suggestion(f"{other} {where}", Change("unselect", names)))
    return found


def _uncordon(snapshot: Snapshot, cls: PodClass, slots: list[int]) -> list[Suggestion]:
    where = _on(snapshot, slots).removeprefix("on ")
    return [Suggestion(f"uncordon {where}", Change("uncordon", _names(snapshot, slots)))]


def _skew(snapshot: Snapshot, cls: PodClass, slots: list[int]) -> list[Suggestion]:
    """The smallest maxSkew that would let the pod onto one of the nodes, when there is one constraint."""
    if len(cls.own.spread) != 1:
        return []
    constraint = cls.own.spread[0]
    counts, present = spread.domain_counts(snapshot, cls, constraint)
    enough = np.count_nonzero(present) >= constraint.min_domains
    fewest = int(counts[present].min()) if enough else 0
    ids = snapshot.nodes.column(constraint.key).ids
    needed = {
        slot: int(counts[ids[slot]]) + constraint.matches_self - fewest for slot in slots if ids[slot] >= 0
    }
    if not needed:
        change = Change("label", _names(snapshot, slots), labels=((constraint.key, _SOME_DOMAIN),))
        return [Suggestion(f"a label {constraint.key} {_on(snapshot, slots)}", change)]
    least = min(needed.values())
    held = [slot for slot in slots if needed.get(slot) == least]
    text = f"maxSkew {least} over {constraint.key} {_on(snapshot, held)}"
    return [Suggestion(text, Change("skew", _names(snapshot, held), skew=least))]


def _more_room(snapshot: Snapshot, cls: PodClass, slots: list[int]) -> list[Suggestion]:
    by_amounts: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for slot in slots:
        by_amounts.setdefault(tuple(resources.short(snapshot, cls, slot).items()), []).append(slot)
    # Fewest resources short, then by how little: only the nearest is worth telling.
    amounts, held = min(by_amounts.items(), key=lambda item: (len(item[0]), [n for _, n in item[0]]))
    words = " and ".join(_amount(name, amount) for name, amount in amounts)
    return [
        Suggestion(f"{words} {_on(snapshot, held)}", Change("grow", _names(snapshot, held), amounts=amounts))
    ]


def _amount(resource: str, amount: int) -> str:
    # Beyond these amounts are not told apart any more: what is said must not look exact.
    if amount >= (CPU_LIMIT_MILLI if resource == CPU else AMOUNT_LIMIT) // 2:
        return f"a far smaller request for {resource}"
    if resource == CPU:
        cpus = format_milli(amount) if amount < 1000 else f"{amount / 1000:.3f}".rstrip("0").rstrip(".")
        return f"{cpus} more CPU" + ("s" if amount > 1000 else "")
    if resource in (MEMORY, EPHEMERAL):
        return f"{format_bytes(amount)} more {resource}"
    if resource == PODS:
        return "room for one more pod" if amount == 1 else f"room for {amount} more pods"
    return f"{amount} more {resource}"


def _evict(
    snapshot: Snapshot,
    cls: PodClass,
    verdicts: Verdicts,
    priority: int,
    budgets: Budgets | None,
    *,
    may_preempt: bool,
) -> list[Suggestion]:
    """The fewest pods of one node whose going would make it feasible; first those that may go."""
    best: tuple[tuple[int, int, int, str], list[Placed], list[bool]] | None = None
    worth_it = ~verdicts.unresolvable & (snapshot.nodes.used[PODS_ROW] > 0)
    candidates = [slot for slot in snapshot.nodes.slots() if worth_it[slot]]
    for slot in candidates[:_EVICTION_NODES]:
        leaving = _leaving(snapshot, cls, slot)
        if leaving is not None:
            kept = sum(not may_be_victim(placed.priority, priority) for placed in leaving)
            protected = budgets.broken(placed.pod for placed in leaving) if budgets else []
            order = (kept, sum(protected), len(leaving), snapshot.nodes.name(slot))
            if best is None or order < best[0]:
                best = (order, leaving, protected)
    if best is None:
        return []
    (_, _, _, node), leaving, protected = best
    keys = tuple(placed.key for placed in leaving)
    text = f"preempting {', '.join(keys)} on {node} would"
    if why_not := _why_not(leaving, protected, priority, may_preempt=may_preempt):
        text = f"{text}, but {why_not}"
    return [Suggestion(text, Change("evict", (node,), pods=keys))]


def _why_not(leaving: list[Placed], protected: list[bool], priority: int, *, may_preempt: bool) -> str:
    """Why no scheduler would evict these pods, "" where one would."""
    if not may_preempt:
        return "the pod may not preempt: its preemptionPolicy is Never"
    higher = [placed.key for placed in leaving if not may_be_victim(placed.priority, priority)]
    if higher:
        everyone = len(higher) == len(leaving) > 1
        whose = "their priority is" if everyone else f"the priority of {', '.join(higher)} is"
        return f"{whose} not lower"
    held = [placed.key for placed, holds in zip(leaving, protected, strict=False) if holds]
    if not held:
        return ""
    if len(leaving) == 1:
        return "its budget does not allow it"
    whose = "their budgets do" if len(held) == len(leaving) else f"the budget of {', '.join(held)} does"
    return f"{whose} not allow it"


def _leaving(snapshot: Snapshot, cls: PodClass, slot: int) -> list[Placed] | None:
    with snapshot.trial():
        everyone = [snapshot.forget(placed.key) for placed in snapshot.pods_on(slot)]
        if not rules.fits(snapshot, cls, slot):
            return None
        leaving = []
        for placed in everyone:
            snapshot.restore(placed)
            if not rules.fits(snapshot, cls, slot):
                snapshot.forget(placed.key)
                leaving.append(placed)
        return leaving


def _names(snapshot: Snapshot, slots: list[int]) -> tuple[str, ...]:
    return tuple(snapshot.nodes.name(slot) for slot in slots)


def _on(snapshot: Snapshot, slots: list[int]) -> str:
    names = [snapshot.nodes.name(slot) for slot in slots]
    if len(names) == 1:
        return f"on {names[0]}"
    shown = ", ".join(names[:NODES_NAMED]) + (", …" if len(names) > NODES_NAMED else "")
    return f"on any of {len(names)} nodes ({shown})"
