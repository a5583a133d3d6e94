"""The slots of one group, from its pods alone: the same pods always give the same slots.

Who has a node keeps the slot it is marked with; who has one but no mark (it is older than the policy, or
was placed while we were away) is given a slot of its node's tier. Who waits keeps the mark of its
admission, else takes the lowest free slot, oldest first. So a pod that leaves moves those that wait up.

`assign` says so for all pods of a group at once; `Slots` keeps it up to date and tells those who wait
from the first on for whom something may be another: who comes last costs nothing to those before it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from math import inf

from fairlead.policy.choice import highest_of
from fairlead.policy.rule import FARTHEST, Tiers

__all__ = ["Claim", "Slots", "assign"]

Order = tuple[float, str, str]


@dataclass(frozen=True, slots=True)
class Claim:
    """A pod that holds a slot of its group, or wants one."""

    uid: str
    order: Order
    """Creation time, name, UID: who comes first."""
    placed: bool = False
    tier: int | None = None
    """Of its node, if it is placed; None: of no tier."""
    slot: int | None = None
    """What it is marked with."""
    ordinal: int | None = None
    """A StatefulSet's number decides the slot."""
    told: int | None = None
    """The tier that its admission has said, if it waits."""

    @property
    def wanted(self) -> int | None:
        """The slot that it asks for; None: any."""
        slot = self.slot if self.ordinal is None else self.ordinal + 1
        return slot if slot is not None and slot <= FARTHEST else None


