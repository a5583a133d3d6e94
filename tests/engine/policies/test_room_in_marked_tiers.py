"""A marked tier takes what fits there now: no pod waits for it, and none is sent past room in it."""

from __future__ import annotations

from fairlead.engine.core.events import MarksAre, PoliciesAre
from fairlead.engine.planning.settings import Settings
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.marks import Marks
from support.cluster_of import Running
from support.policies import ON_DEMAND, SPOT, policy
from support.units import EPOCH, node, pod

ON_SPOT, ON_DEMAND_NODES = {"capacity": "spot"}, {"capacity": "on-demand"}


def marked(governing: PlacementPolicy, *tiers: str, pods: int = 110) -> Running:
    """Nodes with room for that many pods; these tiers are marked, because they did not take pods in time."""
    world, marks = Running(Settings(backoff_s=0.0)), Marks()
    for tier in tiers:
        marks = marks.failed(tier, EPOCH.timestamp() + world.now)
    world.tell(PoliciesAre((governing,), ("kube-system",)))
    world.add(node("s", labels=ON_SPOT, pods=pods), node("d", labels=ON_DEMAND_NODES, pods=pods))
    world.tell(MarksAre(governing.name, dict(marks)))
    return world


def test_a_pod_of_a_marked_tier_goes_there_after_one_that_belongs_where_it_would_be_passed_on_to() -> None:
    world = marked(policy("web", SPOT, ON_DEMAND, groupBy="policy"), "spot")
    world.add(pod("first")).add(pod("second", created=1))
    assert world.bound == {"default/first": "d", "default/second": "s"}


def test_a_pod_that_waits_takes_the_room_of_the_tier_that_it_belongs_to_since() -> None:
    tiers = SPOT | {"max": 1}, ON_DEMAND | {"min": 0, "max": 1}, {"name": "burst"}
    world = marked(policy("web", *tiers, groupBy="policy"), "spot", "on-demand", pods=1)
    world.add(pod("in-the-way", namespace="kube-system", on="d"))
    world.add(pod("first")).add(pod("second", created=1))
    assert world.bound == {"default/first": "s", "kube-system/in-the-way": "d"}

    world.remove("first")

    assert world.bound["default/second"] == "s"
