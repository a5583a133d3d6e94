"""The pods that policies govern, by UID, and how to find those of a node, of a token, and those who wait."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from fairlead.engine.policies.families import Family
from fairlead.engine.policies.slots import Claim
from fairlead.kube.meta import ObjectMeta
from fairlead.policy.fallback import Probes
from fairlead.policy.groups import GroupKey, SlotMark
from fairlead.policy.model import PlacementPolicy

__all__ = ["Governed", "Known", "Members"]

K = TypeVar("K", str, GroupKey)


@dataclass(frozen=True, slots=True)
class Known:
    """A pod as the book is told of it. `node` is where it is or is about to be; "" is nowhere."""

    metadata: ObjectMeta
    node: str = ""
    waits: bool = False
    """Whether it is ours to place, now."""
    mark: SlotMark | None = None
    """With what it is being bound: the API does not show it yet."""


@dataclass(slots=True)
class Governed:
    """A pod with its policy, its group, and what it goes by there."""

    pod: Known
    policy: PlacementPolicy
    key: GroupKey
    claim: Claim
    token: str
    family: Family

    def stays(self, metadata: ObjectMeta) -> bool:
        """Whether its group cannot be another for what the pod says now."""
        mine = self.pod.metadata
        return metadata.labels == mine.labels and metadata.owner_references == mine.owner_references


class Members:
    """See the module. Invariant: each pod is in every index that it belongs to; no entry of one is empty."""

    __slots__ = ("_on_node", "_tokens", "pods", "waiting")

    def __init__(self) -> None:
        self.pods: dict[str, Governed] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._tokens: dict[str, dict[str, None]] = {}
        self.waiting: dict[GroupKey, dict[str, None]] = {}

    def add(self, one: Governed) -> None:
        """A pod that was not there."""
        uid = one.claim.uid
        self.pods[uid] = one
        self._tokens.setdefault(one.token, {})[uid] = None
        if one.pod.waits:
            self.waiting.setdefault(one.key, {})[uid] = None
        if one.pod.node:
            self._on_node.setdefault(one.pod.node, {})[uid] = None

    def remove(self, uid: str) -> Governed | None:
        """Forget a pod."""
        one = self.pods.pop(uid, None)
        if one is None:
            return None
        _discard(self._tokens, one.token, uid)
        if one.pod.waits:
            _discard(self.waiting, one.key, uid)
        if one.pod.node:
            _discard(self._on_node, one.pod.node, uid)
        return one

    def on_node(self, name: str) -> list[Governed]:
        """The pods of a node."""
        return [self.pods[uid] for uid in self._on_node.get(name, ())]

    def probes(self, tokens: Iterable[str]) -> Probes:
        """What became of the pods that go by these tokens."""
        mine = [self.pods[uid] for token in tokens for uid in self._tokens.get(token, ())]
        placed = {one.token: one.claim.tier for one in mine if one.claim.placed}
        return Probes(frozenset(one.token for one in mine), placed)


def _discard(index: dict[K, dict[str, None]], key: K, uid: str) -> None:
    members = index[key]
    del members[uid]
    if not members:
        del index[key]