class Slots:
    """The slots of one group. Invariant: `_taken` has the slot of every claim that asks for one and is not
    `_odd`; all slots below `_low` are taken; whoever waits, is before `_touched` and has a slot below
    `_moved` still has the slot that was told last.
    """

    __slots__ = (
        "_adopted",
        "_claims",
        "_fixed",
        "_free",
        "_high",
        "_line",
        "_low",
        "_moved",
        "_odd",
        "_settled",
        "_slot_of",
        "_taken",
        "_touched",
        "astray",
        "ordinals",
        "placed",
        "recounted",
    )

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._line: list[Order] = []  # of who waits
        self._free: list[Order] = []  # of these, who take any slot
        self._fixed: dict[str, int] = {}  # what others who wait ask for
        self._slot_of: dict[str, int] = {}  # of who waits, as told last
        self._taken: dict[int, str] = {}
        self._odd: dict[str, None] = {}  # who must have a slot, but has none of its own
        self._adopted: _Adopted | None = None  # what becomes of these, once somebody asked
        self._low = 1
        self._settled: dict[int, int] = {}  # slots that pods with a node are marked with, and how many are
        self._high = 0  # none of these is beyond it
        self._touched: Order | None = None
        self._moved: float = inf
        self.placed: dict[int, int] = {}  # pods with a node, by tier
        self.astray = 0  # those whose node is of no tier
        self.ordinals = 0  # claims with a number
        self.recounted = False
        """Whether since the last changes were told `placed` is another for those who wait."""

    def __len__(self) -> int:
        return len(self._claims)

    def put(self, claim: Claim, *, waits: bool) -> None:
        """A pod that holds a slot or, with `waits`, is to be given one."""
        self.drop(claim.uid)
        self._claims[claim.uid] = claim
        self.ordinals += claim.ordinal is not None
        wanted = claim.wanted
        if waits:
            insort(self._line, claim.order)
            self._touch(claim.order)
            if wanted is None:
                insort(self._free, claim.order)
            else:
                self._fixed[claim.uid] = wanted
        self._count(claim, 1)
        if wanted is not None and self._taken.setdefault(wanted, claim.uid) == claim.uid:
            self._moved = min(self._moved, wanted)
        elif wanted is not None or claim.placed:
            self._odd[claim.uid] = None
        if _holds(claim):
            self._adopted = None

    def drop(self, uid: str) -> None:
        """A pod holds no slot any more."""
        claim = self._claims.pop(uid, None)
        if claim is None:
            return
        self.ordinals -= claim.ordinal is not None
        if self._waits(claim):
            self._touch(claim.order)
            self._slot_of.pop(uid, None)
            self._remove(self._line, claim.order)
            if self._fixed.pop(uid, None) is None:
                self._remove(self._free, claim.order)
        self._count(claim, -1)
        if _holds(claim):
            self._adopted = None
        was_odd = bool(self._odd)
        self._odd.pop(uid, None)
        wanted = claim.wanted
        if wanted is not None and self._taken.get(wanted) == uid:
            del self._taken[wanted]
            self._low = min(self._low, wanted)
            self._moved = min(self._moved, wanted)
            heir = next((one for one in self._odd if self._claims[one].wanted == wanted), None)
            if heir is not None:
                self._taken[wanted] = heir
                del self._odd[heir]
        if was_odd and not self._odd:
            self._moved = 0  # what was told last was told for the sake of the odd ones

    def keep(self, claim: Claim, *, in_turn: bool) -> bool:
        """Who waited got a node, by its claim with the slot that it waited with; whether that is so, and
        hence nobody else's slot is another for it.

        `in_turn`: of the tier that it was sent to.
        """
        first = bool(self._line) and self._line[0] == claim.order
        before = self._touched, self._moved, self.recounted
        same = self._slot_of.get(claim.uid) == claim.wanted
        odd = bool(self._odd)
        self.put(claim, waits=False)
        if same and not odd:
            self._touched, self._moved, recounted = before
            # Those after the first see the same numbers as when it was ahead of them.
            self.recounted = recounted if first and in_turn else True
        return same

    def ahead(self, number: int) -> list[str]:
        """The first so many who wait."""
        return [order[2] for order in self._line[:number]]

    def waiting(self) -> int:
        """How many wait."""
        return len(self._line)

    def numbered(self) -> list[tuple[int, int]]:
        """The slots, and the tiers, of pods that have a node and whose ordinals decide their slots."""
        return [
            (claim.ordinal + 1, claim.tier)
            for claim in self._claims.values()
            if claim.ordinal is not None and claim.placed and claim.tier is not None
        ]

    def highest(self) -> int:
        """The highest slot that a pod with a node is marked with; 0: none is."""
        self._high = highest_of(self._settled, self._high)
        return self._high

    def changes(self, tiers: Tiers, *, everyone: bool = False) -> list[tuple[str, int]]:
        """Those who wait and their slots, oldest first, from the first on for whom something may be another
        since this was asked last; with `everyone`, all of them.
        """
        fixed, taken = self._holders(tiers)
        start = 0 if everyone else self._start()
        found, slot = [], 0
        for _, _, uid in self._line[start:] if start else self._line:
            mine = fixed.get(uid)
            if mine is None:
                slot = slot or self._next(start, fixed)
                while slot in taken:
                    slot += 1
                mine, slot = slot, slot + 1
            found.append((uid, mine))
        self._slot_of.update(found)
        self._touched, self._moved, self.recounted = None, inf, False
        return found

    def _holders(self, tiers: Tiers) -> tuple[Mapping[str, int], Container[int]]:
        """The slots of those who do not take any, and all slots that are taken so."""
        if not self._odd:
            return self._fixed, self._taken
        adopted = self._adopted
        if adopted is None or adopted.tiers is not tiers or not adopted.stands(len(self._claims)):
            holders = [claim for claim in self._claims.values() if _holds(claim)]
            adopted = self._adopted = _Adopted(holders, tiers, len(self._claims))
            self._moved = 0
        return adopted.slots, adopted.taken

    def _start(self) -> int:
        """Where in the line the first is for whom something may be another."""
        line, free, touched = self._line, self._free, self._touched
        start = len(line) if touched is None else bisect_left(line, touched)
        if self._moved == inf:
            return start
        if self._moved <= 0:
            return 0
        last = len(free) if touched is None else bisect_left(free, touched)
        at = bisect_left(free, self._moved, hi=last, key=lambda order: self._slot_of[order[2]])
        return min(start, bisect_left(line, free[at])) if at < last else start

    def _next(self, start: int, fixed: Mapping[str, int]) -> int:
        """The slot after that of the last one before `start` who took any."""
        for order in reversed(self._line[:start]):
            if order[2] not in fixed:
                return self._slot_of[order[2]] + 1
        if self._odd:
            return 1
        while self._low in self._taken:
            self._low += 1
        return self._low

    def _touch(self, order: Order) -> None:
        self._touched = order if self._touched is None else min(order, self._touched)

    def _count(self, claim: Claim, more: int) -> None:
        if not claim.placed:
            return
        if claim.tier is None:
            self.astray += more
        else:
            self.placed[claim.tier] = self.placed.get(claim.tier, 0) + more
        self.recounted = True
        slot = claim.wanted
        if slot is not None:
            self._high = max(self._high, slot)
            left = self._settled.get(slot, 0) + more
            if left:
                self._settled[slot] = left
            else:
                del self._settled[slot]

    def _waits(self, claim: Claim) -> bool:
        at = bisect_left(self._line, claim.order)
        return at < len(self._line) and self._line[at] == claim.order

    def _remove(self, line: list[Order], order: Order) -> None:
        del line[bisect_left(line, order)]


