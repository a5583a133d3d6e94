"""PodDisruptionBudgets as preemption and rebalancing see them: how many evictions of a set would break one.

Counted as kube-scheduler does, from ``status.disruptionsAllowed``: a budget with an empty selector
matches nothing, pods without labels match none, and pods already in ``status.disruptedPods`` cost
nothing. The subtle thing: evictions that we have sent but not yet seen in the status must be
counted too, or two preemptors of one moment would spend the same allowance.

The eviction API differs in one thing, which `empty_matches` chooses: an empty selector matches every pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairlead.kube.pod import Pod
from fairlead.kube.selectors import Requirement, matches
from fairlead.kube.workloads import PodDisruptionBudget


class Budgets:
    """All budgets, by namespace.

    Invariant: `version` grows whenever an answer could change, `grown` whenever more could be allowed.
    """

    def __init__(self, budgets: Iterable[PodDisruptionBudget] = (), *, empty_matches: bool = False) -> None:
        self._empty = empty_matches
        self._budgets: dict[str, dict[str, PodDisruptionBudget]] = {}
        self._in_flight: dict[str, tuple[str, ...]] = {}  # pod uid → budgets it spends from
        self._spending: dict[str, int] = {}  # the same, counted by budget
        self._memo: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[PodDisruptionBudget, ...]] = {}
        self.version = 0
        self.grown = 0
        for budget in budgets:
            self.seen(budget)

    def seen(self, budget: PodDisruptionBudget) -> None:
        """Add a budget or replace what was known of it."""
        self._budgets.setdefault(budget.metadata.namespace, {})[budget.metadata.name] = budget
        self._changed()

    def gone(self, namespace: str, name: str) -> None:
        """Forget a budget."""
        if self._budgets.get(namespace, {}).pop(name, None) is not None:
            self._changed()

    def evicting(self, pod: Pod) -> None:
        """An eviction of `pod` was sent: its budgets have one less to give until it is seen gone."""
        held = tuple(budget.metadata.key for budget in self.of(pod) if not _spent(budget, pod))
        if held and pod.metadata.uid not in self._in_flight:
            self._in_flight[pod.metadata.uid] = held
            for key in held:
                self._spending[key] = self._spending.get(key, 0) + 1
            self.version += 1

    def settled(self, uid: str) -> None:
        """The eviction of the pod with this UID is over, one way or the other."""
        held = self._in_flight.pop(uid, ())
        for key in held:
            self._spending[key] -= 1
        if held:
            self.version += 1
            self.grown += 1

    def of(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        """The budgets that protect `pod`, in order of name."""
        budgets = self._budgets.get(pod.metadata.namespace)
        if not budgets or not (pod.metadata.labels or self._empty):
            return ()
        key = (pod.metadata.namespace, tuple(sorted(pod.metadata.labels.items())))
        found = self._memo.get(key)
        if found is None:
            found = tuple(
                budget
                for _, budget in sorted(budgets.items())
                if _protects(budget, pod.metadata.labels, empty=self._empty)
            )
            self._memo[key] = found
        return found

    def allowed(self, budget: PodDisruptionBudget) -> int:
        """How many more pods of `budget` may go, evictions in flight taken off."""
        return budget.status.disruptions_allowed - self._spending.get(budget.metadata.key, 0)

    def broken(self, pods: Iterable[Pod]) -> list[bool]:
        """Which of `pods`, taken in this order, would go beyond what their budgets allow."""
        left: dict[str, int] = {}
        found = []
        for pod in pods:
            beyond = False
            for budget in self.of(pod):
                # The API server has already counted pods in disruptedPods.
                if _spent(budget, pod) or pod.metadata.uid in self._in_flight:
                    continue
                key = budget.metadata.key
                left[key] = left.get(key, self.allowed(budget)) - 1
                beyond = beyond or left[key] < 0
            found.append(beyond)
        return found

    def _changed(self) -> None:
        self._memo.clear()
        self.version += 1
        self.grown += 1


_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def _protects(budget: PodDisruptionBudget, labels: Mapping[str, str], *, empty: bool) -> bool:
    selector = budget.spec.selector
    if selector is None or (selector.empty and not empty):
        return False
    return all(_legal(one) for one in selector.match_expressions) and matches(selector, labels)


def _legal(requirement: Requirement) -> bool:
    # kube-scheduler skips a budget whose selector cannot be read; so do we, rather than guess.
    values = bool(requirement.values)
    return requirement.operator in _OPERATORS and values == (requirement.operator in ("In", "NotIn"))


def _spent(budget: PodDisruptionBudget, pod: Pod) -> bool:
    return pod.metadata.name in budget.status.disrupted_pods
