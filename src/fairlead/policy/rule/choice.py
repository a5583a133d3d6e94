"""Where a slot's pod is sent now: the rule's tier, unless its workload is single or the tier unavailable.

The rule says where a slot belongs; this says where its next pod goes. The two differ while a tier is
unavailable, and the rebalancer brings the pod back later. With ``min: pdb`` it is not the slot's number
that counts but what the group's tiers hold: a group that has grown lacks demanded pods at its end. What tiers
hold also decides for the pod that completes a group whose slots are scattered (some beyond the number of
pods). A min does not fall back unless its tier says so: what is missing of it must stay visible as a pending
pod, because only that brings nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Tiers
from fairlead.policy.rule.workloads import Workload

Why = Literal["rule", "single", "min", "fallback", "stuck", "full", "beyond"]
"""``rule``: the slot's own tier. ``single``: where single replicas go. ``min``: its own tier, although that
is unavailable, because a min does not fall back. ``fallback``: passed on. ``stuck``: its own tier is
unavailable and no other has room. ``full``: beyond every max, so nowhere.
``beyond``: the same, but the pod could not be moved later, so in spite of a max."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A tier and why."""

    tier: int | None
    """Index of the tier; None: the pod waits, every tier is at its max."""
    why: Why
    firm: bool = False
    """Whether the pod may go nowhere else: a min that does not fall back, or a hard ``singleReplica``."""
    own: int | None = field(default=None, compare=False)
    """Where it belongs, were every tier available: what a probe tries."""
    also: tuple[int, ...] = ()
    """Tiers that, though marked, take it if there is room now: the pod does not wait for that."""
    instead: tuple[int, ...] = field(default=(), compare=False)
    """Of a pod that is stuck: the other tiers that would take it, were they available, in order."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What a group's slots hold beside that of the pod to be placed; worked out only where it matters."""

    pods: int = 0
    highest: int = 0
    """The highest slot that is taken; 0: none is, or it does not matter to this pod."""
    counts: Callable[[], Mapping[str, int]] = dict
    """Slots by tier, for room under a max."""
    numbered: Callable[[], Iterable[tuple[int, str]]] = tuple
    """Slots that ordinals decide, and their tiers."""


def choose_for(
    workload: Workload,
    policy: PlacementPolicy,
    tiers: Tiers,
    slot: int,
    beside: Beside,
    *,
    unavailable: Collection[str] = (),
    told: int | None = None,
    crowded: Collection[str] = (),
) -> Choice:
    """Where a pod of `workload` goes that takes `slot`.

    In a group of one workload the number it wants is the group's; where several share one, it is unknown how
    many there will be, and a workload is single whatever slot its pod has.
    """
    by_workload = policy.spec.group_by == "workload"
    by_ordinal = by_workload and workload.ordinal is not None
    scattered = not by_ordinal and are_scattered(workload, policy, beside.highest, beside.pods)
    held: Mapping[str, int] | None = None
    if unavailable or tiers.counts_matter or scattered:
        if by_ordinal and tiers.safe is not None:
            held = held_by_number(tiers, beside.numbered(), slot, workload.replicas)
        else:
            held = beside.counts()
    return choose(
        policy,
        tiers,
        slot,
        desired=_desired(workload, policy, beside.pods),
        single=workload.is_single(slot if by_workload else None),
        unavailable=unavailable,
        held=held,
        scattered=scattered,
        told=told,
        crowded=crowded,
    )


def are_scattered(workload: Workload, policy: PlacementPolicy, highest: int, others: int) -> bool:
    """Whether slots of a group with this number of `others` are taken beyond its number of pods.

    So it is when not the pods of the highest slots went first, but those not Ready, or with no slot to go by.
    """
    return highest > max(others + 1, _desired(workload, policy, others) or 0)


def _desired(workload: Workload, policy: PlacementPolicy, others: int) -> int | None:
    return workload.replicas if policy.spec.group_by == "workload" else others + 1


