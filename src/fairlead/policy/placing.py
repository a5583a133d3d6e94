"""One step for every door: a pod takes its slot and is told its tier.

The doors keep the ledger (in the API, or in memory while an outcome is awaited) and carry the answer out;
what they share is here, so that they agree. Applied again to a newer ledger it finds what it took.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fairlead.policy.choice import Choice, choose, may_jump
from fairlead.policy.groups import ordinal_of
from fairlead.policy.ledger import Ledger
from fairlead.policy.model import PlacementPolicy
from fairlead.policy.rule import Tiers
from fairlead.policy.workloads import Workload

__all__ = ["Placing", "place", "place_alone"]


@dataclass(frozen=True, slots=True)
class Placing:
    """A pod's slot, and where its pod goes."""

    slot: int
    choice: Choice
    token: str = ""
    """Empty for a pod that is alone in its group: it needs no ledger."""


def place(
    ledger: Ledger,
    policy: PlacementPolicy,
    workload: Workload,
    tiers: Tiers,
    *,
    token: str,
    now: float,
    unavailable: Collection[str] = (),
) -> tuple[Ledger, Placing]:
    """Take a slot for a pod of `workload` under `token`, or find the one it took before.

    `tiers` are the policy's with the demand of the workload's budget; `unavailable` names tiers to skip.
    """
    chosen: dict[int, Choice] = {}
    one_workload = policy.spec.group_by == "workload"
    ledger = ledger.owned_by(workload)

    def tier(slot: int) -> str:
        chosen[slot] = choose(
            policy,
            tiers,
            slot,
            desired=workload.replicas if one_workload else len(ledger.entries) + 1,
            single=workload.is_single(slot if one_workload else None),
            unavailable=unavailable,
            held=ledger.counts(but=slot) if unavailable or may_jump(tiers) else None,
        )
        index = chosen[slot].tier
        return "" if index is None else policy.spec.tiers[index].name

    after, entry = ledger.take(token, now, tier, ordinal_of(policy, workload))
    choice = chosen.get(entry.slot)
    if choice is None:
        # Found again: it goes where it was sent, even if the marks have changed since.
        tier(entry.slot)
        names = [one.name for one in policy.spec.tiers]
        now_chosen = chosen[entry.slot]
        sent = names.index(entry.tier) if entry.tier in names else None
        choice = now_chosen if now_chosen.tier == sent else Choice(sent, "full" if sent is None else "rule")
    return after, Placing(entry.slot, choice, token)


def place_alone(
    policy: PlacementPolicy, workload: Workload, tiers: Tiers, *, unavailable: Collection[str] = ()
) -> Placing:
    """The place of a pod that is alone in its group (`GroupKey.alone`): slot 1, without a ledger."""
    choice = choose(policy, tiers, 1, desired=1, single=workload.is_single(), unavailable=unavailable)
    return Placing(1, choice)
