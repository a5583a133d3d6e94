"""What kube-scheduler asks, and what it is answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairlead.policy.choice import Choice
from fairlead.policy.groups import Member, Place
from fairlead.policy.rule import Tiers

__all__ = ["FilterAnswer", "FilterRequest"]


@dataclass(frozen=True, slots=True)
class FilterRequest:
    """A pod that kube-scheduler asks about."""

    member: Member
    namespace: str
    place: Place
    tiers: Tiers
    costed: bool = False
    """Whether the user said which pod goes first: then that stands."""

    @property
    def admitted(self) -> bool:
        """Whether the webhook has decided on it: its affinity says where it may go, and we agree."""
        return bool(self.member.token)

    def refusal(self, choice: Choice) -> str:
        """Why the pod of this choice has no node, in the words of kube-scheduler's events."""
        policy = self.place.policy
        if choice.tier is None:
            return f"node(s) of no use: every tier of placement policy {policy.name} is at its max"
        return f"node(s) outside tier {policy.spec.tiers[choice.tier].name} of placement policy {policy.name}"


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """Which of the nodes on offer a pod may go to."""

    nodes: Sequence[str]
    choice: Choice | None = None
    slot: int = 0
    refusal: str = ""
    """Why none, in the words of kube-scheduler's events: said of each node outside the tier."""
    unknown: Sequence[str] = ()
    """Nodes that our watch has not shown yet: they may turn out to be the tier's."""
    taken: Sequence[str] = ()
    """Nodes of the tier where a pod has to be alone, and is, or is not."""
    passed: tuple[str, ...] = ()
    """Tiers that passed the pod on because it waited long enough."""
