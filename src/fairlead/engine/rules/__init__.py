"""The rules that decide where a pod may go, one module each, in kube-scheduler's order.

A rule is three functions over the snapshot's columns: `concerns` (has it anything to say of this
class?), `find` (where does it refuse, and why?) and `fits` (does it let the class onto this one node?).
The latter two must agree; a test holds them to it. Some can also refuse a pod outright (`reject`).

To add one: its module with these functions (with `Finding.unresolvable` where no pod's leaving would help);
its line in `ORDER`, with `of_nodes` where it reads nothing but the node; its reasons in `reasons`. If other
pods matter to it, `planning.preemption` (`only_amounts`, `looks_beyond_node`), `core.hints` (`wants_company`)
and `ranking.runs` (`_rules_that_move`, `_takes_node`) must know. If it can reject, `_REJECTIONS` and
`snapshot.registry`, which says what is `deniable`. If it reads fields that no rule read before, the `kube`
struct, `feed.trimming` (a field that is trimmed there is never seen live), `snapshot.specs` or
`snapshot.classes.class_key`, `core.state._same_node`; with `of_nodes` also `shape` in `snapshot.registry`, by
which the ranking keeps suited nodes, and `planning.tier_fit` (`_shape`, `_trimmed`), where an empty node
decides it; the columns in `snapshot.nodes`. For what would help, `ask.counterfactuals`; for the doctor,
`cloud.doctor.pods`. The differential tests want a case for each reason
(`tests/support/differential/each_reason.py`).

Belongs here: the rules, what they find, and the reasons that they give, as values. Does not belong here: what
is only preferred (`ranking`), and pods that could leave (`planning`): a rule takes the snapshot as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fairlead.engine.rules import (
    affinity,
    exclusive,
    features,
    gates,
    loose_terms,
    node_affinity,
    node_name,
    ports,
    resources,
    spread,
    taints,
    unschedulable,
    volume_binding,
    volume_limits,
    volume_restrictions,
    volume_zone,
)
from fairlead.engine.rules.reasons import Reason, Rejection
from fairlead.engine.rules.verdicts import Finding, Verdicts
from fairlead.engine.snapshot.classes import PodClass
from fairlead.engine.snapshot.nodes import Bools
from fairlead.engine.snapshot.snapshot import Snapshot

__all__ = ["ORDER", "Rule", "crowded", "fits", "reasons", "rejection", "suited", "suits", "verdicts"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule under the name of kube-scheduler's plugin."""

    name: str
    concerns: Callable[[PodClass], bool]
    find: Callable[[Snapshot, PodClass], Iterator[Finding]]
    fits: Callable[[Snapshot, PodClass, int], bool]
    of_nodes: bool = False
    """Whether it reads what a node says of itself, whichever pods are there."""


ORDER = (
    Rule("NodeUnschedulable", unschedulable.concerns, unschedulable.find, unschedulable.fits, of_nodes=True),
    Rule("NodeName", node_name.concerns, node_name.find, node_name.fits, of_nodes=True),
    Rule("TaintToleration", taints.concerns, taints.find, taints.fits, of_nodes=True),
    Rule("NodeAffinity", node_affinity.concerns, node_affinity.find, node_affinity.fits, of_nodes=True),
    Rule("NodePorts", ports.concerns, ports.find, ports.fits),
    Rule("NodeResourcesFit", resources.concerns, resources.find, resources.fits),
    Rule(
        "VolumeRestrictions", volume_restrictions.concerns, volume_restrictions.find, volume_restrictions.fits
    ),
    Rule("NodeVolumeLimits", volume_limits.concerns, volume_limits.find, volume_limits.fits),
    Rule("VolumeBinding", volume_binding.concerns, volume_binding.find, volume_binding.fits),
    Rule("VolumeZone", volume_zone.concerns, volume_zone.find, volume_zone.fits),
    Rule("PodTopologySpread", spread.concerns, spread.find, spread.fits),
    Rule("InterPodAffinity", affinity.concerns, affinity.find, affinity.fits),
    Rule("NodeDeclaredFeatures", features.concerns, features.find, features.fits, of_nodes=True),
    Rule("Exclusive", exclusive.concerns, exclusive.find, exclusive.fits),
)

