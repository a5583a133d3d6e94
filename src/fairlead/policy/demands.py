"""What budgets demand of a whole group, from all of its live pods: the same for every door.

In a group of one workload the budget's own words stand, and the rule takes them of the desired number.
Where workloads share a group, what each budget demands of the pods it protects adds up to a number; pods
that no budget protects count as one workload. A budget over several workloads of a group is asked once,
for all of them: what may be unavailable is not granted to each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fairlead.kube.selectors import matches
from fairlead.kube.workloads import PodDisruptionBudget
from fairlead.policy.groups import name_of
from fairlead.policy.model import PlacementPolicy
from fairlead.policy.rule import Demand, Tiers
from fairlead.policy.workloads import PER_POD, Workload, demand_of

__all__ = [
    "Alike",
    "Makeup",
    "alike",
    "asks_budgets",
    "demand_of_group",
    "desired_of_group",
    "tiers_of_group",
]

_Key = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Alike:
    """Live pods of one workload with the same labels; those that differ from pod to pod do not count."""

    workload: Workload
    labels: Mapping[str, str]
    pods: int = 1


class Makeup:
    """What a group's live pods are like, kept up to date pod by pod.

    Invariant: each pod is in exactly one bundle, and no bundle is empty.
    """

    __slots__ = ("_bundles", "_key_of")

    def __init__(self) -> None:
        self._bundles: dict[_Key, dict[str, None]] = {}
        self._key_of: dict[str, _Key] = {}

    def __len__(self) -> int:
        return len(self._key_of)

    def put(self, pod: str, workload: Workload, labels: Mapping[str, str]) -> None:
        """A live pod as it now is."""
        key = _key(workload, labels)
        if self._key_of.get(pod) != key:
            self.drop(pod)
            self._key_of[pod] = key
            self._bundles.setdefault(key, {})[pod] = None

    def drop(self, pod: str) -> None:
        """A pod is gone or on its way out."""
        key = self._key_of.pop(pod, None)
        if key is not None:
            bundle = self._bundles[key]
            del bundle[pod]
            if not bundle:
                del self._bundles[key]

    def alike(
        self,
        workload: Callable[[str], Workload],
        coming: tuple[Workload, Mapping[str, str]] | None = None,
    ) -> list[Alike]:
        """The pods by likeness, with one that is `coming`; `workload` tells a pod's, as it is known now."""
        found = [
            Alike(workload(next(iter(pods))), dict(labels), len(pods))
            for (_, labels), pods in self._bundles.items()
        ]
        return found if coming is None else [*found, Alike(*coming)]


def alike(pods: Iterable[tuple[Workload, Mapping[str, str]]]) -> list[Alike]:
    """Live pods by likeness: whose each is, and its labels."""
    found: dict[_Key, Alike] = {}
    for workload, labels in pods:
        key = _key(workload, labels)
        known = found.get(key)
        found[key] = Alike(workload, labels, 1 if known is None else known.pods + 1)
    return list(found.values())


def asks_budgets(policy: PlacementPolicy) -> bool:
    """Whether a tier of the policy has ``min: pdb``: else nobody asks what budgets demand."""
    return any(tier.min == "pdb" for tier in policy.spec.tiers)


def demand_of_group(
    policy: PlacementPolicy, namespace: str, pods: Iterable[Alike], budgets: Iterable[PodDisruptionBudget]
) -> Demand:
    """What budgets demand of a group of these pods. The order in which things are given does not matter."""
    if not asks_budgets(policy):
        return Demand()
    near = [one for one in budgets if one.metadata.namespace == namespace]
    parts: dict[tuple[str, ...], dict[str, int]] = {}  # by the budgets that protect them, then by workload
    labels: dict[tuple[str, ...], Mapping[str, str]] = {}
    wanted: dict[str, int] = {}
    for one in pods:
        protecting = tuple(sorted(b.metadata.name for b in near if matches(b.spec.selector, one.labels)))
        labels.setdefault(protecting, one.labels)
        part, name = parts.setdefault(protecting, {}), name_of(one.workload)
        part[name] = part.get(name, 0) + one.pods
        wanted[name] = max(wanted.get(name, 0), one.workload.replicas or 0)
    missing = {
        name: max(0, number - sum(part.get(name, 0) for part in parts.values()))
        for name, number in wanted.items()
    }
    numbers = {
        protecting: sum(there + missing[name] for name, there in part.items())
        for protecting, part in parts.items()
    }
    demands = {
        protecting: demand_of(near, namespace, labels[protecting], number)
        for protecting, number in numbers.items()
    }
    if policy.spec.group_by == "workload" and len(demands) == 1:
        return next(iter(demands.values()))
    if not demands:
        return Demand()
    return Demand(min_available=sum(demand.of(numbers[protecting]) for protecting, demand in demands.items()))


def tiers_of_group(
    policy: PlacementPolicy, namespace: str, pods: Iterable[Alike], budgets: Iterable[PodDisruptionBudget]
) -> Tiers:
    """A policy's tiers as the rule sees them for a group of these pods."""
    if not asks_budgets(policy):
        return Tiers(policy.spec.tiers)
    pods = list(pods)
    return Tiers(
        policy.spec.tiers, demand_of_group(policy, namespace, pods, budgets), desired_of_group(policy, pods)
    )


def desired_of_group(policy: PlacementPolicy, pods: Iterable[Alike]) -> int | None:
    """How many pods a group of one workload is to have, as far as known; of others nobody says."""
    if policy.spec.group_by != "workload":
        return None
    return max((one.workload.replicas for one in pods if one.workload.replicas is not None), default=None)


def _key(workload: Workload, labels: Mapping[str, str]) -> _Key:
    return name_of(workload), frozenset(item for item in labels.items() if item[0] not in PER_POD)
