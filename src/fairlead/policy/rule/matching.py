"""Which policy governs a pod. Of several that match, the most specific: the one whose `match` says more.

Each label counts, and so do naming namespaces and naming kinds; ties go to the one with more labels,
then to the first by name. The order does not depend on the pod, so that a group never changes hands
because a replica looked different.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from fairlead.policy.rule.model import Match, PlacementPolicy
from fairlead.policy.rule.workloads import Workload


class Policies:
    """All policies, most specific first. `exempt` are namespaces that no policy governs."""

    __slots__ = ("_by_name", "_ordered", "exempt")

    def __init__(self, policies: Iterable[PlacementPolicy] = (), exempt: Collection[str] = ()) -> None:
        self._by_name = {policy.name: policy for policy in policies}
        self._ordered = tuple(sorted(self._by_name.values(), key=_order))
        self.exempt = frozenset(exempt)

    def __iter__(self) -> Iterator[PlacementPolicy]:
        return iter(self._ordered)

    def __len__(self) -> int:
        return len(self._ordered)

    def get(self, name: str) -> PlacementPolicy | None:
        """The policy of that name."""
        return self._by_name.get(name)

    def governing(self, workload: Workload, labels: Mapping[str, str]) -> PlacementPolicy | None:
        """The policy that governs a pod of `workload` with these labels; None: no policy's business."""
        return next(self._matching(workload, labels), None)

    def matching(self, workload: Workload, labels: Mapping[str, str]) -> tuple[PlacementPolicy, ...]:
        """All policies that match the pod; the first governs it."""
        return tuple(self._matching(workload, labels))

    def overlaps(self) -> dict[str, tuple[str, ...]]:
        """By policy: the policies that would win over it where both match. Only those that have any."""
        found = {}
        for index, loser in enumerate(self._ordered):
            winners = tuple(
                one.name for one in self._ordered[:index] if overlap(one.spec.match, loser.spec.match)
            )
            if winners:
                found[loser.name] = winners
        return found

    def _matching(self, workload: Workload, labels: Mapping[str, str]) -> Iterator[PlacementPolicy]:
        if workload.skip or workload.namespace in self.exempt:
            return
        for policy in self._ordered:
            if _matches(policy.spec.match, workload, labels):
                yield policy


def specificity(match: Match) -> tuple[int, int]:
    """How much a match says; more is more specific.

    >>> specificity(Match(labels={"app": "web"}, kinds=("Deployment",))) > specificity(Match(("shop",)))
    True
    """
    labels = len(match.labels)
    return labels + bool(match.namespaces) + bool(match.kinds), labels


def overlap(one: Match, other: Match) -> bool:
    """Whether there can be a pod that both match.

    >>> overlap(Match(("shop",)), Match(labels={"a": "b"})), overlap(Match(("shop",)), Match(("bank",)))
    (True, False)
    """
    for ours, theirs in ((one.namespaces, other.namespaces), (one.kinds, other.kinds)):
        if ours and theirs and not set(ours) & set(theirs):
            return False
    return all(other.labels.get(key, value) == value for key, value in one.labels.items())


def may_match(match: Match, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether a pod is matched but for its kind, which takes knowing its owners."""
    if match.namespaces and namespace not in match.namespaces:
        return False
    return all(labels.get(key) == value for key, value in match.labels.items())


def _order(policy: PlacementPolicy) -> tuple[int, int, str]:
    said, labels = specificity(policy.spec.match)
    return -said, -labels, policy.name


def _matches(match: Match, workload: Workload, labels: Mapping[str, str]) -> bool:
    if match.kinds and workload.kind not in match.kinds:
        return False
    return may_match(match, workload.namespace, labels)
