"""The slots of one group, from its pods alone: the same pods always give the same slots.

Who has a node keeps the slot it is marked with; who has one but no mark (it is older than the policy, or
was placed while we were away) is given a slot of its node's tier. Who waits keeps the mark of its
admission, else takes the lowest free slot, oldest first. Nothing is remembered from one time to the next,
so a pod that leaves moves those that wait up.

`assign` says so for all pods of a group at once; `Slots` keeps it up to date and answers for those who
wait. It is quick as long as every pod with a node has a slot of its own, and asks `assign` otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairlead.policy.rule import FARTHEST, Tiers

__all__ = ["Claim", "Slots", "assign"]


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

    @property
    def wanted(self) -> int | None:
        """The slot that it asks for; None: any."""
        slot = self.slot if self.ordinal is None else self.ordinal + 1
        return slot if slot is not None and slot <= FARTHEST else None


class Slots:
    """The slots of one group. Invariant: `_taken` has the slot of every claim that asks for one and is not
    `_odd`; all slots below `_low` are taken.
    """

    __slots__ = ("_claims", "_low", "_odd", "_taken", "_waiting", "placed")

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._waiting: dict[str, Claim] = {}
        self._taken: dict[int, str] = {}
        self._odd: dict[str, None] = {}  # who must have a slot, but has none of its own
        self._low = 1
        self.placed: dict[int, int] = {}  # pods with a node, by tier

    def __len__(self) -> int:
        return len(self._claims)

    def put(self, claim: Claim, *, waits: bool) -> None:
        """A pod that holds a slot or, with `waits`, is to be given one."""
        self.drop(claim.uid)
        self._claims[claim.uid] = claim
        if waits:
            self._waiting[claim.uid] = claim
        if claim.placed and claim.tier is not None:
            self.placed[claim.tier] = self.placed.get(claim.tier, 0) + 1
        wanted = claim.wanted
        if wanted is not None and self._taken.setdefault(wanted, claim.uid) == claim.uid:
            return
        if wanted is not None or claim.placed:
            self._odd[claim.uid] = None

    def drop(self, uid: str) -> None:
        """A pod holds no slot any more."""
        claim = self._claims.pop(uid, None)
        if claim is None:
            return
        self._waiting.pop(uid, None)
        self._odd.pop(uid, None)
        if claim.placed and claim.tier is not None:
            self.placed[claim.tier] -= 1
        wanted = claim.wanted
        if wanted is not None and self._taken.get(wanted) == uid:
            del self._taken[wanted]
            self._low = min(self._low, wanted)
            heir = next((one for one in self._odd if self._claims[one].wanted == wanted), None)
            if heir is not None:
                self._taken[wanted] = heir
                del self._odd[heir]

    def numbered(self) -> list[tuple[int, int]]:
        """The slots, and the tiers, of pods that have a node and whose ordinals decide their slots."""
        return [
            (claim.ordinal + 1, claim.tier)
            for claim in self._claims.values()
            if claim.ordinal is not None and claim.placed and claim.tier is not None
        ]

    def waiting(self, tiers: Tiers) -> list[tuple[Claim, int]]:
        """Those who wait and their slots, oldest first."""
        ordered = sorted(self._waiting.values(), key=_order)
        if self._odd:
            slots = assign(self._claims.values(), tiers)
            return [(claim, slots[claim.uid]) for claim in ordered]
        while self._low in self._taken:
            self._low += 1
        found, slot = [], self._low
        for claim in ordered:
            wanted = claim.wanted
            if wanted is None:
                while slot in self._taken:
                    slot += 1
                wanted, slot = slot, slot + 1
            found.append((claim, wanted))
        return found


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
        slot = claim.wanted
        if slot is None or slot in taken:
            rest.append(claim)
        else:
            slots[claim.uid] = slot
            taken.add(slot)
    free = _Free(tiers, taken, len(ordered))
    for claim in rest:
        slots[claim.uid] = free.take(claim.tier if claim.placed else None, like=claim.placed)
    return slots


def _order(claim: Claim) -> tuple[float, str, str]:
    return claim.order


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
