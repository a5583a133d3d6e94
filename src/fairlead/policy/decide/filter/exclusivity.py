"""Which nodes pods have to themselves: an ``exclusive`` tier takes one governed pod per node.

kube-scheduler asks about the next pod before the watch shows where the last one went, and never says which
of the nodes on offer it took. So a pod that might meet one that must be alone gets one node, which counts as
taken until the watch shows the outcome or half a minute passes. Pods that no policy governs are not seen:
they count for resources only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping


class Exclusivity:
    """See the module.

    Invariant: `_of` and `_on` say the same, and have every governed pod that was shown on a node, those on
    their way out too; `_given` has pods without a node, in the order in which they were given one.
    """

    def __init__(self, given_s: float, freed: Callable[[str], None] = lambda _: None) -> None:
        """`given_s` is how long a node waits for the watch to show whether it was taken; `freed` is called
        for nodes that no pod is on any more.
        """
        self._given_s = given_s
        self._freed = freed
        self._tiers: Mapping[str, Collection[str]] = {}
        self._on: dict[str, dict[str, bool]] = {}  # by node and UID: whether it must be alone there
        self._of: dict[str, str] = {}
        self._given: dict[str, tuple[str, float]] = {}

    def use(self, tiers: Mapping[str, Collection[str]]) -> None:
        """These are the exclusive tiers, by policy; every pod that has a node is to be shown again."""
        self._tiers = tiers
        for uid in self._of.keys() - self._given.keys():
            self._take_off(uid)

    @property
    def matters(self) -> bool:
        """Whether any tier is exclusive: otherwise no pod's node is looked at."""
        return bool(self._tiers)

    def shown(self, uid: str, policy: str, tier: str, node: str) -> None:
        """A pod that `policy` governs is on a node, which is in `tier`."""
        self._given.pop(uid, None)
        self._put(uid, node, alone=tier in self._tiers.get(policy, ()))

    def gone(self, uid: str) -> None:
        """A pod is on no node any more, or on its way to none."""
        self._given.pop(uid, None)
        self._drop(uid)

    def give(self, uid: str, node: str, now: float, *, alone: bool) -> None:
        """A pod is about to go to this node; what it was given before is free again."""
        self._given.pop(uid, None)
        self._put(uid, node, alone=alone)
        self._given[uid] = node, now

    def take_back(self, uid: str) -> None:
        """A pod that has no node is given none."""
        if self._given.pop(uid, None) is not None:
            self._drop(uid)

    def expire(self, now: float) -> None:
        """Take back what was given too long ago."""
        for uid, (_, since) in list(self._given.items()):
            if now - since < self._given_s:
                return
            self.take_back(uid)

    def __contains__(self, node: object) -> bool:
        """Whether any pod is there, or on the way."""
        return node in self._on

    def takes(self, node: str, uid: str, *, alone: bool, besides: Collection[str] = ()) -> bool:
        """Whether a pod may go there: no other has the node to itself and, if it must be `alone`, no other is
        there. Pods in `besides` are about to be evicted.
        """
        others = self._on.get(node)
        if not others:
            return True
        return not any(
            (alone or one) and other != uid and other not in besides for other, one in others.items()
        )

    def _put(self, uid: str, node: str, *, alone: bool) -> None:
        if self._of.get(uid) != node:
            self._drop(uid)
        self._of[uid] = node
        self._on.setdefault(node, {})[uid] = alone

    def _drop(self, uid: str) -> None:
        node = self._take_off(uid)
        if node and node not in self._on:
            self._freed(node)

    def _take_off(self, uid: str) -> str:
        """Its node, which it is on no more; or ""."""
        node = self._of.pop(uid, "")
        if node:
            there = self._on[node]
            del there[uid]
            if not there:
                del self._on[node]
        return node
