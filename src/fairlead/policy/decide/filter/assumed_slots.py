"""The slots of one group as the extender knows them: held by pods with a node, assumed for pods without.

The extender has no ledger: what pods hold is written on them once they are bound, and read from there after a
restart. Each step costs the logarithm of the group, because a group may have thousands of pods and every
filter call takes a step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from fairlead.policy.groups.member import Member
from fairlead.policy.rule.choice import Beside
from fairlead.policy.rule.split import Tiers
from fairlead.policy.slots.table import SlotTable

ASSUMED_S = 30.0
"""How long a slot waits for the watch to show what kube-scheduler made of our answer."""


@dataclass(slots=True)
class HeldSlot:
    """A pod that holds a slot."""

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
    """Whether its deletion cost is the user's; None: not looked at yet."""
    fixed: bool = False
    """Whether its slot is an ordinal's and never changes."""
    domain: tuple[str, ...] = ()
    """Where kube-scheduler was advised to put it, until it is seen where it did."""


class AssumedSlots:
    """See the module. Invariant: `holders` and the table have the same pods and the same slots."""

    def __init__(self) -> None:
        self.holders: dict[str, HeldSlot] = {}
        self.counts: dict[str, int] = {}
        """Slots by tier."""
        self.on_node: dict[str, int] = {}
        """Pods by node."""
        self._table = SlotTable()
        self._tiers: Tiers | None = None
        self._index: dict[str, int] = {}  # of tiers, by name
        self._assumed: dict[str, None] = {}  # in the order they were asked about
        self._homeless: dict[str, tuple[Member, str]] = {}  # placed, and without a slot yet

    def __len__(self) -> int:
        return len(self.holders) + len(self._homeless)

    def settle(self, tiers: Tiers, coming: int = 0) -> None:
        """Give slots to pods on nodes that hold none, and better ones to those that fit theirs ill.

        None is beyond the number of pods, with those that are `coming`. `tiers` are the policy's as they hold
        now.
        """
        if tiers is not self._tiers:
            self._tiers = tiers
            self._index = {tier.name: index for index, tier in enumerate(tiers.tiers)}
            self._table.use(tiers)
            for uid, held in self.holders.items():
                self._locate(uid, held)
        if not self._homeless and not self._table.misfits:
            return
        size = len(self) + coming
        waiting, self._homeless = self._homeless, {}
        unnumbered = {}
        for member, node in sorted(waiting.values(), key=lambda one: (one[0].created, one[0].name)):
            if member.ordinal is not None:
                self._hold(member, node, member.ordinal + 1)
            elif member.slot is not None and member.slot not in self._table.holder_of:
                self._hold(member, node, member.slot)
            else:
                unnumbered[member.uid] = member, node
        new = [(uid, self._index.get(member.tier)) for uid, (member, _) in unnumbered.items()]
        for uid in self._table.settle(size, new):
            slot = self._table.slot_of[uid]
            if uid in unnumbered:
                self._hold(*unnumbered[uid], slot)
            else:
                self.holders[uid].slot = slot

    def next_slot(self, uid: str, ordinal: int | None) -> int:
        """The slot that a pod would get now; its own, if it holds one for good."""
        held = self.holders.get(uid)
        if held is not None and held.assumed_at is None:
            return held.slot
        if ordinal is not None:
            return ordinal + 1
        lowest = self._table.lowest()
        return lowest if held is None else min(held.slot, lowest)

    def beside(self, uid: str) -> Beside:
        """What the group holds without this pod, which may hold a slot since it last asked."""
        own = self.holders.get(uid)

        def counts() -> dict[str, int]:
            return self.counts if own is None else {**self.counts, own.tier: self.counts[own.tier] - 1}

        return Beside(
            len(self) - (own is not None or uid in self._homeless),
            self._table.highest,
            counts,
            lambda: ((held.slot, held.tier) for held in self.holders.values()),
        )

    @property
    def highest(self) -> int:
        """The highest slot that is taken; 0: none is."""
        return self._table.highest

    def assume(self, member: Member, slot: int, tier: str, now: float, *, costed: bool = False) -> None:
        """A pod is about to get a node of `tier`; what was assumed of it before is replaced."""
        self._hold(member, "", slot, tier)
        held = self.holders[member.uid]
        held.assumed_at, held.costed, held.admitted = now, costed, False
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
            held.tier, held.node = member.tier, node
            self._count(held, 1)
            self._locate(uid, held)
            settled = held.assumed_at is not None
            held.assumed_at = None
            self._assumed.pop(uid, None)
            return settled
        if node:
            self._homeless[uid] = member, node
        elif member.token and member.slot is not None and member.slot not in self._table.holder_of:
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

    def placed(self) -> Iterator[tuple[str, HeldSlot]]:
        """The pods that have a node and a slot."""
        return ((uid, held) for uid, held in self.holders.items() if held.node)

    def _hold(self, member: Member, node: str, slot: int, tier: str | None = None) -> None:
        uid = member.uid
        self._release(uid)
        if displaced := self._table.put(uid, slot):
            self._release(displaced)
        held = self.holders[uid] = HeldSlot(
            slot,
            member.tier if tier is None else tier,
            node,
            None,
            member.name,
            member.slot,
            admitted=bool(member.token),
            fixed=member.ordinal is not None,
        )
        self._count(held, 1)
        self._locate(uid, held)

    def _release(self, uid: str) -> None:
        self._table.drop(uid)
        held = self.holders.pop(uid, None)
        if held is not None:
            self._assumed.pop(uid, None)
            self._count(held, -1)

    def _locate(self, uid: str, held: HeldSlot) -> None:
        """A pod with a node may change to a slot of its tier, unless its slot is not ours to change."""
        if held.node and not held.fixed and not held.admitted:
            self._table.located(uid, self._index.get(held.tier))

    def _count(self, held: HeldSlot, change: int) -> None:
        self.counts[held.tier] = self.counts.get(held.tier, 0) + change
        if held.node:
            left = self.on_node.get(held.node, 0) + change
            if left:
                self.on_node[held.node] = left
            else:
                del self.on_node[held.node]
