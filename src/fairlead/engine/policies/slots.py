"""The slots of one group, from its pods alone: the same pods always give the same slots.

Who has a node keeps the slot it is marked with; who has one but no mark (it is older than the policy, or
was placed while we were away) is given a slot of its node's tier. Who waits keeps the mark of its
admission, else takes the lowest free slot, oldest first. Nothing is remembered from one time to the next,
so a pod that leaves moves those that wait up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairlead.policy.rule import Tiers

__all__ = ["FARTHEST", "Claim", "assign"]

FARTHEST = 100_000
"""A mark beyond this is nobody's slot: no group is that large, and the rule counts up to it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A pod that holds a slot of its group, or wants one."""

    uid: str
    order: tuple[float, str, str]
    """Creation time, name, UID: who comes first."""
    placed: bool = False
    tier: int | None = None
    """Of its node, if it is placed; None: of no tier."""
    slot: int | None = None
    """What it is marked with."""
    ordinal: int | None = None
    """A StatefulSet's number decides the slot."""


def assign(claims: Iterable[Claim], tiers: Tiers) -> dict[str, int]:
    """Slots by UID. Of several who claim a slot, one with a node has it before one without, then the oldest.

    >>> from fairlead.policy.model import Tier
    >>> tiers = Tiers([Tier("base", max=1), Tier("burst")])
    >>> assign([Claim("b", (2, "b", "b")), Claim("a", (1, "a", "a")),
    ...         Claim("c", (0, "c", "c"), placed=True, tier=1)], tiers)
    {'c': 2, 'a': 1, 'b': 3}
    """
    ordered = sorted(claims, key=_standing)
    slots: dict[str, int] = {}
    taken: set[int] = set()
    rest: list[Claim] = []
    for claim in ordered:
        slot = claim.slot if claim.ordinal is None else claim.ordinal + 1
        if slot is None or slot > FARTHEST or slot in taken:
            rest.append(claim)
        else:
            slots[claim.uid] = slot
            taken.add(slot)
    free = _Free(tiers, taken, len(ordered))
    for claim in rest:
        slots[claim.uid] = free.take(claim.tier if claim.placed else None, like=claim.placed)
    return slots


def _standing(claim: Claim) -> tuple[bool, bool, tuple[float, str, str]]:
    return claim.ordinal is None, not claim.placed, claim.order


class _Free:
    """Free slots, lowest first, of all tiers or of one. Slots are only ever taken, so each search goes on
    where the last one ended.
    """

    __slots__ = ("_from", "_pods", "_taken", "_tiers")

    def __init__(self, tiers: Tiers, taken: set[int], pods: int) -> None:
        self._tiers = tiers
        self._taken = taken
        self._pods = pods
        self._from: dict[int | None, int] = {}

    def take(self, tier: int | None, *, like: bool) -> int:
        """The lowest free slot; for who is `like` a tier, of that tier if the rule gives it one among as
        many slots as there are pods.
        """
        slot = self._lowest(tier, self._pods) if like and tier is not None else None
        if slot is None:
            slot = self._lowest(None, None)
        assert slot is not None
        self._taken.add(slot)
        return slot

    def _lowest(self, tier: int | None, last: int | None) -> int | None:
        slot = self._from.get(tier, 1)
        while last is None or slot <= last:
            if slot not in self._taken and (tier is None or self._tiers.of_slot(slot) == tier):
                self._from[tier] = slot
                return slot
            slot += 1
        self._from[tier] = slot
        return None
