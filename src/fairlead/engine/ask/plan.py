"""A plan as the public API shows it: what is bound, evicted and held, in the order it is done.

Evictions come before the binds that wait for them. All three kinds of entries are pairs, so that
``dict(plan.binds)`` is pod → node and ``dict(plan.holds)`` is pod → reason.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Bind(NamedTuple):
    """A pod (``namespace/name``) goes on a node."""

    pod: str
    node: str


class Eviction(NamedTuple):
    """A pod makes room for `unit` (``namespace/name`` of a pod or a gang)."""

    pod: str
    unit: str


class Hold(NamedTuple):
    """A pod stays without a node, and why."""

    pod: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What follows from a cluster's state.

    `binds` and `evictions` are in the order in which they were decided, `holds` in the order of the
    queue. `units` tells the gang of each pod that is in one.
    """

    binds: list[Bind] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    units: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything to do; what is only held is not."""
        return bool(self.binds or self.evictions)

    def only(self, pods: Collection[str]) -> Plan:
        """What it says of these pods (``namespace/name``)."""
        return Plan(
            [one for one in self.binds if one.pod in pods],
            [one for one in self.evictions if one.pod in pods],
            [one for one in self.holds if one.pod in pods],
            {pod: gang for pod, gang in self.units.items() if pod in pods},
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""

        def gang(pod: str) -> dict[str, str]:
            return {"gang": self.units[pod]} if pod in self.units else {}

        return {
            "binds": [{"pod": one.pod, "node": one.node, **gang(one.pod)} for one in self.binds],
            "evictions": [{"pod": one.pod, "for": one.unit, **gang(one.pod)} for one in self.evictions],
            "holds": [{"pod": one.pod, "reason": one.reason, **gang(one.pod)} for one in self.holds],
        }


@dataclass(frozen=True, slots=True)
class Preemption:
    """Where a pod could go and which pods would have to leave.

    `node` is None when nothing helps or the pod may not preempt; `reason` then says why. `victims`
    (``namespace/name``) are ordered from the most important to the least, and `pdb_violations` is how
    many of them their budgets do not allow to go.
    """

    node: str | None
    victims: list[str] = field(default_factory=list)
    pdb_violations: int = 0
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "node": self.node,
            "victims": self.victims,
            "pdbViolations": self.pdb_violations,
            **({"reason": self.reason} if self.reason else {}),
        }