def assign(claims: Iterable[Claim], tiers: Tiers) -> dict[str, int]:
    """Slots by UID. Of several who claim a slot, one with a node has it before one without, then the oldest.

    >>> from fairlead.policy.model import Tier
    >>> tiers = Tiers([Tier("base", max=1), Tier("burst")])
    >>> assign([Claim("b", (2, "b", "b")), Claim("a", (1, "a", "a")),
    ...         Claim("c", (0, "c", "c"), placed=True, tier=1)], tiers)
    {'c': 2, 'a': 1, 'b': 3}
    """
    everybody = list(claims)
    adopted = _Adopted([claim for claim in everybody if _holds(claim)], tiers, len(everybody))
    slots, taken, slot = dict(adopted.slots), adopted.taken, 1
    for claim in sorted(everybody, key=lambda one: one.order):
        if claim.uid not in slots:
            while slot in taken:
                slot += 1
            slots[claim.uid], slot = slot, slot + 1
    return slots


def _holds(claim: Claim) -> bool:
    """Whether it does not just take any slot that is left."""
    return claim.placed or claim.wanted is not None or claim.ordinal is not None


class _Adopted:
    """The slots of those who ask for one, or have a node; who asks in vain and waits is not among them.

    For who has a node but no slot there is one of its tier among as many slots as there are pods, or
    any. `stands` tells whether that is so with another number of pods.
    """

    __slots__ = ("_least", "_most", "slots", "taken", "tiers")

    def __init__(self, claims: Iterable[Claim], tiers: Tiers, pods: int) -> None:
        self.tiers = tiers
        self.slots: dict[str, int] = {}
        self.taken: set[int] = set()
        self._least, self._most = 0, inf
        rest = []
        for claim in sorted(claims, key=_standing):
            slot = claim.wanted
            if slot is not None and slot not in self.taken:
                self._give(claim, slot)
            elif claim.placed or claim.ordinal is not None:
                rest.append(claim)
        free = _Free(tiers, self.taken)
        for claim in rest:
            own = None
            if claim.placed and claim.tier is not None:
                own = free.lowest(claim.tier, pods)
                if own is None:
                    self._most = pods
                else:
                    self._least = max(self._least, own)
            self._give(claim, own if own is not None else free.any())

    def stands(self, pods: int) -> bool:
        """Whether the same slots are given with so many pods in all."""
        return self._least <= pods <= self._most

    def _give(self, claim: Claim, slot: int) -> None:
        self.slots[claim.uid] = slot
        self.taken.add(slot)


def _standing(claim: Claim) -> tuple[bool, bool, Order]:
    return claim.ordinal is None, not claim.placed, claim.order


class _Free:
    """Free slots, lowest first, of all tiers or of one. Slots are only ever taken, so each search goes on
    where the last one ended.
    """

    __slots__ = ("_from", "_taken", "_tiers")

    def __init__(self, tiers: Tiers, taken: set[int]) -> None:
        self._tiers = tiers
        self._taken = taken
        self._from: dict[int | None, int] = {}

    def any(self) -> int:
        """The lowest free slot."""
        slot = self._from.get(None, 1)
        while slot in self._taken:
            slot += 1
        self._from[None] = slot
        return slot

    def lowest(self, tier: int, last: int) -> int | None:
        """The lowest free slot up to `last` that is the tier's; None: there is none."""
        slot = self._from.get(tier, 1)
        while slot <= last and (slot in self._taken or self._tiers.of_slot(slot) != tier):
            slot += 1
        self._from[tier] = slot
        return slot if slot <= last else None