# What nodes say of themselves; resources; and what the pods that are there say.
_OF_NODES = tuple(rule for rule in ORDER if rule.of_nodes)
_OF_PODS = tuple(rule for rule in ORDER if not rule.of_nodes and rule.name != "NodeResourcesFit")

_REJECTIONS: tuple[Callable[[Snapshot, PodClass], Rejection | None], ...] = (
    gates.reject_gated,
    gates.reject_unsupported,
    loose_terms.reject,
    node_affinity.reject,
    volume_restrictions.reject,
    volume_binding.reject,
    volume_zone.reject,
)


def rejection(snapshot: Snapshot, cls: PodClass) -> Rejection | None:
    """Why the class is refused before any node is looked at, if it is."""
    if not cls.deniable and not snapshot.device_classes:
        return None
    for reject in _REJECTIONS:
        found = reject(snapshot, cls)
        if found is not None:
            return found
    return None


def verdicts(snapshot: Snapshot, cls: PodClass) -> Verdicts:
    """The verdict on every node."""
    names = tuple(rule.name for rule in ORDER)
    refused = rejection(snapshot, cls)
    if refused is not None:
        return Verdicts(snapshot.nodes, names, [], refused, None)
    findings = [
        (index, finding)
        for index, rule in enumerate(ORDER)
        if rule.concerns(cls)
        for finding in rule.find(snapshot, cls)
    ]
    return Verdicts(snapshot.nodes, names, findings, None, node_affinity.named_nodes(snapshot, cls))


def suited(snapshot: Snapshot, cls: PodClass) -> Bools:
    """Per slot: whether no rule refuses that reads nothing but the node; it stands until a node changes."""
    allowed = snapshot.nodes.alive.copy()
    named = node_affinity.named_nodes(snapshot, cls)
    if named is not None:
        allowed &= named
    for rule in _OF_NODES:
        if rule.concerns(cls):
            for finding in rule.find(snapshot, cls):
                allowed &= ~finding.slots
    return allowed


def crowded(snapshot: Snapshot, cls: PodClass, *, besides: Sequence[Rule] = ()) -> Bools | None:
    """Per slot: whether a rule refuses that reads what pods are there, `besides` not asked; None: nowhere."""
    refused: Bools | None = None
    for rule in _OF_PODS:
        if rule.concerns(cls) and rule not in besides:
            for finding in rule.find(snapshot, cls):
                refused = finding.slots if refused is None else refused | finding.slots
    return refused


def suits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether the class is not refused outright, nor by a rule that reads nothing but this node."""
    if rejection(snapshot, cls) is not None:
        return False
    named = node_affinity.named_nodes(snapshot, cls)
    if named is not None and not named[slot]:
        return False
    return all(rule.fits(snapshot, cls, slot) for rule in _OF_NODES if rule.concerns(cls))


def fits(snapshot: Snapshot, cls: PodClass, slot: int) -> bool:
    """Whether no rule refuses on one node; cheap rules are asked first, the answer is the same."""
    if not snapshot.nodes.alive[slot] or not resources.fits(snapshot, cls, slot):
        return False
    return suits(snapshot, cls, slot) and all(
        rule.fits(snapshot, cls, slot) for rule in _OF_PODS if rule.concerns(cls)
    )


def reasons(snapshot: Snapshot, cls: PodClass, slot: int) -> tuple[Reason, ...]:
    """Why the first rule that refuses one node does, empty when none does: ``verdicts(...).reasons(slot)``.

    For a node that affinity by name does not leave out and a class that is not refused outright.
    """
    for rule in ORDER:
        if rule.concerns(cls) and not rule.fits(snapshot, cls, slot):
            return tuple(found.reason for found in rule.find(snapshot, cls) if found.slots[slot])
    return ()
