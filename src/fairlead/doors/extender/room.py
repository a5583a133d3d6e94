"""Room that was made where pods had been refused: who is to ask again.

When a pod is gone kube-scheduler asks again about those who wait, maybe before our watch shows it; and of a
node that we gave to a pod which then went elsewhere it hears nothing. Whoever was refused a moment before we
saw the room would not be asked about for minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from fairlead.doors.extender.nodes import NodesOfTiers
from fairlead.doors.extender.slots import ASSUMED_S
from fairlead.doors.extender.waiting import Waiting
from fairlead.policy.groups import GroupKey

__all__ = ["Room"]

_LATELY_S = ASSUMED_S + 10.0  # who was refused before that is asked about when kube-scheduler sees the same


class Room:
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
        """For each room one is to ask again: of those who were refused lately, who waits longest."""
        if not self._nodes and not self._groups:
            return
        line = sorted(
            (one for one in waiting if one.refused and not one.outdated and now - one.last <= _LATELY_S),
            key=lambda one: (one.first, one.name),
        )
        for node in (node for node in self._nodes if node not in taken):
            _first(line, lambda one: one.tier is not None and node in nodes.of(one.key.policy, one.tier))  # noqa: B023
        served = {one.key for one in line if one.outdated}
        for key in (key for key in self._groups if key not in served):
            _first(line, lambda one: one.key == key)  # noqa: B023
        self._nodes, self._groups = {}, {}


def _first(line: list[Waiting], fits: Callable[[Waiting], bool]) -> None:
    one = next((one for one in line if not one.outdated and fits(one)), None)
    if one is not None:
        one.outdated = "room-was-made"
