"""One step for every door: a pod takes its slot and is given its tier.

The doors keep the ledger (in the API, or in memory while an outcome is awaited) and carry the answer out;
what they share is here, so that they agree. Applied again to a newer ledger it finds what it took.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from fairlead.policy.groups.member import ordinal_of
from fairlead.policy.rule.choice import Beside, Choice, choose_for
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Tiers
from fairlead.policy.rule.workloads import Workload
from fairlead.policy.slots.ledger import Ledger


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
    crowded: Collection[str] = (),
    doubted: Collection[str] = (),
) -> tuple[Ledger, Placing]:
    """Take a slot for a pod of `workload` under `token`, or find the one it took before.

    `tiers` are the policy's with the demand of the workload's budget; `unavailable` names tiers to skip,
    `crowded` those of them that still take what fits there now;
    `doubted` are tokens of pods that should have shown up by now: no min is to depend on them.
    """
    chosen: dict[int, Choice] = {}
    ledger = ledger.owned_by(workload)
    ordinal = ordinal_of(policy, workload)

    def tier(slot: int) -> str:
        choice = choose_for(
            workload,
            policy,
            tiers,
            slot,
            Beside(
                len(ledger.entries),
                ledger.highest,
                lambda: ledger.counts(but=slot),
                lambda: ((entry.slot, entry.tier) for entry in ledger.entries),
            ),
            unavailable=unavailable,
            crowded=crowded,
        )
        if doubted and ordinal is None and choice.why == "rule":
            choice = _for_certain(choice, tiers, ledger, slot, doubted=doubted, unavailable=unavailable)
        chosen[slot] = _somewhere(choice, policy, workload, unavailable)
        index = chosen[slot].tier
        return "" if index is None else policy.spec.tiers[index].name

    after, entry = ledger.take(token, now, tier, ordinal)
    choice = chosen.get(entry.slot)
    if choice is None:
        # Found again: it goes where it was sent, even if the marks have changed since.
        tier(entry.slot)
        names = [one.name for one in policy.spec.tiers]
        choice = chosen[entry.slot]
        sent = names.index(entry.tier) if entry.tier in names else None
        if choice.tier != sent:
            choice = replace(choice, tier=sent, why="full" if sent is None else "rule", firm=False)
    return after, Placing(entry.slot, choice, token)


def place_alone(
    policy: PlacementPolicy,
    workload: Workload,
    tiers: Tiers,
    *,
    unavailable: Collection[str] = (),
    crowded: Collection[str] = (),
) -> Placing:
    """The place of a pod that is alone in its group (`GroupKey.alone`): slot 1, without a ledger."""
    choice = choose_for(workload, policy, tiers, 1, Beside(), unavailable=unavailable, crowded=crowded)
    return Placing(1, _somewhere(choice, policy, workload, unavailable))


def in_words(slots: Mapping[str, Sequence[int]]) -> str:
    """Slots by tier ("" for those that are in none), as people read them.

    >>> in_words({"on-demand": [5, 1, 4], "spot": [2, 3], "": [6]})
    'on-demand 1,4-5; spot 2-3; nowhere 6'
    """
    said = []
    for tier, numbers in slots.items():
        parts: list[list[int]] = []
        for number in sorted(numbers):
            if parts and parts[-1][1] == number - 1:
                parts[-1][1] = number
            else:
                parts.append([number, number])
        shown = ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)
        said.append(f"{tier or 'nowhere'} {shown}")
    return "; ".join(said) or "-"


def _for_certain(
    choice: Choice,
    tiers: Tiers,
    ledger: Ledger,
    slot: int,
    *,
    doubted: Collection[str],
    unavailable: Collection[str],
) -> Choice:
    """The choice; or a tier whose min is not there without the pods that are doubted, if it has room.

    Should they come after all, there are more pods of a min than it takes, never fewer.
    """
    every = ledger.counts(but=slot)
    real = replace(ledger, entries=tuple(one for one in ledger.entries if one.token not in doubted))
    here, pods = real.counts(but=slot), len(real.entries) + 1
    least, most = tiers.mins(pods), tiers.maxes(len(ledger.entries) + 1)
    for index, tier in enumerate(tiers.tiers):
        short = here.get(tier.name, 0) < min(least[index], pods)
        if short and every.get(tier.name, 0) < most[index] and tier.name not in unavailable:
            return Choice(index, "rule", firm=not tier.fallback, own=index)
    return choice


def _somewhere(
    choice: Choice, policy: PlacementPolicy, workload: Workload, unavailable: Collection[str]
) -> Choice:
    """The choice; for a pod beyond every max that could not be moved later, the last available tier.

    What is decided at admission stands: such a pod would wait for ever, long after there is room again.
    """
    mended = workload.recreated and (not workload.job or policy.spec.rebalance.jobs)
    if choice.tier is not None or mended:
        return choice
    every = range(len(policy.spec.tiers))
    open_ = [index for index in every if policy.spec.tiers[index].name not in unavailable]
    return Choice((open_ or every)[-1], "beyond")
