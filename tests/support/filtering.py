"""The extender's decisions in virtual time: two spot and two on-demand nodes, one group, and a clock."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.policy.decide.filter.filter_state import FilterAnswer, FilterRequest, FilterState
from fairlead.policy.groups.member import GroupKey, Place
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Demand, Tiers
from fairlead.policy.tiers.tier_nodes import NodesOfTiers
from support.members import KEY, a_deployment, member
from support.policies import policy

__all__ = ["ALL", "Scene"]

ALL = ("s1", "s2", "d1", "d2")


class Scene:
    """Two spot and two on-demand nodes, one group, and a clock."""

    def __init__(self, governing: PlacementPolicy | None = None, *, replicas: int | None = 10) -> None:
        self.policy = governing or policy()
        self.tiers = Tiers(self.policy.spec.tiers, Demand())
        self.workload = a_deployment(replicas)
        self.nodes = NodesOfTiers()
        self.nodes.use([self.policy])
        for name, capacity, zone in (
            ("s1", "spot", "a"),
            ("s2", "spot", "b"),
            ("d1", "on-demand", "a"),
            ("d2", "on-demand", "b"),
        ):
            self.put_node(name, capacity, zone)
        self.marked: set[str] = set()
        self.state = FilterState(self.nodes, lambda _: self.marked)
        self.now = 0.0

    def put_node(self, name: str, capacity: str, zone: str = "a", **spec: Any) -> None:
        labels = {"capacity": capacity, "zone": zone}
        self.nodes.put(convert({"metadata": {"name": name, "labels": labels}, "spec": spec}, Node))

    def lose_spot(self) -> None:
        """Every spot node is gone, and the marks say so."""
        for name in ("s1", "s2"):
            self.nodes.drop(name)
        self.marked = {"spot"}

    def ask(self, name: str, key: GroupKey = KEY, **more: Any) -> FilterRequest:
        return FilterRequest(
            member(name, **more), "default", Place(self.policy, self.workload, key), self.tiers
        )

    def filter(self, name: str, offered: Collection[str] = ALL, **more: Any) -> FilterAnswer:
        return self.state.filter(self.ask(name, **more), tuple(offered), self.now)

    def tier(self, verdict: FilterAnswer) -> str:
        assert verdict.choice is not None
        assert verdict.choice.tier is not None
        return self.policy.spec.tiers[verdict.choice.tier].name

    def bound(self, name: str, node: str) -> None:
        """The watch shows that kube-scheduler has bound a pod."""
        tier = "spot" if node.startswith("s") else "on-demand"
        self.state.shown(KEY, member(name, tier=tier), node)

    def gone(self, name: str) -> None:
        self.state.left(KEY, member(name), gone=True)

    def schedule(self, name: str, offered: Collection[str] = ALL) -> str:
        """Ask, and have it bound to the first node that is allowed; its tier."""
        verdict = self.filter(name, offered)
        self.bound(name, verdict.nodes[0])
        return self.tier(verdict)
