"""The slots of one group: which are taken, by which holder, and which are free.

How slots are given stands here, once:

* A holder keeps its slot. A StatefulSet's ordinal has its slot whichever pod held it before.
* A pod that has a node and no slot gets a free one of its node's tier, among as many slots as there are pods;
  without one of those, the lowest free slot.
* A pod on a node of another tier than its slot's was passed on. When a slot of the tier where it is
  becomes free, it changes to that, and the next pod goes where the split lacks one.

A ledger adopts pods through this table, the extender keeps one for each group, and the scheduler's waiting
line asks it where a pod must be adopted. Each step costs the logarithm of the group: free slots wait in one
heap per tier, and slots taken since are skipped when they come up.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fairlead.policy.groups.member import Member
from fairlead.policy.rule.model import Tier
from fairlead.policy.rule.split import FARTHEST, Tiers

_NEAR = 16

Order = tuple[float, str, str]


class SlotTable:
    """See the module. Holders go by any string, tiers by their index.

    Invariant: `slot_of` and `holder_of` say the same; every free slot up to `_top` is in the heap of its
    tier; `_misfits` has, by tier, the holders that would change to a slot of it.
    """

    __slots__ = ("_heaps", "_high", "_misfits", "_tiers", "_top", "_where", "holder_of", "slot_of")

    def __init__(self, tiers: Tiers | None = None) -> None:
        """Without `tiers`, `use` must come before free slots are asked for."""
        self.slot_of: dict[str, int] = {}
        self.holder_of: dict[int, str] = {}
        self._tiers = tiers
        self._heaps: dict[int | None, list[int]] = {}
        self._top = 0
        self._high = 0  # no slot beyond it is taken
        self._where: dict[str, int | None] = {}  # tier of a holder that may change its slot
        self._misfits: dict[int | None, dict[str, None]] = {}

    def use(self, tiers: Tiers) -> None:
        """These are the tiers from now on."""
        if tiers is self._tiers:
            return
        self._tiers = tiers
        top, self._top, self._heaps = self._top, 0, {}
        self._reach(top)
        self._misfits.clear()
        for holder in self._where:
            self._compare(holder)

    def put(self, holder: str, slot: int) -> str:
        """Give a holder this slot; which other holder has lost it, or ""."""
        self.drop(holder)
        displaced = self.holder_of.get(slot, "")
        if displaced:
            self.drop(displaced)
        self.slot_of[holder] = slot
        self.holder_of[slot] = holder
        self._high = max(self._high, slot)
        return displaced

    def drop(self, holder: str) -> None:
        """A holder is gone, and its slot is free."""
        slot = self.slot_of.pop(holder, None)
        if slot is None:
            return
        del self.holder_of[slot]
        self._misfits.get(self._where.pop(holder, None), {}).pop(holder, None)
        self._offer(slot)

    def located(self, holder: str, tier: int | None) -> None:
        """A holder is on a node of this tier, and may change to a slot of it."""
        self._misfits.get(self._where.get(holder), {}).pop(holder, None)
        self._where[holder] = tier
        self._compare(holder)

    def settle(self, size: int, new: Iterable[tuple[str, int | None]] = ()) -> list[str]:
        """Give slots to `new` holders, with the tiers of their nodes, and better ones to holders whose slot
        is of another tier than they are, in a group of `size` pods; the holders whose slot has changed.
        """
        moved = self._refit(size)
        rest = []
        for holder, tier in new:
            moved.append(holder)
            slot = self._lowest_of(tier, size) if tier is not None else None
            if slot is None:
                rest.append(holder)
            else:
                self.put(holder, slot)
        for holder in rest:
            self.put(holder, self.lowest())
        return moved

    @property
    def misfits(self) -> bool:
        """Whether a holder would change its slot."""
        return any(self._misfits.values())

    @property
    def highest(self) -> int:
        """The highest slot that is taken; 0: none is."""
        self._high = highest_of(self.holder_of, self._high)
        return self._high

    def lowest(self) -> int:
        """The lowest free slot."""
        found = [slot for tier in list(self._heaps) if (slot := self._lowest_of(tier, self._top)) is not None]
        if found:
            return min(found)
        while True:
            self._reach(self._top + 1)
            if self._top not in self.holder_of:
                return self._top

    def _lowest_of(self, tier: int | None, last: int) -> int | None:
        """The lowest free slot up to `last` that is the tier's."""
        self._reach(last)
        heap = self._heaps.get(tier)
        while heap and heap[0] in self.holder_of:
            heapq.heappop(heap)
        return heap[0] if heap and heap[0] <= last else None

    def _refit(self, size: int) -> list[str]:
        moved: list[str] = []
        before = -1
        while before < len(moved):  # a slot that is left may be what another waits for
            before = len(moved)
            for tier in sorted(tier for tier in self._misfits if tier is not None):
                misfits = self._misfits[tier]
                while misfits and (slot := self._lowest_of(tier, size)) is not None:
                    holder = next(iter(misfits))
                    self.put(holder, slot)
                    self.located(holder, tier)
                    moved.append(holder)
        return moved

    def _reach(self, slot: int) -> None:
        """Have every slot up to this one in a heap or taken."""
        while self._top < slot:
            self._top += 1
            if self._top not in self.holder_of:
                self._offer(self._top)

    def _offer(self, slot: int) -> None:
        if self._tiers is not None and slot <= self._top:
            heapq.heappush(self._heaps.setdefault(self._tiers.of_slot(slot), []), slot)

    def _compare(self, holder: str) -> None:
        tier, tiers = self._where[holder], self._tiers
        if tiers is not None and tier is not None and tiers.of_slot(self.slot_of[holder]) != tier:
            self._misfits.setdefault(tier, {})[holder] = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A pod that holds a slot of its group, or wants one."""

    uid: str
    order: Order
    """Creation time, name, UID: which pod comes first."""
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

    @property
    def holds(self) -> bool:
        """Whether it does not just take any slot that is left."""
        return self.placed or self.wanted is not None or self.ordinal is not None


def claim_of(member: Member, tiers: Sequence[Tier], *, placed: bool) -> Claim:
    """What a pod claims by its marks; `placed` also says so of a pod whose node is not known."""
    tier = next((at for at, tier in enumerate(tiers) if tier.name == member.tier), None)
    return Claim(
        member.uid,
        (member.created, member.name, member.uid),
        placed=placed,
        tier=tier if member.placed else None,
        slot=member.slot,
        ordinal=member.ordinal,
        # Marks without a token are those of a component without a ledger, and only say where the pod was.
        told=tier if member.token and not member.placed else None,
    )


def assign(claims: Iterable[Claim], tiers: Tiers) -> dict[str, int]:
    """Slots by UID. Of several claims to a slot, one with a node has it before one without, then the oldest.

    >>> from fairlead.policy.rule.model import Tier
    >>> tiers = Tiers([Tier("base", max=1), Tier("burst")])
    >>> assign([Claim("b", (2, "b", "b")), Claim("a", (1, "a", "a")),
    ...         Claim("c", (0, "c", "c"), placed=True, tier=1)], tiers)
    {'c': 2, 'a': 1, 'b': 3}
    """
    everyone = list(claims)
    table = held_by([claim for claim in everyone if claim.holds], tiers, len(everyone))
    rest = sorted((claim for claim in everyone if claim.uid not in table.slot_of), key=lambda one: one.order)
    table.settle(len(everyone), [(claim.uid, None) for claim in rest])
    return table.slot_of


def held_by(claims: Iterable[Claim], tiers: Tiers, pods: int) -> SlotTable:
    """The slots of pods that ask for one or have a node, except waiting pods that ask without success, in a
    group of that many pods.
    """
    table = SlotTable(tiers)
    rest = []
    for claim in sorted(claims, key=lambda one: (one.ordinal is None, not one.placed, one.order)):
        slot = claim.wanted
        if slot is not None and slot not in table.holder_of:
            table.put(claim.uid, slot)
        elif claim.placed or claim.ordinal is not None:
            rest.append((claim.uid, claim.tier if claim.placed else None))
    table.settle(pods, rest)
    return table


def highest_of(taken: Mapping[int, object], at_most: int) -> int:
    """The highest of the slots that are taken, none of which is beyond `at_most`; 0: none is.

    Slots mostly go from the highest down, so mostly the next one is it.
    """
    for slot in range(at_most, max(at_most - _NEAR, 0), -1):
        if slot in taken:
            return slot
    return max(taken, default=0)
