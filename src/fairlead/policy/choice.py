"""Where a slot's pod is sent now: the rule's tier, unless its workload is single or the tier unavailable.

The rule says where a slot belongs; this says where its next pod goes. The two differ while a tier is
unavailable, and the rebalancer brings the pod back later. A min does not fall back unless its tier says
so: what is missing of it must stay visible as a pending pod, because only that brings nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from fairlead.policy.model import PlacementPolicy
from fairlead.policy.rule import Tiers

__all__ = ["Choice", "Why", "choose", "may_jump", "within_min"]

Why = Literal["rule", "single", "min", "fallback", "stuck", "full"]
"""``rule``: the slot's own tier. ``single``: where single replicas go. ``min``: its own tier, although that
is unavailable, because a min does not fall back. ``fallback``: passed on. ``stuck``: its own tier is
unavailable and no other has room. ``full``: beyond every max, so nowhere."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A tier and why."""

    tier: int | None
    """Index of the tier; None: the pod waits, every tier is at its max."""
    why: Why
    firm: bool = False
    """Whether the pod may go nowhere else: a min that does not fall back, or a hard ``singleReplica``."""


def choose(
    policy: PlacementPolicy,
    tiers: Tiers,
    slot: int,
    *,
    desired: int | None = None,
    single: bool = False,
    unavailable: Collection[str] = (),
    held: Mapping[str, int] | None = None,
) -> Choice:
    """Where the pod of `slot` (from 1) goes.

    `tiers` are the policy's with the group's demand; `single` is `Workload.is_single`; `unavailable` are
    names of tiers to skip; `desired` is the group's number of pods if known; `held` is how many slots
    each tier holds now (`Ledger.counts`), for room under a max.
    """
    spec = policy.spec
    index_of = {tier.name: index for index, tier in enumerate(spec.tiers)}
    if single and (wish := spec.single) is not None:
        first, second = wish.tier, wish.otherwise
        if first in unavailable and second and second not in unavailable:
            return Choice(index_of[second], "fallback")
        return Choice(index_of[first], "single", firm=not second)
    own = tiers.of_slot(slot)
    if own is None:
        return Choice(None, "full")
    pods = max(slot, desired or 0)
    within = within_min(tiers, slot, pods)
    if held is not None and sum(held.values()) + 1 == desired and may_jump(tiers):
        own, within = _mended(tiers, own, within, desired, held)
    firm = not spec.tiers[own].fallback and within
    if spec.tiers[own].name not in unavailable:
        return Choice(own, "rule", firm=firm)
    if firm:
        return Choice(own, "min", firm=True)
    held = held or {}
    # In order, those after it first: what comes before a tier was preferred to it and is full or gone.
    for index in (*range(own + 1, len(spec.tiers)), *range(own)):
        name = spec.tiers[index].name
        if name not in unavailable and _room(tiers, index, slot, pods, held.get(name, 0)):
            return Choice(index, "fallback")
    return Choice(own, "stuck")


def within_min(tiers: Tiers, slot: int, pods: int) -> bool:
    """Whether a slot is one of those that make up its tier's min, in a group of so many pods."""
    own = tiers.of_slot(slot)
    if own is None:
        return False
    return tiers.rank(slot) <= tiers.mins(pods)[own]


def may_jump(tiers: Tiers) -> bool:
    """Whether the rule may not be nested: it takes two percentages to round up at the same step."""
    amounts = [amount for tier in tiers.tiers for amount in (tier.min, tier.max)]
    return sum(isinstance(amount, str) for amount in amounts) > 1


def _mended(tiers: Tiers, own: int, within: bool, pods: int, held: Mapping[str, int]) -> tuple[int, bool]:
    """The tier of the last pod that a group lacks, and whether it is of the tier's min.

    Where the rule is not nested, no fixed tier for a slot gives an exact split at every number. The one
    that completes the group can: it goes where a pod is missing. So the rebalancer has something to move
    a pod to, and who is already right stays.
    """
    have = [held.get(tier.name, 0) for tier in tiers.tiers]
    want = tiers.split(pods)
    if have[own] < want[own]:
        return own, within
    missing = [index for index, number in enumerate(have) if number < want[index]]
    if not missing:
        return own, within
    mins = tiers.mins(pods)
    best = min(missing, key=lambda index: (have[index] >= mins[index], index))
    return best, have[best] < mins[best]


def _room(tiers: Tiers, index: int, slot: int, pods: int, held: int) -> bool:
    if tiers.tiers[index].max is None:
        return True
    # Later slots that belong to the tier keep their room, or they would go beyond the max in their turn.
    coming = sum(tiers.of_slot(one) == index for one in range(slot + 1, pods + 1))
    return held + coming < tiers.maxes(pods)[index]
