"""The slots of one group, held by pods that have a node and assumed for pods that kube-scheduler asks about.

The extender's ledger lives in memory: what pods hold is written on them once they are bound, and read from
there after a restart. All steps cost the logarithm of the group, because a group may have thousands of
pods and every filter call takes a step: free slots wait in one heap per tier, those that were taken since
are skipped when they come up.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from fairlead.policy.choice import highest_of
from fairlead.policy.groups import Member
from fairlead.policy.rule import Tiers

__all__ = ["ASSUMED_S", "Held", "Slots"]

ASSUMED_S = 30.0
"""How long a slot waits for the watch to show what kube-scheduler made of our answer."""


@dataclass(slots=True)
class Held:
    """Who holds a slot."""

    slot: int
    tier: str
    """The tier of its node or, without one, where it was sent; empty: none."""
    node: str = ""
    assumed_at: float | None = None
    """When kube-scheduler last asked about it; None once it has a node."""
    name: str = ""
    marked: int | None = None
    """The slot that its annotations say."""
    admitted: bool = False
    """Whether the webhook gave it its slot: then its marks are not ours to write."""
    costed: bool | None = None
    """Whether its deletion cost is the user's; None: nobody looked."""
    fixed: bool = False
    """Whether its slot is an ordinal's and never changes."""
    domain: tuple[str, ...] = ()
    """Where kube-scheduler was advised to put it, until it is seen where it did."""


