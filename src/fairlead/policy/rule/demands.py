"""What budgets demand of a whole group, from all of its live pods: the same for every door.

In a group of one workload the budget's own words stand, and the rule takes them of the desired number.
Where workloads share a group, what each budget demands of the pods it protects adds up to a number; pods
that no budget protects count as one workload. Which pods of a group are kept is chance, so that number may
not be enough: the others could all be one budget's. So no more are let go than every budget could spare,
unless it could spare all of its pods.
A budget over several workloads is asked once, for all of them: what may be unavailable is not granted to
each. Where they are of one group, that is simply so; where they are not, each has its share (`Sharing`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fairlead.kube.selectors import LabelSelector, matches
from fairlead.kube.workloads import Job, PodDisruptionBudget
from fairlead.kube.workloads import Workload as Owner
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Demand, Tiers
from fairlead.policy.rule.workloads import PER_POD, Workload, called, demand_of, name_of

_Key = tuple[str, frozenset[tuple[str, str]]]
_Protecting = tuple[str, ...]  # the names of the budgets that protect some pods
_Unit = tuple[str, _Protecting]  # a workload's pods that the same budgets protect


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

    def put(self, pod: str, workload: Workload, labels: Mapping[str, str]) -> bool:
        """A live pod as it now is; whether that is news."""
        key = _key(workload, labels)
        if self._key_of.get(pod) == key:
            return False
        self.drop(pod)
        self._key_of[pod] = key
        self._bundles.setdefault(key, {})[pod] = None
        return True

    def drop(self, pod: str) -> bool:
        """A pod is gone or on its way out; whether it was there."""
        key = self._key_of.pop(pod, None)
        if key is None:
            return False
        bundle = self._bundles[key]
        del bundle[pod]
        if not bundle:
            del self._bundles[key]
        return True

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


@dataclass(frozen=True, slots=True)
class _Known:
    name: str
    labels: dict[str, str]
    created: float
    """Never, where it is unknown: such a workload comes after all others."""


@dataclass(slots=True)
class _Namespace:
    known: dict[tuple[str, str], _Known] = field(default_factory=dict)
    under: dict[str, tuple[LabelSelector | None, tuple[str, ...]]] = field(default_factory=dict)


class Sharing:
    """The workloads of all namespaces, by what their pods are labelled with: which of them share a
    PodDisruptionBudget, and which of those has what it lets be unavailable.

    A budget counts the pods of all workloads that it selects, so what may be unavailable is there once. A
    number of pods is all the oldest workload's; of a percentage every workload has its own part, rounded
    down, and the oldest's rounded up, which together is never more than the budget lets go. Both stay as they
    are when workloads are scaled, even to nothing, or made: none has to give back what another is about to
    use.

    Workloads are known by their own objects, not by their pods: the pods of two that are made at the same
    moment are admitted before any component has seen them.

    Invariant: what is remembered of a budget is right for the workloads as they were last reported.
    """

    __slots__ = ("_within",)

    def __init__(self) -> None:
        self._within: dict[str, _Namespace] = {}

    def seen(self, kind: str, owner: Owner | Job, api_version: str = "apps/v1") -> bool:
        """A workload as it now is; whether that may change which workloads share a budget.

        Jobs are no part of it: with their pods the disruption controller gives a budget up.
        """
        found = _known(kind, owner, api_version)
        if found is None:
            return False
        within = self._within.setdefault(owner.metadata.namespace, _Namespace())
        key = kind, owner.metadata.name
        if within.known.get(key) == found:
            return False
        within.known[key] = found
        within.under.clear()
        return True

    def gone(self, kind: str, namespace: str, name: str) -> bool:
        """A workload is no more; whether that may change which workloads share a budget."""
        within = self._within.get(namespace)
        if within is None or within.known.pop((kind, name), None) is None:
            return False
        within.under.clear()
        if not within.known:
            del self._within[namespace]
        return True

    def under(self, budget: PodDisruptionBudget) -> tuple[str, ...]:
        """The workloads whose pods a budget protects, as `name_of` calls them, the oldest first."""
        within = self._within.get(budget.metadata.namespace)
        if within is None:
            return ()
        selector = budget.spec.selector
        remembered = within.under.get(budget.metadata.name)
        if remembered is not None and remembered[0] == selector:
            return remembered[1]
        ages: dict[str, float] = {}
        for one in within.known.values():
            if matches(selector, one.labels):
                ages[one.name] = min(one.created, ages.get(one.name, math.inf))
        # Made in the same second, the name decides: it is all that every component knows.
        found = tuple(sorted(ages, key=lambda name: (ages[name], name)))
        within.under[budget.metadata.name] = selector, found
        return found


def asks_budgets(policy: PlacementPolicy) -> bool:
    """Whether a tier of the policy has ``min: pdb``: else it does not matter what budgets demand."""
    return any(tier.min == "pdb" for tier in policy.spec.tiers)


def demand_of_group(
    policy: PlacementPolicy,
    namespace: str,
    pods: Iterable[Alike],
    budgets: Iterable[PodDisruptionBudget],
    sharing: Sharing,
) -> Demand:
    """What budgets demand of a group of these pods. The order in which things are given does not matter.

    It is the same for a tier with ``min: pdb`` and for a caller that only wants to know.
    """
    near = {one.metadata.name: one for one in budgets if one.metadata.namespace == namespace}
    parts, number_of_pods = _parts(pods, near)
    if not parts:
        return Demand()
    oldest = {name: _oldest(name, parts, sharing.under(budget)) for name, budget in near.items()}
    asked = {
        protecting: {
            name: _asked(demand, protecting, part, oldest[name])
            for name in protecting
            if (demand := demand_of(near[name])) is not None
        }
        for protecting, part in parts.items()
    }
    sizes = {protecting: sum(part.values()) for protecting, part in parts.items()}
    strictest = [
        max(found.values(), key=lambda one: one[0], default=(Demand().of(sizes[protecting]), Demand()))
        for protecting, found in asked.items()
    ]
    kept = sum(number for number, _ in strictest)
    if policy.spec.group_by == "workload":
        return strictest[0][1] if len(strictest) == 1 else Demand(min_available=kept)
    under: dict[str, int] = {}
    spare: dict[str, int] = {}
    for protecting, found in asked.items():
        for name, (number, _) in found.items():
            under[name] = under.get(name, 0) + sizes[protecting]
            spare[name] = spare.get(name, 0) + sizes[protecting] - number
    let_go = min((spare[name] for name in under if spare[name] < under[name]), default=number_of_pods)
    return Demand(min_available=max(kept, number_of_pods - let_go))


def tiers_of_group(
    policy: PlacementPolicy,
    namespace: str,
    pods: Iterable[Alike],
    budgets: Iterable[PodDisruptionBudget],
    sharing: Sharing,
) -> Tiers:
    """A policy's tiers as the rule sees them for a group of these pods."""
    if not asks_budgets(policy):
        return Tiers(policy.spec.tiers)
    pods = list(pods)
    demand = demand_of_group(policy, namespace, pods, budgets, sharing)
    return Tiers(policy.spec.tiers, demand, desired_of_group(policy, pods))


