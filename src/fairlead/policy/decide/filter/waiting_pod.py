"""A pod that kube-scheduler asked about and that has no node yet: when it would get another answer.

kube-scheduler does not ask again by itself for minutes, so somebody must know when that is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fairlead.policy.groups import GroupKey

__all__ = ["Waiting"]


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
        """Policies changed: what it was told may be wrong, and tiers have other numbers now."""
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
