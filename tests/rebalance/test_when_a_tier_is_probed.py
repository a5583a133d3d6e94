"""A probe gives up a healthy pod for a tier without nodes: only where some could come and a pod may go."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.engine.rebalance.node_pools import NodePool
from fairlead.kube.decode import convert
from fairlead.nodegroups import read_groups
from fairlead.world.autoscaler import Pacing
from fairlead.world.spot import Supply
from support.pictured import Picture
from support.placed import Placed
from support.policies import policy
from support.units import EPOCH, budget, workload
from support.worlds import group, seconds

GROUP = {"name": "spot", "labels": {"capacity": "spot"}, "instanceTypes": [{"capacity": {"cpu": "4"}}]}


def stranded(replicas: int = 10, *, grows: bool = True, **rebalance: Any) -> Picture:
    """All pods are on on-demand nodes; there is no spot node, and the cool-down is over."""
    picture = Picture(policy(rebalance=rebalance), nodes=False)
    picture.add(picture.on_demand("d1", 64), picture.on_demand("d2", 64))
    if grows:
        picture.machine.node_groups(read_groups([GROUP]))
    picture.pods(*(f"d{1 + number % 2}" for number in range(replicas)))
    return picture.failed(ago=61)


def strategy(picture: Picture, replicas: int, said: dict[str, Any] | None) -> Picture:
    """The Deployment with another rollout strategy."""
    made = workload("Deployment", "web", replicas=replicas, **({"strategy": said} if said else {}))
    made["metadata"]["generation"] = 1
    made["status"] = {"observedGeneration": 1, "updatedReplicas": replicas}
    return picture.add(made)


def pool(labels: dict[str, str] | None = None, requirements: list[dict[str, Any]] | None = None) -> NodePool:
    """A NodePool of Karpenter."""
    template = {"metadata": {"labels": labels or {}}, "spec": {"requirements": requirements or []}}
    return convert({"metadata": {"name": "pool"}, "spec": {"template": template}}, NodePool)


def test_a_tier_to_which_nothing_brings_nodes_is_not_probed() -> None:
    assert stranded(grows=False).waits() == "tier spot has no node, and nothing is known that would bring one"


def test_a_group_of_the_node_group_file_may_bring_nodes() -> None:
    assert stranded().move().probe


def test_a_group_of_other_nodes_brings_none_to_the_tier() -> None:
    picture = stranded(grows=False)
    picture.machine.node_groups(read_groups([GROUP | {"labels": {"capacity": "on-demand"}}]))
    assert "nothing is known" in picture.waits()


@pytest.mark.parametrize(
    ("found", "grows"),
    [
        (pool({"capacity": "spot"}), True),
        (pool({"capacity": "on-demand"}), False),
        (pool(requirements=[{"key": "capacity", "operator": "In", "values": ["spot", "other"]}]), True),
        (pool(requirements=[{"key": "capacity", "operator": "NotIn", "values": ["spot"]}]), False),
        (pool(requirements=[{"key": "capacity", "operator": "Exists"}]), True),
        (pool(), False),
    ],
)
def test_a_node_pool_whose_template_matches_the_tier_may_bring_nodes(found: NodePool, grows: bool) -> None:
    picture = stranded(grows=False)
    picture.machine.node_pools([found])
    assert bool(picture.plan().moves) is grows


def test_a_scale_up_that_was_seen_for_a_pod_of_the_tier_may_come_again() -> None:
    picture = stranded(grows=False)
    picture.add(picture.web("tried", tier="spot"))
    picture.machine.promised("uid-default-tried", EPOCH.timestamp() + picture.now)
    picture.plan()
    picture.remove("Pod", "tried")
    assert picture.move().probe


def test_a_nomination_is_no_scale_up() -> None:
    picture = stranded(grows=False)
    picture.add(picture.web("tried", tier="spot", nominated="d1"))
    picture.plan()
    picture.remove("Pod", "tried")
    assert "nothing is known" in picture.waits()


def test_always_probes_without_a_sign_and_never_does_not_probe_at_all() -> None:
    assert stranded(grows=False, probe="always").move().probe
    assert stranded(probe="never").waits() == "tier spot has no node, and rebalance.probe is never"


@pytest.mark.parametrize(
    ("replicas", "said", "allowed"),
    [
        (2, None, False),  # 25% of two, rounded down, is none
        (4, None, True),
        (3, None, False),
        (10, {"rollingUpdate": {"maxUnavailable": 0}}, False),
        (2, {"rollingUpdate": {"maxUnavailable": 1}}, True),
        (2, {"rollingUpdate": {"maxUnavailable": "50%"}}, True),
        (2, {"type": "Recreate"}, True),
    ],
)
def test_without_a_budget_a_probe_takes_no_more_than_a_rollout_may(
    replicas: int, said: dict[str, Any] | None, allowed: bool
) -> None:
    picture = strategy(stranded(replicas), replicas, said)
    assert bool(picture.plan().moves) is allowed
    if not allowed:
        assert "rollout of Deployment web may take away" in picture.waits()


def test_pods_that_are_not_ready_count_as_taken_away() -> None:
    picture = strategy(stranded(4), 4, {"rollingUpdate": {"maxUnavailable": 1}})
    sick = picture.web("web-1", "d1", slot=1)
    sick["status"]["conditions"] = []
    assert "rollout of Deployment web may take away" in picture.add(sick).waits()


def test_a_budget_that_lets_a_pod_go_counts_more_than_the_rollout() -> None:
    picture = stranded(2).add(budget("web", {"app": "web"}, 1))
    assert picture.move().probe


def test_a_move_to_room_that_is_there_is_not_held_back_by_the_rollout() -> None:
    picture = stranded(2, grows=False)
    picture.add(picture.spot("s1"))
    assert picture.move().node == "s1"


def test_a_healthy_pod_of_two_is_left_alone_for_hours_where_no_spot_can_come() -> None:
    cluster = Placed(
        policy(fallback={"after": "1m"}, rebalance={"minPodAge": "1m", "stabilize": "1m"}), spot=0
    )
    cluster.deployment("web", 2)
    cluster.after(300)
    assert cluster.split("web") == {"on-demand": 2}
    cluster.watch("web")
    cluster.after(6 * 3600)
    assert not cluster.placement.moves
    assert cluster.least_ready["web"] == 2


def test_even_where_spot_could_come_two_replicas_never_become_one() -> None:
    pools = [group("spot", cpu=8, max=3, labels={"capacity": "spot"}, bootS=20.0)]
    quick = {"minPodAge": "1m", "stabilize": "1m"}
    cluster = Placed(
        policy(fallback={"after": "1m"}, rebalance=quick),
        spot=0,
        groups=pools,
        autoscaler=Pacing(provision=seconds(120)),
    )
    cluster.world.spot.follow("spot", [Supply(seconds(0), 0)], cluster.world.clock.now())
    cluster.deployment("web", 2)
    cluster.after(1200)
    cluster.watch("web")
    cluster.after(3 * 3600)
    assert cluster.least_ready["web"] == 2
