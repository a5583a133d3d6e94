"""Burst: up to N pods on the cluster's own nodes, the rest on one node that never fills.

It is a policy like any other, for users who want just that and no object for it.
"""

from __future__ import annotations

import re

from fairlead.errors import BadInput
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.tolerations import Toleration
from fairlead.policy.rule.model import ByLabel, Match, PlacementPolicy, PolicySpec, Rebalance, Tier

# What virtual-kubelet taints its node with, whatever provider is behind it.
_PROVIDER = Toleration(key="virtual-kubelet.io/provider", operator="Exists")

_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PER_MINUTE = 60  # one return at a time is slower than this anyway


def burst_policy(
    node: str,
    value: int,
    *,
    name: str = "burst",
    namespace: str = "",
    group_label: str = "",
    return_after: str = "1m",
    return_jobs: bool = False,
) -> PlacementPolicy:
    """The policy: at most `value` pods of a group on other nodes than `node`; no `namespace` is all.

    Without `group_label` all pods of a namespace are one group. A pod returns at the earliest
    `return_after` after it was made, and after the wanted number last changed.

    >>> [tier.name for tier in burst_policy("virtual", 10).spec.tiers]
    ['base', 'burst']
    """
    if value < 1:
        raise BadInput(f"the burst value must be at least 1, not {value}: it is how many pods stay on base")
    if _NODE_NAME.fullmatch(node) is None:
        raise BadInput(f"the burst node: {node!r} is not the name of a node")
    return PlacementPolicy(
        ObjectMeta(name=name),
        PolicySpec(
            tiers=(Tier("base", max=value), Tier("burst", names=(node,), tolerations=(_PROVIDER,))),
            match=Match(namespaces=(namespace,) if namespace else ()),
            group_by=ByLabel(group_label) if group_label else "policy",
            rebalance=Rebalance(
                min_pod_age=return_after, per_minute=_PER_MINUTE, stabilize=return_after, jobs=return_jobs
            ),
        ),
    )
