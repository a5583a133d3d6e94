"""Which workloads share a PodDisruptionBudget, and which of them has what it lets be unavailable.

A budget counts the pods of all workloads that it selects, so what may be unavailable is there once. A
number of pods is all the oldest workload's; of a percentage every workload has its own part, rounded down,
and the oldest's rounded up, which together is never more than the budget lets go. Both stay as they are
when workloads are scaled, even to nothing, or made: nobody has to give back what another is about to use.

Workloads are known by their own objects, not by their pods: those of two that are made at the same moment
are admitted before anybody has seen them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from fairlead.kube.selectors import LabelSelector, matches
from fairlead.kube.workloads import Job, PodDisruptionBudget, Workload
from fairlead.policy.groups import called

__all__ = ["Sharing"]


@dataclass(frozen=True, slots=True)
class _Known:
    name: str
    labels: dict[str, str]
    created: float
    """Never, where nobody can tell: such a workload comes after all others."""


@dataclass(slots=True)
class _Namespace:
    known: dict[tuple[str, str], _Known] = field(default_factory=dict)
    under: dict[str, tuple[LabelSelector | None, tuple[str, ...]]] = field(default_factory=dict)


class Sharing:
    """The workloads of all namespaces, by what their pods are labelled with.

    Invariant: what is remembered of a budget is right for the workloads as they were last told.
    """

    __slots__ = ("_within",)

    def __init__(self) -> None:
        self._within: dict[str, _Namespace] = {}

    def seen(self, kind: str, owner: Workload | Job, api_version: str = "apps/v1") -> bool:
        """A workload as it now is; whether that may change who shares a budget.

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
        """A workload is no more; whether that may change who shares a budget."""
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
        # Made in the same second, the name decides: it is all that everybody knows.
        found = tuple(sorted(ages, key=lambda name: (ages[name], name)))
        within.under[budget.metadata.name] = selector, found
        return found


def _known(kind: str, owner: Workload | Job, api_version: str) -> _Known | None:
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
