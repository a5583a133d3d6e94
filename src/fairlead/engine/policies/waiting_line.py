"""The pods of one group that wait for a node, in line, each with the slot it would get.

Slots follow from the pods alone, so the same pods always have the same slots (`policy.slots.table.assign`):
a pod with a node keeps the slot it is marked with, a waiting pod that of its admission; the others take the
lowest free slot, oldest first. So a pod that leaves moves those that wait up. `WaitingLine` keeps that up to
date, and returns the waiting pods from the first on whose slot may have changed: a pod that comes last costs
nothing to those before it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Mapping
from math import inf

from fairlead.policy.rule.split import Tiers
from fairlead.policy.slots.table import Claim, Order, SlotTable, held_by, highest_of


class WaitingLine:
    """See the module. Invariant: `_taken` has the slot of every claim that asks for one and is not
    `_odd`; all slots below `_low` are taken; a pod that waits, is before `_touched` and has a slot below
    `_moved` still has the slot that was reported last.
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
        self._line: list[Order] = []  # of waiting pods
        self._free: list[Order] = []  # of these, pods that take any slot
        self._fixed: dict[str, int] = {}  # what other waiting pods ask for
        self._slot_of: dict[str, int] = {}  # of waiting pods, as reported last
        self._taken: dict[int, str] = {}
        self._odd: dict[str, None] = {}  # pods that must have a slot, but have none of their own
        self._adopted: _Adopted | None = None  # what becomes of these, once it was needed
        self._low = 1
        self._settled: dict[int, int] = {}  # slots that pods with a node are marked with, and how many are
        self._high = 0  # none of these is beyond it
        self._touched: Order | None = None
        self._moved: float = inf
        self.placed: dict[int, int] = {}  # pods with a node, by tier
        self.astray = 0  # those whose node is of no tier
        self.ordinals = 0  # claims with a number
        self.recounted = False
        """Whether `placed` has changed for waiting pods since the last changes were reported."""

    def __len__(self) -> int:
        return len(self._claims)

    def claim(self, uid: str) -> Claim:
        """What a pod holds or wants."""
        return self._claims[uid]

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
        if claim.holds:
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
        if claim.holds:
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
            self._moved = 0  # what was reported last was so because of the odd ones

    def keep(self, claim: Claim, *, in_turn: bool) -> bool:
        """A waiting pod got a node, by its claim with the slot that it waited with; whether that is so, and
        hence no other pod's slot has changed.

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
        """The first `number` waiting pods."""
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
        """Waiting pods and their slots, oldest first, from the first on whose slot may have changed
        since the last call; with `everyone`, all of them.
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
        """The slots of pods that do not take any slot, and all slots that are taken so."""
        if not self._odd:
            return self._fixed, self._taken
        adopted = self._adopted
        if adopted is None or adopted.tiers is not tiers or not adopted.stands(len(self._claims)):
            holders = [claim for claim in self._claims.values() if claim.holds]
            adopted = self._adopted = _Adopted(holders, tiers, len(self._claims))
            self._moved = 0
        return adopted.table.slot_of, adopted.table.holder_of

    def _start(self) -> int:
        """Where in the line the first pod is whose slot may have changed."""
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
        """The slot after that of the last pod before `start` that took any slot."""
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


class _Adopted:
    """The slots of pods that ask for one or have a node. `stands` tells whether they are the same with
    another number of pods, among as many slots as which a pod with a node and no slot gets one of its tier.
    """

    __slots__ = ("_least", "_most", "table", "tiers")

    def __init__(self, claims: list[Claim], tiers: Tiers, pods: int) -> None:
        self.tiers = tiers
        self.table: SlotTable = held_by(claims, tiers, pods)
        self._least, self._most = 0, inf
        for claim in claims:
            slot = self.table.slot_of.get(claim.uid)
            if claim.tier is None or not claim.placed or slot is None or slot == claim.wanted:
                continue
            if slot <= pods and tiers.of_slot(slot) == claim.tier:
                self._least = max(self._least, slot)
            else:
                self._most = pods

    def stands(self, pods: int) -> bool:
        """Whether the same slots are given with that many pods in all."""
        return self._least <= pods <= self._most