def desired_of_group(policy: PlacementPolicy, pods: Iterable[Alike]) -> int | None:
    """How many pods a group of one workload is to have, as far as known; of other groups it is unknown."""
    if policy.spec.group_by != "workload":
        return None
    return max((one.workload.replicas for one in pods if one.workload.replicas is not None), default=None)


def _key(workload: Workload, labels: Mapping[str, str]) -> _Key:
    return name_of(workload), frozenset(item for item in labels.items() if item[0] not in PER_POD)


def _parts(
    pods: Iterable[Alike], budgets: Mapping[str, PodDisruptionBudget]
) -> tuple[dict[_Protecting, dict[str, int]], int]:
    """By the budgets that protect them and by workload, how many pods there are or will be; and in all.

    A pod that is yet to come may be in any part of its workload, so it counts in each, but once in all.
    """
    there: dict[_Protecting, dict[str, int]] = {}
    wanted: dict[str, int] = {}
    for one in pods:
        protecting = tuple(sorted(b for b in budgets if matches(budgets[b].spec.selector, one.labels)))
        part, name = there.setdefault(protecting, {}), name_of(one.workload)
        part[name] = part.get(name, 0) + one.pods
        wanted[name] = max(wanted.get(name, 0), one.workload.replicas or 0)
    missing = {
        name: max(0, number - sum(part.get(name, 0) for part in there.values()))
        for name, number in wanted.items()
    }
    parts = {
        protecting: {name: number + missing[name] for name, number in part.items()}
        for protecting, part in sorted(there.items())
    }
    return parts, sum(map(sum, (part.values() for part in there.values()))) + sum(missing.values())


def _oldest(
    budget: str, parts: Mapping[_Protecting, Mapping[str, int]], under: Sequence[str]
) -> _Unit | Literal["all"] | None:
    """Which of a group's workloads, and which part of it, has what a budget lets be unavailable.

    ``all``: the budget protects no others, and these in the same way. `under` are the workloads that it
    protects in the whole namespace, the oldest first.
    """
    rank = {name: number for number, name in enumerate(under)}
    mine = [(name, protecting) for protecting, part in parts.items() if budget in protecting for name in part]
    others = [number for name, number in rank.items() if all(name != known for known, _ in mine)]
    if not others and len({protecting for _, protecting in mine}) < 2:
        return "all"
    first = min(mine, key=lambda unit: (rank.get(unit[0], len(under)), unit), default=None)
    if first is None or rank.get(first[0], len(under)) > min(others, default=len(under)):
        return None
    return first


def _asked(
    demand: Demand, protecting: _Protecting, part: Mapping[str, int], first: _Unit | Literal["all"] | None
) -> tuple[int, Demand]:
    """What a budget demands of pods that the same budgets protect: how many, and in its words."""
    if first == "all":
        return demand.of(sum(part.values())), demand
    shares = {name: demand.share(oldest=(name, protecting) == first) for name in part}
    number = sum(share.of(part[name]) for name, share in shares.items())
    return number, next(iter(shares.values())) if len(shares) == 1 else Demand(min_available=number)


def _known(kind: str, owner: Owner | Job, api_version: str) -> _Known | None:
    if isinstance(owner, Job):
        return None
    meta, labels = owner.metadata, owner.spec.template.metadata.labels
    above = meta.controller if kind == "ReplicaSet" else None
    if above is not None:
        if above.kind == "Deployment":
            return None  # that speaks for itself
        # Of others only their ReplicaSets are seen, and those are as young as the last rollout.
        return _Known(called(above.kind, above.api_version, above.name), labels, math.inf)
    created = meta.creation_timestamp
    age = created.timestamp() if created is not None else math.inf
    return _Known(called(kind, api_version, meta.name), labels, age)