def choose(
    policy: PlacementPolicy,
    tiers: Tiers,
    slot: int,
    *,
    desired: int | None = None,
    single: bool = False,
    unavailable: Collection[str] = (),
    held: Mapping[str, int] | None = None,
    scattered: bool = False,
    told: int | None = None,
    crowded: Collection[str] = (),
) -> Choice:
    """Where the pod of `slot` (from 1) goes.

    `tiers` are the policy's with the group's demand; `single` is `Workload.is_single`; `unavailable` are
    names of tiers to skip; `desired` is the group's number of pods if known; `held` is how many slots
    each tier holds now (`Ledger.counts`), for room under a max; `scattered` whether slots are taken beyond
    the group's number of pods. `told` is where admission, which knows every slot, has sent it: where they are
    scattered, a door that sees only some pods goes by that. `crowded` are those of the `unavailable` tiers
    that still take what fits there now.
    """
    spec = policy.spec
    index_of = {tier.name: index for index, tier in enumerate(spec.tiers)}
    if single and (wish := spec.single) is not None:
        first, second = index_of[wish.tier], wish.otherwise
        if wish.tier in unavailable and second:
            if second in unavailable:
                return _stuck(policy, first, [index_of[second]], crowded)
            return Choice(index_of[second], "fallback", own=first, also=_open(policy, [first], crowded))
        return Choice(first, "single", firm=not second, own=first)
    own, within, pods = _own(tiers, slot, desired or 0, held, scattered=scattered, told=told)
    if own is None:
        return Choice(None, "full")
    firm = not spec.tiers[own].fallback and within
    if spec.tiers[own].name not in unavailable:
        return Choice(own, "rule", firm=firm, own=own)
    if firm:
        return Choice(own, "min", firm=True, own=own)
    held = held or {}
    instead: list[int] = []
    # In order, those after it first: what comes before a tier was preferred to it and is full or gone.
    for index in (*range(own + 1, len(spec.tiers)), *range(own)):
        name = spec.tiers[index].name
        if not _room(tiers, index, slot, pods, held.get(name, 0)):
            continue
        if name not in unavailable:
            return Choice(index, "fallback", own=own, also=_open(policy, [own], crowded))
        instead.append(index)
    return _stuck(policy, own, instead, crowded)


def _stuck(policy: PlacementPolicy, own: int, instead: Iterable[int], crowded: Collection[str]) -> Choice:
    others = tuple(instead)
    return Choice(own, "stuck", own=own, also=_open(policy, others, crowded), instead=others)


def _open(policy: PlacementPolicy, tiers: Iterable[int], crowded: Collection[str]) -> tuple[int, ...]:
    return tuple(index for index in tiers if policy.spec.tiers[index].name in crowded)


def held_by_number(
    tiers: Tiers, taken: Iterable[tuple[int, str]], slot: int, pods: int | None
) -> dict[str, int]:
    """What tiers hold beside `slot` where numbers are fixed: `taken` are other slots and their tiers.

    A number that is not taken is another revision's, or about to be made: it counts for its own tier, or
    a rollout, which goes through the numbers from the last, would send the last ones where the first are.
    """
    last = max(slot, pods or 0)
    found = {tier.name: tiers.among(0, last, index) for index, tier in enumerate(tiers.tiers)}
    changes = [(number, tier) for number, tier in taken if number != slot and number <= last]
    for number, tier in (*changes, (slot, "")):
        own = tiers.of_slot(number)
        if own is not None:
            found[tiers.tiers[own].name] -= 1
        if tier in found:
            found[tier] += 1
    return found


def within_min(tiers: Tiers, slot: int, pods: int) -> bool:
    """Whether a slot is one of those that make up its tier's min, in a group of that many pods."""
    own = tiers.of_slot(slot)
    if own is None:
        return False
    return tiers.rank(slot) <= tiers.mins(pods)[own]


def _own(
    tiers: Tiers,
    slot: int,
    desired: int,
    held: Mapping[str, int] | None,
    *,
    scattered: bool,
    told: int | None,
) -> tuple[int | None, bool, int]:
    """The tier that a slot's pod belongs to, whether it is of the tier's min, and of how many pods."""
    own, pods = tiers.of_slot(slot), max(slot, desired)
    within = within_min(tiers, slot, pods)
    if held is None or not (tiers.counts_matter or scattered):
        return own, within, pods
    have = [held.get(tier.name, 0) for tier in tiers.tiers]
    others = sum(held.values())
    if tiers.safe is not None:
        pods = max(pods, others + 1)
        return *tiers.lacking(have, pods), pods
    # Where the rule is not nested, no fixed tier for a slot gives an exact split at every number; where slots
    # are scattered, the free ones do not tell what is missing. The pod that completes the group can give it:
    # it goes where one is missing. So the rebalancer has something to move a pod to, and one already right
    # stays.
    if own is None or have[own] < tiers.split(desired)[own]:
        return own, within, pods
    if told is not None and not tiers.counts_matter:
        return (told, False, pods) if have[told] < tiers.split(desired)[told] else (own, within, pods)
    if others + 1 != desired:
        return own, within, pods
    best, short = tiers.lacking(have, desired)
    return (own, within, pods) if best is None else (best, short, pods)


def _room(tiers: Tiers, index: int, slot: int, pods: int, held: int) -> bool:
    if tiers.tiers[index].max is None:
        return True
    # Later slots that belong to the tier keep their room, or they would go beyond the max in their turn.
    return held + tiers.among(slot, pods, index) < tiers.maxes(pods)[index]
