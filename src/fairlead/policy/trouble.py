"""Why a tier takes nobody, as far as its nodes tell: one wording for every door."""

from __future__ import annotations

from fairlead.policy.model import Tier

__all__ = ["trouble"]


def trouble(tier: Tier, schedulable: int, everything: int) -> str:
    """The words for a tier with so many nodes, so many of them schedulable; "" when one takes pods.

    >>> trouble(Tier("burst", names=("virtual",)), 0, 0)
    'node virtual does not exist'
    """
    if schedulable:
        return ""
    node = f"node {tier.names[0]}" if len(tier.names) == 1 and not tier.nodes else ""
    if not everything:
        return f"{node} does not exist" if node else "it has no nodes"
    return f"{node} is cordoned, not ready or to be removed" if node else "none of its nodes takes pods"
