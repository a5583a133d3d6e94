"""Groups as they stand, kept up to date change by change: a change costs its group, not the cluster.

What a pod is one of depends on its owners, its node and the policies; whoever of them changes has the
pods looked at again. The subtle thing is rollouts: another revision is another group, but both must know
of each other, so whether a workload is being rolled out is asked when the standings are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from fairlead.kube.pod import Pod
from fairlead.kube.workloads import PodDisruptionBudget
from fairlead.kube.workloads import Workload as Owner
from fairlead.policy.groups import GroupKey
from fairlead.policy.ledger import Ledger, Sightings
from fairlead.policy.matching import Policies
from fairlead.policy.sharing import Sharing
from fairlead.policy.standing import Governed, Standing, governed, rolls_out, stand
from fairlead.policy.workloads import Owners, Workload

__all__ = ["Grouped"]

_Name = tuple[str, str, str]  # kind, namespace, name
K = TypeVar("K", GroupKey, _Name, str)


class Grouped:
    """See the module.

    Invariant: `_of` has exactly the pods that a policy governs as things stand, and a group whose
    standing is not in `_standing` is made anew when somebody asks.
    """

    def __init__(self, owners: Owners, node_labels: Callable[[str], Mapping[str, str] | None]) -> None:
        self.policies = Policies()
        self.pods: dict[str, Pod] = {}
        self.sharing = Sharing()
        self._schedulers: Collection[str] | None = None
        self._owners = owners
        self._node_labels = node_labels
        self._of: dict[str, Governed] = {}
        self._groups: dict[GroupKey, dict[str, None]] = {}
        self._standing: dict[GroupKey, Standing] = {}
        self._stale_at: dict[GroupKey, float] = {}
        self._ledgers: dict[str, Ledger] = {}
        self._sightings = Sightings()
        self._budgets: dict[str, dict[str, PodDisruptionBudget]] = {}
        self._of_owner: dict[_Name, dict[str, None]] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._revisions: dict[_Name, Counter[str]] = {}

    # What happens

    def use(self, policies: Policies, *, schedulers: Collection[str] | None = None) -> None:
        """These policies hold from now on; with `schedulers`, only for pods that ask for one of them."""
        self.policies = policies
        self._schedulers = schedulers
        for key in list(self._of):
            self._leave(key)
        for pod in self.pods.values():
            self._enter(pod)

    def pod(self, pod: Pod) -> None:
        """A pod as it now is."""
        self.pod_gone(pod.metadata.key)
        self.pods[pod.metadata.key] = pod
        for name in _controllers(pod):
            self._of_owner.setdefault(name, {})[pod.metadata.key] = None
        if pod.spec.node_name:
            self._on_node.setdefault(pod.spec.node_name, {})[pod.metadata.key] = None
        self._enter(pod)

    def pod_gone(self, key: str) -> None:
        """A pod is no more."""
        pod = self.pods.pop(key, None)
        if pod is None:
            return
        self._leave(key)
        for name in _controllers(pod):
            _drop(self._of_owner, name, key)
        _drop(self._on_node, pod.spec.node_name, key)

    def shares(self, kind: str, owner: Owner) -> None:
        """A workload as it now is, for who shares budgets with it."""
        if self.sharing.seen(kind, owner):
            self._stale_within(owner.metadata.namespace)

    def owner(self, kind: str, namespace: str, name: str, *, gone: bool = False) -> None:
        """An owner changed, came or went."""
        if gone and self.sharing.gone(kind, namespace, name):
            self._stale_within(namespace)
        for key in list(self._of_owner.get((kind, namespace, name), ())):
            self._again(key)

    def node(self, name: str) -> None:
        """A node's labels changed, or it came or went."""
        for key in list(self._on_node.get(name, ())):
            self._again(key)

    def budget(self, budget: PodDisruptionBudget) -> None:
        """A budget as it now is."""
        meta = budget.metadata
        before = self._budgets.setdefault(meta.namespace, {}).get(meta.name)
        self._budgets[meta.namespace][meta.name] = budget
        if before is None or before.spec != budget.spec:
            self._stale_within(meta.namespace)

    def budget_gone(self, namespace: str, name: str) -> None:
        """A budget is no more."""
        if self._budgets.get(namespace, {}).pop(name, None) is not None:
            self._stale_within(namespace)

    def ledger(self, ledger: Ledger) -> None:
        """A group's ledger as it now is."""
        self._ledgers[f"{ledger.key.namespace}/{ledger.key.ledger_name}"] = ledger
        self._standing.pop(ledger.key, None)

    def ledger_gone(self, name: str) -> None:
        """A group's ledger, by ``namespace/name``, is no more."""
        ledger = self._ledgers.pop(name, None)
        if ledger is not None:
            self._sightings.forget(ledger.key)
            self._standing.pop(ledger.key, None)

    # Answers

    def all_budgets(self) -> Iterable[PodDisruptionBudget]:
        """All budgets."""
        return (budget for found in self._budgets.values() for budget in found.values())

    def governs(self, key: str) -> bool:
        """Whether a policy governs a pod."""
        return key in self._of

    def standings(self, now: float) -> list[Standing]:
        """All groups that have pods, in the order of their keys."""
        for key, at in list(self._stale_at.items()):
            if now > at:
                self._standing.pop(key, None)
        return [self._standing_of(key, now) for key in sorted(self._groups)]

    def standing_of(self, pod: str, now: float) -> Standing | None:
        """The group of a pod; None: it is in none."""
        found = self._of.get(pod)
        return self._standing_of(found.key, now) if found is not None else None

    def stranded(self, policy: str) -> set[str]:
        """Names of a policy's tiers to which pods were sent that are on nodes that nobody knows any more."""
        return {
            found.member.tier
            for found in self._of.values()
            if found.policy.name == policy and found.pod.spec.node_name and not found.member.placed
        }

    def _standing_of(self, key: GroupKey, now: float) -> Standing:
        standing = self._standing.get(key)
        if standing is None:
            standing = self._standing[key] = self._stand(key, now)
        rolling = self._rolling(standing)
        return standing if rolling == standing.rolling else replace(standing, rolling=rolling)

    def _stand(self, key: GroupKey, now: float) -> Standing:
        pods = [self._of[pod] for pod in self._groups[key]]
        ledger = self._ledgers.get(f"{key.namespace}/{key.ledger_name}")
        if ledger is not None:
            ledger = self._sightings.of(ledger, now)
        budgets = self._budgets.get(key.namespace, {}).values()
        standing = stand(pods, ledger, budgets, self.sharing, now)
        if (at := standing.stale_at(now)) is not None:
            self._stale_at[key] = at
        else:
            self._stale_at.pop(key, None)
        return standing

    def _rolling(self, standing: Standing) -> str:
        for workload in standing.workloads:
            # A StatefulSet with several revisions may stay like that; its status tells.
            several = workload.kind != "StatefulSet" and len(self._revisions.get(_named(workload), ())) > 1
            if several or rolls_out(workload, self._owners):
                return f"{workload.kind} {workload.namespace}/{workload.name}"
        return ""

    def _enter(self, pod: Pod) -> None:
        if self._schedulers is not None and pod.spec.scheduler_name not in self._schedulers:
            return
        found = governed(pod, self.policies, self._owners, self._node_labels)
        if found is None:
            return
        key = pod.metadata.key
        self._of[key] = found
        self._groups.setdefault(found.key, {})[key] = None
        self._standing.pop(found.key, None)
        name = _named(found.workload)
        self._of_owner.setdefault(name, {})[key] = None
        if not found.member.leaving:
            self._revisions.setdefault(name, Counter())[found.workload.revision] += 1

    def _leave(self, key: str) -> None:
        found = self._of.pop(key, None)
        if found is None:
            return
        _drop(self._groups, found.key, key)
        self._standing.pop(found.key, None)
        self._stale_at.pop(found.key, None)
        name = _named(found.workload)
        if name not in _controllers(found.pod):
            _drop(self._of_owner, name, key)
        if not found.member.leaving:
            counts = self._revisions[name]
            counts[found.workload.revision] -= 1
            if not counts[found.workload.revision]:
                del counts[found.workload.revision]
            if not counts:
                del self._revisions[name]

    def _again(self, key: str) -> None:
        self._leave(key)
        self._enter(self.pods[key])

    def _stale_within(self, namespace: str) -> None:
        for key in [key for key in self._standing if key.namespace == namespace]:
            del self._standing[key]


def _controllers(pod: Pod) -> tuple[_Name, ...]:
    reference = pod.metadata.controller
    return ((reference.kind, pod.metadata.namespace, reference.name),) if reference is not None else ()


def _named(workload: Workload) -> _Name:
    return workload.kind, workload.namespace, workload.name


def _drop(index: dict[K, dict[str, None]], of: K, key: str) -> None:
    found = index.get(of)
    if found is not None:
        found.pop(key, None)
        if not found:
            del index[of]
