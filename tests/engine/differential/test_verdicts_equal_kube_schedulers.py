"""Random clusters and pods, judged by the real kube-scheduler and by us: same verdicts, same words."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from fairlead.engine import rules
from support.differential.compare import Tally, judge
from support.differential.oracle import Oracle
from support.differential.states import generate

PODS_PER_STATE = 30

# With ``--log-cli-level=INFO`` a run says what it saw.
log = logging.getLogger(__name__)

# What kube-scheduler must have said at least once, by rule; names and counts are left out.
REASONS = {
    "NodeUnschedulable": ["node(s) were unschedulable"],
    "TaintToleration": ["node(s) had untolerated taint(s)"],
    "NodeAffinity": [
        "node(s) didn't match Pod's node affinity/selector",
        "node(s) didn't satisfy plugin(s) [NodeAffinity]",
        "pod affinity terms conflict",
    ],
    "NodePorts": ["node(s) didn't have free ports for the requested pod ports"],
    "NodeResourcesFit": [
        "Too many pods",
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient ephemeral-storage",
        "Insufficient example.com/gpu",
        "Insufficient hugepages-2Mi",
    ],
    "VolumeRestrictions": [
        "node(s) had no available disk",
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod",
        "persistentvolumeclaim … not found",
    ],
    "NodeVolumeLimits": ["node(s) exceed max volume count"],
    "VolumeBinding": [
        "node(s) didn't match PersistentVolume's node affinity",
        "node(s) didn't find available persistent volumes to bind",
        "node(s) did not have enough free storage",
        "pod has unbound immediate PersistentVolumeClaims",
        "persistentvolumeclaim … bound to non-existent persistentvolume …",
        "persistentvolumeclaim … is being deleted",
        "PVC … was not created for pod … (pod is not owner)",
        "waiting for ephemeral volume controller to create the persistentvolumeclaim …",
    ],
    "VolumeZone": ["node(s) had no available volume zone", "persistentvolume … not found"],
    "PodTopologySpread": [
        "node(s) didn't match pod topology spread constraints",
        "node(s) didn't match pod topology spread constraints (missing required label)",
    ],
    "InterPodAffinity": [
        "node(s) didn't match pod affinity rules",
        "node(s) didn't match pod anti-affinity rules",
        "node(s) didn't satisfy existing pods anti-affinity rules",
    ],
    "NodeDeclaredFeatures": ["node(s) didn't match Pod's required features"],
    "SchedulingGates": ["Scheduling is blocked due to non-empty scheduling gates"],
}


def test_every_rule_has_a_reason_to_be_seen() -> None:
    # A pod that names its node is given to no scheduler, and kube-scheduler knows no exclusive nodes.
    assert {rule.name for rule in rules.ORDER} - {"NodeName", "Exclusive"} <= REASONS.keys()


@pytest.mark.real
@pytest.mark.slow
def test_every_feasible_node_and_every_word_equals_kube_schedulers(
    oracle: Oracle, count: Callable[[int, int], int], request: pytest.FixtureRequest
) -> None:
    cases = request.config.getoption("--cases", None) or count(200, 3000)
    tally = Tally()
    differences = []
    seed = request.config.getoption("--first-seed", None) or 0
    while tally.judged < cases:
        for difference in judge(oracle, generate(seed, PODS_PER_STATE), tally):
            differences.append((seed, difference))
        seed += 1
    table = "\n".join(f"{number:6} {reason}" for reason, number in tally.reasons.most_common())
    log.info("%d pods bound, %d held, %d fit on some nodes only\n%s", *tally.kinds, table)
    assert not differences, "\n".join(
        f"seed {seed} {one.pod}\n  theirs: {one.theirs}\n  ours:   {one.ours}" for seed, one in differences
    )
    # A generator that makes only pods of one kind would prove nothing.
    assert tally.bound > cases // 10
    assert tally.refused > cases // 10
    assert tally.divided > cases // 10
    wanted = [reason for reasons in REASONS.values() for reason in reasons]
    missing = [reason for reason in wanted if not tally.reasons[reason]]
    assert not missing, f"never said: {missing}; {tally.reasons}"
