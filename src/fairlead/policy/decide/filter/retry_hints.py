"""Room that was made where pods had been refused: which pods are to be scheduled again.

When a pod is gone kube-scheduler asks again about those who wait, maybe before our watch shows it; and of a
node that we gave to a pod which then went elsewhere it hears nothing. Whoever was refused a moment before we
saw the room would not be asked about for minutes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable

from fairlead.policy.decide.filter.slots import ASSUMED_S
from fairlead.policy.decide.filter.tier_nodes import NodesOfTiers
from fairlead.policy.decide.filter.waiting_pod import Waiting
from fairlead.policy.groups import GroupKey

__all__ = ["RetryHints"]

_LATELY_S = ASSUMED_S + 10.0  # who was refused before that is asked about when kube-scheduler sees the same


class RetryHints:
    """See the module. Told of what is free again, it makes those outdated who may have it, once."""

    def __init__(self) -> None:
        self._nodes: dict[str, None] = {}
        self._groups: dict[GroupKey, None] = {}

    def of_node(self, node: str) -> None:
        """Nobody is there any more."""
        self._nodes[node] = None

    def of_group(self, key: GroupKey) -> None:
        """A slot of the group is free."""
        self._groups[key] = None

    def use(self, waiting: Iterable[Waiting], nodes: NodesOfTiers, taken: Container[str], now: float) -> None:
        """For each room one is to ask again: of those who were refused lately, who asked longest ago.

        So the next room is another's, should this one be of no use to who is made to ask.
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
