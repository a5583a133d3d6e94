"""The group index of a cluster as it stands: which policy governs which pods, and where those are."""

from __future__ import annotations

from fairlead.engine.ask.inventory import Inventory
from fairlead.kube.workloads import Job, PodDisruptionBudget, Workload
from fairlead.policy.groups.index import GroupIndex
from fairlead.policy.groups.member import facts_of
from fairlead.policy.names import EXEMPT
from fairlead.policy.report.status import GroupCount, count_group
from fairlead.policy.rule.matching import Policies
from fairlead.policy.rule.model import read_policies


def group_index(cluster: Inventory) -> GroupIndex:
    """The index, with all owners known even where there are no policies; pods are known by UID."""
    index = GroupIndex()
    for kind, thing in cluster.objects:
        match thing:
            case Workload() | Job():
                index.owner(kind, thing)
            case PodDisruptionBudget():
                index.budget(thing)
    for node in cluster.each_node():
        index.node(node.metadata.name, node.metadata.labels)
    policies = Policies(read_policies(cluster.policies), EXEMPT)
    if len(policies):
        index.use(policies, tuple)
        for pod in cluster.pods.values():
            index.pod(pod.metadata.uid, facts_of(pod))
    return index


def group_counts(index: GroupIndex) -> list[GroupCount]:
    """Every group that has pods, counted: what the rule wants and what is."""
    found = []
    for key in index.groups:
        some = index.some(key)
        if some is not None:
            tiers = index.tiers(some.place, some.facts.metadata.labels)
            count = count_group(some.policy, key, index.members(key), tiers, some.workload)
            if count.pods:
                found.append(count)
    return sorted(found, key=lambda one: one.key)
