"""The nodes of each policy's tiers as sets of names: a filter call must not look at 5,000 nodes' labels.

Worked out when a node changes, for the policies that hold; kept for all nodes, schedulable or not, because
kube-scheduler has sorted out those that take no pods before it asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fairlead.kube.node import Node
from fairlead.policy.fallback import Nodes, is_schedulable
from fairlead.policy.model import PlacementPolicy, Tier
from fairlead.policy.nodes import tier_of_node

__all__ = ["NodesOfTiers"]


@dataclass(slots=True)
class _Tiers:
    """One policy's nodes. Invariant: `tier_of` has every known node; a node is in its tier's set only."""

    policy: PlacementPolicy
    tier_of: dict[str, int | None] = field(default_factory=dict)
    names: list[set[str]] = field(default_factory=list)
    schedulable: list[dict[str, float]] = field(default_factory=list)
    had: list[bool] = field(default_factory=list)
    """By tier: whether there was a schedulable node, the loss of which would be news to the marks."""
    domains: list[dict[str, tuple[str, ...]]] = field(default_factory=list)
    """By tier and node: the values of the tier's `spread` keys, empty where the node lacks one."""

    def put(self, node: Node) -> None:
        name = node.metadata.name
        self.drop(name)
        tier = self.tier_of[name] = tier_of_node(self.policy, name, node.metadata.labels)
        if tier is None:
            return
        self.names[tier].add(name)
        labels = node.metadata.labels
        self.domains[tier][name] = tuple(labels.get(key, "") for key in self.policy.spec.tiers[tier].spread)
        if is_schedulable(node, self.policy.spec.tiers[tier].tolerations):
            made = node.metadata.creation_timestamp
            self.schedulable[tier][name] = made.timestamp() if made is not None else 0.0
            self.had[tier] = True

    def drop(self, name: str) -> None:
        tier = self.tier_of.pop(name, None)
        if tier is not None:
            self.names[tier].discard(name)
            self.schedulable[tier].pop(name, None)
            del self.domains[tier][name]


class NodesOfTiers:
    """See the module."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._by_policy: dict[str, _Tiers] = {}
        # The very sets of exclusive tiers: every node on offer is looked up in them.
        self._alone: dict[str, list[set[str]]] = {}
        self._alone_in_any: list[set[str]] = []

    def use(self, policies: Iterable[PlacementPolicy]) -> None:
        """These policies hold now; what was known of others is forgotten."""
        policies = tuple(policies)
        before = self._by_policy
        self._by_policy = {}
        for policy in policies:
            known = before.get(policy.name)
            if known is not None and known.policy.spec.tiers == policy.spec.tiers:
                self._by_policy[policy.name] = known
                known.policy = policy
                continue
            number = len(policy.spec.tiers)
            tiers = _Tiers(
                policy,
                names=[set() for _ in range(number)],
                schedulable=[{} for _ in range(number)],
                had=[False] * number,
                domains=[{} for _ in range(number)],
            )
            for node in self._nodes.values():
                tiers.put(node)
            self._by_policy[policy.name] = tiers
        self._alone = {
            name: [tiers.names[at] for at, tier in enumerate(tiers.policy.spec.tiers) if tier.exclusive]
            for name, tiers in self._by_policy.items()
        }
        self._alone_in_any = [names for sets in self._alone.values() for names in sets]

    def put(self, node: Node) -> None:
        """A node is new or changed."""
        self._nodes[node.metadata.name] = node
        for tiers in self._by_policy.values():
            tiers.put(node)

    def drop(self, name: str) -> None:
        """A node is gone."""
        self._nodes.pop(name, None)
        for tiers in self._by_policy.values():
            tiers.drop(name)

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def tiers(self, policy: str) -> Sequence[Tier]:
        """The tiers of a policy that holds."""
        found = self._by_policy.get(policy)
        return found.policy.spec.tiers if found is not None else ()

    def of(self, policy: str, tier: int) -> set[str]:
        """The names of a tier's nodes."""
        found = self._by_policy.get(policy)
        return found.names[tier] if found is not None else set()

    def domains(self, policy: str, tier: int) -> Mapping[str, tuple[str, ...]]:
        """Of each of a tier's nodes, the values of the topology keys that its pods are spread over."""
        found = self._by_policy.get(policy)
        return found.domains[tier] if found is not None else {}

    def exclusive(self) -> dict[str, frozenset[str]]:
        """The names of exclusive tiers, by policy; policies without one are left out."""
        return {
            name: found
            for name, tiers in self._by_policy.items()
            if (found := frozenset(tier.name for tier in tiers.policy.spec.tiers if tier.exclusive))
        }

    def wants_alone(self, node: str, policy: str | None = None) -> bool:
        """Whether the node is in an exclusive tier, of this policy or of any."""
        sets = self._alone_in_any if policy is None else self._alone.get(policy, ())
        return any(node in names for names in sets)

    def seen(self, policy: str) -> Nodes | None:
        """What fallback decides from, as it is at this moment; None: not a policy that holds."""
        found = self._by_policy.get(policy)
        if found is None:
            return None
        return Nodes(
            tuple(dict(names) for names in found.schedulable), tuple(len(names) for names in found.names)
        )

    def takes_pods(self, policy: str, tier: int) -> bool:
        """Whether a tier has a schedulable node."""
        found = self._by_policy.get(policy)
        return found is not None and bool(found.schedulable[tier])

    def noted(self, policy: str, marked: Collection[str]) -> None:
        """These tiers are marked. For one that has lost its nodes the mark speaks from now on.

        Or a loss would outlast its mark, until a node came by itself.
        """
        found = self._by_policy.get(policy)
        if found is None:
            return
        for index, tier in enumerate(found.policy.spec.tiers):
            if tier.name in marked and not found.schedulable[index]:
                found.had[index] = False

    def lost(self, policy: str) -> Sequence[int]:
        """Tiers whose last schedulable node was cordoned or lost, by what we saw and nobody marked yet.

        Nodes that never took pods tell of no loss: they may be starting for those who wait.
        """
        found = self._by_policy.get(policy)
        if found is None:
            return ()
        return [tier for tier, names in enumerate(found.schedulable) if not names and found.had[tier]]