class Slots:
    """See the module.

    Invariant: `_taken` and `holders` say the same; every free slot up to `_top` is in the heap of its tier
    (and heaps may also have slots that were taken since).
    """

    def __init__(self) -> None:
        self.holders: dict[str, Held] = {}
        self.counts: dict[str, int] = {}
        """Slots by tier."""
        self.on_node: dict[str, int] = {}
        """Pods by node."""
        self._taken: dict[int, str] = {}
        self._tiers: Tiers | None = None
        self._heaps: dict[int | None, list[int]] = {}
        self._top = 0
        self._high = 0  # no slot beyond it is taken
        self._assumed: dict[str, None] = {}  # in the order they were asked about
        self._homeless: dict[str, tuple[Member, str]] = {}  # placed, and without a slot yet
        self._misfits: dict[str, dict[str, None]] = {}  # by tier of their node: slot of another tier

    def __len__(self) -> int:
        return len(self.holders) + len(self._homeless)

    def settle(self, tiers: Tiers, coming: int = 0) -> None:
        """Give slots to pods on nodes that hold none, and better ones to those that fit theirs ill.

        A pod gets the slot that it is marked with, else one of its node's tier, else the lowest. One that
        was passed on holds a slot of the tier it should be in; when a slot of the tier where it is becomes
        free, it changes to that, and the next pod goes where the split lacks one. None is beyond the
        number of pods, with those that are `coming`. `tiers` are the policy's as they hold now.
        """
        self._use(tiers)
        size = len(self) + coming
        if self._homeless:
            self._take_in(tiers, size)
        if not self._misfits:
            return
        self._reach(size)
        for index, tier in enumerate(tiers.tiers):
            misfits = self._misfits.get(tier.name, {})
            while misfits and (slot := self._lowest_of(index)) is not None and slot <= size:
                uid = next(iter(misfits))
                held = self.holders[uid]
                del self._taken[held.slot]
                self._offer(held.slot)
                held.slot = slot
                self._taken[slot] = uid
                self._high = max(self._high, slot)
                del misfits[uid]

    def _take_in(self, tiers: Tiers, size: int) -> None:
        waiting, self._homeless = self._homeless, {}
        unnumbered = []
        for member, node in sorted(waiting.values(), key=lambda one: (one[0].created, one[0].name)):
            if member.ordinal is not None:
                self._hold(member, node, member.ordinal + 1)
            elif member.slot is not None and member.slot not in self._taken:
                self._hold(member, node, member.slot)
            else:
                unnumbered.append((member, node))
        self._reach(size)
        index = {tier.name: index for index, tier in enumerate(tiers.tiers)}
        misfits = []
        for member, node in unnumbered:
            slot = self._lowest_of(index.get(member.tier, -1))
            if slot is None or slot > size:
                misfits.append((member, node))
            else:
                self._hold(member, node, slot)
        for member, node in misfits:
            self._hold(member, node, self._lowest())

    def next_slot(self, uid: str, ordinal: int | None) -> int:
        """The slot that a pod would get now; its own, if it holds one for good."""
        held = self.holders.get(uid)
        if held is not None and held.assumed_at is None:
            return held.slot
        if ordinal is not None:
            return ordinal + 1
        own = held.slot if held is not None else None
        lowest = self._lowest()
        return lowest if own is None else min(own, lowest)

    @property
    def highest(self) -> int:
        """The highest slot that is taken; 0: none is."""
        self._high = highest_of(self._taken, self._high)
        return self._high

    def assume(self, member: Member, slot: int, tier: str, now: float, *, costed: bool = False) -> None:
        """A pod is about to get a node of `tier`; what was assumed of it before is replaced."""
        self._release(member.uid)
        self._displace(slot)
        self._taken[slot] = member.uid
        self._high = max(self._high, slot)
        held = self.holders[member.uid] = Held(
            slot,
            tier,
            "",
            now,
            member.name,
            member.slot,
            costed=costed,
            fixed=member.ordinal is not None,
        )
        self._count(held, 1)
        self._assumed[member.uid] = None
        self._homeless.pop(member.uid, None)

    def shown(self, member: Member, node: str) -> bool:
        """The watch shows a pod; whether that settled something that was assumed."""
        uid = member.uid
        if member.leaving:
            return self.gone(uid)
        held = self.holders.get(uid)
        if held is not None:
            held.marked = member.slot
            if not node:
                return False
            self._count(held, -1)
            self._misfits.get(held.tier, {}).pop(uid, None)
            held.tier, held.node = member.tier, node
            self._count(held, 1)
            self._compare(uid, held)
            settled = held.assumed_at is not None
            held.assumed_at = None
            self._assumed.pop(uid, None)
            return settled
        if node:
            self._homeless[uid] = member, node
        elif member.token and member.slot is not None and member.slot not in self._taken:
            self._hold(member, "", member.slot)  # the webhook gave it that slot, and its way to a node
        return False

    def gone(self, uid: str) -> bool:
        """A pod holds its slot no more; whether it held one that was only assumed."""
        self._homeless.pop(uid, None)
        held = self.holders.get(uid)
        self._release(uid)
        return held is not None and held.assumed_at is not None

    def expire(self, now: float) -> bool:
        """Let go of what was assumed too long ago; whether there was any."""
        before = len(self._assumed)
        for uid in list(self._assumed):
            asked = self.holders[uid].assumed_at
            if asked is not None and now - asked < ASSUMED_S:
                break
            self._release(uid)
        return len(self._assumed) < before

    def number_beside(self, uid: str) -> int:
        """How many pods there are without this one, which may hold a slot since it last asked."""
        return len(self) - (uid in self.holders or uid in self._homeless)

    def held_beside(self, uid: str) -> dict[str, int]:
        """Slots by tier, without the one that a pod holds itself."""
        held = self.holders.get(uid)
        return self.counts if held is None else {**self.counts, held.tier: self.counts[held.tier] - 1}

    def by_number(self) -> Iterator[tuple[int, str]]:
        """The slots that are held, with their tiers."""
        return ((held.slot, held.tier) for held in self.holders.values())

    @property
    def assumed(self) -> Collection[str]:
        """The pods whose slots are only assumed."""
        return self._assumed.keys()

    def uids(self) -> list[str]:
        """All pods that count, those without a slot yet too."""
        return [*self.holders, *self._homeless]

    def expected(self, besides: str) -> Iterator[tuple[str, ...]]:
        """The domains that pods without a node were advised to go to, all but one pod's."""
        return (self.holders[uid].domain for uid in self._assumed if uid != besides)

    def placed(self) -> Iterator[tuple[str, Held]]:
        """The pods that have a node and a slot."""
        return ((uid, held) for uid, held in self.holders.items() if held.node)

    def _use(self, tiers: Tiers) -> None:
        if tiers is self._tiers:
            return
        self._tiers = tiers
        top, self._top, self._heaps = self._top, 0, {}
        self._reach(top)
        self._misfits.clear()
        for uid, held in self.holders.items():
            self._compare(uid, held)

    def _reach(self, slot: int) -> None:
        """Have every slot up to this one in a heap or taken."""
        assert self._tiers is not None
        while self._top < slot:
            self._top += 1
            if self._top not in self._taken:
                self._offer(self._top)

    def _offer(self, slot: int) -> None:
        if self._tiers is not None and slot <= self._top:
            heapq.heappush(self._heaps.setdefault(self._tiers.of_slot(slot), []), slot)

    def _lowest(self) -> int:
        """The lowest free slot."""
        found = [slot for tier in list(self._heaps) if (slot := self._lowest_of(tier)) is not None]
        if found:
            return min(found)
        while True:
            self._reach(self._top + 1)
            if self._top not in self._taken:
                return self._top

    def _lowest_of(self, tier: int | None) -> int | None:
        heap = self._heaps.get(tier)
        while heap and heap[0] in self._taken:
            heapq.heappop(heap)
        return heap[0] if heap else None

    def _hold(self, member: Member, node: str, slot: int) -> None:
        self._displace(slot)
        self._taken[slot] = member.uid
        self._high = max(self._high, slot)
        held = self.holders[member.uid] = Held(
            slot,
            member.tier,
            node,
            None,
            member.name,
            member.slot,
            admitted=bool(member.token),
            fixed=member.ordinal is not None,
        )
        self._count(held, 1)
        self._compare(member.uid, held)

    def _displace(self, slot: int) -> None:
        """A StatefulSet's ordinal has its slot whoever held it before: there is one pod of an ordinal."""
        uid = self._taken.get(slot)
        if uid is not None:
            self._release(uid)

    def _release(self, uid: str) -> None:
        held = self.holders.pop(uid, None)
        if held is None:
            return
        self._assumed.pop(uid, None)
        self._misfits.get(held.tier, {}).pop(uid, None)
        del self._taken[held.slot]
        self._count(held, -1)
        self._offer(held.slot)

    def _compare(self, uid: str, held: Held) -> None:
        """Note a pod that holds another tier's slot."""
        if self._tiers is None or not held.node or held.fixed or held.admitted:
            return
        index = self._tiers.of_slot(held.slot)
        if index is None or self._tiers.tiers[index].name != held.tier:
            self._misfits.setdefault(held.tier, {})[uid] = None

    def _count(self, held: Held, change: int) -> None:
        self.counts[held.tier] = self.counts.get(held.tier, 0) + change
        if held.node:
            left = self.on_node.get(held.node, 0) + change
            if left:
                self.on_node[held.node] = left
            else:
                del self.on_node[held.node]
