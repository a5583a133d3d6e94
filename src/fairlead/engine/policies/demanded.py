"""The tiers of groups as the rule sees them: with what budgets demand of each, where its policy asks that.

A group's demand changes with its pods, so the same rule is found again by what is demanded, not by group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from fairlead.engine.policies.owners import KnownOwners
from fairlead.kube.workloads import PodDisruptionBudget
from fairlead.policy.demands import Makeup, asks_budgets, demand_of_group, desired_of_group
from fairlead.policy.model import PlacementPolicy
from fairlead.policy.rule import Demand, Tiers
from fairlead.policy.workloads import Workload

__all__ = ["Demanded"]

_ROOM = 1000  # rules that are kept


class Demanded:
    """See the module. Invariant: for equal demands under one policy there is one object, until it is made
    anew for all: who has it need not compare more.
    """

    __slots__ = ("_budgets", "_owners", "_tiers")

    def __init__(self, owners: KnownOwners) -> None:
        self._owners = owners
        self._budgets: dict[str, dict[str, PodDisruptionBudget]] = {}  # by namespace and name
        self._tiers: dict[tuple[str, Demand, int | None], Tiers] = {}

    def budget(self, budget: PodDisruptionBudget) -> bool:
        """A budget as it now is; whether it may demand something else than before."""
        there = self._budgets.setdefault(budget.metadata.namespace, {})
        known = there.get(budget.metadata.name)
        there[budget.metadata.name] = budget
        return known is None or known.spec != budget.spec

    def budget_gone(self, namespace: str, name: str) -> bool:
        """A budget is gone; whether it was known."""
        return self._budgets.get(namespace, {}).pop(name, None) is not None

    def changed(self, policies: Collection[str]) -> None:
        """These policies are others, or gone."""
        self._tiers = {key: tiers for key, tiers in self._tiers.items() if key[0] not in policies}

    def tiers(
        self, policy: PlacementPolicy, namespace: str, makeup: Makeup, workload: Callable[[str], Workload]
    ) -> Tiers:
        """The tiers for a group of this makeup; `workload` tells whose a pod is, by UID."""
        demand, wanted = Demand(), None
        if asks_budgets(policy):
            like = makeup.alike(workload)
            budgets = self._budgets.get(namespace, {}).values()
            demand = demand_of_group(policy, namespace, like, budgets, self._owners.sharing)
            wanted = desired_of_group(policy, like)
        key = policy.name, demand, wanted
        found = self._tiers.get(key)
        if found is None:
            if len(self._tiers) >= _ROOM:
                self._tiers.clear()
            found = self._tiers[key] = Tiers(policy.spec.tiers, demand, wanted)
        return found
