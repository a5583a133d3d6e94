"""A pod that kube-scheduler asked about and that has no node yet: when it would get another answer.

kube-scheduler does not ask again by itself for minutes, so we must know when that is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass

from fairlead.policy.decide.filter.assumed_slots import ASSUMED_S
from fairlead.policy.groups.member import GroupKey
from fairlead.policy.tiers.tier_nodes import NodesOfTiers

_LATELY_S = ASSUMED_S + 10.0  # a pod refused before that is queried when kube-scheduler sees the same


@dataclass(slots=True)
class Waiting:
    """A pod that has asked and has no node yet."""

    uid: str
    name: str
    """``namespace/name``."""
    key: GroupKey
    first: float
    last: float
    tier: int | None = None
    """Where it was sent the last time."""
    refused: bool = False
    """Whether nothing was on offer there."""
    met: bool = False
    """Whether there were nodes, but others had them to themselves."""
    firm: bool = False
    after_s: float = 0.0
    most: int = 0
    """How many tiers can pass it on: all but the last."""
    skipped: frozenset[str] = frozenset()
    """The tiers that were passed over the last time."""
    trying: str = ""
    """The tier that it waits for although that is marked: it is the one that tries."""
    told: bool = False
    """Whether kube-scheduler was made to ask again since."""
    outdated: str = ""
    """What happened since it was refused, by which it may get another answer."""

    def start_over(self) -> None:
        """Policies changed: its last answer may be wrong, and tiers have other numbers now."""
        if self.refused:
            self.outdated = "policies-changed"
        self.tier, self.refused, self.skipped, self.told = None, False, frozenset(), False
        self.trying = ""

    def passes(self, now: float) -> int:
        """How many tiers may have passed it on by now."""
        if self.after_s <= 0:
            return self.most
        return min(int((now - self.first) // self.after_s), self.most)

    def due(self, now: float, unavailable: Collection[str], tier: str) -> bool:
        """Whether asking again would give another answer, by time or because its tier is left alone now."""
        if not self.refused or self.firm or self.told:
            return False
        return self.passes(now) > self.passes(self.last) or (tier in unavailable and tier not in self.skipped)

    def next_pass(self, now: float) -> float | None:
        """When time alone passes it on."""
        passes = self.passes(now)
        if not self.refused or self.firm or self.told or passes >= self.most:
            return None
        return self.first + (passes + 1) * self.after_s


class RetryHints:
    """Room that was made where pods had been refused. It makes the pods outdated that may have it, once.

    When a pod is gone kube-scheduler asks again about pods that wait, maybe before our watch shows it; and of
    a node that we gave to a pod which then went elsewhere it learns nothing. A pod that was refused a moment
    before we saw the room would not be queried for minutes.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, None] = {}
        self._groups: dict[GroupKey, None] = {}

    def of_node(self, node: str) -> None:
        """No pod is there any more."""
        self._nodes[node] = None

    def of_group(self, key: GroupKey) -> None:
        """A slot of the group is free."""
        self._groups[key] = None

    def use(self, waiting: Iterable[Waiting], nodes: NodesOfTiers, taken: Container[str], now: float) -> None:
        """For each room one pod is to ask again: of those refused lately, the one that asked longest ago.

        So the next room is another's, should this one be of no use to that pod.
        """
        if not self._nodes and not self._groups:
            return
        of_tier: dict[tuple[str, int], deque[Waiting]] = {}
        of_group: dict[GroupKey, deque[Waiting]] = {}
        refused = [one for one in waiting if one.refused and not one.outdated and now - one.last <= _LATELY_S]
        for one in sorted(refused, key=lambda one: (one.last, one.name)):
            of_group.setdefault(one.key, deque()).append(one)
            if one.met and one.tier is not None:
                of_tier.setdefault((one.key.policy, one.tier), deque()).append(one)
        served = set()
        for node in (node for node in self._nodes if node not in taken):
            lines = (line for tier, line in of_tier.items() if line and node in nodes.of(*tier))
            if (line := next(lines, None)) is not None:
                served.add(_first(line))
        for key in (key for key in self._groups if key not in served and key in of_group):
            _first(of_group[key])
        self._nodes, self._groups = {}, {}


def _first(line: deque[Waiting]) -> GroupKey:
    one = line.popleft()
    one.outdated = "room-was-made"
    return one.key
