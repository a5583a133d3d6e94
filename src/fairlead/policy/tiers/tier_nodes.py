"""The nodes of each policy's tiers, as sets of names: a filter call must not look at 5,000 nodes' labels.

Worked out when a node changes, for the policies that hold; kept for all nodes, schedulable or not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from fairlead.kube.node import Node
from fairlead.policy.rule.model import PlacementPolicy, Tier
from fairlead.policy.tiers.fallback import Nodes, is_schedulable
from fairlead.policy.tiers.nodes import tier_of_node


class TierNodes:
    """One policy's nodes. Invariant: `tier_of` has every known node; a node is in its tier's sets only."""

    __slots__ = ("domains", "had", "names", "policy", "schedulable", "tier_of")

    def __init__(self, policy: PlacementPolicy, nodes: Iterable[Node] = ()) -> None:
        number = len(policy.spec.tiers)
        self.policy = policy
        self.tier_of: dict[str, int | None] = {}
        self.names: list[set[str]] = [set() for _ in range(number)]
        self.schedulable: list[dict[str, float]] = [{} for _ in range(number)]
        """By tier: its schedulable nodes, and when they were created."""
        self.had = [False] * number
        """By tier: whether there was a schedulable node, the loss of which would be news to the marks."""
        self.domains: list[dict[str, tuple[str, ...]]] = [{} for _ in range(number)]
        """By tier and node: the values of the tier's `spread` keys, empty where the node lacks one."""
        for node in nodes:
            self.put(node)

    def put(self, node: Node) -> bool:
        """A node is new or changed; whether its tier is another than before, or that it takes pods."""
        name, labels = node.metadata.name, node.metadata.labels
        before = self._of(name)
        self.drop(name)
        tier = self.tier_of[name] = tier_of_node(self.policy, name, labels)
        if tier is not None:
            self.names[tier].add(name)
            spec = self.policy.spec.tiers[tier]
            self.domains[tier][name] = tuple(labels.get(key, "") for key in spec.spread)
            if is_schedulable(node, spec.tolerations):
                made = node.metadata.creation_timestamp
                self.schedulable[tier][name] = made.timestamp() if made is not None else 0.0
                self.had[tier] = True
        return before != self._of(name)

    def drop(self, name: str) -> bool:
        """A node is gone; whether it was known."""
        if name not in self.tier_of:
            return False
        tier = self.tier_of.pop(name)
        if tier is not None:
            self.names[tier].discard(name)
            self.schedulable[tier].pop(name, None)
            del self.domains[tier][name]
        return True

    def seen(self) -> Nodes:
        """What fallback decides from, as it is at this moment."""
        return Nodes(tuple(dict(names) for names in self.schedulable), tuple(map(len, self.names)))

    def trouble(self, tier: int) -> str:
        """Why a tier takes no pods, as far as its nodes tell; or ""."""
        return trouble(self.policy.spec.tiers[tier], len(self.schedulable[tier]), len(self.names[tier]))

    def _of(self, name: str) -> tuple[bool, int | None, float | None]:
        tier = self.tier_of.get(name)
        return name in self.tier_of, tier, None if tier is None else self.schedulable[tier].get(name)


class NodesOfTiers:
    """The nodes of the tiers of all policies."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._by_policy: dict[str, TierNodes] = {}
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
            self._by_policy[policy.name] = TierNodes(policy, self._nodes.values())
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
        return found.seen() if found is not None else None

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
        """Tiers whose last schedulable node was cordoned or lost, as far as we saw, and not marked yet.

        Nodes that never took pods tell of no loss: they may be starting for pods that wait.
        """
        found = self._by_policy.get(policy)
        if found is None:
            return ()
        return [tier for tier, names in enumerate(found.schedulable) if not names and found.had[tier]]


def trouble(tier: Tier, schedulable: int, everything: int) -> str:
    """Why a tier with this number of nodes, and of schedulable ones, takes no pods; "" when one does.

    >>> trouble(Tier("burst", names=("virtual",)), 0, 0)
    'node virtual does not exist'
    """
    if schedulable:
        return ""
    node = f"node {tier.names[0]}" if len(tier.names) == 1 and not tier.nodes else ""
    if not everything:
        return f"{node} does not exist" if node else "it has no nodes"
    return f"{node} is cordoned, not ready or to be removed" if node else "none of its nodes takes pods"
